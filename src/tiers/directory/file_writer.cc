#include "tiers/directory/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "tiers/page.h"

namespace steelyard::tiers::directory {
namespace {

constexpr std::size_t kPieceBytes = 16 * 1024 * 1024;
constexpr std::size_t kStreamBufferBytes = kPutStreamBytesMax / 2;
/// The caller holds the memory already, so all pieces of an object of usual size may be under way; one place is the
/// sync's.
constexpr std::size_t kPiecesUnderWayMax = 8;
constexpr std::uint64_t kSyncTag = UINT64_MAX;

bool is_page_aligned(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data) % kPageBytes == 0; }

}  // namespace

Result<std::unique_ptr<FileWriter>> FileWriter::create(Folder& folder, const std::string& relative, std::uint64_t bytes,
                                                       const std::vector<std::string>& make_parents) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL;
  int opened = folder.open("tier.open_tmp", relative, kFlags, 0444);
  if (opened == -ENOENT) {
    for (const std::string& parent : make_parents) SY_RETURN_IF_ERROR(folder.make_folders(parent, bytes));
    opened = folder.open("tier.open_tmp", relative, kFlags, 0444);
  }
  if (opened < 0) return folder.write_failure(-opened, "create", relative, bytes);
  std::unique_ptr<FileWriter> writer(new FileWriter(folder, relative, bytes));
  writer->fd_ = UniqueFd(opened);
  if (bytes >= kSmallBytes) {
    // The full size first: direct writes inside the file's size need not wait for each other.
    int error = folder.runtime().point("tier.truncate");
    if (error == 0 && ::ftruncate(opened, static_cast<off_t>(bytes)) != 0) error = errno;
    if (error != 0) return folder.write_failure(error, "set the size of", relative, bytes);
  }
  return writer;
}

FileWriter::FileWriter(Folder& folder, std::string relative, std::uint64_t bytes)
    : folder_(folder), relative_(std::move(relative)), bytes_(bytes) {}

FileWriter::~FileWriter() {
  waiting_.clear();
  if (status_.ok()) fail({Code::kUnavailable, "abandoned"});
  drain();
  if (io_) folder_.engine().release(std::move(io_));
  if (!kept_) static_cast<void>(folder_.unlink(relative_));  // what stays is a temporary, for remove_temporaries
}

void FileWriter::fail(Status status) {
  if (status.ok()) return;
  if (status_.ok()) status_ = std::move(status);
  waiting_.clear();
}

void FileWriter::set_direct(bool direct) {
  if (direct == direct_ || !status_.ok()) return;
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  int error = direct ? folder_.runtime().point("tier.direct") : 0;
  if (error == 0 && (flags < 0 || ::fcntl(fd_.get(), F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)) {
    error = errno;
  }
  if (error == 0) {
    direct_ = direct;
  } else if (direct) {
    folder_.give_up_direct(error);
  } else {
    fail(folder_.write_failure(error, "leave direct mode of", relative_, 0));
  }
}

/// Small files and the last bytes that do not fill a page: copied, so the device is not waited for and no padding ever
/// stands in the file.
Status FileWriter::write_through_cache(ByteView data, std::uint64_t offset) {
  Runtime& runtime = folder_.runtime();
  while (!data.empty()) {
    std::size_t wanted = data.size();
    int error = runtime.point("tier.write");
    if (runtime.point("tier.short_write") != 0) wanted = std::max<std::size_t>(1, wanted / 2);
    ssize_t wrote = 0;
    if (error == 0 && runtime.point("tier.zero_write") == 0) {
      wrote = ::pwrite(fd_.get(), data.data(), wanted, static_cast<off_t>(offset));
      if (wrote < 0) error = errno;
    }
    if (error == EINTR) continue;
    if (error != 0) return folder_.write_failure(error, "write", relative_, bytes_);
    if (wrote == 0) {
      return {Code::kUnavailable, "write " + folder_.full(relative_) + ": 0 of " + std::to_string(data.size()) +
                                      " bytes written at offset " + std::to_string(offset)};
    }
    const auto step = static_cast<std::size_t>(wrote);
    data = data.subspan(step);
    offset += step;
    written_ += step;
  }
  return {};
}

void FileWriter::start_whole(ByteView data) {
  SY_CHECK(data.size() == bytes_ && appended_ == 0, "a file is written whole or in pieces");
  if (bytes_ < kSmallBytes) {
    fail(write_through_cache(data, 0));
    return;
  }
  if (!is_page_aligned(data.data())) {
    // Memory of another kind is copied through the stream buffers.
    fail(append(data));
    return;
  }
  const std::size_t whole_pages = data.size() / kPageBytes * kPageBytes;
  if (const auto tail = data.subspan(whole_pages); !tail.empty()) fail(write_through_cache(tail, whole_pages));
  if (!status_.ok()) return;
  io_ = folder_.engine().acquire();
  set_direct(folder_.direct());
  for (std::size_t at = 0; at < whole_pages; at += kPieceBytes) {
    queue({data.data() + at, std::min(kPieceBytes, whole_pages - at), at, -1});
  }
  all_queued_ = true;
  sync_ = SyncState::kWanted;
  pump();
}

Status FileWriter::append(ByteView data) {
  SY_RETURN_IF_ERROR(status_);
  if (data.size() > bytes_ - appended_) {
    fail({Code::kCorrupt, "write " + folder_.full(relative_) + ": more than the promised " + std::to_string(bytes_) +
                              " bytes were given"});
    return status_;
  }
  if (bytes_ < kSmallBytes) {
    fail(write_through_cache(data, appended_));
    appended_ += data.size();
    return status_;
  }
  if (!io_) {
    for (AlignedBuffer& buffer : buffers_) {
      auto memory = AlignedBuffer::allocate(kStreamBufferBytes);
      if (!memory.ok()) {
        fail(std::move(memory).status());
        return status_;
      }
      buffer = std::move(memory).value();
    }
    io_ = folder_.engine().acquire();
    set_direct(folder_.direct());
  }
  while (!data.empty() && status_.ok()) {
    while (buffer_busy_[static_cast<std::size_t>(filling_)]) reap();
    AlignedBuffer& buffer = buffers_[static_cast<std::size_t>(filling_)];
    const std::size_t step = std::min(data.size(), buffer.size() - filled_);
    std::memcpy(buffer.data() + filled_, data.data(), step);
    filled_ += step;
    appended_ += step;
    data = data.subspan(step);
    if (filled_ == buffer.size()) fail(send_buffer());
  }
  return status_;
}

/// Starts to write the whole pages of the buffer being filled.
Status FileWriter::send_buffer() {
  const std::size_t pages = filled_ / kPageBytes * kPageBytes;
  if (pages > 0) {
    buffer_busy_[static_cast<std::size_t>(filling_)] = true;
    queue({buffers_[static_cast<std::size_t>(filling_)].data(), pages, appended_ - filled_, filling_});
    pump();
  }
  filling_ = 1 - filling_;
  filled_ = 0;
  return status_;
}

void FileWriter::queue(const Piece& piece) { waiting_.push_back(piece); }

void FileWriter::pump() {
  Runtime& runtime = folder_.runtime();
  std::vector<IoDone> pretended;
  while (!waiting_.empty() && status_.ok() && io_->under_way() + pretended.size() < kPiecesUnderWayMax) {
    const auto free_slot = std::find_if(under_way_.begin(), under_way_.end(), [](const auto& s) { return !s; });
    const auto slot = static_cast<std::size_t>(free_slot - under_way_.begin());
    const Piece piece = waiting_.front();
    waiting_.pop_front();
    *free_slot = piece;
    std::size_t bytes = piece.bytes;
    if (runtime.point("tier.short_write") != 0)
      bytes = std::max<std::size_t>(kPageBytes, bytes / 2 / kPageBytes * kPageBytes);
    if (const int fault = runtime.point("tier.write"); fault != 0) {
      pretended.push_back({slot, -fault});
    } else if (runtime.point("tier.zero_write") != 0) {
      pretended.push_back({slot, 0});
    } else {
      written_since_sync_ = true;
      // io_uring's interface takes the bytes to write as not const; it only reads them.
      io_->add({IoRequest::Kind::kWrite, fd_.get(), const_cast<std::byte*>(piece.data), bytes, piece.offset, slot});
    }
  }
  if (waiting_.empty() && all_queued_ && sync_ == SyncState::kWanted && status_.ok() && pretended.empty()) {
    sync_ = SyncState::kUnderWay;
    written_since_sync_ = false;
    io_->add({IoRequest::Kind::kDataSync, fd_.get(), nullptr, 0, 0, kSyncTag, true});
  }
  io_->start();
  for (const IoDone& done : pretended) piece_ended(done);
}

void FileWriter::reap() {
  if (io_->under_way() == 0) return;
  const IoDone done = io_->wait();
  if (done.tag != kSyncTag) {
    piece_ended(done);
    return;
  }
  int error = folder_.runtime().point("tier.sync");
  if (error == 0 && done.result < 0) error = static_cast<int>(-done.result);
  if (error != 0) {
    fail(folder_.write_failure(error, "fdatasync", relative_, bytes_));
    return;
  }
  sync_ = written_since_sync_ || !waiting_.empty() ? SyncState::kWanted : SyncState::kDone;
  pump();
}

void FileWriter::piece_ended(const IoDone& done) {
  const auto slot = static_cast<std::size_t>(done.tag);
  const std::int64_t result = done.result;
  bool again = done.again();
  Piece piece = *under_way_[slot];
  under_way_[slot].reset();
  const auto give_back = [&] {
    if (piece.buffer >= 0) buffer_busy_[static_cast<std::size_t>(piece.buffer)] = false;
  };
  if (!status_.ok()) {
    give_back();
    return;
  }
  if (result == -EINVAL && done.started && direct_) {
    // Some filesystems accept the flag and refuse the write.
    folder_.give_up_direct(EINVAL);
    set_direct(false);
    again = true;
  }
  if (again) {
    waiting_.push_front(piece);
    pump();
    return;
  }
  if (result < 0) {
    fail(folder_.write_failure(static_cast<int>(-result), "write", relative_, bytes_));
    give_back();
    return;
  }
  auto wrote = static_cast<std::size_t>(result);
  if (direct_ && wrote < piece.bytes) wrote = wrote / kPageBytes * kPageBytes;
  if (wrote == 0) {
    fail({Code::kUnavailable, "write " + folder_.full(relative_) + ": " + std::to_string(result) + " of " +
                                  std::to_string(piece.bytes) + " bytes written at offset " +
                                  std::to_string(piece.offset)});
    give_back();
    return;
  }
  written_ += wrote;
  if (!direct_) drop_behind(piece.offset, wrote);
  if (wrote < piece.bytes) {
    waiting_.push_front({piece.data + wrote, piece.bytes - wrote, piece.offset + wrote, piece.buffer});
    if (sync_ == SyncState::kDone) sync_ = SyncState::kWanted;
  } else {
    give_back();
  }
  pump();
}

/// Without direct I/O: starts writing the new pages out, so that they can be dropped after the sync.
void FileWriter::drop_behind(std::uint64_t offset, std::uint64_t bytes) {
  static_cast<void>(
      ::sync_file_range(fd_.get(), static_cast<off64_t>(offset), static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE));
}

void FileWriter::drain() {
  while (io_ && (io_->under_way() > 0 || (!waiting_.empty() && status_.ok()))) reap();
}

Status FileWriter::close() {
  if (status_.ok() && appended_ > 0 && io_) {
    const std::size_t pages = filled_ / kPageBytes * kPageBytes;
    const std::vector<std::byte> tail(buffers_[static_cast<std::size_t>(filling_)].data() + pages,
                                      buffers_[static_cast<std::size_t>(filling_)].data() + filled_);
    const std::uint64_t tail_offset = appended_ - tail.size();
    filled_ = pages;
    appended_ -= tail.size();
    fail(send_buffer());
    drain();
    set_direct(false);
    if (status_.ok()) fail(write_through_cache(tail, tail_offset));
    appended_ += tail.size();
    written_since_sync_ = true;
    all_queued_ = true;
    sync_ = SyncState::kWanted;
    if (status_.ok()) pump();
  }
  drain();
  if (io_) folder_.engine().release(std::move(io_));
  if (status_.ok() && bytes_ >= kSmallBytes && appended_ + written_ > 0) {
    // Drops the tail's page; and everything, where direct I/O is not to be had.
    static_cast<void>(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED));
  }
  if (status_.ok() && written_ != bytes_) {
    fail({Code::kCorrupt, "write " + folder_.full(relative_) + ": " + std::to_string(written_) +
                              " bytes were written, " + std::to_string(bytes_) + " were promised"});
  }
  if (status_.ok() && bytes_ >= kSmallBytes) SY_CHECK(sync_ == SyncState::kDone, "a large file is synced before use");
  struct stat found {};
  if (status_.ok() && ::fstat(fd_.get(), &found) == 0 && static_cast<std::uint64_t>(found.st_size) != bytes_) {
    fail({Code::kCorrupt, "write " + folder_.full(relative_) + ": the file has " + std::to_string(found.st_size) +
                              " bytes, " + std::to_string(bytes_) + " were written"});
  }
  const int fault = folder_.runtime().point("tier.close");
  const int closed = fd_.close();
  const int error = fault != 0 ? fault : -closed;
  if (error != 0) fail(folder_.write_failure(error, "close", relative_, bytes_));
  return status_;
}

}  // namespace steelyard::tiers::directory
