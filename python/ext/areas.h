// The areas of steelyard._ext: each .cc of this folder adds its own names to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace steelyard::python {

void add_cli(nanobind::module_& module);
void add_scalars(nanobind::module_& module);
void add_placement(nanobind::module_& module);
void add_runtime(nanobind::module_& module);
void add_inventory(nanobind::module_& module);
void add_columns(nanobind::module_& module);
void add_layout(nanobind::module_& module);
void add_plan(nanobind::module_& module);

}  // namespace steelyard::python
