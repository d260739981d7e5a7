#include "store/plain_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/limits.h"

namespace steelyard::store {
namespace {

/// What O_DIRECT wants of memory, offset and size on every common filesystem.
constexpr std::size_t kAlignment = 4096;
/// Smaller files are not worth a trip past the page cache.
constexpr std::uint64_t kDirectBytesMin = limits::kMiB;

}  // namespace

Result<UniqueFd> open_or_make_folder(int root, std::string_view relative) {
  UniqueFd folder(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return errno_status(errno, "open", ".");
  while (!relative.empty()) {
    const auto slash = relative.find('/');
    const std::string part(relative.substr(0, slash));
    relative = slash == std::string_view::npos ? std::string_view() : relative.substr(slash + 1);
    if (mkdirat(folder.get(), part.c_str(), 0777) != 0 && errno != EEXIST) return errno_status(errno, "mkdir", part);
    UniqueFd next(openat(folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) return errno_status(errno, "open", part);
    folder = std::move(next);
  }
  return folder;
}

Result<PlainFileWriter> PlainFileWriter::create(Runtime& runtime, int folder, const std::string& name,
                                                std::uint64_t bytes, ByteSpan staging) {
  SY_CHECK(staging.size() >= kAlignment && staging.size() % kAlignment == 0, "staging memory is whole pages");
  bool direct = bytes >= kDirectBytesMin;
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  if (const int fault = runtime.point("plain.create"); fault != 0) return errno_status(fault, "create", name);
  UniqueFd fd(openat(folder, name.c_str(), direct ? flags | O_DIRECT : flags, 0666));
  if (!fd.valid() && errno == EINVAL && direct) {
    // A filesystem without O_DIRECT may have made the file before it refused.
    direct = false;
    unlinkat(folder, name.c_str(), 0);
    fd = UniqueFd(openat(folder, name.c_str(), flags, 0666));
  }
  if (!fd.valid()) return errno_status(errno, "create", name);
  return PlainFileWriter(runtime, std::move(fd), name, bytes, staging, direct);
}

Status PlainFileWriter::append(ByteView bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), staging_.size() - staged_);
    std::memcpy(staging_.data() + staged_, bytes.data(), size);
    staged_ += size;
    bytes = bytes.subspan(size);
    if (staged_ == staging_.size()) SY_RETURN_IF_ERROR(write_staged(false));
  }
  return {};
}

Status PlainFileWriter::write_staged(bool last) {
  std::size_t size = staged_;
  if (last && direct_ && size % kAlignment != 0) {
    // The tail is written as whole pages and cut to its size afterwards.
    const std::size_t padded = size + (kAlignment - size % kAlignment);
    std::memset(staging_.data() + size, 0, padded - size);
    size = padded;
  }
  for (std::size_t done = 0; done < size;) {
    const int fault = runtime_->point("plain.write");
    const std::size_t wanted = runtime_->point("plain.short_write") != 0 ? 1 : size - done;
    const ssize_t wrote = fault != 0
                              ? (errno = fault, -1)
                              : pwrite(fd_.get(), staging_.data() + done, wanted, static_cast<off_t>(written_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && (errno != EINVAL || !direct_)) return errno_status(errno, "write", name_);
    if (wrote == 0) return {Code::kUnavailable, fmt::format("write {}: nothing was written", name_)};
    const std::size_t gained = wrote < 0 ? 0 : static_cast<std::size_t>(wrote);
    // Direct writes go on at whole pages. One that is refused, or ends inside the first page, goes past them.
    if (!direct_ || done + gained == size) {
      done += gained;
    } else if (gained >= kAlignment) {
      done += gained - gained % kAlignment;
    } else {
      direct_ = false;
      size = staged_;
      if (fcntl(fd_.get(), F_SETFL, 0) != 0) return errno_status(errno, "fcntl", name_);
    }
  }
  written_ += staged_;
  staged_ = 0;
  return {};
}

Status PlainFileWriter::finish() {
  if (written_ + staged_ != bytes_) {
    return {Code::kCorrupt, fmt::format("{}: {} bytes came, the manifest says {}", name_, written_ + staged_, bytes_)};
  }
  if (staged_ > 0) SY_RETURN_IF_ERROR(write_staged(true));
  if (ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) return errno_status(errno, "truncate", name_);
  if (const int fault = runtime_->point("plain.sync"); fault != 0) return errno_status(fault, "fdatasync", name_);
  if (fdatasync(fd_.get()) != 0) return errno_status(errno, "fdatasync", name_);
  if (close(fd_.release()) != 0) return errno_status(errno, "close", name_);
  return {};
}

}  // namespace steelyard::store
