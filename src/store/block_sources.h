// BlockSources: where the good bytes of a damaged object may be had: memory, a source folder, the content index, and
// every other object of the tier. A block is taken by its checksum, whatever the name it lies under.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/source.h"

namespace steelyard::store {

/// Used by one thread. The references must outlive it; `source` may be null.
class BlockSources {
 public:
  /// `wanted`: the objects whose blocks may be asked for. `hot`: what of them lies in memory.
  BlockSources(Context& context, const metadata::RevisionRecord& record, const formats::StoredManifest& manifest,
               std::vector<std::uint32_t> wanted, Source* source, const HotReplicas& hot);

  /// Fills `into` with the block; false when nobody has it. A place that could not be read now is an error only where
  /// no other has the block.
  Result<bool> fetch(std::uint32_t object, std::uint64_t block, ByteSpan into);

  /// Every name of the tier whose bytes are those of `name`, itself excepted. Groups under removal are left out.
  Result<std::vector<tiers::ObjectName>> sharing(const tiers::ObjectName& name);

 private:
  struct Place {
    std::uint32_t attempt = 0;  ///< in attempts_
    std::uint32_t object = 0;
    std::uint64_t block = 0;
  };
  /// A part of a wanted object and where it lies in its file.
  struct FilePart {
    std::uint64_t offset = 0;  ///< in the object
    std::uint64_t bytes = 0;
    std::uint32_t file = 0;
    std::uint64_t file_offset = 0;
  };
  struct Attempt {
    tiers::AttemptName name;
    bool committed = false;
  };

  Result<bool> from_source(std::uint32_t object, std::uint64_t block, ByteSpan into);
  Status read_parts(const std::vector<FilePart>& parts, std::uint64_t block_offset, const std::string* renamed,
                    ByteSpan into);
  Result<OpenSource*> open(const std::string& path);
  Result<bool> from_elsewhere(std::uint32_t object, std::uint64_t block, ByteSpan into);
  bool is_right(std::uint32_t object, std::uint64_t block, ByteView bytes) const;
  void could_not_read(Status status);
  Status list_attempts();
  Status index_blocks();
  Status index_storage();

  Context& context_;
  const formats::StoredManifest& manifest_;
  const tiers::AttemptName own_;
  const std::vector<std::uint32_t> wanted_;
  Source* source_;
  const HotReplicas& hot_;
  std::map<std::uint32_t, std::vector<FilePart>> parts_;            ///< by wanted object
  std::map<std::uint64_t, std::vector<std::string>> source_sizes_;  ///< paths of the source by size
  std::string open_path_;
  std::unique_ptr<OpenSource> open_file_;
  Status unread_;

  std::optional<std::vector<Attempt>> attempts_;
  std::optional<std::unordered_map<std::uint64_t, std::vector<Place>>> places_;  ///< by block sum, of wanted sums only
  std::optional<std::map<std::uint64_t, std::vector<tiers::ObjectName>>> storages_;  ///< of wanted objects only
};

}  // namespace steelyard::store
