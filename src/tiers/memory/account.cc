#include "tiers/memory/account.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "base/units.h"
#include "tiers/directory/layout.h"
#include "tiers/page.h"

namespace steelyard::tiers::memory {
namespace {

constexpr int kTries = 8;
constexpr std::int64_t kPauseMsMax = 16;
constexpr std::uint64_t kStatBlock = 512;  ///< the unit of st_blocks

std::string joined(std::string_view folder, std::string_view name) {
  return std::string(folder).append("/").append(name);
}

/// Little-endian, 8 bytes.
std::array<std::byte, 8> encode(std::uint64_t value) {
  std::array<std::byte, 8> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(value >> (8 * i) & 0xFF);
  return out;
}

std::uint64_t decode(const std::array<std::byte, 8>& in) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < in.size(); ++i) value |= std::to_integer<std::uint64_t>(in[i]) << (8 * i);
  return value;
}

/// Behind the size.
constexpr off_t kOperationAt = 8;

/// Of a claim for one put: empty.
std::string operation_of(int fd) {
  std::array<char, 32> id{};
  const ssize_t bytes = ::pread(fd, id.data(), id.size(), kOperationAt);
  return {id.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0))};
}

}  // namespace

std::uint64_t charged_bytes(std::uint64_t bytes) {
  return checked_mul(div_ceil(bytes, kPageBytes), kPageBytes).value_or(UINT64_MAX / 2);
}

Claim::~Claim() { static_cast<void>(folder_.unlink(relative_)); }

Status Claim::set(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ = bytes;
  const auto text = encode(bytes);
  if (const int fault = folder_.runtime().point("tier.claim_write"); fault != 0) {
    return folder_.write_failure(fault, "write", relative_, text.size());
  }
  if (::pwrite(fd_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return {};
  return folder_.write_failure(errno, "write", relative_, text.size());
}

/// A claim that cannot shrink counts too much until it goes, never too little.
void Claim::publish(std::uint64_t bytes) {
  bytes_ = bytes;
  const auto text = encode(bytes);
  static_cast<void>(::pwrite(fd_.get(), text.data(), text.size(), 0) < 0);
}

bool Claim::take(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (closed_ || bytes > bytes_ - taken_) return false;
  taken_ += bytes;
  return true;
}

void Claim::spent(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
  publish(bytes_ - bytes);
}

void Claim::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  taken_ -= bytes;
  if (closed_) publish(taken_);
}

void Claim::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  publish(taken_);
}

Account::Account(Folder& folder, std::optional<std::uint64_t> capacity,
                 std::function<std::vector<MemoryLimit>()> memory, std::uint64_t process_reserve_bytes)
    : folder_(folder), capacity_(capacity), memory_(std::move(memory)), process_reserve_bytes_(process_reserve_bytes) {}

Result<std::shared_ptr<Claim>> Account::write_claim(std::uint64_t bytes, std::string_view operation) {
  for (;;) {
    const std::string relative = joined("claims", folder_.runtime().random_hex(directory::kTemporaryNameBytes));
    int opened = folder_.open("tier.claim", relative, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (opened == -ENOENT) {
      SY_RETURN_IF_ERROR(folder_.make_folders("claims"));
      opened = folder_.open("tier.claim", relative, O_RDWR | O_CREAT | O_EXCL, 0666);
    }
    if (opened == -EEXIST) continue;
    if (opened < 0) return folder_.write_failure(-opened, "create", relative, bytes);
    UniqueFd fd(opened);
    // Every user of the store reads it, whatever the umask.
    static_cast<void>(::fchmod(fd.get(), 0644) < 0);
    // Whoever looked at it before it was locked may hold it shared now, or have removed it as a dead one's.
    if (const int locked = folder_.lock(fd.get(), true); locked < 0) {
      static_cast<void>(folder_.unlink(relative));
      if (locked == -EWOULDBLOCK) continue;
      return folder_.write_failure(-locked, "lock", relative, bytes);
    }
    if (::pwrite(fd.get(), operation.data(), operation.size(), kOperationAt) != std::ssize(operation)) {
      const int error = errno;
      static_cast<void>(folder_.unlink(relative));
      return folder_.write_failure(error, "write", relative, operation.size());
    }
    auto claim = std::make_shared<Claim>(folder_, relative, std::move(fd));
    SY_RETURN_IF_ERROR(claim->set(bytes));
    struct stat there {};
    const int result = folder_.stat(relative, &there);
    if (result == 0) return claim;
    if (result != -ENOENT) return folder_.write_failure(-result, "stat", relative, bytes);
    // Removed: again under another name, unless the whole instance is.
    SY_RETURN_IF_ERROR(folder_.make_folders("claims", bytes));
  }
}

Result<Account::Claims> Account::live_claims(const std::string& own, std::string_view operation) {
  Claims claims;
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in("claims"));
  for (const std::string& name : names) {
    const std::string relative = joined("claims", name);
    if (relative == own || !directory::is_lower_hex(name, 2 * directory::kTemporaryNameBytes)) continue;
    const int opened = folder_.open_regular("tier.open_claim", relative, O_RDONLY);
    if (opened == -ENOENT || opened == -ENXIO || opened == -ELOOP) continue;  // it went, or is no claim
    if (opened == -EACCES) {
      claims.others = true;  // another user's, of a version that shut it: how much it claims only that one knows
      continue;
    }
    if (opened < 0) return folder_.read_failure(-opened, "open", relative);
    const UniqueFd fd(opened);
    // One whose lock cannot be asked for may be a live one's.
    if (folder_.lock(fd.get(), false) == 0) {
      if (!folder_.read_only()) static_cast<void>(folder_.unlink(relative));  // its process is dead
      continue;
    }
    std::array<std::byte, 8> text{};
    // One that is being written says nothing yet; it looks for itself after it was written.
    if (::pread(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) continue;
    if (!operation.empty() && operation_of(fd.get()) == operation) continue;  // whoever took it over has its room too
    claims.others = true;
    claims.bytes = checked_add(claims.bytes, decode(text)).value_or(UINT64_MAX / 2);
  }
  return claims;
}

/// True when the entry of the content index went: its bytes have no other name, and no put is about to give them one.
bool Account::drop_unused(const std::string& entry) {
  if (folder_.read_only()) return false;
  const int opened = folder_.open_regular("tier.open_content", entry, O_RDONLY);
  if (opened < 0) return false;
  const UniqueFd fd(opened);
  struct stat there {};
  if (folder_.lock(fd.get(), false) != 0 || ::fstat(fd.get(), &there) != 0 || there.st_nlink != 1) return false;
  return folder_.unlink(entry) == 0;
}

Status Account::count(const std::string& relative, std::map<std::uint64_t, std::uint64_t>& by_inode) {
  SY_ASSIGN_OR_RETURN(const auto names, folder_.names_in(relative));
  for (const std::string& name : names) {
    const std::string path = joined(relative, name);
    struct stat there {};
    const int result = folder_.stat(path, &there);
    if (result == -ENOENT) continue;
    if (result < 0) return folder_.read_failure(-result, "stat", path);
    if (S_ISDIR(there.st_mode)) {
      SY_RETURN_IF_ERROR(count(path, by_inode));
    } else if (S_ISREG(there.st_mode)) {
      // Another name is no entry of the index.
      const bool is_entry = relative.starts_with("content/") && directory::is_lower_hex(name, 64);
      if (there.st_nlink == 1 && is_entry && drop_unused(path)) continue;
      by_inode[there.st_ino] = static_cast<std::uint64_t>(there.st_blocks) * kStatBlock;
    }
  }
  return {};
}

Result<std::uint64_t> Account::used_bytes() {
  std::map<std::uint64_t, std::uint64_t> by_inode;
  for (const char* folder : {"content", "groups", "catalog"}) SY_RETURN_IF_ERROR(count(folder, by_inode));
  std::uint64_t bytes = 0;
  for (const auto& [inode, size] : by_inode) bytes += size;
  return bytes;
}

Result<MemoryPlace> Account::place() {
  struct statvfs filesystem {};
  const int result = folder_.filesystem(&filesystem);
  if (result < 0) return folder_.read_failure(-result, "statvfs", ".");
  return place_of(filesystem, capacity_, memory_(), process_reserve_bytes_);
}

Result<std::uint64_t> Account::capacity_bytes() {
  SY_ASSIGN_OR_RETURN(const MemoryPlace there, place());
  return there.capacity_bytes;
}

Result<Account::Look> Account::look(const std::string& own, std::string_view operation) {
  // In this order: what moves from a claim to a name meanwhile is counted twice, not overlooked.
  SY_ASSIGN_OR_RETURN(const Claims claims, live_claims(own, operation));
  SY_ASSIGN_OR_RETURN(const std::uint64_t used, used_bytes());
  SY_ASSIGN_OR_RETURN(const MemoryPlace there, place());
  Look found;
  // A claim that is to come takes a page of the filesystem for itself.
  found.room = there.room(used, claims.bytes, own.empty() ? kPageBytes : 0);
  found.room.where = "the hot tier " + folder_.path();
  found.others = claims.others;
  return found;
}

Result<Room> Account::room() {
  SY_ASSIGN_OR_RETURN(Look found, look({}, {}));
  return std::move(found.room);
}

Result<std::uint64_t> Account::claimed_bytes() {
  SY_ASSIGN_OR_RETURN(const Claims claims, live_claims({}, {}));
  return claims.bytes;
}

Result<std::shared_ptr<Claim>> Account::claim(std::uint64_t bytes, std::string_view operation) {
  for (int tried = 1;; ++tried) {
    SY_ASSIGN_OR_RETURN(auto claim, write_claim(bytes, operation));
    SY_POINT(folder_.runtime(), "tier.after_claim");
    SY_ASSIGN_OR_RETURN(const Look found, look(claim->relative(), operation));
    Status fits = found.room.check(bytes);
    if (fits.ok()) return claim;
    if (!found.others || tried == kTries) return fits;
    claim.reset();
    std::byte dice{};
    folder_.runtime().fill_random({&dice, 1});
    folder_.runtime().sleep_ms(1 + std::to_integer<std::int64_t>(dice) % kPauseMsMax);
  }
}

}  // namespace steelyard::tiers::memory
