// Verbs that the command line knows but this version cannot carry out. Each refuses with exit code 2.
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr std::string_view kPolicy =
    "a policy is set at import with the settings policy.prefer, policy.ratio and policy.mode, and shown by `inspect "
    "--json`";

}  // namespace

constinit const VerbSpec kPolicyShowVerb = {.name = "policy",
                                            .sub = "show",
                                            .operands = "REF",
                                            .operands_min = 1,
                                            .operands_max = 1,
                                            .summary = "show a revision's policy",
                                            .later = "it will show a revision's residency policy",
                                            .meanwhile = kPolicy};
constinit const VerbSpec kPolicySetVerb = {.name = "policy",
                                           .sub = "set",
                                           .operands = "REF",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .summary = "change a revision's policy",
                                           .later = "it will change a revision's residency policy",
                                           .meanwhile = kPolicy};
constinit const VerbSpec kWatchVerb = {
    .name = "watch",
    .operands = "REF|RESOURCE",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "follow the changes of a revision or resource",
    .later = "it will print a line for each change",
    .meanwhile = "ask again from time to time: `list --newest --json` or `inspect --json`"};

}  // namespace steelyard::cli
