// Variants of a weight set beside the plain one: `model.fp16.safetensors` beside `model.safetensors`, sharded or not.
//
// Internal to plan_checkpoint.
#pragma once

#include "formats/checkpoint_component.h"

namespace steelyard::formats {

/// Files of a variant that hold a tensor of the plain set keep their bytes and lose their tensors; its indexes move to
/// `variant_indexes`. One warning says which set was chosen and what holds the double. A variant without a plain set,
/// or with other tensors, is left as it is.
void set_variants_aside(Component& component);

}  // namespace steelyard::formats
