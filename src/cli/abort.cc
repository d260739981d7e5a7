// abort REF
#include "cli/confirm.h"
#include "cli/documents.h"
#include "cli/verbs.h"
#include "formats/ref.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--force", .placeholder = {}, .help = "also under a live writer, which ends with its next sign of life"},
    kExpectGeneration,
};

Status run_abort(Invocation& call) {
  store::AbortRequest request;
  SY_ASSIGN_OR_RETURN(request.target, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(request.expected_generation, call.expected_generation());
  request.force = call.has("--force");
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  if (!request.target.ref.weight_generation) {
    SY_ASSIGN_OR_RETURN(const metadata::RevisionRecord record, store->find_abortable(request.target));
    request.target.ref.weight_generation = record.identity.weight_generation;
  }
  SY_RETURN_IF_ERROR(confirm(call, "Abort the import of " + ref_of(request.target) + "?"));
  SY_ASSIGN_OR_RETURN(const store::RemovalResult result, store->abort(request));
  if (!call.json()) {
    call.out().line(formats::format_ref(result.identity));
    return {};
  }
  call.out().line(removal_document(result));
  return {};
}

}  // namespace

constinit const VerbSpec kAbortVerb = {.name = "abort",
                                       .operands = "REF",
                                       .operands_min = 1,
                                       .operands_max = 1,
                                       .summary = "end an unpublished import and free its objects",
                                       .prints = "the complete reference",
                                       .flags = kFlags,
                                       .run = run_abort};

}  // namespace steelyard::cli
