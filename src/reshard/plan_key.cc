#include "reshard/plan_key.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "formats/canonical_json.h"
#include "hash/sha256.h"

namespace steelyard::reshard {
namespace {

using formats::CanonicalJsonWriter;

void write_numbers(CanonicalJsonWriter& json, std::span<const std::int64_t> numbers) {
  json.begin_array();
  for (const std::int64_t number : numbers) json.integer(number);
  json.end_array();
}

void write_co_plans(CanonicalJsonWriter& json, const std::vector<CoPlan>& co_plans) {
  json.begin_array();
  for (const CoPlan& pair : co_plans) {
    json.begin_object();
    json.key("block_shape");
    write_numbers(json, pair.block_shape);
    json.field("scale_id", pair.scale_id);
    json.field("weight_id", pair.weight_id);
    json.end_object();
  }
  json.end_array();
}

void write_locality(CanonicalJsonWriter& json, const std::vector<Locality>& locality) {
  std::vector<const Locality*> sorted;
  for (const Locality& entry : locality) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const Locality* a, const Locality* b) {
    return std::tie(a->side, a->rank) < std::tie(b->side, b->rank);
  });
  json.begin_array();
  for (const Locality* entry : sorted) {
    json.begin_object();
    json.field("endpoint", entry->endpoint);
    json.key("rank");
    json.begin_object();
    json.field("dp", entry->rank.dp);
    json.field("ep", entry->rank.ep);
    json.field("pp", entry->rank.pp);
    json.field("tp", entry->rank.tp);
    json.end_object();
    json.field("side", std::string_view(entry->side == Side::kSource ? "source" : "target"));
    json.field("worker_id", entry->worker_id);
    json.end_object();
  }
  json.end_array();
}

void write_views(CanonicalJsonWriter& json, const std::vector<TensorView>& views) {
  std::vector<const TensorView*> sorted;
  for (const TensorView& view : views) sorted.push_back(&view);
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorView* a, const TensorView* b) { return a->tensor_id < b->tensor_id; });
  json.begin_array();
  for (const TensorView* view : sorted) {
    json.begin_object();
    json.key("axes");
    json.begin_array();
    for (const std::uint32_t axis : view->axes) json.integer(axis);
    json.end_array();
    json.field("base_tensor_id", view->base_tensor_id);
    json.key("global_shape");
    write_numbers(json, view->global_shape);
    json.field("layout_fingerprint", view->layout_fingerprint);
    json.key("pieces");
    json.begin_array();
    for (const ViewPiece& piece : view->pieces) {
      json.begin_object();
      json.key("extent");
      write_numbers(json, piece.box.extent);
      json.key("offset");
      write_numbers(json, piece.box.offset);
      json.key("view_offset");
      write_numbers(json, piece.view_offset);
      json.end_object();
    }
    json.end_array();
    json.field("tensor_id", view->tensor_id);
    json.end_object();
  }
  json.end_array();
}

/// What the planner reads of a stored manifest.
std::string stored_layout_digest(const formats::StoredManifest& manifest) {
  std::string text;
  CanonicalJsonWriter json(text);
  const auto place = [&](const formats::TensorPlace& at) {
    json.begin_array();
    json.integer(at.run);
    json.integer(at.offset);
    json.integer(at.bytes);
    json.end_array();
  };
  json.begin_array();
  for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
    const formats::TensorRow row = manifest.tensors.row(t);
    json.begin_array();
    json.string(row.tensor_id);
    json.string(row.dtype);
    json.string(row.layout_fingerprint);
    write_numbers(json, row.shape);
    if (row.place) place(*row.place);
    json.end_array();
  }
  json.end_array();
  std::string fragments;
  CanonicalJsonWriter fragment_json(fragments);
  fragment_json.begin_array();
  for (const formats::FragmentEntry& entry : manifest.fragments) {
    fragment_json.begin_array();
    fragment_json.string(entry.tensor_id);
    write_numbers(fragment_json, entry.global_offset);
    write_numbers(fragment_json, entry.local_shape);
    fragment_json.integer(entry.place.run);
    fragment_json.integer(entry.place.offset);
    fragment_json.integer(entry.place.bytes);
    fragment_json.end_array();
  }
  fragment_json.end_array();
  return hash::sha256_hex(text + fragments);
}

std::string layout_of(const PlanSide& side) {
  return side.stored() ? stored_layout_digest(*side.stored_manifest()) : side.placement()->layout_digest();
}

}  // namespace

std::string plan_key(const PlanInputs& inputs) {
  const PlanOptions& options = inputs.options;
  std::string text;
  CanonicalJsonWriter json(text);
  json.begin_object();
  json.field("choice", std::string_view(options.choice == Choice::kBalance ? "balance" : "first"));
  json.key("co_plan");
  write_co_plans(json, options.co_plan);
  json.key("locality");
  write_locality(json, options.locality);
  json.field("schema", std::string_view("weight-transfer-plan"));
  json.field("source", layout_of(*inputs.source));
  json.field("source_stored", std::uint64_t{inputs.source->stored() ? 1U : 0U});
  json.key("source_views");
  write_views(json, options.source_views);
  json.key("stored_layout");
  json.begin_array();
  if (options.stored_layout) json.string(*options.stored_layout);
  json.end_array();
  json.field("target", layout_of(*inputs.target));
  json.key("target_views");
  write_views(json, options.target_views);
  json.end_object();
  return hash::sha256_hex(text);
}

}  // namespace steelyard::reshard
