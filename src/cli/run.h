// The whole program but for main(): so that tests and tools can start it.
#pragma once

namespace steelyard::cli {

/// Parses, runs the verb, prints its result or error, returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace steelyard::cli
