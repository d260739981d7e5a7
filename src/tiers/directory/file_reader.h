// FileReader: ranges of one file into the caller's memory, read in large blocks past the page cache.
//
// Thread-safety: belongs to one thread at a time. A file is never mapped, so one that shrinks under the reader is an
// error, not a signal.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tiers/directory/folder.h"
#include "tiers/directory/io_queue.h"
#include "tiers/tier.h"

namespace steelyard::tiers::directory {

/// Reads that may be started again after finish().
class ObjectReader : public PendingRead {
 public:
  virtual void start(std::vector<ReadRange> ranges) = 0;
};

class FileReader final : public ObjectReader {
 public:
  /// `what` names the object in messages. NOT_FOUND when the file is not there.
  static Result<std::unique_ptr<FileReader>> open(Folder& folder, const std::string& relative, std::string what);
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;
  ~FileReader() override;

  /// Starts without waiting for the device.
  void start(std::vector<ReadRange> ranges) override;
  Status finish() override;

 private:
  /// One read of the device: whole pages of the file, into the caller's memory or a bounce buffer.
  struct Block {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;         ///< to ask for
    std::size_t needed_bytes = 0;  ///< of them, from the start; the file may end after these
    std::size_t done_bytes = 0;
    std::byte* direct = nullptr;
    // Bounce:
    AlignedBuffer bounce;
    std::size_t skip_bytes = 0;
    ByteSpan into;
  };

  FileReader(Folder& folder, std::string relative, std::string what, UniqueFd fd, bool direct);
  void plan(const ReadRange& range);
  void plan_bounced(std::uint64_t offset, ByteSpan into);
  void pump();
  void reap();
  void ended(const IoDone& done);
  Status ends_early(const Block& block) const;
  void fail(Status status);

  Folder& folder_;
  std::string relative_;
  std::string what_;
  UniqueFd fd_;
  bool direct_;
  std::unique_ptr<IoQueue> io_;
  std::deque<Block> waiting_;
  std::array<std::optional<Block>, kIoQueueDepth> under_way_;
  Status status_;
};

}  // namespace steelyard::tiers::directory
