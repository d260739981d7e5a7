// Reads a stored manifest. The text must be the canonical form; the values must pass the validator.
#include "base/limits.h"
#include "base/units.h"
#include "formats/canonical_json.h"
#include "formats/manifest_fields.h"
#include "formats/stored_manifest.h"

namespace steelyard::formats {
namespace {

namespace fields = manifest_fields;

class ManifestReader {
 public:
  explicit ManifestReader(std::string_view text) : json_(text) {}

  Result<StoredManifest> read() {
    if (read_top() && json_.end()) return std::move(manifest_);
    return Status(Code::kCorrupt, "manifest: " + json_.error());
  }

 private:
  bool read_top() {
    return json_.begin_object(fields::kTop) && json_.key("chunk_bytes") && json_.integer(manifest_.chunk_bytes) &&
           json_.key("created_at") && read_created_at() && json_.key("files") && read_files() &&
           json_.key("fragments") && read_fragments() && json_.key("group_id") && text(group_id_) &&
           json_.key("identity") && read_identity() && json_.key("objects") && read_objects() && json_.key("runs") &&
           read_runs() && json_.key("schema_version") && read_schema_version() && json_.key("source") &&
           read_source() && json_.key("tensors") && read_tensors() && json_.end_object();
  }

  bool text(std::string& out) {
    std::string_view view;
    if (!json_.string(view)) return false;
    out = view;
    return true;
  }

  bool digest(Digest& out) {
    std::string_view hex;
    if (!json_.string(hex)) return false;
    return from_hex(hex, out.bytes) || json_.refuse("found no SHA-256; wanted 64 lower-case hex digits");
  }

  bool integers(std::vector<std::int64_t>& out) {
    out.clear();
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      std::int64_t value = 0;
      if (!json_.integer(value)) return false;
      out.push_back(value);
    }
    return !json_.failed();
  }

  bool read_created_at() {
    std::string_view time;
    if (!json_.string(time)) return false;
    const Result<std::int64_t> ms = parse_rfc3339(time);
    if (!ms.ok() || *ms < 0) return json_.refuse("wanted a time like 2026-01-02T03:04:05.678Z");
    manifest_.created_at_ms = *ms;
    return true;
  }

  bool read_schema_version() {
    std::uint64_t version = 0;
    if (!json_.integer(version)) return false;
    return version == fields::kSchemaVersion ||
           json_.refuse("found " + std::to_string(version) + "; wanted 1, the only version this program reads");
  }

  bool read_identity() {
    Identity& identity = manifest_.identity;
    if (!(json_.begin_object(fields::kIdentity) && json_.key("namespace") && text(identity.lineage.namespace_id) &&
          json_.key("resource_id") && text(identity.lineage.resource_id) && json_.key("revision") &&
          text(identity.lineage.revision) && json_.key("tenant_id") && text(identity.lineage.tenant_id) &&
          json_.key("weight_generation") && json_.integer(identity.weight_generation) && json_.end_object())) {
      return false;
    }
    if (Status status = validate(identity); !status.ok()) return json_.refuse(status.message());
    const std::string wanted = payload_group_id(identity);
    return group_id_ == wanted ||
           json_.refuse("its group_id is " + wanted + ", but the manifest says \"" + group_id_.substr(0, 100) + "\"");
  }

  bool read_source() {
    if (!json_.begin_map()) return false;
    std::string name;
    while (json_.next_entry(name)) {
      if (manifest_.source.size() == limits::kSourceFactsMax) {
        return json_.refuse("found more than " + std::to_string(limits::kSourceFactsMax) + " facts");
      }
      manifest_.source.emplace_back(name, std::string());
      if (!text(manifest_.source.back().second)) return false;
    }
    return !json_.failed();
  }

  bool read_runs() {
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      Run& run = manifest_.runs.emplace_back();
      if (!(json_.begin_object(fields::kRun) && json_.key("bytes") && json_.integer(run.bytes) &&
            json_.key("chunk_bytes") && json_.integer(run.chunk_bytes) && json_.key("first_object") &&
            json_.integer(run.first_object) && json_.key("objects") && json_.integer(run.objects) &&
            json_.end_object())) {
        return false;
      }
    }
    return !json_.failed();
  }

  bool blocks(std::vector<std::uint64_t>& out) {
    constexpr std::size_t kDigits = 16;
    std::string_view hex;
    if (!json_.string(hex)) return false;
    if (hex.size() % kDigits != 0) {
      return json_.refuse("found " + std::to_string(hex.size()) + " digits; wanted 16 for each block");
    }
    out.reserve(hex.size() / kDigits);
    for (; !hex.empty(); hex.remove_prefix(kDigits)) {
      std::array<std::byte, 8> bytes;
      if (!from_hex(hex.substr(0, kDigits), bytes)) return json_.refuse("wanted only lower-case hex digits");
      std::uint64_t sum = 0;
      for (const std::byte byte : bytes) sum = sum << 8 | std::to_integer<std::uint64_t>(byte);
      out.push_back(sum);
    }
    return true;
  }

  bool read_objects() {
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      if (manifest_.objects.size() == limits::kManifestObjectsMax) {
        return json_.refuse("wanted at most " + std::to_string(limits::kManifestObjectsMax) + " objects");
      }
      ObjectEntry& object = manifest_.objects.emplace_back();
      if (!(json_.begin_object(fields::kObject) && json_.key("blocks") && blocks(object.blocks) && json_.key("bytes") &&
            json_.integer(object.bytes) && json_.key("sha256") && digest(object.sha256) && json_.end_object())) {
        return false;
      }
    }
    return !json_.failed();
  }

  bool read_kind(FileKind& kind) {
    std::string_view name;
    if (!json_.string(name)) return false;
    kind = name == fields::kKindWeight ? FileKind::kWeight : FileKind::kMetadata;
    return name == fields::kKindWeight || name == fields::kKindMetadata ||
           json_.refuse("wanted \"weight\" or \"metadata\"");
  }

  bool read_pieces(std::vector<Piece>& pieces) {
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      Piece& piece = pieces.emplace_back();
      if (!(json_.begin_object(fields::kPiece) && json_.key("bytes") && json_.integer(piece.bytes) &&
            json_.key("offset") && json_.integer(piece.offset) && json_.key("run") && json_.integer(piece.run) &&
            json_.end_object())) {
        return false;
      }
    }
    return !json_.failed();
  }

  bool read_files() {
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      FileEntry& file = manifest_.files.emplace_back();
      if (!(json_.begin_object(fields::kFile) && json_.key("bytes") && json_.integer(file.bytes) && json_.key("kind") &&
            read_kind(file.kind) && json_.key("path") && text(file.path) && json_.key("pieces") &&
            read_pieces(file.pieces) && json_.key("sha256") && digest(file.sha256) && json_.end_object())) {
        return false;
      }
    }
    return !json_.failed();
  }

  bool read_aliases() {
    aliases_.clear();
    if (!json_.optional_key("aliases")) return !json_.failed();
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      if (!text(aliases_.emplace_back())) return false;
    }
    if (json_.failed()) return false;
    return !aliases_.empty() || json_.refuse("found no alias; wanted the field left away");
  }

  bool optional_integer(std::string_view name, std::optional<std::int64_t>& out) {
    out.reset();
    if (!json_.optional_key(name)) return !json_.failed();
    return json_.integer(out.emplace());
  }

  bool read_tensor() {
    TensorRow row;
    TensorPlace place;
    if (!json_.begin_object(fields::kTensor) || !read_aliases()) return false;
    const bool whole = json_.optional_key("bytes");
    if (whole && !json_.integer(place.bytes)) return false;
    if (!(json_.key("dtype") && text(dtype_) && optional_integer("expert_id", row.expert_id) &&
          optional_integer("layer_id", row.layer_id) && json_.key("layout_fingerprint") && text(layout_))) {
      return false;
    }
    if (whole) {
      if (!(json_.key("offset") && json_.integer(place.offset) && json_.key("run") && json_.integer(place.run))) {
        return false;
      }
      row.place = place;
    } else if (json_.optional_key("offset") || json_.optional_key("run")) {
      return json_.refuse("found a place without \"bytes\"; wanted bytes, offset and run together or none of them");
    }
    std::string_view name;
    if (!(json_.key("shape") && integers(shape_) && json_.key("tensor_id") && json_.string(name) &&
          json_.end_object())) {
      return false;
    }
    row.tensor_id = name;
    row.dtype = dtype_;
    row.layout_fingerprint = layout_;
    row.shape = shape_;
    row.aliases.assign(aliases_.begin(), aliases_.end());
    manifest_.tensors.add(row);
    return true;
  }

  bool read_tensors() {
    if (!json_.begin_array()) return false;
    const std::size_t before = json_.remaining();
    while (json_.next_element()) {
      if (manifest_.tensors.size() == limits::kManifestTensorsMax) {
        return json_.refuse("wanted at most " + std::to_string(limits::kManifestTensorsMax) + " tensors");
      }
      if (!read_tensor()) return false;
      if (manifest_.tensors.size() == kSampleRows) reserve_like_sample(before - json_.remaining());
    }
    return !json_.failed();
  }

  /// Tensors are the last field, so the first rows foretell how many there are: the columns then need not grow by
  /// doubling. A wrong guess costs a growth or some unused address space.
  void reserve_like_sample(std::size_t sample_bytes) {
    const std::size_t rows = json_.remaining() / sample_bytes * kSampleRows * 5 / 4 + 2 * kSampleRows;
    manifest_.tensors.reserve(rows, rows * (manifest_.tensors.name_bytes() / kSampleRows + 1));
  }

  bool read_fragments() {
    if (!json_.begin_array()) return false;
    while (json_.next_element()) {
      FragmentEntry& fragment = manifest_.fragments.emplace_back();
      if (!(json_.begin_object(fields::kFragment) && json_.key("bytes") && json_.integer(fragment.place.bytes) &&
            json_.key("global_offset") && integers(fragment.global_offset) && json_.key("local_shape") &&
            integers(fragment.local_shape) && json_.key("offset") && json_.integer(fragment.place.offset) &&
            json_.key("run") && json_.integer(fragment.place.run) && json_.key("tensor_id") &&
            text(fragment.tensor_id) && json_.end_object())) {
        return false;
      }
    }
    return !json_.failed();
  }

  static constexpr std::size_t kSampleRows = 1024;

  CanonicalJsonReader json_;
  StoredManifest manifest_;
  std::string group_id_;
  // Reused for every tensor.
  std::string dtype_;
  std::string layout_;
  std::vector<std::string> aliases_;
  std::vector<std::int64_t> shape_;
};

}  // namespace

Result<StoredManifest> read_manifest(std::string_view json) {
  if (json.size() > limits::kManifestBytesMax) {
    return Status(Code::kCorrupt, "manifest: has " + std::to_string(json.size()) + " bytes; wanted at most " +
                                      std::to_string(limits::kManifestBytesMax));
  }
  SY_ASSIGN_OR_RETURN(StoredManifest manifest, ManifestReader(json).read());
  if (auto problem = find_manifest_problem(manifest)) return Status(Code::kCorrupt, "manifest: " + *problem);
  return manifest;
}

}  // namespace steelyard::formats
