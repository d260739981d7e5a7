// What the contracts demand: of one row, and of rows together. Every builder calls these; they are public so that a
// value can be refused where it is made.
//
// Errors are INVALID_ARGUMENT with the path of the field below `path` (an empty path: the field's own name).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "placement/columns.h"
#include "placement/errors.h"
#include "placement/types.h"

namespace steelyard::placement {

/// Rows alone, without the tensor they belong to.
Status check_rank(const ParallelRank& rank, const Path& path);
Status check_tensor(const TensorDescriptorRow& row, const Path& path);
Status check_fragment(const PlacementFragmentRow& row, const Path& path);
Status check_fragment(const RuntimeFragmentRow& row, const Path& path);
Status check_fragment(const BindingFragmentRow& row, const Path& path);

/// A non-empty text in valid UTF-8.
Status check_text(std::string_view text, const Path& path);
/// 64 lower-case hex digits.
Status check_digest(std::string_view text, const Path& path);
/// Checks aliases (not empty, none twice) and sorts them.
Status sort_aliases(std::vector<std::string_view>& aliases, const Path& path);

/// A box against its tensor: dimensions, bounds, what may be cut, bytes. `path` is the fragment's.
Status check_box(const TensorDescriptorRow& tensor, std::span<const std::int64_t> offset,
                 std::span<const std::int64_t> shape, std::uint64_t nbytes, const Path& path);

/// Boxes of one (tensor, rank): none twice, none that overlap. `input_row` gives the number under which a message
/// should speak of a row.
Status check_boxes_disjoint(const TensorColumns& tensors, const BoxColumns& boxes, const FragmentsOfTensors& by_tensor,
                            const std::function<std::size_t(std::size_t)>& input_row);

/// Address ranges of one (worker, device): none that overlap but exact declared aliases.
Status check_addresses_disjoint(const TensorColumns& tensors, const BoxColumns& boxes, const PlaceColumns& places);

}  // namespace steelyard::placement
