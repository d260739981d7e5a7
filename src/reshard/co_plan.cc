// Block-quantised pairs: weights and the scales of their blocks are cut together or not at all.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "geometry/box.h"
#include "reshard/plan_inputs.h"

namespace steelyard::reshard {
namespace {

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

/// The pieces of each tensor.
class PiecesByTensor {
 public:
  PiecesByTensor(const PieceTable& pieces, std::size_t tensors) : begin_(tensors + 1), pieces_(pieces.size()) {
    for (std::size_t p = 0; p < pieces.size(); ++p) ++begin_[pieces.tensor(p) + 1];
    for (std::size_t t = 0; t < tensors; ++t) begin_[t + 1] += begin_[t];
    std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (std::size_t p = 0; p < pieces.size(); ++p) pieces_[next[pieces.tensor(p)]++] = static_cast<std::uint32_t>(p);
  }
  std::span<const std::uint32_t> of(std::uint32_t tensor) const {
    return {pieces_.data() + begin_[tensor], begin_[tensor + 1] - begin_[tensor]};
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<std::uint32_t> pieces_;
};

class CoPlanChecker {
 public:
  CoPlanChecker(const PlanInputs& inputs, const PiecesByTensor& sources, const PiecesByTensor& targets,
                const CoPlan& pair, std::string path)
      : inputs_(inputs), sources_(sources), targets_(targets), pair_(pair), path_(std::move(path)) {}

  Status check() {
    SY_ASSIGN_OR_RETURN(weight_, number_of(pair_.weight_id, ".weight_id"));
    SY_ASSIGN_OR_RETURN(scale_, number_of(pair_.scale_id, ".scale_id"));
    SY_RETURN_IF_ERROR(check_shapes());
    SY_RETURN_IF_ERROR(check_cuts(inputs_.source_pieces, sources_, *inputs_.source, "source"));
    SY_RETURN_IF_ERROR(check_cuts(inputs_.target_pieces, targets_, *inputs_.target, "target"));
    return check_scales_beside_weights();
  }

 private:
  Result<std::uint32_t> number_of(const std::string& id, const char* field) const {
    const auto& tensors = inputs_.tensors;
    const auto at =
        std::lower_bound(tensors.begin(), tensors.end(), id,
                         [](const PlannedTensor& tensor, const std::string& name) { return tensor.id < name; });
    if (at == tensors.end() || at->id != id) {
      return refuse(path_ + field + ": the target has no tensor " + quoted(id) +
                    "; both tensors of a pair are planned together");
    }
    return static_cast<std::uint32_t>(at - tensors.begin());
  }

  Status check_shapes() const {
    const auto weight = inputs_.tensors[weight_].shape;
    const auto scale = inputs_.tensors[scale_].shape;
    if (pair_.block_shape.size() != weight.size() || scale.size() != weight.size()) {
      return refuse(path_ + ".block_shape: " + tuple_text(pair_.block_shape) + " for a weight of " +
                    tuple_text(weight) + " and scales of " + tuple_text(scale) +
                    "; all three need one number of dimensions");
    }
    std::vector<std::int64_t> blocks;
    for (std::size_t d = 0; d < weight.size(); ++d) {
      const std::int64_t block = pair_.block_shape[d];
      if (block < 1) return refuse(path_ + ".block_shape[" + std::to_string(d) + "]: must be at least 1");
      blocks.push_back(weight[d] / block + (weight[d] % block != 0 ? 1 : 0));
    }
    if (std::ranges::equal(blocks, scale)) return {};
    return refuse(path_ + ": blocks of " + tuple_text(pair_.block_shape) + " in a weight of " + tuple_text(weight) +
                  " are " + tuple_text(blocks) + ", and the scales " + quoted(pair_.scale_id) + " are " +
                  tuple_text(scale));
  }

  Status check_cuts(const PieceTable& pieces, const PiecesByTensor& by_tensor, const PlanSide& side,
                    std::string_view name) const {
    const auto shape = inputs_.tensors[weight_].shape;
    for (const std::uint32_t p : by_tensor.of(weight_)) {
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const std::int64_t begin = pieces.offset(p)[d];
        const std::int64_t end = begin + pieces.extent(p)[d];
        const std::int64_t block = pair_.block_shape[d];
        const bool on_blocks = begin % block == 0 && (end % block == 0 || end == shape[d]);
        if (on_blocks) continue;
        return refuse("tensor " + quoted(pair_.weight_id) + ", " + std::string(name) + " fragment " +
                      quoted(side.fragment_id(pieces.fragment(p))) + ": the cut [" + std::to_string(begin) + ", " +
                      std::to_string(end) + ") in dimension " + std::to_string(d) + " does not fall on a block of " +
                      std::to_string(block));
      }
    }
    return {};
  }

  Status check_scales_beside_weights() const {
    const PieceTable& pieces = inputs_.target_pieces;
    std::map<std::uint32_t, std::vector<geometry::Box>> scales;  // by rank number
    for (const std::uint32_t p : targets_.of(scale_)) {
      scales[inputs_.target->rank_number(pieces.fragment(p))].push_back(
          {{pieces.offset(p).begin(), pieces.offset(p).end()}, {pieces.extent(p).begin(), pieces.extent(p).end()}});
    }
    for (const std::uint32_t p : targets_.of(weight_)) {
      geometry::Box wanted;
      for (std::size_t d = 0; d < pieces.rank(p); ++d) {
        const std::int64_t block = pair_.block_shape[d];
        const std::int64_t begin = pieces.offset(p)[d] / block;
        const std::int64_t last = (pieces.offset(p)[d] + pieces.extent(p)[d] - 1) / block;
        wanted.offset.push_back(begin);
        wanted.extent.push_back(last + 1 - begin);
      }
      const auto missing = geometry::missing(wanted, scales[inputs_.target->rank_number(pieces.fragment(p))]);
      if (missing.empty()) continue;
      return refuse("tensor " + quoted(pair_.weight_id) + ", target fragment " +
                    quoted(inputs_.target->fragment_id(pieces.fragment(p))) + ": its rank has no scales of " +
                    quoted(pair_.scale_id) + " at " + box_text(missing[0].offset, missing[0].extent));
    }
    return {};
  }

  const PlanInputs& inputs_;
  const PiecesByTensor& sources_;
  const PiecesByTensor& targets_;
  const CoPlan& pair_;
  const std::string path_;
  std::uint32_t weight_ = 0;
  std::uint32_t scale_ = 0;
};

}  // namespace

Status check_co_plans(const PlanInputs& inputs) {
  if (inputs.options.co_plan.empty()) return {};
  const PiecesByTensor sources(inputs.source_pieces, inputs.tensors.size());
  const PiecesByTensor targets(inputs.target_pieces, inputs.tensors.size());
  for (std::size_t i = 0; i < inputs.options.co_plan.size(); ++i) {
    const std::string path = "options.co_plan[" + std::to_string(i) + "]";
    SY_RETURN_IF_ERROR(CoPlanChecker(inputs, sources, targets, inputs.options.co_plan[i], path).check());
  }
  return {};
}

}  // namespace steelyard::reshard
