// Rows that own what they say, for tests: change one field, look at what is refused.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"
#include "placement/types.h"

namespace steelyard::placement::samples {

struct Tensor {
  std::string id = "w";
  std::vector<std::int64_t> shape = {4, 4};
  std::string dtype = "bf16";
  std::int64_t itemsize = 2;
  std::optional<std::int64_t> partition_dim = 0;
  std::string fingerprint = "f";
  std::optional<std::int64_t> layer_id;
  std::optional<std::int64_t> expert_id;
  std::optional<std::vector<std::int64_t>> shard_dims;

  TensorDescriptorRow row() const {
    TensorDescriptorRow out{id, shape, dtype, itemsize, partition_dim, fingerprint, layer_id, expert_id, {}};
    if (shard_dims) out.shard_dims = *shard_dims;
    return out;
  }
};

struct Fragment {
  std::string id = "p0";
  std::string tensor = "w";
  std::vector<std::int64_t> offset = {0, 0};
  std::vector<std::int64_t> shape = {2, 4};
  std::uint64_t nbytes = 16;
  ParallelRank rank;
  std::vector<std::string> aliases;

  PlacementFragmentRow row() const {
    return {id, tensor, offset, shape, nbytes, rank, {aliases.begin(), aliases.end()}};
  }
};

struct Place {
  std::uint64_t address = 0x1000;
  std::string worker = "worker-0";
  std::string endpoint = "tcp://a:1";
  std::string device = "cuda:0";

  MemoryPlace view() const { return {address, worker, endpoint, device}; }
};

struct Runtime {
  std::string id = "r0";
  Fragment box;
  Place place;
  std::uint64_t lease_generation = 7;
  Owner owner;
  std::optional<std::string> placement_id;

  RuntimeFragmentRow row() const {
    const PlacementFragmentRow placed = box.row();
    RuntimeFragmentRow out;
    out.fragment_id = id;
    out.tensor_id = placed.tensor_id;
    out.global_offset = placed.global_offset;
    out.local_shape = placed.local_shape;
    out.place = place.view();
    out.nbytes = placed.nbytes;
    out.rank = placed.rank;
    out.lease_generation = lease_generation;
    out.owner = owner;
    out.aliases = placed.aliases;
    if (placement_id) out.placement_fragment_id = *placement_id;
    return out;
  }
};

struct Binding {
  std::string placement_id = "p0";
  std::string id = "r0";
  Place place;
  std::uint64_t nbytes = 16;

  BindingFragmentRow row() const { return {placement_id, id, place.view(), nbytes, nullptr}; }
};

inline Result<PlacementManifest> build_placement(const std::vector<Tensor>& tensors,
                                                 const std::vector<Fragment>& fragments,
                                                 std::optional<std::string_view> placement_id = std::nullopt) {
  PlacementBuilder builder("m", "r", placement_id);
  for (const Tensor& tensor : tensors) SY_RETURN_IF_ERROR(builder.add_tensor(tensor.row()));
  for (const Fragment& fragment : fragments) SY_RETURN_IF_ERROR(builder.add_fragment(fragment.row()));
  return std::move(builder).build();
}

inline RuntimeHeader runtime_header() {
  return {
      .model_id = "m", .revision = "r", .instance_id = "i", .lease_id = "lease", .placement_id = {}, .generation = 7};
}

inline Result<RuntimeManifest> build_runtime(const RuntimeHeader& header, const std::vector<Tensor>& tensors,
                                             const std::vector<Runtime>& fragments) {
  RuntimeBuilder builder(header);
  for (const Tensor& tensor : tensors) SY_RETURN_IF_ERROR(builder.add_tensor(tensor.row()));
  for (const Runtime& fragment : fragments) SY_RETURN_IF_ERROR(builder.add_fragment(fragment.row()));
  return std::move(builder).build();
}

inline BindingHeader binding_header(const PlacementManifest& placement) {
  return {.model_id = "m",
          .revision = "r",
          .placement_id = placement.placement_id(),
          .placement_digest = placement.digest(),
          .instance_id = "i",
          .generation = 7,
          .lease_id = "lease"};
}

inline Result<RuntimeBindingManifest> build_binding(const BindingHeader& header,
                                                    const std::vector<Binding>& fragments) {
  BindingBuilder builder(header);
  for (const Binding& fragment : fragments) SY_RETURN_IF_ERROR(builder.add_fragment(fragment.row()));
  return std::move(builder).build();
}

/// Refused as the contract says: INVALID_ARGUMENT, the path first, the quoted words inside.
template <typename Outcome>
void expect_refused(const Outcome& outcome, std::string_view path, std::string_view words) {
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.code(), Code::kInvalidArgument);
  std::string message;
  if constexpr (requires { outcome.message(); }) {
    message = outcome.message();
  } else {
    message = outcome.status().message();
  }
  if (!path.empty()) {
    EXPECT_THAT(message, ::testing::StartsWith(std::string(path) + ": "));
  }
  EXPECT_THAT(message, ::testing::HasSubstr(std::string(words)));
}

}  // namespace steelyard::placement::samples
