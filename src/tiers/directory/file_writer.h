// FileWriter: one new temporary file, written past the page cache while the caller does something else.
//
// Thread-safety: belongs to one thread at a time. A file is never retried after a failed sync: it is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "tiers/directory/folder.h"
#include "tiers/directory/io_queue.h"
#include "tiers/tier.h"

namespace steelyard::tiers::directory {

/// Files below this go through the page cache and are synced by Flush; others are written directly and synced at once.
inline constexpr std::uint64_t kSmallBytes = 1024 * 1024;

/// A new file that has no name of an object yet; removed by its destructor unless kept.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  /// Starts to write the whole file. `data` stays alive until close().
  virtual void start_whole(ByteView data) = 0;
  /// Appends bytes, which are free again when it returns.
  virtual Status append(ByteView data) = 0;
  /// Waits until everything is written; checks that it is exactly as much as promised. The first failure of any step.
  virtual Status close() = 0;
  virtual std::uint64_t bytes() const = 0;
  /// Its bytes need no further sync.
  virtual bool durable() const = 0;
  /// The name by which Folder::link and rename find it.
  virtual const std::string& link_from() const = 0;
  /// Whether that is a name in the folder, which may be renamed; keep() says that it was.
  virtual bool may_be_renamed() const = 0;
  virtual void keep() = 0;
};

class FileWriter final : public ObjectWriter {
 public:
  /// Makes the file, which must be new, for exactly `bytes` bytes; `make_parents` says what to make if its folder is
  /// not there.
  static Result<std::unique_ptr<FileWriter>> create(Folder& folder, const std::string& relative, std::uint64_t bytes,
                                                    const std::vector<std::string>& make_parents);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  /// Waits for the device, and removes the file unless kept.
  ~FileWriter() override;

  /// Starts to write the whole file. `data` stays alive until close(). Large data is synced as soon as it is written.
  void start_whole(ByteView data) override;
  /// Appends through two buffers; waits when both are under way.
  Status append(ByteView data) override;
  /// Waits until everything is written and, for large files, durable; checks that it is exactly as much as promised;
  /// closes. The first failure of any step.
  Status close() override;

  std::uint64_t bytes() const override { return bytes_; }
  bool durable() const override { return bytes_ >= kSmallBytes; }
  const std::string& link_from() const override { return relative_; }
  bool may_be_renamed() const override { return true; }
  void keep() override { kept_ = true; }

 private:
  struct Piece {
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t offset = 0;
    int buffer = -1;  ///< which stream buffer it reads; -1 for the caller's memory
  };
  enum class SyncState : std::uint8_t { kNotYet, kWanted, kUnderWay, kDone };

  FileWriter(Folder& folder, std::string relative, std::uint64_t bytes);
  Status write_through_cache(ByteView data, std::uint64_t offset);
  void set_direct(bool direct);
  void queue(const Piece& piece);
  void pump();
  void reap();
  void piece_ended(const IoDone& done);
  void fail(Status status);
  void drain();
  Status send_buffer();
  void drop_behind(std::uint64_t offset, std::uint64_t bytes);

  Folder& folder_;
  std::string relative_;
  std::uint64_t bytes_;
  UniqueFd fd_;
  bool direct_ = false;
  bool kept_ = false;
  std::unique_ptr<IoQueue> io_;
  std::deque<Piece> waiting_;
  std::array<std::optional<Piece>, kIoQueueDepth> under_way_;
  SyncState sync_ = SyncState::kNotYet;
  bool all_queued_ = false;
  bool written_since_sync_ = false;
  std::uint64_t written_ = 0;
  Status status_;
  // Stream only.
  std::array<AlignedBuffer, 2> buffers_;
  std::array<bool, 2> buffer_busy_{};
  int filling_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t appended_ = 0;
};

}  // namespace steelyard::tiers::directory
