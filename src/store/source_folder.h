// The walker of a real source: a checkpoint folder, a hub cache snapshot or one weight file.
//
// Free functions over values; a SourceTree may be read from any thread.
//
// A source is not ours: it may change, or be made to mislead, while it is read. So what a name stands for is judged on
// the open file and not on its path, and every later open must find that same file again (device, inode, size, times).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "formats/checkpoint.h"

namespace steelyard::store {

/// What tells whether a file is still the one that was scanned.
struct FileFacts {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  bool operator==(const FileFacts&) const = default;
};

struct TreeFile {
  std::string path;  ///< relative to the source, `/`, valid UTF-8
  FileFacts facts;
};

struct SourceTree {
  std::string root;             ///< as it was named; for messages and for opening
  bool is_folder = true;        ///< false: `files` is the one file that `root` is
  std::vector<TreeFile> files;  ///< sorted by path, links followed; `.git` and `.cache/huggingface` left out

  /// Absent when there is no such file.
  const TreeFile* find(std::string_view path) const;
  std::vector<formats::SourceFile> listing() const;
};

/// Lists every regular file. Links are followed where they end inside the source, or, for a snapshot of a hub cache, in
/// the `blobs` of its repository; elsewhere only with `follow_links`.
///
/// Errors name the path. NOT_FOUND: no such source. INVALID_ARGUMENT: a link that leaves the source, a fifo, socket or
/// device, a name that is not UTF-8, too many files, a hub cache's whole repository. CORRUPT: a dangling link, a link
/// cycle, a source that changes meanwhile. UNAUTHORIZED: a folder or file that may not be read.
Result<SourceTree> scan_source(const std::string& path, bool follow_links);

/// Opens a file of the tree for reading. CORRUPT when it is no longer the file that was scanned.
Result<UniqueFd> open_source_file(const SourceTree& tree, const TreeFile& file);

/// CORRUPT "changed while it was read", naming the file and what changed.
Status unchanged(const SourceTree& tree, const TreeFile& file, int fd);

/// Fills `into` from `offset`. CORRUPT, naming the file, when it ends earlier.
Status read_source_file(const SourceTree& tree, const TreeFile& file, int fd, std::uint64_t offset, ByteSpan into);

/// For plan_checkpoint: opens, reads, checks. `tree` must outlive the reader. Not thread-safe.
formats::SourceReader source_reader(const SourceTree& tree);

/// The default REF of an import, from the bytes of the path.
struct DefaultName {
  std::string resource_id;
  std::string revision = "main";
  /// For a hub snapshot that a ref points to: that ref, `main` first.
  std::optional<std::string> hub_ref;
};

/// A hub snapshot `models--ORG--NAME/snapshots/SHA` gives resource ORG/NAME and revision SHA; anything else its base
/// name. A path that does not end in a name (`.`, `..`) is resolved first.
DefaultName default_name(const std::string& path);

}  // namespace steelyard::store
