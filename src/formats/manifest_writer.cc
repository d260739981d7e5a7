// Writes a stored manifest in its canonical form. Fields stand in the order of their names.
#include "base/limits.h"
#include "base/units.h"
#include "formats/canonical_json.h"
#include "formats/manifest_fields.h"
#include "formats/stored_manifest.h"
#include "hash/xxh3.h"

namespace steelyard::formats {
namespace {

class ManifestWriter {
 public:
  explicit ManifestWriter(const StoredManifest& manifest) : manifest_(manifest), json_(out_) {}

  std::string write() {
    reserve();
    json_.begin_object();
    json_.field("chunk_bytes", manifest_.chunk_bytes);
    json_.field("created_at", format_rfc3339(manifest_.created_at_ms));
    list("files", manifest_.files, [this](const FileEntry& file) { write_file(file); });
    list("fragments", manifest_.fragments, [this](const FragmentEntry& fragment) { write_fragment(fragment); });
    json_.field("group_id", payload_group_id(manifest_.identity));
    write_identity();
    list("objects", manifest_.objects, [this](const ObjectEntry& object) { write_object(object); });
    list("runs", manifest_.runs, [this](const Run& run) { write_run(run); });
    json_.field("schema_version", manifest_fields::kSchemaVersion);
    json_.key("source");
    json_.begin_object();
    for (const auto& [name, value] : manifest_.source) json_.field(name, value);
    json_.end_object();
    json_.key("tensors");
    json_.begin_array();
    for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) write_tensor(manifest_.tensors.row(i));
    json_.end_array();
    json_.end_object();
    return std::move(out_);
  }

 private:
  template <typename T, typename Write>
  void list(std::string_view name, const std::vector<T>& items, const Write& write) {
    json_.key(name);
    json_.begin_array();
    for (const T& item : items) write(item);
    json_.end_array();
  }

  /// Growing a text of hundreds of megabytes by doubling costs a second copy of it. Memory that is reserved and not
  /// written costs none.
  void reserve() {
    std::size_t bytes = 4096;
    for (const ObjectEntry& object : manifest_.objects) bytes += 120 + 16 * object.blocks.size();
    for (const FileEntry& file : manifest_.files) bytes += 160 + file.path.size() + 60 * file.pieces.size();
    bytes += manifest_.tensors.size() * 160 + manifest_.tensors.name_bytes();
    bytes += manifest_.fragments.size() * 200;
    out_.reserve(bytes);
  }

  void integers(std::span<const std::int64_t> values) {
    json_.begin_array();
    for (const std::int64_t value : values) json_.integer(value);
    json_.end_array();
  }

  void write_identity() {
    const Lineage& lineage = manifest_.identity.lineage;
    json_.key("identity");
    json_.begin_object();
    json_.field("namespace", lineage.namespace_id);
    json_.field("resource_id", lineage.resource_id);
    json_.field("revision", lineage.revision);
    json_.field("tenant_id", lineage.tenant_id);
    json_.field("weight_generation", manifest_.identity.weight_generation);
    json_.end_object();
  }

  void write_run(const Run& run) {
    json_.begin_object();
    json_.field("bytes", run.bytes);
    json_.field("chunk_bytes", run.chunk_bytes);
    json_.field("first_object", run.first_object);
    json_.field("objects", run.objects);
    json_.end_object();
  }

  void write_object(const ObjectEntry& object) {
    blocks_.clear();
    for (const std::uint64_t sum : object.blocks) blocks_ += hash::xxh3_hex(sum);
    json_.begin_object();
    json_.field("blocks", blocks_);
    json_.field("bytes", object.bytes);
    json_.field("sha256", object.sha256.hex());
    json_.end_object();
  }

  void write_file(const FileEntry& file) {
    json_.begin_object();
    json_.field("bytes", file.bytes);
    json_.field("kind", file.kind == FileKind::kWeight ? manifest_fields::kKindWeight : manifest_fields::kKindMetadata);
    json_.field("path", file.path);
    list("pieces", file.pieces, [this](const Piece& piece) {
      json_.begin_object();
      json_.field("bytes", piece.bytes);
      json_.field("offset", piece.offset);
      json_.field("run", piece.run);
      json_.end_object();
    });
    json_.field("sha256", file.sha256.hex());
    json_.end_object();
  }

  void write_tensor(const TensorRow& row) {
    json_.begin_object();
    if (!row.aliases.empty()) {
      json_.key("aliases");
      json_.begin_array();
      for (const std::string_view alias : row.aliases) json_.string(alias);
      json_.end_array();
    }
    if (row.place) json_.field("bytes", row.place->bytes);
    json_.field("dtype", row.dtype);
    if (row.expert_id) json_.field("expert_id", *row.expert_id);
    if (row.layer_id) json_.field("layer_id", *row.layer_id);
    json_.field("layout_fingerprint", row.layout_fingerprint);
    if (row.place) {
      json_.field("offset", row.place->offset);
      json_.field("run", row.place->run);
    }
    json_.key("shape");
    integers(row.shape);
    json_.field("tensor_id", row.tensor_id);
    json_.end_object();
  }

  void write_fragment(const FragmentEntry& fragment) {
    json_.begin_object();
    json_.field("bytes", fragment.place.bytes);
    json_.key("global_offset");
    integers(fragment.global_offset);
    json_.key("local_shape");
    integers(fragment.local_shape);
    json_.field("offset", fragment.place.offset);
    json_.field("run", fragment.place.run);
    json_.field("tensor_id", fragment.tensor_id);
    json_.end_object();
  }

  const StoredManifest& manifest_;
  std::string out_;
  CanonicalJsonWriter json_;
  std::string blocks_;
};

}  // namespace

Result<std::string> write_manifest(const StoredManifest& manifest) {
  if (auto problem = find_manifest_problem(manifest)) {
    return Status(Code::kInvalidArgument, "manifest: " + *problem);
  }
  std::string text = ManifestWriter(manifest).write();
  if (text.size() > limits::kManifestBytesMax) {
    return Status(Code::kInvalidArgument, "manifest: has " + std::to_string(text.size()) + " bytes; wanted at most " +
                                              std::to_string(limits::kManifestBytesMax));
  }
  return text;
}

}  // namespace steelyard::formats
