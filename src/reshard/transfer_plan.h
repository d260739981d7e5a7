// A plan: every copy that brings the weights of one layout into another, computed once and used for every step.
//
// plan_transfer compares two layouts, decides what is read from where and gives the copies as regions (regions.h).
// Nothing here does I/O. The rules are in docs/resharding.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "formats/stored_manifest.h"
#include "placement/placement_manifest.h"
#include "reshard/plan_options.h"
#include "reshard/regions.h"

namespace steelyard::reshard {

class PlanSide;
struct PlanInputs;

/// An immutable value; copying it copies two pointers. Safe to read from several threads.
class TransferPlan {
 public:
  /// Sorted by (target fragment, target offset).
  const RegionTable& regions() const { return built_->regions; }
  std::uint64_t bytes() const { return built_->bytes; }
  std::uint64_t segments() const { return built_->segments; }
  /// Numbers of the regions of a target fragment: [first, second).
  std::pair<std::size_t, std::size_t> regions_of(std::size_t target_fragment) const;

  const PlanOptions& options() const;
  /// Fragments by the numbers that regions use.
  const PlanSide& source() const;
  const PlanSide& target() const;
  /// Tensors (or views) by the numbers that regions use, ascending by id.
  std::size_t tensors() const;
  std::string_view tensor_id(std::uint32_t tensor) const;
  std::span<const std::int64_t> tensor_shape(std::uint32_t tensor) const;
  std::int64_t tensor_itemsize(std::uint32_t tensor) const;

  /// 64 hex digits over both layouts and the options: equal keys, equal regions.
  const std::string& key() const { return built_->key; }

  const PlanInputs& inputs() const { return *inputs_; }

 private:
  friend class TransferPlanner;
  struct Built {
    RegionTable regions;
    std::uint64_t bytes = 0;
    std::uint64_t segments = 0;
    std::string key;
  };
  TransferPlan(std::shared_ptr<const PlanInputs> inputs, std::shared_ptr<const Built> built)
      : inputs_(std::move(inputs)), built_(std::move(built)) {}

  std::shared_ptr<const PlanInputs> inputs_;
  std::shared_ptr<const Built> built_;
};

/// Two layouts that agree, ready to be planned as a whole or in parts. An immutable value, safe to use from several
/// threads.
///
/// INVALID_ARGUMENT from make: model, revision or options do not fit, or a tensor's description differs; the message
/// names the tensor and both values. From plan and its parts: a box that no source has (tensor, target fragment and the
/// first missing box), more regions or segments than the options allow, or more bytes than 64 bits count.
class TransferPlanner {
 public:
  static Result<TransferPlanner> make(const placement::PlacementManifest& source,
                                      const placement::PlacementManifest& target, PlanOptions options = {});
  /// Reads from a revision of the store: model and revision are not compared, dtypes compare by their meaning.
  static Result<TransferPlanner> make(std::shared_ptr<const formats::StoredManifest> source,
                                      const placement::PlacementManifest& target, PlanOptions options = {});

  Result<TransferPlan> plan() const;
  /// The regions that plan() has for one target fragment, or for all fragments of one target rank, without keeping any
  /// other. Where a choice between replicas is balanced the fragments before are looked at, but not kept.
  Result<RegionTable> plan_fragment(std::size_t target_fragment) const;
  Result<RegionTable> plan_rank(const placement::ParallelRank& target_rank) const;

  const PlanInputs& inputs() const { return *inputs_; }
  std::string key() const;

 private:
  explicit TransferPlanner(std::shared_ptr<const PlanInputs> inputs) : inputs_(std::move(inputs)) {}
  static Result<TransferPlanner> finish(std::shared_ptr<PlanInputs> inputs);

  std::shared_ptr<const PlanInputs> inputs_;
};

/// TransferPlanner::make and plan in one.
Result<TransferPlan> plan_transfer(const placement::PlacementManifest& source,
                                   const placement::PlacementManifest& target, PlanOptions options = {});
Result<TransferPlan> plan_transfer(std::shared_ptr<const formats::StoredManifest> source,
                                   const placement::PlacementManifest& target, PlanOptions options = {});

}  // namespace steelyard::reshard
