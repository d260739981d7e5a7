// The files of a memory tier: how one is written before it has a name, and read.
//
// Thread-safety: each belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "tiers/directory/file_reader.h"
#include "tiers/directory/file_writer.h"
#include "tiers/memory/account.h"

namespace steelyard::tiers::memory {

/// A file without a name (O_TMPFILE), all of its memory there before the first byte is written: whoever finds it under
/// a name later can touch every page of it. If the process dies it is gone. Locked as long as it is being written, so
/// that nobody takes its entry in the content index for an unused one before the object has its name.
class MemoryWriter final : public directory::ObjectWriter {
 public:
  /// `bytes` of `claim` were taken for it. Its folder is made where it is missing.
  static Result<std::unique_ptr<MemoryWriter>> create(Folder& folder, const std::string& in, std::uint64_t bytes,
                                                      std::shared_ptr<Claim> claim);
  MemoryWriter(const MemoryWriter&) = delete;
  MemoryWriter& operator=(const MemoryWriter&) = delete;
  ~MemoryWriter() override;

  void start_whole(ByteView data) override;
  Status append(ByteView data) override;
  Status close() override;
  std::uint64_t bytes() const override { return bytes_; }
  bool durable() const override { return true; }
  const std::string& link_from() const override { return link_from_; }
  bool may_be_renamed() const override { return false; }
  void keep() override {}

 private:
  MemoryWriter(Folder& folder, std::string in, std::uint64_t bytes, std::shared_ptr<Claim> claim);
  Status reserve();

  Folder& folder_;
  std::string in_;
  std::uint64_t bytes_;
  std::shared_ptr<Claim> claim_;
  UniqueFd fd_;
  std::string link_from_;
  std::uint64_t written_ = 0;
  Status status_;
};

/// Copies ranges when finish() is called; there is no device to wait for.
class MemoryReader final : public directory::ObjectReader {
 public:
  static Result<std::unique_ptr<MemoryReader>> open(Folder& folder, const std::string& relative, std::string what);
  void start(std::vector<ReadRange> ranges) override;
  Status finish() override;

 private:
  MemoryReader(Folder& folder, std::string relative, std::string what, UniqueFd fd);
  Status fill(const ReadRange& range);

  Folder& folder_;
  std::string relative_;
  std::string what_;
  UniqueFd fd_;
  std::vector<ReadRange> ranges_;
};

}  // namespace steelyard::tiers::memory
