#include "store/delete.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "formats/ref.h"
#include "store/removal.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::RevisionRecord;

constexpr std::int64_t kWaitStepMs = 200;
/// Between reading a record and changing it others may change it; a fence that the caller did not give is read again.
constexpr int kTriesMax = 5;

bool published(const RevisionRecord& record) { return record.committed_seq != 0; }
bool unpublished(const RevisionRecord& record) { return !published(record); }

/// Calls `change` with the fence: the caller's, or the record's as it is now.
template <typename Change>
Result<std::optional<RevisionRecord>> with_fence(Context& context, RevisionRecord record,
                                                 std::optional<std::uint64_t> expected, const Change& change) {
  for (int tries = 1;; ++tries) {
    Result<std::optional<RevisionRecord>> changed = change(expected.value_or(record.metadata_generation));
    if (changed.code() != Code::kStaleGeneration || expected || tries == kTriesMax) return changed;
    SY_ASSIGN_OR_RETURN(record, context.catalog.get_weight_revision(record.identity));
  }
}

/// Takes the bytes away, waiting for leases until the deadline.
Result<std::optional<RevisionRecord>> remove_until(Context& context, const RevisionRecord& record, std::int64_t wait_ms,
                                                   const CancelFlag& cancel) {
  const std::int64_t deadline = context.runtime.mono_ms() + wait_ms;
  Result<std::optional<RevisionRecord>> removed = finish_removal(context, record);
  while (removed.code() == Code::kBusy) {
    if (context.runtime.mono_ms() >= deadline) return removed;
    SY_POINT(context.runtime, "delete.waiting");
    if (cancel.load()) {
      return cancelled("waiting for the last lease")
          .with_hint(fmt::format("{} stays DELETING and gets no new lease; a later `steelyard delete` or `steelyard "
                                 "reconcile` ends it",
                                 formats::format_ref(record.identity)));
    }
    context.runtime.sleep_ms(kWaitStepMs);
    SY_RETURN_IF_ERROR(context.catalog.check_place());
    // The marker lies there already: to ask for leases writes nothing.
    Status leases = check_no_lease(context, record);
    if (leases.code() == Code::kBusy) {
      removed = std::move(leases);
    } else {
      removed = finish_removal(context, record);
    }
  }
  return removed;
}

}  // namespace

// A tombstone counts: whoever asks again because the first answer was lost must not take an older one for it.
Result<RevisionRecord> find_deletable(catalog::Catalog& catalog, const Selector& selector) {
  return newest_that(catalog, selector, {published, unpublished});
}

Result<RevisionRecord> find_abortable(catalog::Catalog& catalog, const Selector& selector) {
  return newest_that(catalog, selector, {unpublished, published});
}

Result<RemovalResult> run_delete(Context& context, const DeleteRequest& request, const CancelFlag& cancel) {
  const auto found = find_deletable(context.catalog, request.target);
  if (!found.ok()) {
    if (found.code() != Code::kNotFound || !request.target.ref.weight_generation) return found.status();
    // A tombstone that was compacted is deleted all the same.
    const metadata::Identity identity{lineage_of(request.target), *request.target.ref.weight_generation};
    SY_ASSIGN_OR_RETURN(const std::int64_t watermark, context.catalog.get_watermark(identity.lineage));
    if (watermark < identity.weight_generation) return found.status();
    return RemovalResult{identity, std::nullopt, true};
  }
  // From DELETING there is no way back, so what keeps the bytes from going is found before.
  SY_RETURN_IF_ERROR(context.cold.check_removable(attempt_of(*found).group));
  metadata::DeleteWeightRevision command;
  command.identity = found->identity;
  command.mode = request.wait_ms ? metadata::DeleteMode::kDrain : metadata::DeleteMode::kRefuse;
  const auto enter = [&](std::uint64_t generation) {
    command.expected_metadata_generation = generation;
    return context.catalog.delete_weight_revision(command);
  };
  RemovalResult result{found->identity, std::nullopt, found->availability == Availability::kDeleted};
  SY_ASSIGN_OR_RETURN(result.record, with_fence(context, *found, request.expected_generation, enter));
  SY_POINT(context.runtime, "delete.after_deleting");
  if (result.record && result.record->availability == Availability::kDeleting) {
    SY_ASSIGN_OR_RETURN(result.record, remove_until(context, *result.record, request.wait_ms.value_or(0), cancel));
  }
  return result;
}

Result<RemovalResult> run_abort(Context& context, const AbortRequest& request) {
  SY_ASSIGN_OR_RETURN(const RevisionRecord found, find_abortable(context.catalog, request.target));
  const bool ours_to_remove =
      found.availability == Availability::kImporting || found.availability == Availability::kDeleting;
  if (ours_to_remove) SY_RETURN_IF_ERROR(check_not_published_elsewhere(context.cold, found));
  metadata::AbortWeightImport command;
  command.identity = found.identity;
  command.force = request.force;
  const auto abort = [&](std::uint64_t generation) -> Result<std::optional<RevisionRecord>> {
    command.expected_metadata_generation = generation;
    SY_ASSIGN_OR_RETURN(RevisionRecord aborted, context.catalog.abort_weight_import(command));
    return std::optional(std::move(aborted));
  };
  RemovalResult result{found.identity, std::nullopt};
  SY_ASSIGN_OR_RETURN(result.record, with_fence(context, found, request.expected_generation, abort));
  SY_POINT(context.runtime, "abort.after_deleting");
  if (result.record && result.record->availability == Availability::kDeleting) {
    SY_ASSIGN_OR_RETURN(result.record, finish_removal(context, *result.record));
  }
  return result;
}

}  // namespace steelyard::store
