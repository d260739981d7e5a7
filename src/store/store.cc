#include "store/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "formats/ref.h"
#include "store/ballast.h"
#include "store/cancel_operation.h"
#include "store/cat.h"
#include "store/context.h"
#include "store/damage_record.h"
#include "store/delete.h"
#include "store/gc.h"
#include "store/import.h"
#include "store/io_budget.h"
#include "store/keep_reconciled.h"
#include "store/lease_guard.h"
#include "store/manifest_file.h"
#include "store/materialize.h"
#include "store/open_revision.h"
#include "store/open_store.h"
#include "store/policies.h"
#include "store/policy.h"
#include "store/reconcile.h"
#include "store/repair.h"
#include "store/residency.h"
#include "store/residency_run.h"
#include "store/resolve.h"
#include "store/usage.h"
#include "store/verify.h"
#include "store/watch.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

constexpr std::string_view kCancelledHint = "nothing was left half visible; run the same command again";

unsigned core_count() {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? static_cast<unsigned>(cores) : 1;
}

StoreOptions with_defaults(StoreOptions options) {
  if (options.jobs == 0) options.jobs = core_count();
  return options;
}

/// Keeps a copy of each catalog snapshot in the cold tier, and removes the ones that newer copies replace. Those from
/// behind the log's end are of a history that an older catalog, put back, has left: once there are enough of this one
/// they go too, as a recovery would begin with them.
Status copy_snapshot(tiers::Tier& cold, catalog::Catalog& catalog, std::uint64_t sequence, const std::string& bytes) {
  SY_RETURN_IF_ERROR(cold.put_catalog_copy(sequence, bytes));
  SY_ASSIGN_OR_RETURN(std::vector<std::uint64_t> copies, cold.list_catalog_copies());
  SY_ASSIGN_OR_RETURN(const std::uint64_t newest, catalog.sequence());
  const auto behind = std::ranges::upper_bound(copies, newest);
  const auto own = static_cast<std::size_t>(behind - copies.begin());
  if (own < limits::kCatalogCopiesKept) return {};
  copies.erase(behind - limits::kCatalogCopiesKept, behind);
  Status first;
  for (const std::uint64_t replaced : copies) {
    Status status = cold.remove_catalog_copy(replaced);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

class StoreImpl final : public Store {
 public:
  StoreImpl(Runtime& runtime, const StoreOptions& options, StoreParts parts)
      : options_(with_defaults(options)),
        parts_(std::move(parts)),
        observer_(*parts_.cold),
        hot_(parts_.open_hot),
        catalog_(runtime, *parts_.log, observer_,
                 {.oplog_capability_confirmed = options_.oplog_capability_confirmed,
                  .snapshot_every = options_.snapshot_every,
                  .on_snapshot =
                      [this](std::uint64_t sequence, const std::string& bytes) {
                        return copy_snapshot(*parts_.cold, catalog_, sequence, bytes);
                      }}),
        context_{runtime,          options_,       *parts_.cold,
                 catalog_,         observer_,      io_budget(options_.io_memory, cgroup_memory_limit()),
                 parts_.read_only, parts_.ballast, parts_.open_hot ? &hot_ : nullptr} {}

  bool read_only() const override { return parts_.read_only; }
  const std::string& store_id() const override { return parts_.store_id; }

  Result<ImportResult> import(const ImportRequest& request, Observer& observer, const CancelFlag& cancel) override {
    SY_ASSIGN_OR_RETURN(const auto source, parts_.open_source(request.source, request.follow_links));
    SY_ASSIGN_OR_RETURN(ImportResult result, run_import(context_, request, *source, observer, cancel));
    if (request.into_memory) {
      SY_ASSIGN_OR_RETURN(result.record, bring_imported(result.record, observer, cancel));
    }
    // The revision is published, whether its leases can be counted now or not.
    if (const auto leases = active_leases(result.record.identity); leases.ok()) {
      result.active_leases = *leases;
    } else {
      log_info("the leases of the new revision could not be counted: {}", leases.status().to_string());
    }
    return result;
  }

  Result<metadata::ListPage> list(const metadata::ListQuery& query) override {
    return catalog_.list_weight_revisions(query);
  }

  Result<metadata::RevisionRecord> resolve(const Selector& selector, bool allow_degraded) override {
    return store::resolve(catalog_, selector, allow_degraded ? Purpose::kReadDegraded : Purpose::kRead);
  }

  Result<metadata::RevisionRecord> find(const Selector& selector) override {
    return store::resolve(catalog_, selector, Purpose::kInspect);
  }

  Result<std::uint64_t> active_leases(const metadata::Identity& identity) override {
    SY_ASSIGN_OR_RETURN(const auto leases, catalog_.list_leases(identity));
    return leases.size();
  }

  Result<Inspection> inspect(const Selector& selector) override {
    Inspection inspection;
    SY_ASSIGN_OR_RETURN(inspection.record, store::resolve(catalog_, selector, Purpose::kInspect));
    const metadata::RevisionRecord& record = inspection.record;
    inspection.read_only = parts_.read_only;
    SY_ASSIGN_OR_RETURN(inspection.leases, catalog_.list_leases(record.identity));
    inspection.active_leases = inspection.leases.size();
    if (record.availability == metadata::Availability::kImporting) {
      SY_ASSIGN_OR_RETURN(inspection.writer, catalog_.get_writer(record.identity));
    }
    if (record.operation) {
      auto found = catalog_.query_operation(record.operation->operation_id);
      const bool runs = found.ok() && found->operation.state == metadata::OperationState::kRunning;
      if (runs) inspection.operation = std::move(found).value();
    }
    if (is_published(record.availability)) {
      auto manifest = load_manifest(*parts_.cold, record);
      if (manifest.ok()) {
        inspection.manifest = std::move(manifest).value();
      } else {
        log_warning("{}", manifest.status().message());
        if (manifest.code() == Code::kCorrupt) note_bad_manifest(inspection.record);
      }
    }
    SY_ASSIGN_OR_RETURN(const auto members, parts_.cold->list_attempt(attempt_of(record)));
    for (const tiers::ObjectStat& member : members) {
      ++inspection.cold_objects;
      inspection.cold_bytes += member.bytes;
    }
    look_at_memory(inspection);
    return inspection;
  }

  Result<UsageReport> usage(const std::string& tenant_id, const std::string& namespace_id) override {
    return run_usage(context_, tenant_id, namespace_id);
  }

  Result<VerifyReport> verify(const Selector& selector, Observer& observer, const CancelFlag& cancel) override {
    return run_verify(context_, selector, observer, cancel);
  }

  Result<MaterializeResult> materialize(const MaterializeRequest& request, Observer& observer,
                                        const CancelFlag& cancel) override {
    return run_materialize(context_, request, observer, cancel);
  }

  Status cat(const CatRequest& request, const std::function<Status(ByteView)>& sink,
             const CancelFlag& cancel) override {
    return run_cat(context_, request, sink, cancel);
  }

  Result<std::unique_ptr<OpenRevision>> open_revision(const Selector& selector, const LeaseTerms& terms) override {
    return OpenRevision::open(context_, selector, terms, read_memory());
  }

  Result<RepairResult> repair(const RepairRequest& request, Observer& observer, const CancelFlag& cancel) override {
    std::unique_ptr<Source> source;
    if (!request.source.empty()) {
      SY_ASSIGN_OR_RETURN(source, parts_.open_source(request.source, request.follow_links));
    }
    return run_repair(context_, request, source.get(), observer, cancel);
  }

  Result<ResidencyResult> evict(const ResidencyRequest& request, Observer& observer,
                                const CancelFlag& cancel) override {
    return run_evict(context_, request, observer, cancel);
  }

  Result<ResidencyResult> rehydrate(const ResidencyRequest& request, Observer& observer,
                                    const CancelFlag& cancel) override {
    return run_rehydrate(context_, request, observer, cancel);
  }

  Result<metadata::OperationView> operation(const std::string& operation_id) override {
    return catalog_.query_operation(operation_id);
  }

  Result<metadata::OperationView> cancel_operation(const std::string& operation_id, const CancelFlag& cancel) override {
    return run_cancel(context_, operation_id, cancel);
  }

  Result<metadata::RevisionRecord> update_policy(const PolicyRequest& request) override {
    return store::update_policy(catalog_, request);
  }

  Result<catalog::WatchBatch> watch(const catalog::WatchQuery& query, const CancelFlag& cancel) override {
    return run_watch(context_, query, cancel);
  }

  Result<metadata::RevisionRecord> find_deletable(const Selector& selector) override {
    return store::find_deletable(catalog_, selector);
  }

  Result<metadata::RevisionRecord> find_abortable(const Selector& selector) override {
    return store::find_abortable(catalog_, selector);
  }

  Result<RemovalResult> erase(const DeleteRequest& request, const CancelFlag& cancel) override {
    return with_ballast(context_.ballast, [&] { return run_delete(context_, request, cancel); });
  }

  Result<RemovalResult> abort(const AbortRequest& request) override {
    return with_ballast(context_.ballast, [&] { return run_abort(context_, request); });
  }

  Result<ReconcileReport> reconcile(const std::optional<Selector>& selector, Observer& observer,
                                    const CancelFlag& cancel) override {
    return run_reconcile(context_, selector, observer, cancel);
  }

  Status keep_reconciled(const std::optional<Selector>& selector, Observer& observer,
                         const std::function<Status(const ReconcileReport&)>& tell, const CancelFlag& cancel) override {
    return run_keep_reconciled(context_, selector, observer, tell, cancel);
  }

  Result<GcReport> gc(bool dry_run, const CancelFlag& cancel) override { return run_gc(context_, dry_run, cancel); }

  Result<metadata::Lease> acquire_lease(const Selector& selector, const std::string& holder, const std::string& nonce,
                                        std::int64_t ttl_ms, bool allow_degraded) override {
    SY_ASSIGN_OR_RETURN(const auto record, resolve(selector, allow_degraded));
    metadata::AcquireLease command;
    command.identity = record.identity;
    command.holder = holder;
    command.nonce = nonce;
    command.ttl_ms = ttl_ms;
    command.allow_degraded = allow_degraded;
    // Whoever has its id holds it, whatever becomes of this process: so it names none.
    return store::acquire_lease(context_, record, command);
  }

  Result<FollowResult> follow_policy(const metadata::Identity& identity, Observer& observer,
                                     const CancelFlag& cancel) override {
    FollowResult result;
    if (context_.hot == nullptr || parts_.read_only) return result;
    SY_ASSIGN_OR_RETURN(const auto record, catalog_.get_weight_revision(identity));
    if (record.policy.mode == metadata::PolicyMode::kManual) return result;
    SY_ASSIGN_OR_RETURN(result.moved, go_on_with_rehydration(record, observer, cancel));
    if (result.moved) return result;
    Status failed;
    const auto note = [&](const metadata::Move& move, const Status& moved) {
      if (moved.code() == Code::kBusy) {
        if (move.identity == identity) result.no_room = moved;
        return;
      }
      if (!moved.ok()) {
        if (failed.ok()) failed = moved;
        return;
      }
      result.moved = result.moved || move.identity == identity;
      if (move.identity != identity) result.evicted.push_back(formats::format_ref(move.identity));
    };
    const auto stays = [&](const metadata::Move& /*move*/, const Status& why) { result.no_room = why; };
    SY_RETURN_IF_ERROR(follow_policies(context_, Asked({identity}), observer, cancel,
                                       {.on_move = note, .on_wait = stays, .on_stay = stays}));
    if (failed.ok() || result.evicted.empty()) return failed.ok() ? Result<FollowResult>(std::move(result)) : failed;
    const std::string went = fmt::format("evicted to make room: {}", fmt::join(result.evicted, ", "));
    const std::string hint = failed.hint().empty() ? went : failed.hint() + "; " + went;
    return std::move(failed).with_hint(hint);
  }

  Status why_it_waits(const metadata::RevisionRecord& record) override { return store::why_it_waits(context_, record); }

  Result<metadata::Lease> renew_lease(const std::string& lease_id, std::int64_t ttl_ms) override {
    return catalog_.renew_lease({.lease_id = lease_id, .ttl_ms = ttl_ms});
  }

  Result<std::unique_ptr<HeldRevision>> hold(const Selector& selector, const LeaseTerms& terms) override {
    return HeldRevision::hold(context_, selector, terms);
  }

  Status release_lease(const std::string& lease_id) override { return catalog_.release_lease({.lease_id = lease_id}); }

  Result<std::vector<catalog::Catalog::LeaseRow>> list_leases(const std::optional<Selector>& selector,
                                                              const std::string& tenant_id,
                                                              const std::string& namespace_id) override {
    if (!selector) return catalog_.list_leases(tenant_id, namespace_id);
    if (selector->ref.weight_generation) {
      SY_ASSIGN_OR_RETURN(const auto record, store::resolve(catalog_, *selector, Purpose::kInspect));
      return catalog_.list_leases(record.identity);
    }
    // Whatever its state: who asks wants to know who holds up a delete.
    SY_ASSIGN_OR_RETURN(const auto records, catalog_.list_lineage(lineage_of(*selector)));
    if (records.empty()) return store::resolve(catalog_, *selector, Purpose::kInspect).status();
    std::vector<catalog::Catalog::LeaseRow> rows;
    for (const metadata::RevisionRecord& record : records) {
      SY_ASSIGN_OR_RETURN(auto more, catalog_.list_leases(record.identity));
      std::move(more.begin(), more.end(), std::back_inserter(rows));
    }
    return rows;
  }

 private:
  /// One that its runner left, which keeps the policy from moving anything. False: there is none, or others have it.
  Result<bool> go_on_with_rehydration(const metadata::RevisionRecord& record, Observer& observer,
                                      const CancelFlag& cancel) {
    if (!record.operation || record.operation->kind != metadata::OperationKind::kRehydrating) return false;
    SY_ASSIGN_OR_RETURN(const auto view, view_from_here(context_, metadata::instance_of(*record.operation)));
    if (view == metadata::InstanceView::kElsewhere) return false;
    ResidencyRequest request = request_of(record);
    request.wait_for_others = false;
    const auto done = run_rehydrate(context_, request, observer, cancel, Begin::kNothing);
    if (done.code() == Code::kBusy) return false;
    SY_RETURN_IF_ERROR(done.status());
    return done->operation.has_value();
  }

  Result<metadata::RevisionRecord> bring_imported(const metadata::RevisionRecord& record, Observer& observer,
                                                  const CancelFlag& cancel) {
    ResidencyRequest request;
    request.target = selector_of(record.identity);
    auto brought = run_rehydrate(context_, request, observer, cancel);
    if (brought.ok()) return std::move(brought->record);
    const std::string ref = formats::format_ref(record.identity);
    const std::string next = fmt::format("`steelyard rehydrate {}` brings it into memory", ref);
    Status status = std::move(brought).status();
    const bool says_how = status.hint().find("`steelyard rehydrate ") != std::string::npos;
    const std::string hint = status.hint().empty() || is_cancelled(status) ? next
                             : says_how                                    ? status.hint()
                                                                           : status.hint() + "; then " + next;
    return std::move(status)
        .annotate("bringing into memory", ref + ", which is published and in the cold tier")
        .with_hint(hint);
  }

  /// One for all open revisions of the store, as long as there is one.
  std::shared_ptr<BufferPool> read_memory() {
    const std::lock_guard lock(read_memory_mutex_);
    auto memory = read_memory_.lock();
    if (memory == nullptr) {
      memory = std::make_shared<BufferPool>(context_.runtime, context_.io_budget, options_.jobs);
      read_memory_ = memory;
    }
    return memory;
  }

  void look_at_memory(Inspection& inspection) {
    if (context_.hot == nullptr) return;
    const auto instance = look_for_instance(context_);
    if (!instance.ok()) {
      inspection.hot_unknown = instance.status();
      return;
    }
    inspection.hot_instance = *instance;
    using metadata::InstanceView;
    const auto view = metadata::view_of_instance(metadata::instance_of(inspection.record),
                                                 {inspection.hot_instance, context_.runtime.epoch()});
    inspection.hot_elsewhere = view == InstanceView::kElsewhere || view == InstanceView::kGone;
    if (!inspection.manifest) return;
    const auto found = find_hot(context_, inspection.record, *inspection.manifest);
    inspection.hot_unknown = found.status();
    if (!found.ok()) return;
    inspection.hot_stray = is_stray(context_, inspection.record, *found);
    inspection.hot_objects = found->members;
    inspection.hot_bytes = found->bytes;
  }

  void note_bad_manifest(const metadata::RevisionRecord& record) {
    const CancelFlag never{false};
    record_bad_manifest(context_, record, StopSignal(never));
  }

  const StoreOptions options_;
  StoreParts parts_;
  TierObserver observer_;
  HotTier hot_;
  catalog::Catalog catalog_;
  Context context_;
  std::mutex read_memory_mutex_;
  std::weak_ptr<BufferPool> read_memory_;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(Runtime& runtime, const StoreOptions& options, OpenMode mode) {
  StoreOptions absolute = options;
  const StorePaths paths = paths_of(options);
  absolute.path = paths.store;
  if (!options.cold_path.empty()) absolute.cold_path = paths.cold;
  SY_ASSIGN_OR_RETURN(StoreParts parts, open_parts(runtime, absolute, mode));
  return make_store(runtime, absolute, std::move(parts));
}

Status check_import_residency(const metadata::Policy& policy, metadata::Residency wanted) {
  using metadata::Residency;
  if (wanted != Residency::kHot && wanted != Residency::kCold) {
    return {Code::kInvalidArgument, fmt::format("an import ends HOT or COLD, not {}", name_of(wanted))};
  }
  // Nothing ends an import MIXED: a reconcile does it afterwards.
  const bool comes_later = policy.prefer == Residency::kMixed && wanted == Residency::kCold;
  if (policy.mode != metadata::PolicyMode::kPinned || policy.prefer == wanted || comes_later) return {};
  return {Code::kPolicyUnsatisfiable,
          fmt::format("the policy pins the revision to {}, and the import is to end {}", name_of(policy.prefer),
                      name_of(wanted)),
          "ask for what the policy prefers, or import it with a policy that is not pinned"};
}

Result<std::uint64_t> memory_room(Runtime& runtime, const StoreOptions& options) {
  const auto parts = open_parts(runtime, options, OpenMode::kRead);
  if (parts.ok()) {
    const auto tier = parts->open_hot(false);
    if (tier.ok()) return (*tier)->available_bytes();
    if (tier.code() != Code::kNotFound) return tier.status();
  }
  SY_ASSIGN_OR_RETURN(const tiers::MemoryPlace place, tiers::look_at_memory_place(memory_options(options)));
  return place.room(0, 0).bytes;
}

std::unique_ptr<Store> make_store(Runtime& runtime, const StoreOptions& options, StoreParts parts) {
  return std::make_unique<StoreImpl>(runtime, options, std::move(parts));
}

Status cancelled(std::string what) {
  return {Code::kUnavailable, what + " was interrupted", std::string(kCancelledHint)};
}

bool is_cancelled(const Status& status) {
  return status.code() == Code::kUnavailable && status.message().ends_with(" was interrupted");
}

}  // namespace steelyard::store
