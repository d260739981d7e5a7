#include "store/object_repair.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"

namespace steelyard::store {

std::uint64_t object_repair_bytes(std::uint64_t io_budget, std::uint64_t object_bytes) {
  const std::uint64_t wanted = std::max<std::uint64_t>(
      (object_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes * limits::kBlockBytes, limits::kBlockBytes);
  return wanted <= io_budget - tiers::kPutStreamBytesMax - limits::kBlockBytes ? wanted : limits::kBlockBytes;
}

ObjectRepair::ObjectRepair(Context& context, const tiers::AttemptName& attempt, const formats::StoredManifest& manifest,
                           std::uint32_t object, BlockSources& sources, ByteSpan memory, StopSignal& stop,
                           ProgressMeter& progress)
    : context_(context),
      name_(payload_of(attempt, object)),
      entry_(manifest.objects[object]),
      object_(object),
      sources_(sources),
      memory_(memory),
      keeps_(entry_.bytes <= memory.size()),
      stop_(stop),
      progress_(progress) {}

Result<std::optional<Unrestored>> ObjectRepair::run(std::vector<tiers::ObjectName>& names) {
  SY_RETURN_IF_ERROR(examine());
  SY_ASSIGN_OR_RETURN(names, sources_.sharing(name_));
  if (whole_) return std::optional<Unrestored>();
  std::vector<tiers::ObjectName> all = names;
  all.push_back(name_);
  SY_ASSIGN_OR_RETURN(const bool linked, link_content(all));
  if (linked) return std::optional<Unrestored>();
  SY_ASSIGN_OR_RETURN(const auto unrestored, find_blocks());
  if (unrestored) return unrestored;
  SY_RETURN_IF_ERROR(write(all));
  return std::optional<Unrestored>();
}

std::uint64_t ObjectRepair::bytes_of(std::uint64_t block) const {
  return std::min(limits::kBlockBytes, entry_.bytes - block * limits::kBlockBytes);
}

/// Where a block lies in memory: each in its own place where the whole object fits.
ByteSpan ObjectRepair::place_of(std::uint64_t block) const {
  return memory_.subspan(keeps_ ? block * limits::kBlockBytes : 0, bytes_of(block));
}

bool ObjectRepair::is_right(std::uint64_t block, ByteView bytes) const {
  return hash::xxh3(bytes) == entry_.blocks[block];
}

/// Reads what lies there, and finds the bad blocks.
Status ObjectRepair::examine() {
  bad_.assign(blocks(), false);
  hash::Sha256 sha;
  for (std::uint64_t block = 0; block < blocks(); ++block) {
    SY_RETURN_IF_ERROR(stop_.status("the repair"));
    const Status read = context_.cold.read(name_, {{block * limits::kBlockBytes, place_of(block)}});
    // A sector that cannot be read is as bad as a wrong one: the new bytes get another place.
    bad_[block] = !read.ok() || !is_right(block, place_of(block));
    const bool proves_nothing = !read.ok() && read.code() != Code::kNotFound && read.code() != Code::kCorrupt;
    if (proves_nothing && unread_.ok()) unread_ = read;
    if (!bad_[block]) sha.update(place_of(block));
    progress_.add_bytes(bytes_of(block));
  }
  const auto stat = context_.cold.stat(name_);
  if (!stat.ok() && stat.code() != Code::kNotFound && stat.code() != Code::kCorrupt) return stat.status();
  whole_ =
      stat.ok() && stat->bytes == entry_.bytes && std::ranges::count(bad_, true) == 0 && sha.finish() == entry_.sha256;
  if (stat.ok()) storage_ = stat->storage;
  return {};
}

/// A whole copy that the content index has is linked; nothing is written then.
Result<bool> ObjectRepair::link_content(const std::vector<tiers::ObjectName>& names) {
  const auto entry = context_.cold.stat_content(entry_.sha256);
  if (!entry.ok() || entry->bytes != entry_.bytes || entry->storage == storage_) return false;
  hash::Sha256 sha;
  const auto scratch = tiers::AlignedBuffer::allocate(limits::kBlockBytes);
  SY_RETURN_IF_ERROR(scratch.status());
  for (std::uint64_t block = 0; block < blocks(); ++block) {
    SY_RETURN_IF_ERROR(stop_.status("the repair"));
    const ByteSpan into = scratch->span().first(bytes_of(block));
    auto read = context_.cold.start_read_content(entry_.sha256, {{block * limits::kBlockBytes, into}});
    const Status status = read.ok() ? (*read)->finish() : std::move(read).status();
    if (!status.ok() || !is_right(block, into)) return false;
    sha.update(into);
  }
  if (sha.finish() != entry_.sha256) return false;
  auto linked = context_.cold.relink(names, entry_.sha256, entry_.bytes);
  if (linked.ok()) return *linked;
  if (linked.code() == Code::kNoSpace || linked.code() == Code::kUnauthorized) return std::move(linked).status();
  log_info("the copy in the content index cannot be linked: {}", linked.status().to_string());
  return false;
}

/// Whether every bad block can be had. Where the object is in memory, they are in it then.
Result<std::optional<Unrestored>> ObjectRepair::find_blocks() {
  Unrestored missing{object_, 0, 0};
  for (std::uint64_t block = 0; block < blocks(); ++block) {
    if (!bad_[block]) continue;
    SY_RETURN_IF_ERROR(stop_.status("the repair"));
    SY_ASSIGN_OR_RETURN(const bool found, sources_.fetch(object_, block, place_of(block)));
    if (found) continue;
    SY_RETURN_IF_ERROR(unread_);
    if (missing.blocks++ == 0) missing.first_block = block;
  }
  return missing.blocks == 0 ? std::optional<Unrestored>() : std::optional(missing);
}

Status ObjectRepair::write(const std::vector<tiers::ObjectName>& names) {
  SY_ASSIGN_OR_RETURN(const auto stream, context_.cold.open_replacement(names, entry_.bytes, entry_.sha256));
  hash::Sha256 sha;
  for (std::uint64_t block = 0; block < blocks(); ++block) {
    SY_RETURN_IF_ERROR(stop_.status("the repair"));
    const ByteSpan bytes = place_of(block);
    if (!keeps_) SY_RETURN_IF_ERROR(read_again(block, bytes));
    sha.update(bytes);
    SY_RETURN_IF_ERROR(stream->append(bytes));
  }
  if (sha.finish() != entry_.sha256) {
    return {Code::kCorrupt, "blocks whose checksums are right do not add up to SHA-256 " + entry_.sha256.hex(),
            "`steelyard repair REF --source DIR` takes it from a folder that holds the original"};
  }
  SY_POINT(context_.runtime, "repair.before_replace");
  SY_RETURN_IF_ERROR(stream->finish().status());
  SY_POINT(context_.runtime, "repair.after_replace");
  return {};
}

Status ObjectRepair::read_again(std::uint64_t block, ByteSpan into) {
  if (!bad_[block]) {
    SY_RETURN_IF_ERROR(context_.cold.read(name_, {{block * limits::kBlockBytes, into}}));
    if (is_right(block, into)) return {};
  }
  SY_ASSIGN_OR_RETURN(const bool found, sources_.fetch(object_, block, into));
  if (found) return {};
  return {Code::kUnavailable, fmt::format("block {} was there a moment ago and is gone", block),
          "run the same command again"};
}

}  // namespace steelyard::store
