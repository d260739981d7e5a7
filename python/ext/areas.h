// The areas of steelyard._ext: each .cc of this folder adds its own names to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace steelyard::python {

void add_cli(nanobind::module_& module);

}  // namespace steelyard::python
