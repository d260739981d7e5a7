#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "base/checked.h"
#include "base/utf8.h"
#include "formats/json_cursor.h"
#include "formats/name_index.h"
#include "geometry/box.h"

namespace steelyard::formats {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
/// `"":{"dtype":"U8","shape":[],"data_offsets":[0,0]},`: no tensor's entry is shorter.
constexpr std::size_t kEntryBytesMin = 48;
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kFetchAgain = "the file is damaged or was not written completely: fetch it again";

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 22> kDtypes = {{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

/// A name as messages show it: escaped, and cut where it is very long.
std::string shown(std::string_view name) {
  constexpr std::size_t kShownBytes = 200;
  if (name.size() <= kShownBytes) return printable(name);
  return fmt::format("{}... ({} bytes)", printable(name.substr(0, kShownBytes)), name.size());
}

std::string shown(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == 16) return text.append(", ...]");
    text.append(fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]));
  }
  return text.append("]");
}

/// One entry of the header while it is read.
struct Entry {
  std::string name_scratch;
  std::string dtype_scratch;
  std::string_view name;
  std::string_view dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view file, std::string_view json, std::uint64_t file_bytes)
      : file_(file), json_(json), file_bytes_(file_bytes), cursor_(json) {}

  Result<SafetensorsHeader> parse() {
    if (json_.empty()) return bad("the header is empty; wanted at least \"{}\"");
    if (json_.front() != '{') {
      return bad(fmt::format("the header begins with '{}'; wanted '{{'", printable(json_.substr(0, 1))));
    }
    reserve();
    SY_RETURN_IF_ERROR(object());
    if (const Status end = cursor_.expect_end(" "); !end.ok()) {
      return bad(fmt::format("the header goes on after its object, at byte {}, with {}; only spaces may follow",
                             cursor_.position(), cursor_.found()));
    }
    SY_RETURN_IF_ERROR(refuse_repeated_names());
    if (!in_order_) put_in_data_order();
    SY_RETURN_IF_ERROR(check_geometry());
    SY_RETURN_IF_ERROR(check_file_size());
    warn_of_unknown_dtypes();
    return std::move(header_);
  }

 private:
  Status bad(std::string_view what) const {
    return {Code::kCorrupt, fmt::format("{}: {}", shown(file_), what), std::string(kFetchAgain)};
  }
  Status bad_tensor(std::string_view tensor, std::string_view what) const {
    return bad(fmt::format("tensor {}: {}", shown(tensor), what));
  }
  /// A cursor's error, with the file and, once it is known, the entry.
  Status placed(const Status& error) const {
    if (where_.empty()) return bad(fmt::format("header: {}", error.message()));
    return bad(fmt::format("header: {}: {}", where_, error.message()));
  }
  Status placed_in(std::string_view name, const Status& error) {
    where_ = name == kMetadataKey ? std::string(name) : fmt::format("tensor {}", shown(name));
    return placed(error);
  }

  void reserve() {
    // A hint that costs one pass and cannot be blown up by the text: a tensor's entry has its own '{'.
    const auto braces = static_cast<std::size_t>(std::ranges::count(json_, '{'));
    const std::size_t rows = std::min(braces, json_.size() / kEntryBytesMin + 1);
    const std::size_t entries = rows * kEntryBytesMin;
    header_.tensors.reserve(rows, json_.size() > entries ? json_.size() - entries : 0);
  }

  Status object() {
    if (const Status open = cursor_.expect('{'); !open.ok()) return placed(open);
    if (cursor_.take('}')) return {};
    Entry entry;
    bool metadata_seen = false;
    while (true) {
      where_.clear();
      const auto name = cursor_.string(entry.name_scratch);
      if (!name.ok()) return placed(name.status());
      entry.name = *name;
      if (const Status colon = cursor_.expect(':'); !colon.ok()) return placed_in(entry.name, colon);
      if (entry.name == kMetadataKey) {
        if (metadata_seen) return bad("duplicate name __metadata__");
        metadata_seen = true;
        SY_RETURN_IF_ERROR(metadata());
      } else {
        SY_RETURN_IF_ERROR(tensor(entry));
      }
      if (cursor_.take('}')) return {};
      if (const Status comma = cursor_.expect(','); !comma.ok()) return placed_in(entry.name, comma);
    }
  }

  Status metadata() {
    if (cursor_.peek() != '{') {
      return bad(fmt::format("__metadata__ begins with {}; wanted an object of strings", cursor_.found()));
    }
    if (const Status open = cursor_.expect('{'); !open.ok()) return placed_in(kMetadataKey, open);
    if (cursor_.take('}')) return {};
    std::string key_scratch;
    std::string value_scratch;
    while (true) {
      const auto key = cursor_.string(key_scratch);
      if (!key.ok()) return placed_in(kMetadataKey, key.status());
      if (const Status colon = cursor_.expect(':'); !colon.ok()) return placed_in(kMetadataKey, colon);
      if (cursor_.peek() != '"') {
        return bad(fmt::format("__metadata__ has the value of \"{}\" beginning with {}; wanted a string", shown(*key),
                               cursor_.found()));
      }
      const auto value = cursor_.string(value_scratch);
      if (!value.ok()) return placed_in(kMetadataKey, value.status());
      header_.metadata.emplace_back(*key, *value);
      if (cursor_.take('}')) break;
      if (const Status comma = cursor_.expect(','); !comma.ok()) return placed_in(kMetadataKey, comma);
    }
    const auto key_at = [this](std::size_t i) -> std::string_view { return header_.metadata[i].first; };
    const auto repeat = NameIndex(header_.metadata.size(), key_at).first_repeat(key_at);
    if (repeat) return bad(fmt::format("duplicate key \"{}\" in __metadata__", shown(key_at(repeat->second))));
    return {};
  }

  Status tensor(Entry& entry) {
    if (cursor_.peek() != '{') {
      return bad_tensor(entry.name, fmt::format("its entry begins with {}; wanted an object", cursor_.found()));
    }
    if (const Status open = cursor_.expect('{'); !open.ok()) return placed_in(entry.name, open);
    bool has_dtype = false;
    bool has_shape = false;
    bool has_offsets = false;
    std::string scratch;
    bool more = !cursor_.take('}');
    while (more) {
      const auto field = cursor_.string(scratch);
      if (!field.ok()) return placed_in(entry.name, field.status());
      if (const Status colon = cursor_.expect(':'); !colon.ok()) return placed_in(entry.name, colon);
      bool* seen = *field == "dtype"          ? &has_dtype
                   : *field == "shape"        ? &has_shape
                   : *field == "data_offsets" ? &has_offsets
                                              : nullptr;
      if (seen == nullptr) {
        return bad_tensor(entry.name,
                          fmt::format("unknown field \"{}\"; wanted dtype, shape, data_offsets", shown(*field)));
      }
      if (*seen) return bad_tensor(entry.name, fmt::format("duplicate field \"{}\"", *field));
      *seen = true;
      SY_RETURN_IF_ERROR(seen == &has_dtype ? dtype(entry) : seen == &has_shape ? shape(entry) : offsets(entry));
      more = !cursor_.take('}');
      if (!more) break;
      if (const Status comma = cursor_.expect(','); !comma.ok()) return placed_in(entry.name, comma);
    }
    const std::string_view missing = !has_dtype ? "dtype" : !has_shape ? "shape" : !has_offsets ? "data_offsets" : "";
    if (!missing.empty()) return bad_tensor(entry.name, fmt::format("the field \"{}\" is missing", missing));
    return add(entry);
  }

  Status dtype(Entry& entry) {
    if (cursor_.peek() != '"') {
      return bad_tensor(entry.name, fmt::format("dtype begins with {}; wanted a string", cursor_.found()));
    }
    const auto text = cursor_.string(entry.dtype_scratch);
    if (!text.ok()) return placed_in(entry.name, text.status());
    if (text->empty()) return bad_tensor(entry.name, "dtype is empty");
    entry.dtype = *text;
    return {};
  }

  Status shape(Entry& entry) {
    entry.shape.clear();
    return integers(entry.name, "shape", [&](std::uint64_t dimension) -> Status {
      if (dimension > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return bad_tensor(entry.name, fmt::format("shape has the dimension {}; wanted at most 2^63-1", dimension));
      }
      entry.shape.push_back(static_cast<std::int64_t>(dimension));
      return {};
    });
  }

  Status offsets(Entry& entry) {
    std::size_t count = 0;
    SY_RETURN_IF_ERROR(integers(entry.name, "data_offsets", [&](std::uint64_t offset) -> Status {
      if (count < 2) (count == 0 ? entry.begin : entry.end) = offset;
      ++count;
      return {};
    }));
    if (count == 2) return {};
    return bad_tensor(entry.name, fmt::format("data_offsets has {} numbers; wanted 2", count));
  }

  template <typename Take>
  Status integers(std::string_view name, std::string_view field, const Take& take) {
    if (cursor_.peek() != '[') {
      return bad_tensor(name, fmt::format("{} begins with {}; wanted an array of integers", field, cursor_.found()));
    }
    if (const Status open = cursor_.expect('['); !open.ok()) return placed_in(name, open);
    if (cursor_.take(']')) return {};
    while (true) {
      const auto number = cursor_.unsigned_integer();
      if (!number.ok()) return bad_tensor(name, fmt::format("{}: {}", field, number.status().message()));
      SY_RETURN_IF_ERROR(take(*number));
      if (cursor_.take(']')) return {};
      if (const Status comma = cursor_.expect(','); !comma.ok()) return placed_in(name, comma);
    }
  }

  Status add(const Entry& entry) {
    if (entry.end < entry.begin) {
      return bad_tensor(entry.name, fmt::format("data_offsets [{}, {}] end before they begin", entry.begin, entry.end));
    }
    const std::uint64_t bytes = entry.end - entry.begin;
    if (const auto bits = dtype_bits(entry.dtype)) {
      SY_RETURN_IF_ERROR(check_size(entry, *bits, bytes));
    } else {
      const Result<std::int64_t> elements = geometry::checked_volume(entry.shape);
      if (!elements.ok()) {
        return bad_tensor(entry.name, fmt::format("shape {}: {}", shown(entry.shape), elements.status().message()));
      }
      auto& [count, first] = unknown_[std::string(entry.dtype)];
      if (count++ == 0) first = std::string(entry.name);
    }
    in_order_ = in_order_ && std::pair(entry.begin, entry.end) >= last_;
    last_ = {entry.begin, entry.end};
    TensorRow row;
    row.tensor_id = entry.name;
    row.dtype = entry.dtype;
    row.shape = entry.shape;
    row.layout_fingerprint = "row-major";
    row.place = TensorPlace{0, entry.begin, bytes};
    header_.tensors.add(row);
    return {};
  }

  Status check_size(const Entry& entry, std::uint32_t bits_each, std::uint64_t bytes) const {
    // A dimension of 0 does not excuse the others: whoever computes strides would overflow on them.
    std::optional<std::uint64_t> elements = 1;
    bool zero = false;
    for (const std::int64_t dimension : entry.shape) {
      zero = zero || dimension == 0;
      if (dimension != 0 && elements) elements = checked_mul(*elements, static_cast<std::uint64_t>(dimension));
    }
    const auto bits = elements ? checked_mul<std::uint64_t>(*elements, bits_each) : std::nullopt;
    if (!bits) {
      return bad_tensor(entry.name, fmt::format("shape {} of {} overflows 64 bits", shown(entry.shape), entry.dtype));
    }
    const std::uint64_t wanted_bits = zero ? 0 : *bits;
    if (wanted_bits % 8 != 0) {
      return bad_tensor(entry.name, fmt::format("shape {} of {} is {} bits, which is not a whole number of bytes",
                                                shown(entry.shape), entry.dtype, wanted_bits));
    }
    if (wanted_bits / 8 == bytes) return {};
    return bad_tensor(entry.name,
                      fmt::format("shape {} of {} needs {} bytes, data_offsets [{}, {}] give {}", shown(entry.shape),
                                  entry.dtype, wanted_bits / 8, entry.begin, entry.end, bytes));
  }

  Status refuse_repeated_names() const {
    const auto name_at = [this](std::size_t i) { return header_.tensors.tensor_id(i); };
    const auto repeat = NameIndex(header_.tensors.size(), name_at).first_repeat(name_at);
    if (repeat) return bad(fmt::format("duplicate tensor name {}", shown(name_at(repeat->second))));
    return {};
  }

  void put_in_data_order() {
    const TensorTable& old = header_.tensors;
    std::vector<TensorPlace> places;
    places.reserve(old.size());
    std::size_t name_bytes = 0;
    for (std::size_t i = 0; i < old.size(); ++i) {
      places.push_back(*old.row(i).place);
      name_bytes += old.tensor_id(i).size();
    }
    std::vector<std::size_t> order(old.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Among equal beginnings the empty tensors come first, so that they do not look like an overlap.
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return std::pair(places[i].offset, places[i].bytes); });
    TensorTable sorted;
    sorted.reserve(old.size(), name_bytes);
    for (const std::size_t i : order) sorted.add(old.row(i));
    header_.tensors = std::move(sorted);
  }

  Status check_geometry() {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
      const TensorRow row = header_.tensors.row(i);
      const std::uint64_t begin = row.place->offset;
      if (begin > at && i == 0) {
        return bad_tensor(row.tensor_id, fmt::format("it is the first in the data and begins at {}; wanted 0", begin));
      }
      if (begin > at) {
        return bad_tensor(row.tensor_id, fmt::format("a hole: it begins at {}, and tensor {} before it ends at {}",
                                                     begin, shown(header_.tensors.tensor_id(i - 1)), at));
      }
      if (begin < at) {
        return bad_tensor(row.tensor_id, fmt::format("an overlap: it begins at {}, and tensor {} before it ends at {}",
                                                     begin, shown(header_.tensors.tensor_id(i - 1)), at));
      }
      at = begin + row.place->bytes;  // the entry's own end: no overflow
    }
    header_.header_bytes = kLengthBytes + json_.size();
    header_.data_bytes = at;
    return {};
  }

  Status check_file_size() const {
    const auto wanted = checked_add(header_.header_bytes, header_.data_bytes);
    if (!wanted) return bad(fmt::format("its tensors end at {}, which overflows 64 bits", header_.data_bytes));
    if (file_bytes_ == *wanted) return {};
    if (file_bytes_ < *wanted) {
      return bad(fmt::format("the file has {} bytes; its header promises {} ({} are missing)", file_bytes_, *wanted,
                             *wanted - file_bytes_));
    }
    return bad(fmt::format("the file has {} bytes; its header promises {} ({} trailing bytes)", file_bytes_, *wanted,
                           file_bytes_ - *wanted));
  }

  void warn_of_unknown_dtypes() {
    constexpr std::size_t kNamedMax = 16;
    for (const auto& [dtype, seen] : unknown_) {
      if (header_.warnings.size() == kNamedMax) {
        header_.warnings.push_back(
            fmt::format("{}: {} more unknown dtypes", shown(file_), unknown_.size() - kNamedMax));
        return;
      }
      const auto& [count, first] = seen;
      header_.warnings.push_back(fmt::format("{}: unknown dtype \"{}\" of {} tensor{} (first {}); kept as opaque bytes",
                                             shown(file_), shown(dtype), count, count == 1 ? "" : "s", shown(first)));
    }
  }

  std::string_view file_;
  std::string_view json_;
  std::uint64_t file_bytes_;
  JsonCursor cursor_;
  SafetensorsHeader header_;
  std::string where_;
  bool in_order_ = true;
  std::pair<std::uint64_t, std::uint64_t> last_{0, 0};
  std::map<std::string, std::pair<std::uint64_t, std::string>> unknown_;
};

}  // namespace

std::optional<std::uint32_t> dtype_bits(std::string_view dtype) {
  const auto* found = std::ranges::find(kDtypes, dtype, &std::pair<std::string_view, std::uint32_t>::first);
  if (found == kDtypes.end()) return std::nullopt;
  return found->second;
}

Result<std::uint64_t> safetensors_header_length(std::string_view name, ByteView first_8_bytes, std::uint64_t file_bytes,
                                                std::uint64_t header_limit) {
  if (file_bytes < kLengthBytes || first_8_bytes.size() < kLengthBytes) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: the file has {} bytes; wanted at least the {} of a safetensors header length",
                              shown(name), file_bytes, kLengthBytes),
                  std::string(kFetchAgain));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<std::uint64_t>(first_8_bytes[i]) << (8 * i);
  }
  if (length > file_bytes - kLengthBytes) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: its first 8 bytes announce a header of {} bytes, but the file has {} bytes in all",
                              shown(name), length, file_bytes),
                  "the file is damaged, not written completely, or no safetensors file: fetch it again");
  }
  if (length > header_limit) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: its header has {} bytes; the limit is {}", shown(name), length, header_limit),
                  fmt::format("if the file is right, raise the limit: --header-limit {}", length));
  }
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view name, std::string_view json,
                                                   std::uint64_t file_bytes) {
  return HeaderParser(name, json, file_bytes).parse();
}

std::optional<LfsPointer> parse_lfs_pointer(std::string_view head) {
  if (!head.starts_with("version https://git-lfs")) return std::nullopt;
  LfsPointer pointer;
  bool oid = false;
  std::string_view rest = head.substr(0, kLfsPointerBytesMax);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    oid = oid || line.starts_with("oid ");
    if (!line.starts_with("size ")) continue;
    const std::string_view digits = line.substr(5);
    JsonCursor cursor(digits);
    const auto bytes = cursor.unsigned_integer();
    if (bytes.ok() && cursor.position() == digits.size()) pointer.bytes = *bytes;
  }
  pointer.complete = oid && pointer.bytes.has_value();
  return pointer;
}

}  // namespace steelyard::formats
