// What the classes of include/steelyard hold, and how the rooms' values come into and out of them. Internal.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "placement/placement_manifest.h"
#include "placement/runtime_manifest.h"
#include "reshard/rebind.h"
#include "reshard/transfer_plan.h"
#include "steelyard/layout.h"
#include "steelyard/placement.h"
#include "steelyard/reshard.h"
#include "steelyard/store.h"

namespace steelyard {

struct PlacementManifest::Impl {
  placement::PlacementManifest core;
};
struct RuntimeBindingManifest::Impl {
  placement::RuntimeBindingManifest core;
};
struct RuntimeManifest::Impl {
  placement::RuntimeManifest core;
};
struct StoredManifest::Impl {
  std::shared_ptr<const formats::StoredManifest> core;
};
struct TransferPlan::Impl {
  reshard::TransferPlan core;
};
struct BoundPlan::Impl {
  reshard::BoundPlan core;
  TransferPlan plan;
};

struct ApiInternals {
  /// A public value around one of a room.
  template <typename Public, typename... Core>
  static Public made(Core&&... core) {
    using Impl = typename Public::Impl;
    return Public(std::make_shared<const Impl>(Impl{std::forward<Core>(core)...}));
  }
  template <typename Public>
  static const auto& core(const Public& value) {
    return value.impl_->core;
  }
  template <typename Public>
  static const auto* core(const Public* value) {
    return value == nullptr ? nullptr : &value->impl_->core;
  }
  static const std::atomic<bool>& flag(const Cancellation& cancel) { return cancel.flag_; }
  /// A room's answer as a public one.
  template <typename Public, typename Core>
  static Result<Public> answer(Result<Core> result) {
    if (!result.ok()) return std::move(result).status();
    return made<Public>(std::move(result).value());
  }
};

inline reshard::TensorView to_core(const TensorView& view) {
  reshard::TensorView out{view.tensor_id,         view.base_tensor_id, view.global_shape, view.axes, {},
                          view.layout_fingerprint};
  for (const TensorViewPiece& piece : view.pieces) {
    out.pieces.push_back({{piece.box.offset, piece.box.shape}, piece.view_offset});
  }
  return out;
}

}  // namespace steelyard
