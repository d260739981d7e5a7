// The reader of PlacementManifest::to_json. It walks the text once and hands rows to a PlacementBuilder; nothing of the
// text is copied but what the builder keeps.
#include <fmt/format.h>

#include <array>
#include <concepts>
#include <deque>
#include <limits>

#include "formats/json_cursor.h"
#include "placement/errors.h"
#include "placement/placement_manifest.h"

namespace steelyard::placement {
namespace {

using formats::JsonCursor;
using formats::JsonNumber;

constexpr std::array<std::string_view, 6> kDocumentFields = {"fragments", "model_id",       "placement_id",
                                                             "revision",  "schema_version", "tensors"};
constexpr std::array<std::string_view, 9> kTensorFields = {"dtype",         "expert_id",  "global_shape",
                                                           "itemsize",      "layer_id",   "layout_fingerprint",
                                                           "partition_dim", "shard_dims", "tensor_id"};
constexpr std::array<std::string_view, 7> kFragmentFields = {
    "aliases", "global_offset", "local_shape", "nbytes", "placement_fragment_id", "rank", "tensor_id"};
constexpr std::array<std::string_view, 4> kRankFields = {"dp", "ep", "pp", "tp"};

class Reader {
 public:
  explicit Reader(std::string_view text) : cursor_(text) {}

  static Status wrong_version(std::integral auto found) {
    return contract_error(Path("schema_version"), fmt::format("unsupported schema_version {}, wanted 1", found));
  }

  Result<PlacementManifest> read() {
    if (cursor_.peek() != '{') {
      SY_RETURN_IF_ERROR(any_value());
      return contract_error(Path(), "placement JSON must be an object");
    }
    SY_RETURN_IF_ERROR(document());
    SY_RETURN_IF_ERROR(well_spelt(cursor_.expect_end()));
    builder_.set_names(model_id_, revision_, placement_id_);
    return std::move(builder_).build();
  }

 private:
  /// A cursor's error as one of the contract.
  Status well_spelt(const Status& status) const {
    if (status.ok()) return {};
    if (const std::string_view word = non_finite(); !word.empty()) return non_finite_error(word);
    return contract_error(Path(), "placement JSON: " + status.message());
  }
  template <typename T>
  Status well_spelt(const Result<T>& result) const {
    return result.ok() ? Status() : well_spelt(result.status());
  }
  /// What other writers of JSON put for a number that is none.
  std::string_view non_finite() const {
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
      if (cursor_.rest().starts_with(word)) return word;
    }
    return {};
  }
  Status non_finite_error(std::string_view word) const {
    return contract_error(Path(),
                          fmt::format("placement JSON: non-finite number {} at byte {}", word, cursor_.position()));
  }
  Status any_value() { return well_spelt(cursor_.skip_value()); }

  /// An object with exactly `fields`; `take(i)` reads the value of field i. `may_miss`: one that may be absent. A field
  /// that does not belong here is an error once the object was read, so that what is wrong with the others comes first.
  template <std::size_t n, typename Take>
  Status object(const std::array<std::string_view, n>& fields, const Path& path, const Take& take,
                std::string_view may_miss = {}) {
    SY_RETURN_IF_ERROR(well_spelt(cursor_.expect('{')));
    std::uint32_t seen = 0;
    std::string unknown;
    bool any_unknown = false;
    std::size_t next = 0;  // canonical texts have the fields in order
    bool more = !cursor_.take('}');
    while (more) {
      const auto name = cursor_.string(key_);
      SY_RETURN_IF_ERROR(well_spelt(name));
      std::size_t field = next < n && fields[next] == *name ? next : 0;
      while (field < n && fields[field] != *name) ++field;
      if (field == n) {
        if (any_unknown && unknown == *name) return duplicate(*name, path);
        if (!any_unknown) unknown = *name;
        any_unknown = true;
      } else if ((seen >> field & 1U) != 0) {
        return duplicate(*name, path);
      }
      SY_RETURN_IF_ERROR(well_spelt(cursor_.expect(':')));
      if (field == n) {
        SY_RETURN_IF_ERROR(any_value());
      } else {
        seen |= 1U << field;
        next = field + 1;
        SY_RETURN_IF_ERROR(take(field));
      }
      more = !cursor_.take('}');
      if (more) SY_RETURN_IF_ERROR(well_spelt(cursor_.expect(',')));
    }
    if (any_unknown) {
      return contract_error(path, "schema fields do not match contract: unknown field " + shown(unknown));
    }
    for (std::size_t i = 0; i < n; ++i) {
      if ((seen >> i & 1U) != 0 || fields[i] == may_miss) continue;
      return contract_error(path, "schema fields do not match contract: missing field " + shown(fields[i]));
    }
    return {};
  }

  Status duplicate(std::string_view name, const Path& path) const {
    return contract_error(path, fmt::format("duplicate JSON field {} at byte {}", shown(name), cursor_.position()));
  }

  /// The elements of an array; `wrong` says that something else stands here.
  template <typename Wrong, typename Take>
  Status array(const Wrong& wrong, const Take& take) {
    if (cursor_.peek() != '[') {
      SY_RETURN_IF_ERROR(any_value());
      return wrong();
    }
    SY_RETURN_IF_ERROR(well_spelt(cursor_.expect('[')));
    if (cursor_.take(']')) return {};
    while (true) {
      SY_RETURN_IF_ERROR(take());
      if (cursor_.take(']')) return {};
      SY_RETURN_IF_ERROR(well_spelt(cursor_.expect(',')));
    }
  }

  Status text(std::string_view& out, std::string& scratch, const Path& path) {
    if (cursor_.peek() != '"') {
      SY_RETURN_IF_ERROR(any_value());
      return not_a_string(path);
    }
    const auto read = cursor_.string(scratch);
    SY_RETURN_IF_ERROR(well_spelt(read));
    out = *read;
    return {};
  }
  Status text(std::string& out, const Path& path) {
    std::string scratch;
    std::string_view view;
    SY_RETURN_IF_ERROR(text(view, scratch, path));
    out = view;
    return {};
  }

  Status number(JsonNumber& out, const Path& path) {
    const char first = cursor_.peek();
    if (const std::string_view word = non_finite(); !word.empty()) return non_finite_error(word);
    if (first != '-' && (first < '0' || first > '9')) {
      SY_RETURN_IF_ERROR(any_value());
      return not_an_integer(path);
    }
    const auto read = cursor_.number();
    SY_RETURN_IF_ERROR(well_spelt(read));
    out = *read;
    return out.integral ? Status() : not_an_integer(path, shown_number(out));
  }
  static std::string shown_number(const JsonNumber& number) {
    constexpr std::size_t kShownDigits = 40;
    return std::string(number.text.substr(0, kShownDigits)).append(number.text.size() > kShownDigits ? "..." : "");
  }
  Status integer(std::int64_t& out, const Path& path) {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    JsonNumber read;
    SY_RETURN_IF_ERROR(number(read, path));
    if (!read.fits || read.magnitude > kMax) return beyond_63_bits(path, shown_number(read));
    out = static_cast<std::int64_t>(read.magnitude);
    if (read.negative) out = -out;
    return {};
  }
  Status integer(std::uint64_t& out, const Path& path, std::int64_t minimum) {
    JsonNumber read;
    SY_RETURN_IF_ERROR(number(read, path));
    if (read.negative && read.magnitude != 0) return below_minimum(path, minimum, shown_number(read));
    if (!read.fits) return beyond_64_bits(path, shown_number(read));
    out = read.magnitude;
    return {};
  }
  Status optional(std::optional<std::int64_t>& out, const Path& path) {
    out.reset();
    if (cursor_.take_word("null")) return {};
    std::int64_t value = 0;
    SY_RETURN_IF_ERROR(integer(value, path));
    out = value;
    return {};
  }
  Status integers(std::vector<std::int64_t>& out, const Path& path) {
    out.clear();
    return array([&] { return not_integers(path); },
                 [&]() -> Status {
                   out.emplace_back();
                   return integer(out.back(), Path(&path, out.size() - 1));
                 });
  }

  Status document() {
    const Path root;
    return object(
        kDocumentFields, root,
        [&](std::size_t field) -> Status {
          const Path path(kDocumentFields[field]);
          switch (field) {
            case 0:
              return rows(path, "PlacementFragment", [this](const Path& row) { return fragment(row); });
            case 1:
              return text(model_id_, path);
            case 2:
              return text(placement_id_, path);
            case 3:
              return text(revision_, path);
            case 4:
              return version(path);
            default:
              return rows(path, "TensorDescriptor", [this](const Path& row) { return tensor(row); });
          }
        },
        "schema_version");
  }

  Status version(const Path& path) {
    std::int64_t found = 0;
    SY_RETURN_IF_ERROR(integer(found, path));
    return found == 1 ? Status() : wrong_version(found);
  }

  template <typename Row>
  Status rows(const Path& path, std::string_view type, const Row& row) {
    std::size_t count = 0;
    return array(
        [&] { return contract_error(path, fmt::format("PlacementManifest {} must be a sequence", path.name())); },
        [&]() -> Status {
          const Path at(&path, count++);
          if (cursor_.peek() == '{') return row(at);
          SY_RETURN_IF_ERROR(any_value());
          return contract_error(at, fmt::format("PlacementManifest {} must contain {}", path.name(), type));
        });
  }

  Status tensor(const Path& path) {
    Status read = object(kTensorFields, path, [&](std::size_t field) -> Status {
      const Path at(&path, kTensorFields[field]);
      switch (field) {
        case 0:
          return text(tensor_.dtype, dtype_, at);
        case 1:
          return optional(tensor_.expert_id, at);
        case 2:
          return integers(offsets_, at);
        case 3:
          return integer(tensor_.itemsize, at);
        case 4:
          return optional(tensor_.layer_id, at);
        case 5:
          return text(tensor_.layout_fingerprint, layout_, at);
        case 6:
          return optional(tensor_.partition_dim, at);
        case 7:
          tensor_.shard_dims.reset();
          if (cursor_.take_word("null")) return {};
          SY_RETURN_IF_ERROR(integers(shapes_, at));
          tensor_.shard_dims = shapes_;
          return {};
        default:
          return text(tensor_.tensor_id, tensor_id_, at);
      }
    });
    if (!read.ok()) return read;
    tensor_.global_shape = offsets_;
    return builder_.add_tensor(tensor_);
  }

  Status fragment(const Path& path) {
    Status read = object(kFragmentFields, path, [&](std::size_t field) -> Status {
      const Path at(&path, kFragmentFields[field]);
      switch (field) {
        case 0:
          return aliases(at);
        case 1:
          return integers(offsets_, at);
        case 2:
          return integers(shapes_, at);
        case 3:
          return integer(fragment_.nbytes, at, 1);
        case 4:
          return text(fragment_.placement_fragment_id, fragment_id_, at);
        case 5:
          return rank(at);
        default:
          return text(fragment_.tensor_id, tensor_id_, at);
      }
    });
    if (!read.ok()) return read;
    fragment_.global_offset = offsets_;
    fragment_.local_shape = shapes_;
    return builder_.add_fragment(fragment_);
  }

  Status aliases(const Path& path) {
    fragment_.aliases.clear();
    return array([&] { return contract_error(path, "PlacementFragment aliases must be a sequence"); },
                 [&]() -> Status {
                   const std::size_t count = fragment_.aliases.size();
                   if (aliases_.size() == count) aliases_.emplace_back();
                   fragment_.aliases.emplace_back();
                   return text(fragment_.aliases.back(), aliases_[count], Path(&path, count));
                 });
  }

  Status rank(const Path& path) {
    if (cursor_.peek() != '{') {
      SY_RETURN_IF_ERROR(any_value());
      return contract_error(path, "rank must be a ParallelRank");
    }
    ParallelRank& out = fragment_.rank;
    const std::array<std::int64_t*, 4> parts = {&out.dp, &out.ep, &out.pp, &out.tp};
    return object(kRankFields, path,
                  [&](std::size_t field) { return integer(*parts[field], Path(&path, kRankFields[field])); });
  }

  JsonCursor cursor_;
  PlacementBuilder builder_;
  std::string model_id_;
  std::string revision_;
  std::string placement_id_;
  // One row at a time; what a row's views point into when a text has escapes.
  TensorDescriptorRow tensor_;
  PlacementFragmentRow fragment_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> shapes_;
  std::string key_;
  std::string tensor_id_;
  std::string fragment_id_;
  std::string dtype_;
  std::string layout_;
  std::deque<std::string> aliases_;
};

/// The document's schema_version, if it has one that can be found.
std::optional<std::uint64_t> find_version(std::string_view text) {
  JsonCursor cursor(text);
  std::string key;
  if (!cursor.take('{')) return std::nullopt;
  do {
    const auto name = cursor.string(key);
    if (!name.ok() || !cursor.take(':')) return std::nullopt;
    if (*name == "schema_version") {
      const auto version = cursor.unsigned_integer();
      return version.ok() ? std::optional(*version) : std::nullopt;
    }
    if (!cursor.skip_value().ok()) return std::nullopt;
  } while (cursor.take(','));
  return std::nullopt;
}

}  // namespace

Result<PlacementManifest> PlacementManifest::from_json(std::string_view text) {
  auto manifest = Reader(text).read();
  if (manifest.ok()) return manifest;
  // A document of a later version may have other fields; then the version is what is wrong with it.
  if (const auto version = find_version(text); version && *version != 1) return Reader::wrong_version(*version);
  return manifest;
}

}  // namespace steelyard::placement
