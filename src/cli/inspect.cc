// inspect REF
#include <algorithm>
#include <set>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "formats/safetensors.h"

namespace steelyard::cli {
namespace {

using formats::FileEntry;
using formats::StoredManifest;
using store::Inspection;

constexpr std::string_view kManifestFormat = "canonical_utf8";

constexpr FlagSpec kFlags[] = {
    {.name = "--files", .placeholder = {}, .help = "list every file"},
    {.name = "--tensors", .placeholder = {}, .help = "list every tensor"},
    kAllowDegraded,
};

/// Payload objects that hold bytes of the file.
std::uint64_t objects_of(const StoredManifest& manifest, const FileEntry& file) {
  std::set<std::uint32_t> objects;
  for (const formats::Piece& piece : file.pieces) {
    for (const auto& range : formats::ranges_of(manifest.runs[piece.run], piece.offset, piece.bytes)) {
      objects.insert(range.object);
    }
  }
  return objects.size();
}

/// Which file holds a place of a run.
class PlaceMap {
 public:
  explicit PlaceMap(const StoredManifest& manifest) {
    for (const FileEntry& file : manifest.files) {
      for (const formats::Piece& piece : file.pieces)
        pieces_.push_back({piece.run, piece.offset, piece.bytes, &file.path});
    }
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Entry& a, const Entry& b) { return std::pair(a.run, a.offset) < std::pair(b.run, b.offset); });
  }
  /// Null where no file holds it. A tensor without bytes may lie at the end of its file.
  const std::string* find(const formats::TensorPlace& place) const {
    auto at =
        std::upper_bound(pieces_.begin(), pieces_.end(), std::pair(place.run, place.offset),
                         [](const auto& key, const Entry& entry) { return key < std::pair(entry.run, entry.offset); });
    if (at == pieces_.begin()) return nullptr;
    --at;
    if (at->run != place.run || place.offset - at->offset > at->bytes) return nullptr;
    return at->path;
  }

 private:
  struct Entry {
    std::uint32_t run;
    std::uint64_t offset;
    std::uint64_t bytes;
    const std::string* path;
  };
  std::vector<Entry> pieces_;
};

/// Bytes of a tensor, whether it is stored whole or cut; absent for a cut one of an unknown dtype.
std::optional<std::uint64_t> bytes_of(const formats::TensorRow& row) {
  if (row.place) return row.place->bytes;
  const auto bits = formats::dtype_bits(row.dtype);
  if (!bits) return std::nullopt;
  std::uint64_t total = *bits;
  for (std::int64_t extent : row.shape) {
    if (extent < 0 || __builtin_mul_overflow(total, static_cast<std::uint64_t>(extent), &total)) return std::nullopt;
  }
  return total / 8;
}

void write_tensors(Json& json, const StoredManifest& manifest) {
  const PlaceMap places(manifest);
  json.key("tensors").begin_array();
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const formats::TensorRow row = manifest.tensors.row(i);
    json.begin_object().key("name").string(row.tensor_id).key("dtype").string(row.dtype).key("shape").begin_array();
    for (std::int64_t extent : row.shape) json.signed_integer(extent);
    json.end_array().key("bytes");
    if (const auto bytes = bytes_of(row)) {
      json.integer(*bytes);
    } else {
      json.null();
    }
    const std::string* path = row.place ? places.find(*row.place) : nullptr;
    json.key("file").string_or_null(path != nullptr ? *path : std::string()).end_object();
  }
  json.end_array();
}

/// Which memory the record speaks of, and which is mounted here.
void write_memory(Json& json, const Inspection& inspection) {
  const metadata::RevisionRecord& record = inspection.record;
  json.key("memory").begin_object();
  write_instances(json, inspection.hot_instance, record.hot_instance, inspection.hot_unknown.ok());
  json.key("recorded_objects").integer(record.hot_members);
  json.key("hot_ratio");
  write_ratio(json, record.hot_millionths);
  json.end_object();
}

void print_json(Invocation& call, const Inspection& inspection, const Status& waiting) {
  Json json;
  begin_document(json).key("revision");
  write_revision(json, inspection.record, inspection.active_leases);
  json.key("manifest");
  if (inspection.manifest) {
    const StoredManifest& manifest = *inspection.manifest;
    json.begin_object().key("format").string(kManifestFormat).key("files").begin_array();
    for (const FileEntry& file : manifest.files) {
      json.begin_object().key("path").string(file.path).key("kind").string(kind_name(file.kind));
      json.key("bytes").integer(file.bytes).key("sha256").string(file.sha256.hex());
      json.key("objects").integer(objects_of(manifest, file)).end_object();
    }
    json.end_array().key("tensor_count").integer(manifest.tensors.size());
    if (call.has("--tensors")) write_tensors(json, manifest);
    json.end_object();
  } else {
    json.null();
  }
  json.key("replicas").begin_object();
  json.key("cold").begin_object().key("objects").integer(inspection.cold_objects);
  json.key("bytes").integer(inspection.cold_bytes).end_object();
  json.key("hot").begin_object().key("objects").integer(inspection.hot_objects);
  json.key("bytes").integer(inspection.hot_bytes).end_object().end_object();
  write_memory(json, inspection);
  json.key("leases").begin_array();
  for (const auto& row : inspection.leases) write_lease(json, row.lease, row.left_ms, false);
  json.end_array().key("operation");
  write_operation(json, inspection.operation ? inspection.operation->operation : inspection.record.operation);
  write_runner(json, inspection.operation);
  write_waiting(json, waiting);
  json.key("read_only").boolean(inspection.read_only).end_object();
  call.out().line(json.text());
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

/// As a line of `inspect`; `operation show ID` tells the rest.
std::string operation_line(const metadata::Operation& operation) {
  std::string line = operation.operation_id + "  " + std::string(name_of(operation.kind)) + " " +
                     std::string(name_of(operation.state)) + ", " +
                     part_words(operation.processed_members, operation.total_members, "object");
  if (!operation.message.empty()) line += ": " + printable(operation.message);
  return line;
}

/// What of it lies in memory. A record may name a memory that others mount, or that is gone.
std::string hot_line(const Inspection& inspection) {
  const std::uint64_t all = inspection.record.summary.payload_count;
  const bool is_part = inspection.hot_objects > 0 && inspection.hot_objects < all;
  std::string line =
      (is_part ? part_words(inspection.hot_objects, all, "object") : counted(inspection.hot_objects, "object")) + ", " +
      format_size(inspection.hot_bytes);
  if (inspection.hot_objects > 0) line += "; memory instance " + inspection.hot_instance;
  if (!inspection.hot_unknown.ok()) {
    return line + "; the record counts " + std::to_string(inspection.record.hot_members) + " in memory instance " +
           inspection.record.hot_instance +
           ", and what is mounted here cannot be read: " + printable(inspection.hot_unknown.message());
  }
  if (!inspection.hot_elsewhere && inspection.hot_objects < inspection.record.hot_members) {
    line += "; the record counts " + std::to_string(inspection.record.hot_members) + " there: `steelyard reconcile " +
            ref_of(inspection.record) + "` records what is there";
  }
  if (inspection.hot_elsewhere) {
    line += "; the record names memory instance " + inspection.record.hot_instance + ", which is not mounted here";
    if (inspection.hot_stray) {
      line += "; nobody reads what lies here: `steelyard evict " + ref_of(inspection.record) + "` frees it";
    }
  }
  return line;
}

void print_record(Invocation& call, const Inspection& inspection, const Status& waiting) {
  const metadata::RevisionRecord& record = inspection.record;
  auto row = [&call](std::string_view name, const std::string& value) {
    std::string line(name);
    line.append(14 - name.size(), ' ');
    call.out().line(line + value);
  };
  row("ref", ref_of(record));
  if (record.identity.lineage.tenant_id != "default" || record.identity.lineage.namespace_id != "default") {
    row("namespace", printable(record.identity.lineage.namespace_id));
    row("tenant", printable(record.identity.lineage.tenant_id));
  }
  std::string state(name_of(record.availability));
  if (record.availability != metadata::Availability::kDeleted) state += ", " + residency_words(record);
  const metadata::Operation* running = inspection.operation ? &inspection.operation->operation
                                       : record.operation   ? &*record.operation
                                                            : nullptr;
  if (running != nullptr) state += ", " + operation_words(*running);
  row("state", state);
  if (record.damage.count > 0)
    row("damaged", counted(record.damage.count, "object") + "; `steelyard verify` names them");
  row("size", format_size(record.summary.logical_bytes) + " in " + counted(record.summary.payload_count, "object"));
  if (inspection.manifest) {
    row("files", std::to_string(inspection.manifest->files.size()));
    row("tensors", std::to_string(inspection.manifest->tensors.size()));
  }
  row("record", "metadata_generation " + std::to_string(record.metadata_generation));
  row("created", format_rfc3339(record.created_at_ms));
  row("updated", format_rfc3339(record.updated_at_ms));
  if (const std::string policy = policy_words(record.policy); !policy.empty()) row("policy", policy);
  if (!waiting.ok()) row("waiting", status_words(waiting));
  if (!record.summary.manifest_sha256.empty()) row("manifest", "sha256 " + record.summary.manifest_sha256);
  for (const auto& [key, value] : record.labels) row("label", printable(key) + "=" + printable(value));
  if (inspection.writer) {
    row("writer", inspection.writer->token.empty()
                      ? "none; the same import resumes it"
                      : printable(inspection.writer->holder) + ", attempt " + std::to_string(record.import_attempt));
  }
  const bool published = is_published(record.availability);
  const std::uint64_t members = record.summary.payload_count + 1;
  std::string cold = counted(inspection.cold_objects, "object") + ", " + format_size(inspection.cold_bytes);
  if (published && inspection.cold_objects < members) {
    cold += "; " + std::to_string(members - inspection.cold_objects) + " of " + counted(members, "object") +
            " missing: `steelyard reconcile " + ref_of(record) + "` records it";
  }
  row("cold", cold);
  if (inspection.hot_objects > 0 || !record.hot_instance.empty()) row("hot", hot_line(inspection));
  if (running != nullptr) row("operation", operation_line(*running));
  if (inspection.operation) row("runner", runner_words(*inspection.operation));
  for (auto ended = record.finished_operations.rbegin(); ended != record.finished_operations.rend(); ++ended) {
    row("ended", operation_line(*ended));
  }
  for (const auto& lease : inspection.leases) {
    row("lease",
        lease.lease.lease_id + "  " + printable(lease.lease.holder) + ", " + format_age(lease.left_ms) + " left");
  }
  if (inspection.read_only) row("store", "read-only");
}

void print_human(Invocation& call, const Inspection& inspection, const Status& waiting) {
  print_record(call, inspection, waiting);
  if (!inspection.manifest) return;
  const StoredManifest& manifest = *inspection.manifest;
  if (call.has("--files")) {
    Table table({{"FILE"}, {"KIND"}, {"SIZE", true}, {.heading = "SHA256", .first_to_cut = true}});
    for (const FileEntry& file : manifest.files) {
      table.add({printable(file.path), kind_name(file.kind), format_size(file.bytes), file.sha256.hex()});
    }
    call.out().line("");
    call.out().write(table.render(terminal()));
  }
  if (call.has("--tensors")) {
    const PlaceMap places(manifest);
    Table table({{"TENSOR"}, {"DTYPE"}, {"SHAPE"}, {"SIZE", true}, {"FILE"}});
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
      const formats::TensorRow row = manifest.tensors.row(i);
      const std::string* path = row.place ? places.find(*row.place) : nullptr;
      const auto bytes = bytes_of(row);
      table.add({printable(row.tensor_id), printable(row.dtype), shape_text(row.shape),
                 bytes ? format_size(*bytes) : "?", path != nullptr ? printable(*path) : ""});
    }
    call.out().line("");
    call.out().write(table.render(terminal()));
  }
}

void print_quiet(Invocation& call, const Inspection& inspection) {
  if (inspection.manifest && call.has("--files")) {
    for (const FileEntry& file : inspection.manifest->files) call.out().line(printable(file.path));
  } else if (inspection.manifest && call.has("--tensors")) {
    for (std::size_t i = 0; i < inspection.manifest->tensors.size(); ++i) {
      call.out().line(printable(inspection.manifest->tensors.row(i).tensor_id));
    }
  } else {
    call.out().line(ref_of(inspection.record));
  }
}

Status run_inspect(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  SY_ASSIGN_OR_RETURN(const Inspection inspection, store->inspect(selector));
  if (call.json()) {
    print_json(call, inspection, store->why_it_waits(inspection.record));
  } else if (call.quiet()) {
    print_quiet(call, inspection);
  } else {
    print_human(call, inspection, store->why_it_waits(inspection.record));
  }
  return {};
}

}  // namespace

constinit const VerbSpec kInspectVerb = {.name = "inspect",
                                         .operands = "REF",
                                         .operands_min = 1,
                                         .operands_max = 1,
                                         .summary = "a revision's record, files, replicas and leases",
                                         .prints = "text",
                                         .flags = kFlags,
                                         .run = run_inspect};

}  // namespace steelyard::cli
