// The program, started from Python: `python -m steelyard` and the installed `steelyard` command.
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "cli/run.h"
#include "ext/areas.h"

namespace nb = nanobind;

namespace steelyard::python {
namespace {

int run(const nb::list& arguments) {
  std::vector<std::string> words;
  for (nb::handle word : arguments) {
    const nb::bytes bytes = nb::cast<nb::bytes>(word);
    words.emplace_back(bytes.c_str(), bytes.size());
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  const nb::gil_scoped_release release;
  return cli::run(static_cast<int>(words.size()), argv.data());
}

}  // namespace

void add_cli(nb::module_& module) {
  module.def(
      "run", &run, nb::arg("arguments"), nb::sig("def run(arguments: list[bytes]) -> int"),
      "Runs the program with these words (the first is its name) and returns its exit code. It takes over the "
      "process's signal handlers and standard files, so it is called once, by a process that does nothing else.");
}

}  // namespace steelyard::python
