#include "placement/aliases.h"

#include <algorithm>

namespace steelyard::placement {

bool declared_aliases(const TensorColumns& tensors, const BoxColumns& boxes, std::size_t a, std::size_t b) {
  if (boxes.nbytes(a) != boxes.nbytes(b)) return false;
  if (boxes.alias_count(a) < 2 || boxes.alias_count(a) != boxes.alias_count(b)) return false;
  for (std::size_t i = 0; i < boxes.alias_count(a); ++i) {
    if (boxes.alias(a, i) != boxes.alias(b, i)) return false;
  }
  return std::ranges::equal(boxes.offset(a), boxes.offset(b)) && std::ranges::equal(boxes.shape(a), boxes.shape(b)) &&
         same_but_for_id(tensors.row(boxes.tensor(a)), tensors.row(boxes.tensor(b)));
}

}  // namespace steelyard::placement
