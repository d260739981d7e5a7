// What the areas around plans share.
#pragma once

#include "ext/manifests.h"
#include "reshard/views.h"

namespace steelyard::python {

/// Tuples in the order of the facade's TensorView, and back. Checked against its tensor only where it is planned.
nb::object view_to_python(const reshard::TensorView& view);
reshard::TensorView view_from_python(nb::handle value, const Path& path);

}  // namespace steelyard::python
