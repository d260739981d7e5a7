#include "store/verified_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "hash/xxh3.h"

namespace steelyard::store {
namespace {

constexpr std::uint64_t kPieceBytesMax = 16 * limits::kMiB;

std::uint64_t block_floor(std::uint64_t offset) { return offset - offset % limits::kBlockBytes; }

}  // namespace

Status to_status(const BadObject& bad, const formats::Identity& identity) {
  if (!bad.read_error.ok()) return bad.read_error;
  std::string message = "object " + formats::payload_key(identity, bad.object);
  if (bad.offset) message += fmt::format(", block at {}", *bad.offset);
  message += fmt::format(": expected {}, found {}", bad.expected, bad.actual);
  const std::string ref = formats::format_ref(identity);
  return {
      Code::kCorrupt, std::move(message),
      fmt::format("`steelyard verify {}` shows all damage of the revision, `steelyard repair {}` restores what it can",
                  ref, ref)};
}

Result<ReadBuffers> ReadBuffers::allocate(std::uint64_t bytes) {
  ReadBuffers made;
  made.piece_bytes = bytes;
  for (tiers::AlignedBuffer& buffer : made.buffers) {
    SY_ASSIGN_OR_RETURN(buffer, tiers::AlignedBuffer::allocate(bytes));
  }
  return made;
}

std::uint64_t read_piece_bytes(std::uint64_t io_budget, unsigned workers) {
  const std::uint64_t share = io_budget / (2ULL * std::max(workers, 1U));
  return std::max(block_floor(std::min(share, kPieceBytesMax)), limits::kBlockBytes);
}

VerifiedReader::VerifiedReader(tiers::Tier& tier, const tiers::AttemptName& attempt,
                               std::span<const formats::ObjectEntry> objects,
                               std::vector<formats::ObjectRange> segments, ReadBuffers& buffers, const HotReplicas* hot)
    : tier_(tier), attempt_(attempt), objects_(objects), segments_(std::move(segments)), buffers_(buffers), hot_(hot) {}

VerifiedReader::~VerifiedReader() = default;

std::optional<VerifiedReader::Window> VerifiedReader::take_window() {
  while (next_segment_ < segments_.size() && segments_[next_segment_].bytes == 0) ++next_segment_;
  if (next_segment_ == segments_.size()) return std::nullopt;
  const formats::ObjectRange& segment = segments_[next_segment_];
  if (!inside_segment_) {
    next_begin_ = block_floor(segment.offset);
    inside_segment_ = true;
  }
  const std::uint64_t object_bytes = objects_[segment.object].bytes;
  const std::uint64_t segment_end = segment.offset + segment.bytes;
  const std::uint64_t widened_end = segment_end % limits::kBlockBytes == 0
                                        ? segment_end
                                        : std::min(object_bytes, block_floor(segment_end) + limits::kBlockBytes);
  Window window{next_segment_, next_begin_, std::min(widened_end, next_begin_ + buffers_.piece_bytes)};
  next_begin_ = window.end;
  if (window.end == widened_end) {
    ++next_segment_;
    inside_segment_ = false;
  }
  return window;
}

void VerifiedReader::start(Slot& slot, ByteSpan memory) {
  const std::optional<Window> window = take_window();
  slot.used = window.has_value();
  if (!window) return;
  slot.window = *window;
  const std::uint32_t object = segments_[window->segment].object;
  slot.from_hot = hot_ != nullptr && hot_->has(object);
  if (slot.from_hot) {
    start_from(slot, *hot_->tier, hot_->name_of(object), window->begin, memory);
  } else {
    start_from(slot, tier_, {attempt_, tiers::ObjectKind::kPayload, object}, window->begin, memory);
  }
}

void VerifiedReader::start_from(Slot& slot, tiers::Tier& tier, const tiers::ObjectName& name, std::uint64_t begin,
                                ByteSpan memory) {
  slot.start_error = Status();
  auto read = tier.start_read(name, {{begin, memory.first(slot.window.end - begin)}});
  if (read.ok()) {
    slot.read = std::move(read).value();
  } else {
    slot.start_error = std::move(read).status();
  }
}

Result<std::optional<BadObject>> VerifiedReader::check(Slot& slot, std::uint64_t begin, ByteView bytes) const {
  const std::uint32_t index = segments_[slot.window.segment].object;
  const formats::ObjectEntry& object = objects_[index];
  Status status = std::move(slot.start_error);
  if (status.ok()) status = slot.read->finish();
  slot.read.reset();
  if (!status.ok()) {
    BadObject bad{ProblemKind::kMissingObject,           index,       std::nullopt,
                  fmt::format("{} bytes", object.bytes), "no object", {}};
    if (status.code() == Code::kNotFound) return std::optional(bad);
    if (status.code() == Code::kCorrupt) {
      const tiers::ObjectName name{attempt_, tiers::ObjectKind::kPayload, index};
      const auto stat = tier_.stat(name);
      bad.kind = ProblemKind::kObjectSize;
      bad.actual = stat.ok() ? fmt::format("{} bytes", stat->bytes) : status.message();
      return std::optional(bad);
    }
    bad.actual = status.message();
    bad.read_error = std::move(status);
    return std::optional(bad);
  }
  std::uint64_t block = begin / limits::kBlockBytes;
  while (!bytes.empty()) {
    const ByteView head = bytes.first(std::min<std::size_t>(bytes.size(), limits::kBlockBytes));
    const std::uint64_t sum = hash::xxh3(head);
    if (sum != object.blocks[block]) {
      return std::optional(BadObject{ProblemKind::kObjectChecksum,
                                     index,
                                     block * limits::kBlockBytes,
                                     "xxh3 " + hash::xxh3_hex(object.blocks[block]),
                                     "xxh3 " + hash::xxh3_hex(sum),
                                     {}});
    }
    bytes = bytes.subspan(head.size());
    ++block;
  }
  return std::optional<BadObject>();
}

/// What is bad in memory, or was evicted meanwhile, the cold replica has, and the other way round: each is read from
/// where the other has no good block. What the cold one says counts where neither has the block.
Result<std::optional<BadObject>> VerifiedReader::take_from_both(Slot& slot, ByteSpan memory, const BadObject& bad) {
  const std::uint32_t object = segments_[slot.window.segment].object;
  std::uint64_t at = bad.offset.value_or(slot.window.begin);
  note_bad_in_memory(bad);
  std::optional<BadObject> cold_bad;
  for (bool from_hot = false;; from_hot = !from_hot) {
    const ByteSpan rest = memory.subspan(at - slot.window.begin, slot.window.end - at);
    const tiers::ObjectName cold{attempt_, tiers::ObjectKind::kPayload, object};
    start_from(slot, from_hot ? *hot_->tier : tier_, from_hot ? hot_->name_of(object) : cold, at, rest);
    SY_ASSIGN_OR_RETURN(auto found, check(slot, at, rest));
    if (!found) return found;
    const std::uint64_t next = found->offset.value_or(at);
    if (from_hot) {
      note_bad_in_memory(*found);
    } else {
      cold_bad = std::move(found);
    }
    if (next == at) return cold_bad;
    at = next;
  }
}

/// What is not there was evicted meanwhile, and what cannot be read now may be whole.
void VerifiedReader::note_bad_in_memory(const BadObject& bad) {
  if (bad.kind == ProblemKind::kMissingObject || !bad.read_error.ok()) return;
  if (!bad_in_memory_.emplace(bad.object, objects_[bad.object].bytes).second) return;
  log_warning("{} of {} is damaged in memory, and is read from the cold tier",
              formats::payload_key(hot_->identity, bad.object), formats::format_ref(hot_->identity));
}

Result<bool> VerifiedReader::next(Piece& piece) {
  if (!started_) {
    started_ = true;
    current_ = 0;
    start(slots_[0], buffers_.buffers[0].span());
  } else {
    current_ ^= 1;
  }
  Slot& slot = slots_[current_];
  if (!slot.used) return false;
  const bool last_of_segment = next_segment_ > slot.window.segment;
  start(slots_[current_ ^ 1], buffers_.buffers[current_ ^ 1].span());

  const Window window = slot.window;
  const ByteView whole = buffers_.buffers[current_].span().first(window.end - window.begin);
  slot.used = false;
  const formats::ObjectRange& segment = segments_[window.segment];
  SY_ASSIGN_OR_RETURN(piece.bad, check(slot, window.begin, whole));
  if (piece.bad && slot.from_hot) {
    SY_ASSIGN_OR_RETURN(piece.bad, take_from_both(slot, buffers_.buffers[current_].span(), *piece.bad));
  }
  piece.segment = window.segment;
  piece.last_of_segment = last_of_segment;
  const std::uint64_t begin = std::max(window.begin, segment.offset);
  const std::uint64_t end = std::min(window.end, segment.offset + segment.bytes);
  piece.offset = begin;
  piece.bytes = whole.subspan(begin - window.begin, end - begin);
  if (piece.bad) {
    piece.bytes = {};
    piece.last_of_segment = true;
    // The piece under way may belong to the same segment: replace it by the first of the next one.
    Slot& ahead = slots_[current_ ^ 1];
    if (ahead.used && ahead.window.segment == window.segment) {
      ahead.read.reset();
      next_segment_ = window.segment + 1;
      inside_segment_ = false;
      start(ahead, buffers_.buffers[current_ ^ 1].span());
    }
  }
  return true;
}

}  // namespace steelyard::store
