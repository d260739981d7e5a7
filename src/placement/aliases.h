// Aliases: one piece of memory under several names. Thread-safe: no state.
#pragma once

#include <cstddef>

#include "placement/columns.h"

namespace steelyard::placement {

/// Fragments `a` and `b` say that they are the same bytes: the same box, the same list of at least two names, and
/// tensors that differ in nothing but their ids. Whether their addresses agree is the caller's to see.
bool declared_aliases(const TensorColumns& tensors, const BoxColumns& boxes, std::size_t a, std::size_t b);

}  // namespace steelyard::placement
