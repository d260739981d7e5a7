#include "reshard/plan_side.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "reshard/dtypes.h"

namespace steelyard::reshard {
namespace {

Status refuse(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string_view name_of(Side side) { return side == Side::kSource ? "source" : "target"; }

void row_major_bytes(std::span<const std::int64_t> shape, std::int64_t itemsize, std::vector<std::int64_t>& strides) {
  strides.resize(shape.size());
  std::int64_t stride = itemsize;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
}

/// Adds the pieces of a fragment that lie in a view of its tensor.
class ViewCutter {
 public:
  explicit ViewCutter(PieceTable& pieces) : pieces_(pieces) {}

  void add(const TensorView& view, std::uint32_t number, std::uint32_t fragment, std::span<const std::int64_t> offset,
           std::span<const std::int64_t> extent, std::span<const std::int64_t> strides) {
    for (const ViewPiece& piece : view.pieces) {
      std::int64_t base = 0;
      view_offset_.clear();
      view_extent_.clear();
      view_stride_.clear();
      bool empty = false;
      for (std::size_t d = 0; d < offset.size() && !empty; ++d) {
        const std::int64_t begin = std::max(offset[d], piece.box.offset[d]);
        const std::int64_t end = std::min(offset[d] + extent[d], piece.box.offset[d] + piece.box.extent[d]);
        empty = begin >= end;
        base += (begin - offset[d]) * strides[d];
        const std::size_t axis = view_offset_.size();
        if (axis >= view.axes.size() || view.axes[axis] != d) continue;
        view_offset_.push_back(begin - piece.box.offset[d] + piece.view_offset[axis]);
        view_extent_.push_back(end - begin);
        view_stride_.push_back(strides[d]);
      }
      if (!empty) pieces_.add(number, fragment, base, view_offset_, view_extent_, view_stride_);
    }
  }

 private:
  PieceTable& pieces_;
  std::vector<std::int64_t> view_offset_;
  std::vector<std::int64_t> view_extent_;
  std::vector<std::int64_t> view_stride_;
};

}  // namespace

std::string tuple_text(std::span<const std::int64_t> numbers) {
  std::string text = "(";
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  return text + (numbers.size() == 1 ? ",)" : ")");
}

std::string box_text(std::span<const std::int64_t> offset, std::span<const std::int64_t> extent) {
  return "offset " + tuple_text(offset) + ", shape " + tuple_text(extent);
}

Result<PlanSide> PlanSide::of_placement(const placement::PlacementManifest& manifest, std::span<const TensorView> views,
                                        Side side) {
  PlanSide out;
  out.placement_ = manifest;
  const placement::TensorColumns& tensors = out.placement_->tensors();
  out.tensors_.reserve(tensors.size() + views.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    out.tensors_.push_back({tensors.tensor_id(t), tensors.dtype(t), tensors.layout_fingerprint(t), tensors.shape(t),
                            tensors.itemsize(t), 0, static_cast<std::uint32_t>(t), nullptr});
  }
  SY_RETURN_IF_ERROR(out.add_views(views, side, tensors.size()));
  return out;
}

Result<PlanSide> PlanSide::of_stored(std::shared_ptr<const formats::StoredManifest> manifest,
                                     std::span<const TensorView> views) {
  PlanSide out;
  out.stored_ = std::move(manifest);
  const formats::TensorTable& table = out.stored_->tensors;
  for (std::size_t t = 0; t < table.size(); ++t) {
    const formats::TensorRow row = table.row(t);
    const DtypeSpelling* dtype = find_dtype(row.dtype);
    const std::int64_t itemsize = dtype != nullptr && dtype->bits % 8 == 0 ? dtype->bits / 8 : 0;
    const bool empty = std::find(row.shape.begin(), row.shape.end(), 0) != row.shape.end();
    out.tensors_.push_back({row.tensor_id, row.dtype, row.layout_fingerprint, row.shape, itemsize,
                            row.place ? row.place->bytes : 0, static_cast<std::uint32_t>(t), nullptr});
    if (row.place && !empty) {
      out.stored_fragments_.push_back({static_cast<std::uint32_t>(t), kNone, *row.place});
    }
  }
  for (std::size_t i = 0; i < out.stored_->fragments.size(); ++i) {
    const formats::FragmentEntry& entry = out.stored_->fragments[i];
    const auto tensor = table.find(entry.tensor_id);
    if (!tensor) return refuse("stored fragment of " + quoted(entry.tensor_id) + ": there is no such tensor");
    out.stored_fragments_.push_back({static_cast<std::uint32_t>(*tensor), static_cast<std::uint32_t>(i), entry.place});
  }
  SY_RETURN_IF_ERROR(out.add_views(views, Side::kSource, table.size()));
  return out;
}

Status PlanSide::add_views(std::span<const TensorView> views, Side side, std::size_t base_tensors) {
  const auto by_id = [](const LogicalTensor& tensor, std::string_view id) { return tensor.id < id; };
  std::vector<std::uint8_t> fused(base_tensors);
  std::vector<std::vector<geometry::Box>> boxes(views.empty() ? 0 : base_tensors);
  std::vector<LogicalTensor> added;
  for (const TensorView& view : views) {
    const auto base = std::lower_bound(tensors_.begin(), tensors_.end(), view.base_tensor_id, by_id);
    if (base == tensors_.end() || base->id != view.base_tensor_id) {
      return refuse("view " + quoted(view.tensor_id) + ": the " + std::string(name_of(side)) + " has no tensor " +
                    quoted(view.base_tensor_id));
    }
    SY_RETURN_IF_ERROR(check_view(view, base->shape));
    if (base->itemsize == 0) {
      return refuse("view " + quoted(view.tensor_id) + ": tensor " + quoted(base->id) + " of " + quoted(base->dtype) +
                    " has no whole bytes per element, so it has no views");
    }
    LogicalTensor tensor = *base;
    tensor.id = view.tensor_id;
    tensor.shape = view.global_shape;
    tensor.view = &view;
    tensor.stored_bytes = 0;
    if (!view.layout_fingerprint.empty()) tensor.layout = view.layout_fingerprint;
    added.push_back(tensor);
    fused[base->base] = 1;
    for (const ViewPiece& piece : view.pieces) boxes[base->base].push_back(piece.box);
  }
  if (views.empty()) return {};
  for (const LogicalTensor& tensor : tensors_) {
    if (side == Side::kSource || !fused[tensor.base]) continue;
    const auto problem = geometry::check_exact_cover(geometry::whole(tensor.shape), boxes[tensor.base]);
    if (!problem) continue;
    return refuse("the views of target tensor " + quoted(tensor.id) +
                  (problem->kind == geometry::CoverProblem::Kind::kMissing ? " leave out " : " share ") +
                  box_text(problem->box.offset, problem->box.extent) + "; wanted each element in exactly one");
  }
  std::erase_if(tensors_, [&](const LogicalTensor& tensor) { return fused[tensor.base] != 0; });
  tensors_.insert(tensors_.end(), added.begin(), added.end());
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const LogicalTensor& a, const LogicalTensor& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < tensors_.size(); ++i) {
    if (tensors_[i].id != tensors_[i - 1].id) continue;
    return refuse("view " + quoted(tensors_[i].id) + ": the " + std::string(name_of(side)) +
                  " has another tensor or view of that name");
  }
  return {};
}

std::string PlanSide::fragment_id(std::size_t fragment) const {
  if (placement_) return std::string(placement_->fragments().ids.at(fragment));
  const StoredFragment& stored = stored_fragments_[fragment];
  std::string id(stored_->tensors.tensor_id(stored.tensor));
  if (stored.entry != kNone) id += "@" + tuple_text(stored_->fragments[stored.entry].global_offset);
  return id;
}

std::uint64_t PlanSide::fragment_bytes(std::size_t fragment) const {
  return placement_ ? placement_->fragments().boxes.nbytes(fragment) : stored_fragments_[fragment].place.bytes;
}

std::span<const placement::ParallelRank> PlanSide::ranks() const {
  static constexpr std::array<placement::ParallelRank, 1> kOne{};
  return placement_ ? placement_->fragments().boxes.ranks() : std::span<const placement::ParallelRank>(kOne);
}

PieceTable PlanSide::pieces(std::span<const Use> uses) const {
  SY_CHECK(uses.size() == tensors_.size(), "one use per tensor");
  // For each row of the manifest's tensors the logical tensors that lie in it: one, or its views.
  const std::size_t bases = placement_ ? placement_->tensors().size() : stored_->tensors.size();
  std::vector<std::uint32_t> begin(bases + 1);
  for (const LogicalTensor& tensor : tensors_) ++begin[tensor.base + 1];
  for (std::size_t b = 0; b < bases; ++b) begin[b + 1] += begin[b];
  std::vector<std::uint32_t> in_base(tensors_.size());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t t = 0; t < tensors_.size(); ++t) in_base[next[tensors_[t].base]++] = static_cast<std::uint32_t>(t);

  PieceTable out;
  ViewCutter cutter(out);
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> zeros;
  const auto add = [&](std::uint32_t base, std::uint32_t fragment, std::span<const std::int64_t> offset,
                       std::span<const std::int64_t> extent) {
    for (std::uint32_t i = begin[base]; i < begin[base + 1]; ++i) {
      const Use& use = uses[in_base[i]];
      if (use.number == kNone) continue;
      const LogicalTensor& tensor = tensors_[in_base[i]];
      if (!use.shape.empty()) {
        zeros.assign(use.shape.size(), 0);
        row_major_bytes(use.shape, use.itemsize, strides);
        out.add(use.number, fragment, 0, zeros, use.shape, strides);
        continue;
      }
      row_major_bytes(extent, use.itemsize, strides);
      if (tensor.view != nullptr) {
        cutter.add(*tensor.view, use.number, fragment, offset, extent, strides);
      } else {
        out.add(use.number, fragment, 0, offset, extent, strides);
      }
    }
  };
  if (placement_) {
    const placement::BoxColumns& boxes = placement_->fragments().boxes;
    out.reserve(boxes.size(), 2 * boxes.size());
    for (std::size_t f = 0; f < boxes.size(); ++f) {
      add(boxes.tensor(f), static_cast<std::uint32_t>(f), boxes.offset(f), boxes.shape(f));
    }
    return out;
  }
  for (std::size_t f = 0; f < stored_fragments_.size(); ++f) {
    const StoredFragment& stored = stored_fragments_[f];
    const std::span<const std::int64_t> shape = stored_->tensors.row(stored.tensor).shape;
    if (stored.entry == kNone) {
      const std::vector<std::int64_t> origin(shape.size(), 0);
      add(stored.tensor, static_cast<std::uint32_t>(f), origin, shape);
    } else {
      const formats::FragmentEntry& entry = stored_->fragments[stored.entry];
      add(stored.tensor, static_cast<std::uint32_t>(f), entry.global_offset, entry.local_shape);
    }
  }
  return out;
}

}  // namespace steelyard::reshard
