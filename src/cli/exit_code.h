// Exit codes: one table (docs/cli.md shows it).
#pragma once

#include "base/status.h"

namespace steelyard::cli {

/// The process's exit code for an error code; 0 for OK.
int exit_code_of(Code code);

}  // namespace steelyard::cli
