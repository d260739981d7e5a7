// Do the two sides speak of the same tensors?
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "geometry/box.h"
#include "reshard/dtypes.h"
#include "reshard/plan_inputs.h"

namespace steelyard::reshard {
namespace {

constexpr std::string_view kStoredLayout = "row-major";

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

Status differs(std::string_view tensor, std::string_view what, const std::string& source, const std::string& target) {
  return refuse("tensor " + quoted(tensor) + ": " + std::string(what) + " differs: source " + source + ", target " +
                target);
}

bool equal(std::span<const std::int64_t> a, std::span<const std::int64_t> b) { return std::ranges::equal(a, b); }

std::int64_t volume(std::span<const std::int64_t> shape) {
  return geometry::checked_volume(shape).ok() ? geometry::checked_volume(shape).value() : 0;
}

/// How the source's side of a tensor is read so that it fits the target's description.
Result<PlanSide::Use> match_layout(const LogicalTensor& source, const LogicalTensor& target) {
  PlanSide::Use use;
  use.itemsize = source.itemsize;
  if (source.itemsize != target.itemsize) {
    return differs(target.id, "itemsize", std::to_string(source.itemsize), std::to_string(target.itemsize));
  }
  if (!equal(source.shape, target.shape)) {
    return differs(target.id, "global_shape", tuple_text(source.shape), tuple_text(target.shape));
  }
  return use;
}

/// A stored tensor whose elements are no whole bytes: its packed bytes, row by row or as one flat piece.
Result<PlanSide::Use> match_packed(const LogicalTensor& source, const LogicalTensor& target, std::uint32_t bits) {
  const bool byte_type =
      target.itemsize == 1 && (same_dtype(target.dtype, source.dtype) || same_dtype(target.dtype, "U8") ||
                               (source.dtype == "F4" && target.dtype == "torch.float4_e2m1fn_x2"));
  std::vector<std::int64_t> packed(source.shape.begin(), source.shape.end());
  bool rows_fit = false;
  if (!packed.empty()) {
    const auto row_bits = checked_mul<std::int64_t>(packed.back(), bits);
    rows_fit = row_bits && *row_bits % 8 == 0;
    if (rows_fit) packed.back() = *row_bits / 8;
  }
  const bool flat = target.shape.size() == 1 && target.shape[0] == static_cast<std::int64_t>(source.stored_bytes);
  if (!byte_type || source.stored_bytes == 0 || !(flat || (rows_fit && equal(packed, target.shape)))) {
    return refuse("tensor " + quoted(target.id) + ": the source stores " + quoted(source.dtype) + " " +
                  tuple_text(source.shape) +
                  ", a sub-byte type, which is planned whole or as its packed bytes: wanted " +
                  "itemsize 1 and global_shape (" + std::to_string(source.stored_bytes) + ",)" +
                  (rows_fit ? " or " + tuple_text(packed) : std::string()) + ", found " + quoted(target.dtype) +
                  ", itemsize " + std::to_string(target.itemsize) + ", " + tuple_text(target.shape));
  }
  PlanSide::Use use;
  use.itemsize = 1;
  use.shape = target.shape;
  return use;
}

Result<PlanSide::Use> match_stored(const LogicalTensor& source, const LogicalTensor& target) {
  const DtypeSpelling* known = find_dtype(source.dtype);
  if (known != nullptr && known->bits % 8 != 0) return match_packed(source, target, known->bits);
  if (!same_dtype(source.dtype, target.dtype)) {
    return differs(target.id, "dtype", quoted(source.dtype), quoted(target.dtype));
  }
  LogicalTensor read = source;
  if (known == nullptr && source.stored_bytes > 0) {  // opaque elements: as many bytes each as there are
    const auto elements = static_cast<std::uint64_t>(volume(source.shape));
    if (elements != 0 && source.stored_bytes % elements == 0)
      read.itemsize = static_cast<std::int64_t>(source.stored_bytes / elements);
  }
  const bool scalar = source.shape.empty() && target.shape.size() == 1 && target.shape[0] == 1;
  if (scalar) read.shape = target.shape;
  SY_ASSIGN_OR_RETURN(PlanSide::Use use, match_layout(read, target));
  if (scalar) use.shape = target.shape;
  return use;
}

Result<PlanSide::Use> match_tensor(const LogicalTensor& source, const LogicalTensor& target, bool stored,
                                   const PlanOptions& options) {
  std::string_view layout = source.layout;
  if (stored && options.stored_layout && layout == kStoredLayout) layout = *options.stored_layout;
  if (layout != target.layout) {
    return differs(target.id, "layout_fingerprint", quoted(layout), quoted(target.layout));
  }
  if (stored) return match_stored(source, target);
  if (source.dtype != target.dtype) {
    return differs(target.id, "dtype", quoted(source.dtype), quoted(target.dtype));
  }
  return match_layout(source, target);
}

Status check_names(const PlanInputs& inputs) {
  const placement::PlacementManifest* source = inputs.source->placement();
  const placement::PlacementManifest* target = inputs.target->placement();
  if (source == nullptr) return {};
  if (source->model_id() != target->model_id()) {
    return refuse("model_id differs: source " + quoted(source->model_id()) + ", target " + quoted(target->model_id()));
  }
  if (source->revision() != target->revision()) {
    return refuse("revision differs: source " + quoted(source->revision()) + ", target " + quoted(target->revision()));
  }
  return {};
}

/// Numbers the workers and endpoints of options.locality.
Status place_ranks(PlanInputs& inputs) {
  if (inputs.options.locality.empty()) return {};
  inputs.source_places.resize(inputs.source->ranks().size());
  inputs.target_places.resize(inputs.target->ranks().size());
  std::map<std::string_view, std::uint32_t> workers;
  std::map<std::string_view, std::uint32_t> endpoints;
  const auto number = [](std::map<std::string_view, std::uint32_t>& names, std::string_view name) {
    if (name.empty()) return std::uint32_t{0};
    return names.emplace(name, static_cast<std::uint32_t>(names.size() + 1)).first->second;
  };
  std::set<std::pair<Side, placement::ParallelRank>> seen;
  for (std::size_t i = 0; i < inputs.options.locality.size(); ++i) {
    const Locality& entry = inputs.options.locality[i];
    if (!seen.emplace(entry.side, entry.rank).second) {
      return refuse("options.locality[" + std::to_string(i) + "]: an earlier entry is of the same side and rank");
    }
    const bool source = entry.side == Side::kSource;
    const auto ranks = source ? inputs.source->ranks() : inputs.target->ranks();
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), entry.rank);
    if (at == ranks.end() || *at != entry.rank) continue;  // a rank without fragments here
    auto& places = source ? inputs.source_places : inputs.target_places;
    places[static_cast<std::size_t>(at - ranks.begin())] = {number(workers, entry.worker_id),
                                                            number(endpoints, entry.endpoint)};
  }
  return {};
}

bool any_choice(const BoxGroups& groups, std::size_t tensors) {
  for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
    if (!groups.disjoint(tensor)) return true;
    const auto [first, last] = groups.groups_of(tensor);
    for (std::uint32_t group = first; group < last; ++group) {
      if (groups.members(group).size() > 1) return true;
    }
  }
  return false;
}

}  // namespace

Status match_sides(PlanInputs& inputs) {
  SY_RETURN_IF_ERROR(check_names(inputs));
  const auto sources = inputs.source->tensors();
  const auto targets = inputs.target->tensors();
  std::vector<PlanSide::Use> source_uses(sources.size());
  std::vector<PlanSide::Use> target_uses(targets.size());
  std::size_t s = 0;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const LogicalTensor& target = targets[t];
    while (s < sources.size() && sources[s].id < target.id) ++s;
    if (s == sources.size() || sources[s].id != target.id) {
      return refuse("tensor " + quoted(target.id) + ": the target has it, the source does not");
    }
    SY_ASSIGN_OR_RETURN(source_uses[s], match_tensor(sources[s], target, inputs.source->stored(), inputs.options));
    source_uses[s].number = static_cast<std::uint32_t>(t);
    target_uses[t].number = static_cast<std::uint32_t>(t);
    target_uses[t].itemsize = target.itemsize;
    inputs.tensors.push_back({target.id, target.shape, target.itemsize});
  }
  inputs.source_pieces = inputs.source->pieces(source_uses);
  inputs.target_pieces = inputs.target->pieces(target_uses);

  inputs.target_piece_begin.assign(inputs.target->fragments() + 1, 0);
  for (std::size_t p = 0; p < inputs.target_pieces.size(); ++p) {
    ++inputs.target_piece_begin[inputs.target_pieces.fragment(p) + 1];
  }
  for (std::size_t f = 0; f < inputs.target->fragments(); ++f) {
    inputs.target_piece_begin[f + 1] += inputs.target_piece_begin[f];
  }
  std::vector<std::uint32_t> preference(inputs.source->fragments());
  if (inputs.options.choice == Choice::kFirst) {
    for (std::size_t f = 0; f < preference.size(); ++f) preference[f] = inputs.source->rank_number(f);
  }
  inputs.groups.emplace(inputs.source_pieces, targets.size(), preference);
  inputs.has_choice = any_choice(*inputs.groups, targets.size());
  return place_ranks(inputs);
}

}  // namespace steelyard::reshard
