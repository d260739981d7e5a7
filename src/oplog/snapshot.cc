// The encoded snapshot (docs/formats/op-log.md):
//
//   magic "SYSNAP\r\n" | format u32 | sections u32 | sequence u64
//   per section, ordered by name: name bytes u32 | name | bytes u64 | SHA-256 of the bytes (32)
//   SHA-256 of everything above (32)
//   the sections' bytes, in the same order
//
// Integers are little-endian. The head is small and covered by its own digest, so a reader trusts lengths before it
// allocates anything.
#include <array>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "hash/sha256.h"
#include "oplog/op_log.h"

namespace steelyard::oplog {
namespace {

constexpr std::string_view kMagic("SYSNAP\r\n", 8);
constexpr std::uint32_t kFormat = 1;
constexpr std::uint32_t kSectionsMax = 1024;
constexpr std::uint32_t kNameBytesMax = 255;
constexpr std::size_t kDigestBytes = 32;

template <typename T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

std::string_view text_of(const Digest& digest) { return as_text(digest.bytes); }

Status malformed(std::string what) {
  return Status(Code::kCorrupt, "snapshot: " + std::move(what), "use an older snapshot copy of the cold tier");
}

/// Takes bytes from the front; a short input is remembered and gives zeros.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes), total_(bytes.size()) {}
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) {
      short_ = true;
      return {};
    }
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return out;
  }
  template <typename T>
  T number() {
    T value = 0;
    const std::string_view raw = take(sizeof value);
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(raw[i])) << (8 * i));
    }
    return value;
  }
  bool is_short() const { return short_; }
  std::size_t left() const { return rest_.size(); }
  std::size_t position() const { return total_ - rest_.size(); }

 private:
  std::string_view rest_;
  std::size_t total_;
  bool short_ = false;
};

struct SectionHead {
  std::string name;
  std::uint64_t bytes = 0;
  std::string_view sha256;
};

struct Head {
  std::uint64_t sequence = 0;
  std::vector<SectionHead> sections;
};

/// `bytes` is what `in` reads.
Result<Head> read_head(Reader& in, std::string_view bytes) {
  if (in.take(kMagic.size()) != kMagic) return malformed("it does not begin with the magic of a snapshot");
  const auto format = in.number<std::uint32_t>();
  const auto count = in.number<std::uint32_t>();
  Head out;
  out.sequence = in.number<std::uint64_t>();
  if (in.is_short()) return malformed("cut off inside its head (" + std::to_string(bytes.size()) + " bytes)");
  if (format > kFormat) {
    return Status(Code::kUnavailable,
                  "snapshot: format " + std::to_string(format) + " is newer than " + std::to_string(kFormat),
                  "use the newer steelyard that wrote it");
  }
  if (format != kFormat) return malformed("format " + std::to_string(format));
  if (count > kSectionsMax) return malformed(std::to_string(count) + " sections, at most 1024");
  for (std::uint32_t i = 0; i < count; ++i) {
    SectionHead head;
    const auto name_bytes = in.number<std::uint32_t>();
    if (name_bytes == 0 || name_bytes > kNameBytesMax) {
      return malformed("a section name of " + std::to_string(name_bytes) + " bytes");
    }
    head.name = in.take(name_bytes);
    head.bytes = in.number<std::uint64_t>();
    head.sha256 = in.take(kDigestBytes);
    if (in.is_short()) return malformed("cut off inside its head (" + std::to_string(bytes.size()) + " bytes)");
    if (!out.sections.empty() && out.sections.back().name >= head.name) {
      return malformed("sections out of order or double");
    }
    out.sections.push_back(std::move(head));
  }
  const std::string_view covered = bytes.substr(0, in.position());
  const std::string_view digest = in.take(kDigestBytes);
  if (in.is_short()) return malformed("cut off inside its head (" + std::to_string(bytes.size()) + " bytes)");
  if (text_of(hash::sha256(as_bytes(covered))) != digest) return malformed("the SHA-256 of its head does not match");
  return out;
}

}  // namespace

std::string encode_snapshot(const Snapshot& snapshot) {
  std::string out(kMagic);
  put(out, kFormat);
  put(out, static_cast<std::uint32_t>(snapshot.sections.size()));
  put(out, snapshot.sequence);
  std::size_t total = 0;
  for (const auto& [name, bytes] : snapshot.sections) {
    put(out, static_cast<std::uint32_t>(name.size()));
    out += name;
    put(out, static_cast<std::uint64_t>(bytes.size()));
    out += text_of(hash::sha256(as_bytes(bytes)));
    total += bytes.size();
  }
  const Digest head = hash::sha256(as_bytes(out));
  out.reserve(out.size() + kDigestBytes + total);
  out += text_of(head);
  for (const auto& [name, bytes] : snapshot.sections) out += bytes;
  return out;
}

Result<Snapshot> decode_snapshot(std::string_view bytes) {
  Reader in(bytes);
  SY_ASSIGN_OR_RETURN(const Head head, read_head(in, bytes));
  Snapshot snapshot;
  snapshot.sequence = head.sequence;
  for (const SectionHead& section : head.sections) {
    if (section.bytes > in.left()) {
      return malformed("section " + section.name + " has " + std::to_string(in.left()) + " bytes left, wanted " +
                       std::to_string(section.bytes));
    }
    const std::string_view body = in.take(static_cast<std::size_t>(section.bytes));
    if (text_of(hash::sha256(as_bytes(body))) != section.sha256) {
      return malformed("the SHA-256 of section " + section.name + " does not match");
    }
    snapshot.sections.emplace(section.name, body);
  }
  if (in.left() != 0) return malformed(std::to_string(in.left()) + " bytes after its end");
  return snapshot;
}

Status check_snapshot_head(std::string_view first, std::uint64_t total_bytes) {
  Reader in(first);
  SY_ASSIGN_OR_RETURN(const Head head, read_head(in, first));
  std::uint64_t end = in.position();
  for (const SectionHead& section : head.sections) {
    const auto sum = checked_add(end, section.bytes);
    if (!sum) return malformed("section " + section.name + " claims " + std::to_string(section.bytes) + " bytes");
    end = *sum;
  }
  if (end == total_bytes) return {};
  return malformed(std::to_string(total_bytes) + " bytes, its head says " + std::to_string(end));
}

Result<std::uint64_t> snapshot_sequence(std::string_view bytes) {
  Reader in(bytes);
  if (in.take(kMagic.size()) != kMagic) return malformed("it does not begin with the magic of a snapshot");
  in.take(sizeof kFormat + sizeof(std::uint32_t));
  const auto sequence = in.number<std::uint64_t>();
  if (in.is_short()) return malformed("cut off inside its head (" + std::to_string(bytes.size()) + " bytes)");
  return sequence;
}

}  // namespace steelyard::oplog
