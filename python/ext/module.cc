// steelyard._ext: what the facade in python/steelyard stands on. Nothing here is public; the facade is.
#include "ext/areas.h"

NB_MODULE(_ext, module) {
  // Values that live in module globals at the end of the process are no leaks of ours.
  nanobind::set_leak_warnings(false);
  module.doc() = "The compiled part of steelyard. Import the public modules instead.";
  module.attr("version") = STEELYARD_VERSION;
  steelyard::python::add_cli(module);
  steelyard::python::add_scalars(module);
  steelyard::python::add_placement(module);
  steelyard::python::add_runtime(module);
  steelyard::python::add_inventory(module);
  steelyard::python::add_columns(module);
  steelyard::python::add_layout(module);
  steelyard::python::add_plan(module);
}
