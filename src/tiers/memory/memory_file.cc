#include "tiers/memory/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/checked.h"

namespace steelyard::tiers::memory {
namespace {

constexpr std::uint64_t kFileBytesMax = static_cast<std::uint64_t>(INT64_MAX) - 4096;

}  // namespace

MemoryWriter::MemoryWriter(Folder& folder, std::string in, std::uint64_t bytes, std::shared_ptr<Claim> claim)
    : folder_(folder), in_(std::move(in)), bytes_(bytes), claim_(std::move(claim)) {}

Result<std::unique_ptr<MemoryWriter>> MemoryWriter::create(Folder& folder, const std::string& in, std::uint64_t bytes,
                                                           std::shared_ptr<Claim> claim) {
  std::unique_ptr<MemoryWriter> writer(new MemoryWriter(folder, in, bytes, std::move(claim)));
  const int opened = folder.open("tier.open_tmp", in, O_TMPFILE | O_RDWR, 0444);
  if (opened < 0) return folder.write_failure(-opened, "create a file in", in, bytes);
  writer->fd_ = UniqueFd(opened);
  writer->link_from_ = std::string(directory::kDescriptors) + std::to_string(opened);
  if (const int locked = folder.lock(opened, true); locked < 0) {
    return folder.write_failure(-locked, "lock a file in", in, bytes);
  }
  SY_RETURN_IF_ERROR(writer->reserve());
  return writer;
}

MemoryWriter::~MemoryWriter() {
  struct stat there {};
  const bool named = fd_.valid() && ::fstat(fd_.get(), &there) == 0 && there.st_nlink > 0;
  fd_.reset();
  if (named) {
    claim_->spent(charged_bytes(bytes_));
  } else {
    claim_->give_back(charged_bytes(bytes_));
  }
}

/// The claim says that there is room; what else uses this filesystem may have been faster.
Status MemoryWriter::reserve() {
  if (bytes_ == 0) return {};
  int error = folder_.runtime().point("tier.fallocate");
  while (error == 0 && ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes_)) != 0) {
    if (errno != EINTR) error = errno;
  }
  if (error == 0) return {};
  if (error == ENOMEM) error = ENOSPC;  // a limit of memory, not of the filesystem
  return folder_.write_failure(error, "reserve memory in", in_, bytes_)
      .with_hint(
          "evict what is not needed, or give the hot tier more room: a larger tmpfs (hot.path; --shm-size of a "
          "container) or a higher memory limit of the cgroup");
}

Status MemoryWriter::append(ByteView data) {
  SY_RETURN_IF_ERROR(status_);
  if (data.size() > bytes_ - written_) {
    status_ = Status(Code::kCorrupt, "write in " + folder_.full(in_) + ": more than the promised " +
                                         std::to_string(bytes_) + " bytes were given");
  }
  while (status_.ok() && !data.empty()) {
    int error = folder_.runtime().point("tier.write");
    std::size_t wanted = data.size();
    if (folder_.runtime().point("tier.short_write") != 0) wanted = std::max<std::size_t>(1, wanted / 2);
    ssize_t wrote = 0;
    if (error == 0) wrote = ::pwrite(fd_.get(), data.data(), wanted, static_cast<off_t>(written_));
    if (wrote < 0) error = errno;
    if (error == EINTR) continue;
    if (error != 0 || wrote == 0) {
      status_ = folder_.write_failure(error != 0 ? error : EIO, "write in", in_, bytes_);
      break;
    }
    written_ += static_cast<std::uint64_t>(wrote);
    data = data.subspan(static_cast<std::size_t>(wrote));
  }
  return status_;
}

void MemoryWriter::start_whole(ByteView data) { append(data).ignore("close() says it"); }

Status MemoryWriter::close() {
  if (status_.ok() && written_ != bytes_) {
    status_ = Status(Code::kCorrupt, "write in " + folder_.full(in_) + ": " + std::to_string(written_) +
                                         " bytes were given, " + std::to_string(bytes_) + " promised");
  }
  if (status_.ok()) {
    if (const int fault = folder_.runtime().point("tier.close"); fault != 0) {
      status_ = folder_.write_failure(fault, "close a file in", in_, bytes_);
    }
  }
  return status_;
}

MemoryReader::MemoryReader(Folder& folder, std::string relative, std::string what, UniqueFd fd)
    : folder_(folder), relative_(std::move(relative)), what_(std::move(what)), fd_(std::move(fd)) {}

Result<std::unique_ptr<MemoryReader>> MemoryReader::open(Folder& folder, const std::string& relative,
                                                         std::string what) {
  const int opened = folder.open_regular("tier.open_read", relative, O_RDONLY);
  if (opened == -ENOENT || opened == -ENOTDIR) {
    return Status(Code::kNotFound, what + " is not in the tier (" + folder.full(relative) + ")");
  }
  if (opened == -ENXIO || opened == -ELOOP) {
    return Status(Code::kCorrupt, folder.full(relative) + " is not a regular file");
  }
  if (opened < 0) return folder.read_failure(-opened, "open", relative);
  return std::unique_ptr<MemoryReader>(new MemoryReader(folder, relative, std::move(what), UniqueFd(opened)));
}

void MemoryReader::start(std::vector<ReadRange> ranges) { ranges_ = std::move(ranges); }

Status MemoryReader::fill(const ReadRange& range) {
  ByteSpan into = range.into;
  const auto end = checked_add(range.offset, static_cast<std::uint64_t>(into.size()));
  const bool possible = end.has_value() && *end <= kFileBytesMax;
  std::uint64_t offset = range.offset;
  while (!into.empty()) {
    int error = folder_.runtime().point("tier.read");
    ssize_t got = 0;
    if (error == 0 && possible) got = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0) error = errno;
    if (error == EINTR) continue;
    if (error != 0) {
      Status failure = folder_.read_failure(error, "read", relative_);
      return {failure.code(), failure.message() + ", at offset " + std::to_string(offset) + " of " + what_};
    }
    if (got == 0) {
      return {Code::kCorrupt, what_ + " ends early: wanted " + std::to_string(range.into.size()) + " bytes at offset " +
                                  std::to_string(range.offset) + ", reading at offset " + std::to_string(offset) +
                                  " found the end (" + folder_.full(relative_) + ")"};
    }
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Status MemoryReader::finish() {
  for (const ReadRange& range : std::exchange(ranges_, {})) SY_RETURN_IF_ERROR(fill(range));
  return {};
}

}  // namespace steelyard::tiers::memory
