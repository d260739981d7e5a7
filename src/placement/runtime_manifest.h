// RuntimeManifest: the weights in the memory of one running instance; RuntimeBindingManifest: the same as a list of
// addresses for the fragments of a placement.
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

using steelyard::BindingHeader;
using steelyard::RuntimeHeader;

class PlacementManifest;

/// The fragments of an instance, in the order in which they were said.
struct RuntimeFragments {
  StringColumn ids;
  BoxColumns boxes;
  PlaceColumns places;
  StringColumn placement_ids;  ///< empty text: none. The column is empty where no fragment has one.

  std::size_t size() const { return ids.size(); }
  std::optional<std::string_view> placement_fragment_id(std::size_t row) const;
};

/// An immutable value; copying it copies a pointer. Safe to read from several threads.
class RuntimeManifest {
 public:
  const RuntimeHeader& header() const { return parts_->header; }
  /// In the order and the form in which they were said.
  const TensorColumns& tensors() const { return parts_->tensors; }
  const RuntimeFragments& fragments() const { return parts_->fragments; }
  /// Of every fragment; absent in an empty manifest for which none was said.
  std::optional<std::uint64_t> generation() const { return parts_->header.generation; }
  RuntimeFragmentRow fragment(std::size_t row) const;

  /// Same content in the same order; owners do not count.
  bool operator==(const RuntimeManifest& other) const;

 private:
  friend class RuntimeBuilder;
  struct Parts {
    RuntimeHeader header;
    TensorColumns tensors;
    RuntimeFragments fragments;
  };
  explicit RuntimeManifest(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

/// As PlacementBuilder.
class RuntimeBuilder {
 public:
  explicit RuntimeBuilder(RuntimeHeader header) : header_(std::move(header)) {}

  void reserve(std::size_t tensors, std::size_t fragments);
  Status add_tensor(const TensorDescriptorRow& row);
  Status add_fragment(const RuntimeFragmentRow& row);
  Status add_tensors(const TensorArrays& columns);
  Status add_fragments(const RuntimeFragmentArrays& columns);
  /// Those added so far.
  const TensorColumns& tensors() const { return tensors_.columns(); }

  Result<RuntimeManifest> build() &&;

 private:
  Status add_row(const RuntimeFragmentRow& row, std::uint32_t tensor_name);

  RuntimeHeader header_;
  TensorGatherer tensors_;
  RuntimeFragments fragments_;
  std::optional<std::uint64_t> lease_generation_;
};

/// The fragments of a binding, ascending by placement_fragment_id.
struct BindingFragments {
  StringColumn placement_ids;
  StringColumn ids;
  PlaceColumns places;
  std::vector<std::uint64_t> nbytes;

  std::size_t size() const { return ids.size(); }
  std::optional<std::size_t> find(std::string_view placement_fragment_id) const;
};

/// An immutable value; copying it copies a pointer. Safe to read from several threads.
class RuntimeBindingManifest {
 public:
  const BindingHeader& header() const { return parts_->header; }
  const BindingFragments& fragments() const { return parts_->fragments; }
  BindingFragmentRow fragment(std::size_t row) const;

  /// Same content; owners do not count.
  bool operator==(const RuntimeBindingManifest& other) const;

 private:
  friend class BindingBuilder;
  struct Parts {
    BindingHeader header;
    BindingFragments fragments;
  };
  explicit RuntimeBindingManifest(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

/// As PlacementBuilder.
class BindingBuilder {
 public:
  explicit BindingBuilder(BindingHeader header) : header_(std::move(header)) {}

  void reserve(std::size_t fragments);
  Status add_fragment(const BindingFragmentRow& row);
  Status add_fragments(const BindingFragmentArrays& columns);

  Result<RuntimeBindingManifest> build() &&;

 private:
  BindingHeader header_;
  BindingFragments fragments_;
};

}  // namespace steelyard::placement
