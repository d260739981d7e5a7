// The planner and the executor: two layouts of the same weights become copies, computed once and used for every step.
//
// Nothing here reads a file or talks to a network: a plan is a list of regions, which a transport of your own may move,
// or execute() within this process's memory. The rules are in docs/resharding.md.
//
// Plans are immutable values; copying one copies a pointer, and reading it from several threads is safe. Offsets, bases
// and strides of regions count bytes, shapes count elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "steelyard/layout.h"
#include "steelyard/placement.h"
#include "steelyard/status.h"
#include "steelyard/values.h"

namespace steelyard {

/// Which of several sources that hold the same elements is read.
enum class SourceChoice : unsigned char {
  kBalance,  ///< the rank that has been given the fewest bytes so far, then the smallest fragment id
  kFirst,    ///< the smallest rank, then the smallest fragment id
};

/// Where a rank of one side runs: a source on the target's own worker comes before one behind the same endpoint, and
/// that before all others.
struct RankLocality {
  bool of_target = false;  ///< false: of the source
  ParallelRank rank = {};
  std::string worker_id = {};
  std::string endpoint = {};
};

/// A block-quantised tensor and the tensor of its scales, one per block: a cut that does not fall on a block, or a rank
/// with weights but without their scales, is refused.
struct ScaledPair {
  std::string weight_id = {};
  std::string scale_id = {};
  std::vector<std::int64_t> block_shape = {};  ///< in elements, one number per dimension of the weight
};

struct PlanOptions {
  SourceChoice choice = SourceChoice::kBalance;
  std::vector<RankLocality> locality = {};  ///< any order; one per side and rank
  std::vector<ScaledPair> co_plan = {};
  /// What the fingerprint `row-major` of a stored tensor counts as.
  std::optional<std::string> stored_layout = {};
  /// Fused tensors of a side by their parts (fused_views); a target's views must fill their tensor.
  std::vector<TensorView> source_views = {};
  std::vector<TensorView> target_views = {};
  std::uint64_t max_regions = std::uint64_t{1} << 25;
  std::uint64_t max_segments = std::uint64_t{1} << 40;
};

/// The manifest of a revision in the store, as the source of a plan.
class StoredManifest {
 public:
  /// The stored document. CORRUPT or INVALID_ARGUMENT, naming the field, for anything else.
  static Result<StoredManifest> from_json(std::string_view text);
  std::size_t tensor_count() const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit StoredManifest(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// A box of one tensor that goes from one source fragment to one target fragment: `inner_bytes` bytes, repeated
/// `loop_count` times per loop, outermost first, every loop with a stride on each side. Spans live as long as the plan.
struct Region {
  std::size_t tensor = 0;  ///< for TransferPlan::tensor_id
  std::size_t source = 0;  ///< for TransferPlan::source_fragment_id
  std::size_t target = 0;  ///< for TransferPlan::target_fragment_id
  std::span<const std::int64_t> offset;
  std::span<const std::int64_t> shape;
  std::uint64_t source_base = 0;  ///< from the fragment's first byte
  std::uint64_t target_base = 0;
  std::uint64_t inner_bytes = 0;
  std::span<const std::uint64_t> loop_count;
  std::span<const std::uint64_t> source_stride;
  std::span<const std::uint64_t> target_stride;

  /// Number of contiguous runs.
  std::uint64_t segments() const {
    std::uint64_t count = 1;
    for (const std::uint64_t turns : loop_count) count *= turns;
    return count;
  }
  std::uint64_t bytes() const { return segments() * inner_bytes; }
};

/// Every copy that brings the weights of one layout into another. Equal keys, equal regions.
class TransferPlan {
 public:
  /// INVALID_ARGUMENT when the sides do not mean the same tensors (the message names the tensor and both values), when
  /// some box of the target has no source (tensor, target fragment and the first missing box), or beyond the limits.
  static Result<TransferPlan> make(const PlacementManifest& source, const PlacementManifest& target,
                                   const PlanOptions& options = {});
  /// Reads from a revision of the store: model and revision are not compared, dtypes compare by their meaning.
  static Result<TransferPlan> make(const StoredManifest& source, const PlacementManifest& target,
                                   const PlanOptions& options = {});

  /// 64 hex digits over both layouts and the options.
  const std::string& key() const;
  std::uint64_t bytes() const;
  std::uint64_t segment_count() const;

  /// Sorted by (target fragment, target offset, source fragment, source offset). An index that does not exist is a
  /// programmer's error, here and below.
  std::size_t region_count() const;
  Region region(std::size_t index) const;
  /// Indexes of the regions of a target fragment: [first, second).
  std::pair<std::size_t, std::size_t> regions_of(std::size_t target_fragment) const;

  std::size_t tensor_count() const;
  std::string tensor_id(std::size_t tensor) const;
  /// Fragments in the order of their manifests.
  std::size_t source_fragment_count() const;
  std::size_t target_fragment_count() const;
  std::string source_fragment_id(std::size_t fragment) const;
  std::string target_fragment_id(std::size_t fragment) const;

  /// What the plan costs, a fact a line: bytes per rank, classes of regions and how each is best moved.
  std::string explain() const;
  /// An SVG of one tensor: both layouts, and which region is read from where.
  Result<std::string> render(std::string_view tensor_id) const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit TransferPlan(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

struct ExecuteOptions {
  std::size_t threads = 1;  ///< at least 1
  /// Afterwards every target fragment is compared, by checksum, with its elements as the sources have them.
  bool verify = false;
  /// Everything is checked and counted, nothing is copied.
  bool dry_run = false;
  /// Asked before the first byte moves and after the last one, on the caller's thread; an error of it is the result.
  std::function<Status()> fence = {};
};

/// Copies every region of a plan between running ranks; blocks until done. One entry of `source` and `target` per
/// fragment of that side. The memory must not be touched meanwhile.
///
/// INVALID_ARGUMENT before the first byte moves: a fragment without an address or with fewer bytes than the plan needs,
/// a target that shares bytes with a source, or two targets that share bytes and are no aliases. An error of the fence
/// after the copy means that targets were written and are not to be trusted. CORRUPT when verify finds a difference.
Result<ExecuteReport> execute(const TransferPlan& plan, std::span<const FragmentMemory> source,
                              std::span<const FragmentMemory> target, const ExecuteOptions& options = {});

/// The lease and the generation that a side must still have.
struct Fence {
  std::string lease_id = {};
  std::uint64_t generation = 0;
};

/// A plan with the addresses of one step. Keeps the bindings, and with them the owners of the memory, alive.
class BoundPlan {
 public:
  /// Puts ready bindings under a plan; nothing is planned. A binding must be of the plan's own placement. For another
  /// revision its placement is given: it must have the plan's layout_digest, and the binding must carry its id and
  /// digest. INVALID_ARGUMENT says what differs.
  static Result<BoundPlan> make(const TransferPlan& plan, const RuntimeBindingManifest& source,
                                const RuntimeBindingManifest& target,
                                const PlacementManifest* source_placement = nullptr,
                                const PlacementManifest* target_placement = nullptr);

  const TransferPlan& plan() const;
  /// execute() at the bindings' addresses. INVALID_ARGUMENT, before the first byte moves, when a binding is not of the
  /// fence given for its side.
  Result<ExecuteReport> execute(const std::optional<Fence>& source = std::nullopt,
                                const std::optional<Fence>& target = std::nullopt,
                                const ExecuteOptions& options = {}) const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit BoundPlan(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace steelyard
