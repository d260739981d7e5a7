// Verbs that the command line knows but this version cannot carry out. Each refuses with exit code 2.
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr std::string_view kNoEviction = "memory is freed with the revision (`delete`), or when the machine restarts";

}  // namespace

constinit const VerbSpec kEvictVerb = {.name = "evict",
                                       .operands = "REF",
                                       .operands_min = 1,
                                       .operands_max = 1,
                                       .summary = "free a revision's memory",
                                       .later = "it will free the memory of a hot revision",
                                       .meanwhile = kNoEviction};

}  // namespace steelyard::cli
