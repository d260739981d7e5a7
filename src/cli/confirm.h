// The question before a verb that cannot be taken back.
#pragma once

#include <string>

#include "base/status.h"
#include "cli/verb.h"

namespace steelyard::cli {

/// OK with --yes, or when the person at the terminal answers yes; the answer is no by default. INVALID_ARGUMENT
/// otherwise, also where there is no terminal to ask at: then nothing may be done. `question` ends with `?`.
Status confirm(const Invocation& call, const std::string& question);

}  // namespace steelyard::cli
