#include "placement/identity.h"

#include <optional>

#include "base/limits.h"
#include "hash/sha256.h"

namespace steelyard::placement {
namespace {

using formats::CanonicalForm;
using formats::CanonicalJsonWriter;

void integers(CanonicalJsonWriter& json, std::string_view name, std::span<const std::int64_t> values) {
  json.key(name);
  json.begin_array();
  for (const std::int64_t value : values) json.integer(value);
  json.end_array();
}

void optional(CanonicalJsonWriter& json, std::string_view name, std::optional<std::int64_t> value) {
  json.key(name);
  value ? json.integer(*value) : json.null();
}

void rank_field(CanonicalJsonWriter& json, const ParallelRank& rank) {
  json.key("rank");
  json.begin_object();
  json.field("dp", rank.dp);
  json.field("ep", rank.ep);
  json.field("pp", rank.pp);
  json.field("tp", rank.tp);
  json.end_object();
}

/// The fields that stand before the id.
template <typename AliasAt>
void box_fields(CanonicalJsonWriter& json, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
                std::uint64_t nbytes, std::size_t aliases, const AliasAt& alias_at) {
  json.key("aliases");
  json.begin_array();
  for (std::size_t i = 0; i < aliases; ++i) json.string(alias_at(i));
  json.end_array();
  integers(json, "global_offset", offset);
  integers(json, "local_shape", shape);
  json.field("nbytes", nbytes);
}

void tensor_object(CanonicalJsonWriter& json, const TensorDescriptorRow& tensor) {
  json.begin_object();
  json.field("dtype", tensor.dtype);
  optional(json, "expert_id", tensor.expert_id);
  integers(json, "global_shape", tensor.global_shape);
  json.field("itemsize", tensor.itemsize);
  optional(json, "layer_id", tensor.layer_id);
  json.field("layout_fingerprint", tensor.layout_fingerprint);
  optional(json, "partition_dim", tensor.partition_dim);
  integers(json, "shard_dims", effective_shard_dims(tensor));
  json.field("tensor_id", tensor.tensor_id);
  json.end_object();
}

/// Writes the parts of the document; `flush` may take what was written so far and empty the text.
class Document {
 public:
  explicit Document(std::string& text) : json_(text, CanonicalForm::kAscii) {}

  template <typename Flush>
  void fragments(const PlacementContent& content, const Flush& flush) {
    json_.begin_object();
    json_.key("fragments");
    json_.begin_array();
    const BoxColumns& boxes = content.fragments.boxes;
    for (std::size_t i = 0; i < content.fragments.size(); ++i) {
      json_.begin_object();
      box_fields(json_, boxes.offset(i), boxes.shape(i), boxes.nbytes(i), boxes.alias_count(i),
                 [&](std::size_t alias) { return boxes.alias(i, alias); });
      json_.field("placement_fragment_id", content.fragments.ids.at(i));
      rank_field(json_, boxes.rank(i));
      json_.field("tensor_id", content.tensors.tensor_id(boxes.tensor(i)));
      json_.end_object();
      flush();
    }
    json_.end_array();
    json_.field("model_id", content.model_id);
  }

  template <typename Flush>
  void tensors(const PlacementContent& content, const Flush& flush) {
    json_.key("tensors");
    json_.begin_array();
    for (std::size_t i = 0; i < content.tensors.size(); ++i) {
      tensor_object(json_, content.tensors.row(i));
      flush();
    }
    json_.end_array();
    json_.end_object();
  }

  CanonicalJsonWriter& json() { return json_; }

 private:
  CanonicalJsonWriter json_;
};

constexpr std::size_t kFlushBytes = 256 * limits::kKiB;

/// The text of the tensors, in pieces, to `take`.
template <typename Take>
void tensors_text(const PlacementContent& content, Document document, std::string& text, const Take& take) {
  document.tensors(content, [&] {
    if (text.size() < kFlushBytes) return;
    take(text);
    text.clear();
  });
  take(text);
}

}  // namespace

// The three documents begin with the same fragments and end with the same tensors; they differ in between. So what is
// common at the beginning is digested once, and the two ends that are known at the same time are digested together.
PlacementIdentity identify(const PlacementContent& content) {
  std::string text;
  hash::Sha256 head;
  Document document(text);
  document.fragments(content, [&] {
    if (text.size() < kFlushBytes) return;
    head.update(as_bytes(text));
    text.clear();
  });
  head.update(as_bytes(text));
  text.clear();

  hash::Sha256 id = head;
  hash::Sha256 layout = head;
  hash::Sha256 whole = head;
  {
    Document placement = document;
    placement.json().field("revision", content.revision);
    placement.json().field("schema", "weight-placement");
    id.update(as_bytes(text));
    text.clear();
    Document plain = document;
    plain.json().field("schema", "weight-layout");
    layout.update(as_bytes(text));
    text.clear();
    tensors_text(content, plain, text, [&](const std::string& piece) {
      hash::Sha256::update_two(id, as_bytes(piece), layout, as_bytes(piece));
    });
    text.clear();
  }
  PlacementIdentity identity;
  identity.placement_id = "sha256:" + id.finish().hex();
  identity.layout_digest = layout.finish().hex();
  document.json().field("placement_id", identity.placement_id);
  document.json().field("revision", content.revision);
  tensors_text(content, document, text, [&](const std::string& piece) { whole.update(as_bytes(piece)); });
  identity.digest = whole.finish().hex();
  return identity;
}

std::string write_placement(const PlacementContent& content, std::string_view placement_id) {
  std::string text;
  // Close to what a row takes beside its texts; growing once more does no harm.
  text.reserve(content.fragments.size() * 190 + 2 * content.fragments.ids.text_bytes() + content.tensors.size() * 260);
  Document document(text);
  const auto keep = [] {};
  document.fragments(content, keep);
  document.json().field("placement_id", placement_id);
  document.json().field("revision", content.revision);
  document.json().field("schema_version", std::int64_t{1});
  document.tensors(content, keep);
  return text;
}

std::string logical_fragment_text(const PlacementFragmentRow& row) {
  std::string text;
  CanonicalJsonWriter json(text, CanonicalForm::kAscii);
  json.begin_object();
  box_fields(json, row.global_offset, row.local_shape, row.nbytes, row.aliases.size(),
             [&](std::size_t alias) { return row.aliases[alias]; });
  rank_field(json, row.rank);
  json.field("tensor_id", row.tensor_id);
  json.end_object();
  return text;
}

}  // namespace steelyard::placement
