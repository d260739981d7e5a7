// Weight contracts: how a framework says which rank holds which box of which tensor, and where it lies in memory.
//
// Everything here is an immutable value that is checked once, where it is made; copying one copies a pointer, and
// reading it from several threads is safe. Shapes and offsets count elements, `nbytes` and addresses count bytes. What
// breaks a contract is INVALID_ARGUMENT, with the path of the field: `fragments[17].local_shape[1]: …`. The rules, the
// ids and the digests are those of docs/formats/placement.md; Python's steelyard.model_weight computes the same ones.
//
// Boxes of one rank may not overlap. Across ranks overlaps and gaps are allowed: replicas and partial inventories are
// normal, and the planner (reshard.h) decides whether a target finds all it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "steelyard/status.h"
#include "steelyard/values.h"

namespace steelyard {

struct ApiInternals;  // the library's own

/// What a tensor is, whoever holds it. dtype and layout_fingerprint are opaque texts.
struct TensorDescriptor {
  std::string tensor_id = {};
  std::vector<std::int64_t> global_shape = {};  ///< not empty, each at least 1
  std::string dtype = {};
  std::int64_t itemsize = 0;  ///< bytes of one element, at least 1
  /// The one dimension that may be cut. Absent, with shard_dims absent too: the tensor is held whole or not at all.
  std::optional<std::int64_t> partition_dim = {};
  std::string layout_fingerprint = {};
  std::optional<std::int64_t> layer_id = {};
  std::optional<std::int64_t> expert_id = {};
  /// All dimensions that may be cut, ascending.
  std::optional<std::vector<std::int64_t>> shard_dims = {};
  bool operator==(const TensorDescriptor&) const = default;
};

/// A box of a tensor that a rank holds, wherever it lies. Its id should be the same after a restart: an exporter that
/// sometimes gives another one gives the placement another identity.
struct PlacementFragment {
  std::string placement_fragment_id = {};
  std::string tensor_id = {};
  std::vector<std::int64_t> global_offset = {};
  std::vector<std::int64_t> local_shape = {};
  std::uint64_t nbytes = 0;  ///< elements of local_shape times the itemsize
  ParallelRank rank = {};
  std::vector<std::string> aliases = {};  ///< none twice; given back sorted
  bool operator==(const PlacementFragment&) const = default;
};

/// Keeps an allocation alive for as long as a manifest, a binding or a bound plan knows its address. May be null.
using MemoryOwner = std::shared_ptr<void>;

/// A box of a tensor in the memory of a running process.
struct RuntimeFragment {
  std::string fragment_id = {};
  std::string tensor_id = {};
  std::vector<std::int64_t> global_offset = {};
  std::vector<std::int64_t> local_shape = {};
  std::uint64_t address = 0;  ///< of the first byte; 0 is no address, on CPUs too
  std::uint64_t nbytes = 0;
  std::string worker_id = {};  ///< with the device: one address space
  std::string endpoint = {};   ///< how the worker is reached; routing only
  std::string device = {};
  ParallelRank rank = {};
  std::uint64_t lease_generation = 0;  ///< one for all fragments of a manifest
  MemoryOwner owner = {};
  std::vector<std::string> aliases = {};
  std::optional<std::string> placement_fragment_id = {};  ///< absent: derived from the box
};

/// Where a fragment of a placement lies in one running instance.
struct BindingFragment {
  std::string placement_fragment_id = {};
  std::string fragment_id = {};
  std::uint64_t address = 0;  ///< of the first byte
  std::uint64_t nbytes = 0;
  std::string worker_id = {};
  std::string endpoint = {};
  std::string device = {};
  MemoryOwner owner = {};
};

/// Which rank holds which box of which tensor, without a word about memory. Canonical: tensors ascend by tensor_id,
/// fragments by id, both by code point; equal content has an equal placement_id in whatever order it was said. An empty
/// one is valid.
class PlacementManifest {
 public:
  /// `placement_id`, where given, must be the one derived from the content.
  static Result<PlacementManifest> make(std::string_view model_id, std::string_view revision,
                                        std::span<const TensorDescriptor> tensors,
                                        std::span<const PlacementFragment> fragments,
                                        std::optional<std::string_view> placement_id = std::nullopt);
  /// Any valid JSON spelling of what to_json writes; other fields, versions and duplicate keys are refused.
  static Result<PlacementManifest> from_json(std::string_view text);
  /// Canonical ASCII JSON.
  std::string to_json() const;

  const std::string& model_id() const;
  const std::string& revision() const;
  /// "sha256:" and 64 hex digits.
  const std::string& placement_id() const;
  /// 64 hex digits over the whole document.
  const std::string& digest() const;
  /// 64 hex digits over everything but the revision and the ids made from it: equal for two steps of one training.
  const std::string& layout_digest() const;

  std::size_t tensor_count() const;
  std::size_t fragment_count() const;
  /// Rows are made when they are asked for. An index that does not exist is a programmer's error.
  TensorDescriptor tensor(std::size_t index) const;
  PlacementFragment fragment(std::size_t index) const;
  /// Index of the fragment of this id.
  std::optional<std::size_t> find_fragment(std::string_view placement_fragment_id) const;

  /// Equal content.
  bool operator==(const PlacementManifest& other) const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit PlacementManifest(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// Addresses for the fragments of a placement, ascending by placement_fragment_id.
class RuntimeBindingManifest {
 public:
  static Result<RuntimeBindingManifest> make(const BindingHeader& header, std::span<const BindingFragment> fragments);

  BindingHeader header() const;
  std::size_t fragment_count() const;
  BindingFragment fragment(std::size_t index) const;

  /// OK when the binding is of this lease and this generation: for the moment before memory is touched.
  Status check_fence(std::string_view lease_id, std::uint64_t generation) const;

  /// Equal content; owners do not count.
  bool operator==(const RuntimeBindingManifest& other) const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit RuntimeBindingManifest(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// The weights in the memory of one running instance, in the order in which they were said. Address ranges of one
/// (worker, device) do not overlap, but for exact aliases that both fragments declare.
class RuntimeManifest {
 public:
  static Result<RuntimeManifest> make(const RuntimeHeader& header, std::span<const TensorDescriptor> tensors,
                                      std::span<const RuntimeFragment> fragments);
  /// The placement with addresses, in the placement's order. INVALID_ARGUMENT when the two do not belong together, a
  /// fragment is unknown, missing or of another size, or addresses overlap.
  static Result<RuntimeManifest> bind(const PlacementManifest& placement, const RuntimeBindingManifest& binding);

  RuntimeHeader header() const;
  std::size_t tensor_count() const;
  std::size_t fragment_count() const;
  TensorDescriptor tensor(std::size_t index) const;
  RuntimeFragment fragment(std::size_t index) const;

  /// The layout alone. A fragment without an id gets "logical:" and the digest of its box.
  Result<PlacementManifest> placement() const;
  /// The addresses alone. Needs a lease and a generation.
  Result<RuntimeBindingManifest> binding() const;

  /// Same content in the same order; owners do not count.
  bool operator==(const RuntimeManifest& other) const;

 private:
  friend struct ApiInternals;
  struct Impl;
  explicit RuntimeManifest(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace steelyard
