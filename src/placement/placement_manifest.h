// PlacementManifest: which rank holds which box of which tensor, without a word about memory.
//
// A manifest is valid, canonical (tensors by id, fragments by id, both by code point) and has an identity: equal
// content has an equal placement_id, whatever the order in which it was said. docs/formats/placement.md has the rules.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "placement/arrays.h"
#include "placement/columns.h"
#include "placement/gather.h"
#include "placement/types.h"

namespace steelyard::placement {

/// The fragments of a placement, ascending by id.
struct PlacementFragments {
  StringColumn ids;
  BoxColumns boxes;

  std::size_t size() const { return ids.size(); }
  std::optional<std::size_t> find(std::string_view placement_fragment_id) const;
};

/// An immutable value; copying it copies a pointer. Safe to read from several threads.
class PlacementManifest {
 public:
  const std::string& model_id() const { return parts_->model_id; }
  const std::string& revision() const { return parts_->revision; }
  /// Ascending by tensor_id, in canonical form.
  const TensorColumns& tensors() const { return parts_->tensors; }
  const PlacementFragments& fragments() const { return parts_->fragments; }
  PlacementFragmentRow fragment(std::size_t row) const;
  /// Rows of a tensor's fragments, by rank, then by row.
  std::span<const std::uint32_t> fragments_of(std::size_t tensor) const { return parts_->by_tensor.of(tensor); }

  /// "sha256:" and 64 hex digits.
  const std::string& placement_id() const { return parts_->placement_id; }
  /// 64 hex digits over the document that to_json writes, but for its schema_version.
  const std::string& digest() const { return parts_->digest; }
  /// 64 hex digits over everything but the revision and the ids made from it: equal for two revisions of one layout.
  const std::string& layout_digest() const { return parts_->layout_digest; }

  /// canonical_ascii JSON.
  std::string to_json() const;
  /// Any valid JSON spelling of such a document, checked completely. INVALID_ARGUMENT naming the field otherwise.
  static Result<PlacementManifest> from_json(std::string_view text);

  /// Equal content.
  bool operator==(const PlacementManifest& other) const { return digest() == other.digest(); }

 private:
  friend class PlacementBuilder;
  struct Parts {
    std::string model_id;
    std::string revision;
    TensorColumns tensors;
    PlacementFragments fragments;
    FragmentsOfTensors by_tensor;
    std::string placement_id;
    std::string digest;
    std::string layout_digest;
  };
  explicit PlacementManifest(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

/// Gathers the rows of a placement. Errors are INVALID_ARGUMENT and begin with the field's path in the order in which
/// rows were added (`fragments[17].local_shape[1]: …`); after one the builder is only good for destruction. Not
/// thread-safe.
class PlacementBuilder {
 public:
  PlacementBuilder() = default;
  PlacementBuilder(std::string_view model_id, std::string_view revision,
                   std::optional<std::string_view> placement_id = std::nullopt);

  /// The same after rows were added. `placement_id`: what the derived one must be.
  void set_names(std::string_view model_id, std::string_view revision,
                 std::optional<std::string_view> placement_id = std::nullopt);

  /// Hints.
  void reserve(std::size_t tensors, std::size_t fragments);
  Status add_tensor(const TensorDescriptorRow& row);
  /// The tensor may be added later.
  Status add_fragment(const PlacementFragmentRow& row);
  Status add_tensors(const TensorArrays& columns);
  /// Tensor numbers count the tensors added before.
  Status add_fragments(const PlacementFragmentArrays& columns);
  /// Those added so far.
  const TensorColumns& tensors() const { return tensors_.columns(); }

  /// Checks everything that concerns more than one row and gives the manifest.
  Result<PlacementManifest> build() &&;

 private:
  Status add_row(const PlacementFragmentRow& row, std::uint32_t tensor_name);

  std::string model_id_;
  std::string revision_;
  std::optional<std::string> wanted_id_;
  TensorGatherer tensors_;
  PlacementFragments fragments_;
};

}  // namespace steelyard::placement
