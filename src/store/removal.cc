#include "store/removal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/log.h"
#include "formats/ref.h"

namespace steelyard::store {
namespace {

/// A writer that was aborted may put something while its attempt is removed; it learns of its end at its next renewal.
constexpr int kPassesMax = 5;

}  // namespace

Status check_drained(Context& context, const metadata::RevisionRecord& record) {
  const auto live = [](const catalog::Catalog::LeaseRow& row) { return row.left_ms > 0; };
  std::vector<catalog::Catalog::LeaseRow> leases;
  do {
    SY_ASSIGN_OR_RETURN(leases, context.catalog.reap_leases(record.identity));
    if (leases.empty()) return {};
    // One that ended just now still stands in the log, and a new epoch could give it its time again.
  } while (std::ranges::none_of(leases, live));
  std::erase_if(leases, [&](const auto& row) { return !live(row); });
  std::vector<metadata::LiveLease> named;
  for (const auto& row : leases) named.push_back({row.lease.holder, row.left_ms});
  return {
      Code::kBusy,
      fmt::format("{} is DELETING and has {}", formats::format_ref(record.identity), metadata::describe_leases(named)),
      fmt::format("it stays DELETING and gets no new lease; a later `steelyard delete {}` or `steelyard reconcile` "
                  "ends it",
                  formats::format_ref(record.identity))};
}

namespace {

/// The attempts of the group in which something of ours is left.
Result<std::vector<std::uint32_t>> attempts_left(tiers::Tier& cold, const std::string& group) {
  SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, cold.list_group(group));
  std::vector<std::uint32_t> left;
  for (const std::uint32_t attempt : listing.attempts) {
    SY_ASSIGN_OR_RETURN(const auto objects, cold.list_attempt({group, attempt}));
    if (!objects.empty() || std::ranges::count(listing.committed_attempts, attempt) != 0) left.push_back(attempt);
  }
  return left;
}

Status remove_objects(Context& context, const std::string& group) {
  for (int pass = 0; pass < kPassesMax; ++pass) {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, context.cold.list_group(group));
    for (const std::uint32_t attempt : listing.attempts) {
      SY_RETURN_IF_ERROR(context.cold.remove_attempt({group, attempt}));
      SY_POINT(context.runtime, "delete.after_attempt");
    }
    SY_ASSIGN_OR_RETURN(const auto left, attempts_left(context.cold, group));
    if (left.empty()) return {};
  }
  return {Code::kUnavailable, fmt::format("objects of group {} come back while they are removed", group),
          "a writer that was aborted still works; it ends with its next renewal: run the same command again then"};
}

}  // namespace

Status check_not_published_elsewhere(tiers::Tier& cold, const metadata::Identity& identity) {
  const std::string group = attempt_of(identity, 1).group;
  SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, cold.list_group(group));
  if (listing.committed_attempts.empty()) return {};
  return {Code::kConflict,
          fmt::format("{} is published in the cold tier (attempt {} of group {}), but not in this catalog: an older "
                      "catalog was put back, or another store uses the same cold tier",
                      formats::format_ref(identity), listing.committed_attempts.front(), group),
          "put the newer catalog back, or make one that knows it with `steelyard recover --force`; give each store a "
          "cold tier of its own"};
}

Status check_not_published_elsewhere(tiers::Tier& cold, const metadata::RevisionRecord& record) {
  if (record.committed_seq != 0) return {};
  return check_not_published_elsewhere(cold, record.identity);
}

namespace {

/// Memory that is another user's, or that went away, does not keep the revision: gc frees it.
Status free_memory(Context& context, const metadata::RevisionRecord& record) {
  Status removed = remove_hot(context, attempt_of(record).group);
  if (removed.code() == Code::kUnauthorized || removed.code() == Code::kUnavailable) {
    log_warning("what of {} lies in memory is left for a gc: {}", formats::format_ref(record.identity),
                removed.to_string());
    return {};
  }
  return std::move(removed).annotate("removing from memory", formats::format_ref(record.identity));
}

Result<std::optional<metadata::RevisionRecord>> remove_and_finish(Context& context,
                                                                  const metadata::RevisionRecord& record) {
  SY_RETURN_IF_ERROR(check_not_published_elsewhere(context.cold, record));
  const std::string group = attempt_of(record).group;
  SY_RETURN_IF_ERROR(context.cold.put_deleting(group, catalog::encode_deleting(record)));
  SY_POINT(context.runtime, "delete.after_marker");
  SY_RETURN_IF_ERROR(check_drained(context, record));
  SY_RETURN_IF_ERROR(remove_objects(context, group).annotate("removing", formats::format_ref(record.identity)));
  SY_RETURN_IF_ERROR(free_memory(context, record));
  SY_POINT(context.runtime, "delete.after_objects");
  // On a full disk the marker is empty until the objects have made room for it; and a late reconcile, which saw a stray
  // one beside the published record, may have taken it away.
  const auto marker = context.cold.read_deleting(group);
  if (marker.code() == Code::kNotFound || (marker.ok() && marker->empty())) {
    SY_RETURN_IF_ERROR(context.cold.put_deleting(group, catalog::encode_deleting(record)));
  }
  SY_ASSIGN_OR_RETURN(auto tombstone,
                      context.catalog.finish_delete(
                          {.identity = record.identity, .expected_metadata_generation = record.metadata_generation}));
  SY_POINT(context.runtime, "delete.after_deleted");
  return tombstone;
}

}  // namespace

Result<std::optional<metadata::RevisionRecord>> finish_removal(Context& context,
                                                               const metadata::RevisionRecord& record) {
  auto removed = remove_and_finish(context, record);
  if (removed.ok() || removed.code() == Code::kBusy) return removed;
  // Perhaps somebody else came to the end of it meanwhile, and the group's folder is gone.
  const auto now = context.catalog.get_weight_revision(record.identity);
  if (now.ok() && now->availability == metadata::Availability::kDeleted) return std::optional(*now);
  if (now.code() != Code::kNotFound) return removed;
  const auto watermark = context.catalog.get_watermark(record.identity.lineage);
  if (watermark.ok() && *watermark >= record.identity.weight_generation) {
    return std::optional<metadata::RevisionRecord>();
  }
  return removed;
}

}  // namespace steelyard::store
