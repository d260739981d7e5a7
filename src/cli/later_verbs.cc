// Verbs that the command line knows but this version cannot carry out. Each refuses with exit code 2.
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr std::string_view kNoHotTier =
    "every revision is COLD in this version; `materialize` to a folder in /dev/shm for a copy in memory";
constexpr std::string_view kPolicy =
    "a policy is set at import with the settings policy.prefer, policy.ratio and policy.mode, and shown by `inspect "
    "--json`";

}  // namespace

constinit const VerbSpec kDeleteVerb = {
    .name = "delete",
    .alias = "rm",
    .operands = "REF",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "delete a revision that nobody reads",
    .later = "it will take a revision's bytes away once no lease protects it, and leave a tombstone",
    .meanwhile =
        "import what you want to remove later into a store of its own (--store DIR), which you can remove as a folder"};
constinit const VerbSpec kAbortVerb = {.name = "abort",
                                       .operands = "REF",
                                       .operands_min = 1,
                                       .operands_max = 1,
                                       .summary = "end an unpublished import",
                                       .later = "it will end an unpublished import and free its objects",
                                       .meanwhile = "the same `import` resumes it, and what it stored is used again"};
constinit const VerbSpec kEvictVerb = {.name = "evict",
                                       .operands = "REF",
                                       .operands_min = 1,
                                       .operands_max = 1,
                                       .summary = "free a revision's memory",
                                       .later = "it will free the memory of a hot revision",
                                       .meanwhile = kNoHotTier};
constinit const VerbSpec kRehydrateVerb = {.name = "rehydrate",
                                           .alias = "warm",
                                           .operands = "REF",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .summary = "bring a revision into memory",
                                           .later = "it will bring a revision into the hot tier",
                                           .meanwhile = kNoHotTier};
constinit const VerbSpec kRepairVerb = {
    .name = "repair",
    .operands = "REF",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "restore missing or damaged objects",
    .later = "it will restore missing and damaged objects from another tier or from a source folder",
    .meanwhile = "`verify` names what is damaged, and `import` of the source under another revision stores it anew"};
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
constinit const VerbSpec kOperationShowVerb = {
    .name = "operation",
    .sub = "show",
    .operands = "ID",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "show an operation",
    .later = "it will show a residency operation",
    .meanwhile = "no verb of this version starts an operation; `inspect` shows a revision's state"};
constinit const VerbSpec kOperationCancelVerb = {.name = "operation",
                                                 .sub = "cancel",
                                                 .operands = "ID",
                                                 .operands_min = 1,
                                                 .operands_max = 1,
                                                 .summary = "cancel an operation",
                                                 .later = "it will cancel a residency operation",
                                                 .meanwhile = "no verb of this version starts an operation"};
constinit const VerbSpec kReconcileVerb = {
    .name = "reconcile",
    .operands = "[REF]",
    .operands_max = 1,
    .summary = "recompute the observed truth and go on with interrupted work",
    .later = "it will recompute what is observed, go on with interrupted work and reap what was abandoned",
    .meanwhile =
        "`verify REF` re-reads one revision and records what it finds; an interrupted `import` is resumed by the same "
        "command"};
constinit const VerbSpec kGcVerb = {
    .name = "gc",
    .summary = "free what no revision refers to",
    .later = "it will free content that no revision refers to",
    .meanwhile = "an import cleans up its own older attempts; equal content is stored once"};
constinit const VerbSpec kRecoverVerb = {
    .name = "recover",
    .summary = "rebuild the catalog from the cold tier",
    .later = "it will rebuild a lost catalog from the cold tier's snapshot copies and committed groups",
    .meanwhile = "keep the store folder as it is: all it needs is written with every import"};
constinit const VerbSpec kUsageVerb = {
    .name = "usage",
    .summary = "bytes per revision and tier",
    .later = "it will count bytes per revision and tier, shared bytes once",
    .meanwhile = "`list` shows each revision's size, and `du -sh` of the store folder the bytes on disk"};
constinit const VerbSpec kDoctorVerb = {
    .name = "doctor",
    .summary = "check the store and the machine",
    .later = "it will check the store, the tiers, free space and kernel features",
    .meanwhile = "`verify REF` checks a revision's bytes, and `config show` what is set"};
constinit const VerbSpec kBenchVerb = {
    .name = "bench",
    .operands = "[REF]",
    .operands_max = 1,
    .summary = "what the disk and memory can do here",
    .later = "it will measure the disk and memory, and what import, load and verify reach",
    .meanwhile = "`import --json` and `--progress plain` say how fast an import is"};

}  // namespace steelyard::cli
