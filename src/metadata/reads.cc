#include <algorithm>
#include <utility>

#include "metadata/codec.h"
#include "metadata/keys.h"
#include "metadata/rows.h"
#include "metadata/rules.h"

namespace steelyard::metadata {
namespace {

template <typename Value>
Result<std::optional<Value>> find_row(const StateView& view, std::string_view key,
                                      Result<Value> (*decode)(std::string_view)) {
  SY_ASSIGN_OR_RETURN(const std::optional<std::string> row, view.get(key));
  if (!row) return std::optional<Value>();
  SY_ASSIGN_OR_RETURN(Value value, decode(*row));
  return std::optional<Value>(std::move(value));
}

/// Every grant of a state is of the state's epoch. `rearmed_ms`: what it gets when another epoch begins.
LeaseLife judge(std::int64_t expires_mono_ms, std::int64_t rearmed_ms, const EpochState& epoch, const Now& now) {
  if (now.epoch != epoch.epoch) {
    // The epoch that granted it is over: what its last known instant left alive will be re-armed.
    const bool live = expires_mono_ms > epoch.last_mono_ms;
    return {live, live ? rearmed_ms : 0};
  }
  const std::int64_t left = expires_mono_ms - std::max(now.mono_ms, epoch.last_mono_ms);
  return {left > 0, std::max<std::int64_t>(left, 0)};
}

Result<std::vector<Lease>> live_leases(const StateView& view, const std::string& prefix, const Now& now) {
  SY_ASSIGN_OR_RETURN(const EpochState epoch, epoch_of(view));
  SY_ASSIGN_OR_RETURN(std::vector<Lease> leases, rows_under(view, prefix, decode_lease));
  std::erase_if(leases, [&](const Lease& lease) { return !life_of(lease, epoch, now).live; });
  return leases;
}

}  // namespace

Result<std::optional<RevisionRecord>> find_revision(const StateView& view, const Identity& identity) {
  return find_row<RevisionRecord>(view, keys::of(keys::kRevision, identity), decode_record);
}

Result<std::optional<Writer>> find_writer(const StateView& view, const Identity& identity) {
  return find_row<Writer>(view, keys::of(keys::kWriter, identity), decode_writer);
}

Result<std::optional<Runner>> find_runner(const StateView& view, const Identity& identity) {
  return find_row<Runner>(view, keys::of(keys::kRunner, identity), decode_runner);
}

Result<std::optional<Access>> find_access(const StateView& view, const Identity& identity) {
  return find_row<Access>(view, keys::of(keys::kAccess, identity), decode_access);
}

Result<LastUse> last_use_of(const StateView& view, const Identity& identity) {
  LastUse last;
  SY_ASSIGN_OR_RETURN(const std::optional<Access> access, find_access(view, identity));
  if (access) last = {access->epoch_ordinal, access->mono_ms};
  SY_ASSIGN_OR_RETURN(const std::vector<Lease> leases, all_leases_of(view, identity));
  if (leases.empty()) return last;
  SY_ASSIGN_OR_RETURN(const EpochState epoch, epoch_of(view));
  for (const Lease& lease : leases) last = std::max(last, {epoch.ordinal, last_renewal_ms(lease)});
  return last;
}

std::int64_t last_renewal_ms(const Lease& lease) {
  return std::max<std::int64_t>(lease.expires_mono_ms - lease.ttl_ms, 0);
}

Result<std::optional<Lease>> find_lease(const StateView& view, std::string_view lease_id) {
  SY_ASSIGN_OR_RETURN(const std::optional<std::string> key, view.get(keys::lease_id(lease_id)));
  if (!key) return std::optional<Lease>();
  return find_row<Lease>(view, *key, decode_lease);
}

Result<std::optional<RevisionRecord>> find_by_group(const StateView& view, std::string_view group_digest_hex) {
  Digest digest;
  if (!from_hex(group_digest_hex, digest.bytes)) return std::optional<RevisionRecord>();
  SY_ASSIGN_OR_RETURN(const std::optional<std::string> key, view.get(keys::group(digest)));
  if (!key) return std::optional<RevisionRecord>();
  return find_row<RevisionRecord>(view, *key, decode_record);
}

Result<std::vector<RevisionRecord>> records_after(const StateView& view, const std::optional<Identity>& after,
                                                  std::size_t limit) {
  const std::string table(1, keys::kRevision);
  // No key is a prefix of another, so the first key behind it begins with it and one byte more.
  const std::string from = after ? keys::of(keys::kRevision, *after) + '\0' : table;
  std::vector<RevisionRecord> records;
  Status failed;
  SY_RETURN_IF_ERROR(
      view.scan(from, keys::after_prefix(table), false, [&](std::string_view /*key*/, std::string_view row) {
        Result<RevisionRecord> record = decode_record(row);
        if (!record.ok()) {
          failed = std::move(record).status();
          return false;
        }
        records.push_back(std::move(record).value());
        return records.size() < limit;
      }));
  SY_RETURN_IF_ERROR(failed);
  return records;
}

Result<std::vector<RevisionRecord>> records_of(const StateView& view, const Lineage& lineage) {
  return rows_under(view, keys::of(keys::kRevision, lineage), decode_record);
}

Result<std::optional<RevisionRecord>> newest_of(const StateView& view, const Lineage& lineage) {
  const std::string prefix = keys::of(keys::kRevision, lineage);
  std::optional<std::string> row;
  SY_RETURN_IF_ERROR(
      view.scan(prefix, keys::after_prefix(prefix), true, [&](std::string_view /*key*/, std::string_view value) {
        row = std::string(value);
        return false;
      }));
  if (!row) return std::optional<RevisionRecord>();
  SY_ASSIGN_OR_RETURN(RevisionRecord record, decode_record(*row));
  return std::optional<RevisionRecord>(std::move(record));
}

Result<std::optional<Watermark>> find_watermark(const StateView& view, const Lineage& lineage) {
  return find_row<Watermark>(view, keys::of(keys::kWatermark, lineage), decode_watermark);
}

Result<EpochState> epoch_of(const StateView& view) {
  SY_ASSIGN_OR_RETURN(std::optional<EpochState> epoch, find_row<EpochState>(view, keys::epoch(), decode_epoch));
  if (!epoch) return EpochState{};
  SY_ASSIGN_OR_RETURN(const std::optional<std::string> row, view.get(keys::last_instant()));
  const auto instant = row ? keys::parse_be64(*row) : std::nullopt;
  if (!instant) return Status(Code::kCorrupt, "the state has an epoch and no last instant");
  epoch->last_mono_ms = static_cast<std::int64_t>(*instant);
  return *std::move(epoch);
}

LeaseLife life_of(const Lease& lease, const EpochState& epoch, const Now& now) {
  std::int64_t rearmed_ms = lease.ttl_ms;
  if (lease.renewable_until_mono_ms != 0) {
    rearmed_ms = std::min(rearmed_ms, lease.renewable_until_mono_ms - epoch.last_mono_ms);
  }
  return judge(lease.expires_mono_ms, rearmed_ms, epoch, now);
}

LeaseLife life_of(const Writer& writer, const EpochState& epoch, const Now& now) {
  if (writer.token.empty()) return {};
  return judge(writer.granted_mono_ms + writer.ttl_ms, writer.ttl_ms, epoch, now);
}

LeaseLife life_of(const Runner& runner, const EpochState& epoch, const Now& now) {
  if (runner.token.empty()) return {};
  return judge(runner.granted_mono_ms + runner.ttl_ms, runner.ttl_ms, epoch, now);
}

std::int64_t idle_ms_of(const Writer& writer, const EpochState& epoch, const Now& now) {
  const std::int64_t until = now.epoch == epoch.epoch ? std::max(now.mono_ms, epoch.last_mono_ms) : epoch.last_mono_ms;
  return writer.idle_before_ms + std::max<std::int64_t>(until - writer.granted_mono_ms, 0);
}

Result<std::vector<Lease>> live_leases_of(const StateView& view, const Identity& identity, const Now& now) {
  return live_leases(view, keys::of(keys::kLease, identity), now);
}

Result<std::vector<Lease>> all_leases_of(const StateView& view, const Identity& identity) {
  return rows_under(view, keys::of(keys::kLease, identity), decode_lease);
}

Result<std::vector<Lease>> live_leases_in(const StateView& view, std::string_view tenant_id,
                                          std::string_view namespace_id, const Now& now) {
  return live_leases(view, keys::namespace_prefix(keys::kLease, tenant_id, namespace_id), now);
}

}  // namespace steelyard::metadata
