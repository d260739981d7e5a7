#include "tiers/directory/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "tiers/page.h"

namespace steelyard::tiers::directory {
namespace {

constexpr std::size_t kBlockBytes = 4 * 1024 * 1024;
constexpr std::size_t kBounceBytes = 1024 * 1024;
constexpr std::size_t kBlocksUnderWayMax = 8;

}  // namespace

Result<std::unique_ptr<FileReader>> FileReader::open(Folder& folder, const std::string& relative, std::string what) {
  bool direct = folder.direct();
  int opened = folder.open_regular("tier.open_read", relative, direct ? O_RDONLY | O_DIRECT : O_RDONLY);
  if (opened == -EINVAL && direct) {
    folder.give_up_direct(EINVAL);
    direct = false;
    opened = folder.open_regular("tier.open_read", relative, O_RDONLY);
  }
  if (opened == -ENOENT) return Status(Code::kNotFound, what + " is not in the tier (" + folder.full(relative) + ")");
  if (opened == -ENXIO || opened == -ELOOP) {
    return Status(Code::kCorrupt, folder.full(relative) + " is not a regular file");
  }
  if (opened < 0) return folder.read_failure(-opened, "open", relative);
  UniqueFd fd(opened);
  return std::unique_ptr<FileReader>(new FileReader(folder, relative, std::move(what), std::move(fd), direct));
}

FileReader::FileReader(Folder& folder, std::string relative, std::string what, UniqueFd fd, bool direct)
    : folder_(folder), relative_(std::move(relative)), what_(std::move(what)), fd_(std::move(fd)), direct_(direct) {}

FileReader::~FileReader() {
  waiting_.clear();
  while (io_ && io_->under_way() > 0) io_->wait();
  if (io_) folder_.engine().release(std::move(io_));
}

void FileReader::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
  waiting_.clear();
}

void FileReader::start(std::vector<ReadRange> ranges) {
  for (const ReadRange& range : ranges) {
    const auto end = checked_add(range.offset, static_cast<std::uint64_t>(range.into.size()));
    if (!end.has_value() || *end > static_cast<std::uint64_t>(INT64_MAX) - kPageBytes) {
      fail({Code::kCorrupt, what_ + ": no file holds " + std::to_string(range.into.size()) + " bytes at offset " +
                                std::to_string(range.offset)});
      return;
    }
    plan(range);
  }
  if (waiting_.empty()) return;
  if (!io_) io_ = folder_.engine().acquire();
  pump();
}

/// Cuts a range into blocks: whole pages go straight into the caller's memory where that is aligned as the file is;
/// ends, and memory of another alignment, through bounce buffers.
void FileReader::plan(const ReadRange& range) {
  std::uint64_t offset = range.offset;
  ByteSpan into = range.into;
  if (into.empty()) return;
  if (reinterpret_cast<std::uintptr_t>(into.data()) % kPageBytes != offset % kPageBytes) {
    plan_bounced(offset, into);
    return;
  }
  if (const std::uint64_t inside = offset % kPageBytes; inside != 0) {
    const auto head = static_cast<std::size_t>(std::min<std::uint64_t>(kPageBytes - inside, into.size()));
    plan_bounced(offset, into.first(head));
    offset += head;
    into = into.subspan(head);
  }
  const std::size_t pages = into.size() / kPageBytes * kPageBytes;
  for (std::size_t at = 0; at < pages; at += kBlockBytes) {
    Block block;
    block.offset = offset + at;
    block.bytes = block.needed_bytes = std::min(kBlockBytes, pages - at);
    block.direct = into.data() + at;
    waiting_.push_back(std::move(block));
  }
  if (const ByteSpan tail = into.subspan(pages); !tail.empty()) plan_bounced(offset + pages, tail);
}

void FileReader::plan_bounced(std::uint64_t offset, ByteSpan into) {
  while (!into.empty()) {
    Block block;
    block.offset = offset / kPageBytes * kPageBytes;
    block.skip_bytes = static_cast<std::size_t>(offset - block.offset);
    const std::size_t take = std::min(kBounceBytes - block.skip_bytes, into.size());
    block.needed_bytes = block.skip_bytes + take;
    block.bytes = static_cast<std::size_t>(div_ceil<std::uint64_t>(block.needed_bytes, kPageBytes) * kPageBytes);
    block.into = into.first(take);
    waiting_.push_back(std::move(block));
    offset += take;
    into = into.subspan(take);
  }
}

void FileReader::pump() {
  std::vector<IoDone> pretended;
  while (!waiting_.empty() && io_->under_way() + pretended.size() < kBlocksUnderWayMax) {
    const auto free_slot = std::find_if(under_way_.begin(), under_way_.end(), [](const auto& s) { return !s; });
    const auto slot = static_cast<std::size_t>(free_slot - under_way_.begin());
    *free_slot = std::move(waiting_.front());
    waiting_.pop_front();
    Block& block = **free_slot;
    if (block.direct == nullptr && block.bounce.size() == 0) {
      auto memory = AlignedBuffer::allocate(block.bytes);
      if (!memory.ok()) {
        free_slot->reset();
        fail(std::move(memory).status());
        break;
      }
      block.bounce = std::move(memory).value();
    }
    if (const int fault = folder_.runtime().point("tier.read"); fault != 0) {
      pretended.push_back({slot, -fault});
      continue;
    }
    std::byte* target = block.direct != nullptr ? block.direct : block.bounce.data();
    std::size_t bytes = block.bytes - block.done_bytes;
    if (folder_.runtime().point("tier.short_read") != 0) {
      bytes = std::max<std::size_t>(kPageBytes, bytes / 2 / kPageBytes * kPageBytes);
    }
    io_->add(
        {IoRequest::Kind::kRead, fd_.get(), target + block.done_bytes, bytes, block.offset + block.done_bytes, slot});
  }
  io_->start();
  for (const IoDone& done : pretended) ended(done);
}

void FileReader::reap() { ended(io_->wait()); }

void FileReader::ended(const IoDone& done) {
  const auto slot = static_cast<std::size_t>(done.tag);
  const std::int64_t result = done.result;
  bool again = done.again();
  Block block = std::move(*under_way_[slot]);
  under_way_[slot].reset();
  if (!status_.ok()) return;
  if (result == -EINVAL && done.started && direct_) {
    folder_.give_up_direct(EINVAL);
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    if (flags >= 0 && ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0) {
      direct_ = false;
      again = true;
    }
  }
  if (!again && result < 0) {
    Status failure = folder_.read_failure(static_cast<int>(-result), "read", relative_);
    fail(Status(failure.code(),
                failure.message() + ", at offset " + std::to_string(block.offset + block.done_bytes) + " of " + what_));
    return;
  }
  if (!again) {
    auto got = static_cast<std::size_t>(result);
    const std::size_t total = block.done_bytes + got;
    if (total < block.needed_bytes && direct_) got = got / kPageBytes * kPageBytes;  // goes on at a whole page
    if (got == 0 && total < block.needed_bytes) {
      fail(ends_early(block));
      return;
    }
    block.done_bytes += got;
    if (block.done_bytes >= block.needed_bytes) {
      if (block.direct == nullptr) {
        std::memcpy(block.into.data(), block.bounce.data() + block.skip_bytes, block.into.size());
      }
      if (!direct_) {
        static_cast<void>(::posix_fadvise(fd_.get(), static_cast<off_t>(block.offset),
                                          static_cast<off_t>(block.done_bytes), POSIX_FADV_DONTNEED));
      }
      pump();
      return;
    }
  }
  waiting_.push_front(std::move(block));
  pump();
}

Status FileReader::ends_early(const Block& block) const {
  struct stat there {};
  const std::uint64_t wanted = block.offset + block.needed_bytes;
  const std::string size =
      ::fstat(fd_.get(), &there) == 0 ? std::to_string(there.st_size) + " bytes" : std::string("an unknown size");
  return {Code::kCorrupt, what_ + " ends early: wanted bytes up to " + std::to_string(wanted) + ", reading at offset " +
                              std::to_string(block.offset + block.done_bytes) + " found the end; the file has " + size +
                              " (" + folder_.full(relative_) + ")"};
}

Status FileReader::finish() {
  while (io_ && io_->under_way() > 0) reap();
  SY_CHECK(waiting_.empty(), "every block was read or failed");
  return status_;
}

}  // namespace steelyard::tiers::directory
