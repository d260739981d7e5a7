#include "steelyard/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "api/open_revision.h"
#include "api/store_values.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "store/source_folder.h"

namespace steelyard {
namespace {

const store::CancelFlag kNever{false};

/// A store's callbacks, one at a time.
class HookObserver final : public store::Observer {
 public:
  explicit HookObserver(const Hooks& hooks) : hooks_(hooks) {}

  void progress(const store::Progress& progress) override {
    if (!hooks_.progress) return;
    const std::lock_guard lock(mutex_);
    hooks_.progress({progress.phase, progress.ref, progress.bytes_done, progress.bytes_total, progress.files_done,
                     progress.files_total});
  }
  void warning(const std::string& message) override {
    if (!hooks_.warning) return;
    const std::lock_guard lock(mutex_);
    hooks_.warning(message);
  }

 private:
  const Hooks& hooks_;
  std::mutex mutex_;
};

template <typename T>
Status check_option(std::string_view name, T value, T min, T max) {
  if (value >= min && value <= max) return {};
  return {Code::kInvalidArgument, fmt::format("{} is {}; wanted {} to {}", name, value, min, max)};
}

tiers::Medium to_core(ColdMedium medium) {
  switch (medium) {
    case ColdMedium::kDisk:
      return tiers::Medium::kDisk;
    case ColdMedium::kDfs:
      return tiers::Medium::kDfs;
    case ColdMedium::kNof:
      break;
  }
  return tiers::Medium::kNof;
}

store::OpenMode to_core(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
      return store::OpenMode::kRead;
    case OpenMode::kWrite:
      return store::OpenMode::kWrite;
    case OpenMode::kCreate:
      break;
  }
  return store::OpenMode::kCreate;
}

Result<store::StoreOptions> to_core(const StoreOptions& options) {
  constexpr unsigned kJobsMax = 256;
  if (options.path.empty()) return Status(Code::kInvalidArgument, "StoreOptions::path is empty; wanted a folder");
  SY_RETURN_IF_ERROR(check_option("io_memory", options.io_memory, limits::kIoMemoryMin, limits::kIoMemoryMax));
  SY_RETURN_IF_ERROR(check_option("jobs", options.jobs, 0U, kJobsMax));
  SY_RETURN_IF_ERROR(
      check_option("lease_ttl_ms", options.lease_ttl_ms, limits::kLeaseTtlMsMin, limits::kLeaseTtlMsMax));
  if (options.hot_path.empty())
    return Status(Code::kInvalidArgument, "hot_path is empty; wanted the folder of a tmpfs");
  SY_RETURN_IF_ERROR(
      check_option("hot_capacity", options.hot_capacity.value_or(limits::kMiB), limits::kMiB, UINT64_MAX));
  SY_RETURN_IF_ERROR(check_option<std::int64_t>("gc_grace_ms", options.gc_grace_ms, 0, INT64_MAX));
  // Tenant and namespace go with a valid name.
  SY_RETURN_IF_ERROR(formats::validate(formats::Lineage{options.tenant_id, options.namespace_id, "r", "main"}));
  store::StoreOptions out;
  out.path = options.path;
  out.cold_path = options.cold_path;
  out.cold_medium = to_core(options.cold_medium);
  out.cold_reserve_free = options.cold_reserve_free;
  out.hot_path = options.hot_path;
  out.hot_capacity = options.hot_capacity;
  SY_RETURN_IF_ERROR(
      check_option("hot_high_watermark_millionths", options.hot_high_watermark_millionths, 1U, 999'999U));
  SY_RETURN_IF_ERROR(check_option("hot_low_watermark_millionths", options.hot_low_watermark_millionths, 1U, 999'999U));
  if (options.hot_low_watermark_millionths > options.hot_high_watermark_millionths) {
    return Status(Code::kInvalidArgument,
                  fmt::format("hot_low_watermark_millionths is {}; wanted at most hot_high_watermark_millionths, {}",
                              options.hot_low_watermark_millionths, options.hot_high_watermark_millionths));
  }
  SY_RETURN_IF_ERROR(check_option("policy_cooldown_ms", options.policy_cooldown_ms, std::int64_t{0},
                                  std::int64_t{30} * 24 * 3'600'000));
  out.hot_high_watermark_millionths = options.hot_high_watermark_millionths;
  out.hot_low_watermark_millionths = options.hot_low_watermark_millionths;
  out.policy_cooldown_ms = options.policy_cooldown_ms;
  out.io_memory = options.io_memory;
  out.jobs = options.jobs;
  out.lease_ttl_ms = options.lease_ttl_ms;
  out.gc_grace_ms = options.gc_grace_ms;
  return out;
}

Result<Labels> sorted_labels(Labels labels) {
  std::sort(labels.begin(), labels.end());
  const auto same = std::ranges::adjacent_find(labels, {}, &Labels::value_type::first);
  if (same == labels.end()) return labels;
  return Status(Code::kInvalidArgument, "the label " + printable(same->first) + " is given twice");
}

ReconcileReport to_public(store::ReconcileReport report) {
  ReconcileReport out;
  out.checked = report.checked;
  for (auto& change : report.changes) out.changes.emplace_back(std::move(change.ref), std::move(change.what));
  for (auto& left : report.waiting) out.waiting.emplace_back(std::move(left.ref), std::move(left.why));
  for (auto& left : report.failed) out.failed.emplace_back(std::move(left.ref), std::move(left.why));
  return out;
}

}  // namespace

struct Store::Impl {
  std::string tenant_id;
  std::string namespace_id;
  OpenMode mode = OpenMode::kRead;
  std::int64_t lease_ttl_ms = 0;
  std::unique_ptr<store::Store> core;

  Result<store::Selector> selector(const Ref& ref) const { return selector_of(tenant_id, namespace_id, ref); }
  Result<std::optional<store::Selector>> selector(const std::optional<Ref>& ref) const {
    if (!ref) return std::optional<store::Selector>();
    SY_ASSIGN_OR_RETURN(store::Selector one, selector(*ref));
    return std::optional(std::move(one));
  }
  /// Before a call that changes revisions.
  Status check_writes() const {
    if (mode != OpenMode::kRead) return {};
    return {Code::kUnauthorized, "the store was opened for reading (OpenMode::kRead)", "open it with OpenMode::kWrite"};
  }
};

namespace {

const store::CancelFlag& flag_of(const Cancellation* cancel) {
  return cancel == nullptr ? kNever : ApiInternals::flag(*cancel);
}

using Move = Result<store::ResidencyResult> (store::Store::*)(const store::ResidencyRequest&, store::Observer&,
                                                              const store::CancelFlag&);

template <typename Impl>
Result<ResidencyReport> move(const Impl& impl, Move to, const Ref& ref, const ResidencyOptions& options,
                             const Hooks& hooks) {
  SY_RETURN_IF_ERROR(impl.check_writes());
  SY_RETURN_IF_ERROR(check_option("ratio_millionths", options.ratio_millionths.value_or(1), 1U, 999'999U));
  store::ResidencyRequest core;
  SY_ASSIGN_OR_RETURN(core.target, impl.selector(ref));
  core.expected_generation = options.expected_generation;
  core.ratio_millionths = options.ratio_millionths;
  core.make_room = options.make_room;
  core.wait = options.wait;
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(const auto result, ((*impl.core).*to)(core, observer, flag_of(hooks.cancel)));
  return from_core(result);
}

LeaseInfo lease_info(const metadata::Lease& lease) {
  return from_core(lease, lease.expires_mono_ms - real_runtime().mono_ms());
}

}  // namespace

Store::Store(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<Store> Store::open(const StoreOptions& options, OpenMode mode) {
  SY_ASSIGN_OR_RETURN(const store::StoreOptions core, to_core(options));
  SY_ASSIGN_OR_RETURN(auto opened, store::Store::open(real_runtime(), core, to_core(mode)));
  return Store(std::make_shared<Impl>(
      Impl{options.tenant_id, options.namespace_id, mode, options.lease_ttl_ms, std::move(opened)}));
}

const std::string& Store::store_id() const { return impl_->core->store_id(); }
bool Store::read_only() const { return impl_->mode == OpenMode::kRead || impl_->core->read_only(); }

Result<ImportReport> Store::import(const ImportRequest& request, const Hooks& hooks) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_RETURN_IF_ERROR(check_option<std::int64_t>("wait_ms", request.wait_ms, 0, limits::kLeaseTtlMsMax));
  store::ImportRequest core;
  core.source = request.source;
  if (request.target) {
    SY_ASSIGN_OR_RETURN(core.target, impl_->selector(*request.target));
  } else {
    const store::DefaultName name = store::default_name(request.source);
    SY_ASSIGN_OR_RETURN(core.target, impl_->selector(Ref{name.resource_id, name.revision, std::nullopt}));
    if (name.hub_ref) core.automatic_labels = {{std::string(store::kHubRefLabel), *name.hub_ref}};
  }
  core.checkpoint.include = request.include;
  core.checkpoint.exclude = request.exclude;
  core.checkpoint.ignore_index = request.ignore_index;
  core.checkpoint.allow_empty = request.allow_empty;
  core.follow_links = request.follow_links;
  SY_ASSIGN_OR_RETURN(core.labels, sorted_labels(request.labels));
  core.chunk_bytes = request.chunk_bytes;
  core.verify_after_write = request.verify_after_write;
  core.wait_ms = request.wait_ms;
  core.policy = {steelyard::to_core(request.policy.prefer), request.policy.ratio_millionths,
                 steelyard::to_core(request.policy.mode)};
  if (request.residency) {
    SY_RETURN_IF_ERROR(store::check_import_residency(core.policy, steelyard::to_core(*request.residency)));
  }
  core.into_memory = request.residency == Residency::kHot;
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(const store::ImportResult made, impl_->core->import(core, observer, flag_of(hooks.cancel)));
  return ImportReport{from_core(made.record), made.files,   made.tensors,       made.written_bytes,
                      made.reused_bytes,      made.skipped, made.skipped_bytes, made.already_there};
}

Result<ListPage> Store::list(const ListQuery& query) const {
  metadata::ListQuery core;
  core.tenant_id = impl_->tenant_id;
  core.namespace_id = impl_->namespace_id;
  core.resource_id = query.resource_id;
  for (const Availability state : query.states) core.states.push_back(steelyard::to_core(state));
  SY_ASSIGN_OR_RETURN(core.labels, sorted_labels(query.labels));
  core.newest = query.newest;
  core.limit = query.limit;
  core.page_token = query.page_token;
  SY_ASSIGN_OR_RETURN(metadata::ListPage page, impl_->core->list(core));
  return ListPage{from_core(page.records), std::move(page.next_page_token)};
}

Result<Inspection> Store::inspect(const Ref& ref) const {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, impl_->selector(ref));
  SY_ASSIGN_OR_RETURN(const store::Inspection found, impl_->core->inspect(selector));
  Inspection out;
  out.revision = from_core(found.record);
  for (const auto& row : found.leases) out.leases.push_back(from_core(row.lease, row.left_ms));
  out.cold_objects = found.cold_objects;
  out.cold_bytes = found.cold_bytes;
  if (found.operation) out.revision.operation = from_core(found.operation->operation);
  out.memory = {found.hot_objects, found.hot_bytes, found.hot_instance, found.record.hot_instance, found.hot_unknown};
  if (!found.manifest) return out;
  out.has_manifest = true;
  out.files = files_of(*found.manifest);
  out.tensors = found.manifest->tensors.size();
  out.source = found.manifest->source;
  return out;
}

Result<Revision> Store::find(const Ref& ref) const {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, impl_->selector(ref));
  SY_ASSIGN_OR_RETURN(const metadata::RevisionRecord record, impl_->core->find(selector));
  return from_core(record);
}

Result<WatchBatch> Store::watch(const WatchQuery& query, const Cancellation* cancel) const {
  SY_RETURN_IF_ERROR(check_option<std::int64_t>("wait_ms", query.wait_ms, 0, INT64_MAX));
  if (query.weight_generation && !(query.resource_id && query.revision)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a watch of generation {} names no resource and revision", *query.weight_generation));
  }
  catalog::WatchQuery core;
  core.tenant_id = impl_->tenant_id;
  core.namespace_id = impl_->namespace_id;
  core.resource_id = query.resource_id;
  core.revision = query.revision;
  if (query.weight_generation) {
    core.identity = {{impl_->tenant_id, impl_->namespace_id, *query.resource_id, *query.revision},
                     *query.weight_generation};
  }
  core.after = query.after;
  const std::int64_t now = real_runtime().mono_ms();
  core.deadline_mono_ms = now + std::min(query.wait_ms, INT64_MAX - now);
  SY_ASSIGN_OR_RETURN(const catalog::WatchBatch batch, impl_->core->watch(core, flag_of(cancel)));
  WatchBatch out{{}, batch.next, batch.resnapshot, batch.compacted};
  for (const auto& change : batch.changes) out.changes.push_back({change.sequence, from_core(change.record)});
  return out;
}

Result<OpenRevision> Store::open_revision(const Ref& ref, const ReadOptions& options) const {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, impl_->selector(ref));
  store::LeaseTerms terms;
  terms.holder = options.holder;
  terms.allow_degraded = options.allow_degraded;
  SY_ASSIGN_OR_RETURN(auto core, impl_->core->open_revision(selector, terms));
  Revision revision = from_core(core->record());
  auto files = files_of(*core->manifest());
  auto pieces = pieces_of(*core->manifest());
  return ApiInternals::made<OpenRevision>(impl_, std::move(core), std::move(revision), std::move(files),
                                          std::move(pieces));
}

Result<MaterializeReport> Store::materialize(const Ref& ref, const std::string& target,
                                             const MaterializeOptions& options, const Hooks& hooks) const {
  store::MaterializeRequest core;
  SY_ASSIGN_OR_RETURN(core.source, impl_->selector(ref));
  core.target = target;
  core.force = options.force;
  core.allow_degraded = options.allow_degraded;
  const char* home = std::getenv("HOME");
  core.home = home == nullptr ? "" : home;
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(store::MaterializeResult made, impl_->core->materialize(core, observer, flag_of(hooks.cancel)));
  MaterializeReport out{
      from_core(made.record), std::move(made.path), made.files, made.bytes, std::move(made.notes), {}};
  for (auto& missing : made.missing) out.missing.emplace_back(std::move(missing.file), std::move(missing.why));
  return out;
}

Result<VerifyReport> Store::verify(const Ref& ref, const Hooks& hooks) const {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, impl_->selector(ref));
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(store::VerifyReport report, impl_->core->verify(selector, observer, flag_of(hooks.cancel)));
  VerifyReport out;
  out.revision = from_core(report.record);
  out.checked_files = report.checked_files;
  out.checked_objects = report.checked_objects;
  out.checked_bytes = report.checked_bytes;
  out.memory = {report.hot_objects, report.hot_bytes, report.hot_instance, report.recorded_instance,
                report.hot_unknown};
  for (store::Problem& problem : report.problems) out.problems.push_back(from_core(std::move(problem)));
  return out;
}

Result<RepairReport> Store::repair(const Ref& ref, const RepairOptions& options, const Hooks& hooks) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  store::RepairRequest core;
  SY_ASSIGN_OR_RETURN(core.target, impl_->selector(ref));
  core.source = options.source;
  core.follow_links = options.follow_links;
  core.expected_generation = options.expected_generation;
  core.wait = options.wait;
  if (!options.wait && !options.source.empty()) {
    return Status(Code::kInvalidArgument,
                  "a repair with a source is to be started without being waited for: whoever goes on with it would not "
                  "know the source",
                  "wait for it, or leave the source out");
  }
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(const store::RepairResult result, impl_->core->repair(core, observer, flag_of(hooks.cancel)));
  RepairReport out{from_core(result.record), {}, result.restored_objects, result.restored_bytes};
  if (result.operation) out.operation = from_core(*result.operation);
  return out;
}

Result<ResidencyReport> Store::rehydrate(const Ref& ref, const ResidencyOptions& options, const Hooks& hooks) const {
  return move(*impl_, &store::Store::rehydrate, ref, options, hooks);
}

Result<ResidencyReport> Store::evict(const Ref& ref, const ResidencyOptions& options, const Hooks& hooks) const {
  return move(*impl_, &store::Store::evict, ref, options, hooks);
}

Result<FollowReport> Store::follow_policy(const Ref& ref, const Hooks& hooks) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_ASSIGN_OR_RETURN(const auto selector, impl_->selector(ref));
  SY_ASSIGN_OR_RETURN(const auto record, impl_->core->find(selector));
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(const auto followed,
                      impl_->core->follow_policy(record.identity, observer, flag_of(hooks.cancel)));
  return FollowReport{followed.moved, refs_of(followed.evicted), followed.no_room};
}

Result<Operation> Store::operation(const std::string& operation_id) const {
  SY_ASSIGN_OR_RETURN(const metadata::OperationView found, impl_->core->operation(operation_id));
  return from_core(found.operation);
}

Result<Operation> Store::cancel_operation(const std::string& operation_id) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_ASSIGN_OR_RETURN(const metadata::OperationView found, impl_->core->cancel_operation(operation_id, kNever));
  return from_core(found.operation);
}

Result<Revision> Store::update_policy(const Ref& ref, const PolicyChange& change) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  store::PolicyRequest core;
  SY_ASSIGN_OR_RETURN(core.target, impl_->selector(ref));
  if (change.prefer) core.prefer = steelyard::to_core(*change.prefer);
  core.ratio_millionths = change.ratio_millionths;
  if (change.mode) core.mode = steelyard::to_core(*change.mode);
  core.expected_generation = change.expected_generation;
  SY_ASSIGN_OR_RETURN(const metadata::RevisionRecord record, impl_->core->update_policy(core));
  return from_core(record);
}

Result<DeleteReport> Store::delete_revision(const Ref& ref, const DeleteOptions& options,
                                            const Cancellation* cancel) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_RETURN_IF_ERROR(check_option<std::int64_t>("wait_ms", options.wait_ms.value_or(0), 0, limits::kLeaseTtlMsMax));
  store::DeleteRequest core;
  SY_ASSIGN_OR_RETURN(core.target, impl_->selector(ref));
  core.expected_generation = options.expected_generation;
  core.wait_ms = options.wait_ms;
  SY_ASSIGN_OR_RETURN(const store::RemovalResult result, impl_->core->erase(core, flag_of(cancel)));
  return DeleteReport{from_core(result.identity), result.before};
}

Result<Identity> Store::abort_import(const Ref& ref, const AbortOptions& options) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  store::AbortRequest core;
  SY_ASSIGN_OR_RETURN(core.target, impl_->selector(ref));
  core.expected_generation = options.expected_generation;
  core.force = options.force;
  SY_ASSIGN_OR_RETURN(const store::RemovalResult result, impl_->core->abort(core));
  return from_core(result.identity);
}

Result<ReconcileReport> Store::reconcile(const std::optional<Ref>& ref, const Hooks& hooks) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_ASSIGN_OR_RETURN(const auto selector, impl_->selector(ref));
  HookObserver observer(hooks);
  SY_ASSIGN_OR_RETURN(store::ReconcileReport report, impl_->core->reconcile(selector, observer, flag_of(hooks.cancel)));
  return to_public(std::move(report));
}

Status Store::keep_reconciled(const std::optional<Ref>& ref, const std::function<Status(const ReconcileReport&)>& tell,
                              const Hooks& hooks) const {
  SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_ASSIGN_OR_RETURN(const auto selector, impl_->selector(ref));
  HookObserver observer(hooks);
  const auto tell_public = [&tell](const store::ReconcileReport& report) {
    return tell ? tell(to_public(report)) : Status();
  };
  return impl_->core->keep_reconciled(selector, observer, tell_public, flag_of(hooks.cancel));
}

Result<GcReport> Store::gc(bool dry_run, const Cancellation* cancel) const {
  if (!dry_run) SY_RETURN_IF_ERROR(impl_->check_writes());
  SY_ASSIGN_OR_RETURN(store::GcReport report, impl_->core->gc(dry_run, flag_of(cancel)));
  return GcReport{report.objects, report.bytes, report.tombstones, std::move(report.kept)};
}

Result<UsageReport> Store::usage() const {
  SY_ASSIGN_OR_RETURN(const store::UsageReport report, impl_->core->usage(impl_->tenant_id, impl_->namespace_id));
  UsageReport out;
  for (const auto& [name, tier] : report.tiers) {
    out.tiers.push_back(
        {name, tier.bytes, tier.free_bytes, tier.capacity_bytes, tier.claimed_bytes, tier.private_copies});
  }
  for (const auto& row : report.revisions) {
    out.revisions.push_back({from_core(row.record), row.exclusive_bytes, row.shared_bytes});
  }
  return out;
}

Result<HeldLease> Store::hold(const Ref& ref, const LeaseOptions& options) const {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, impl_->selector(ref));
  SY_ASSIGN_OR_RETURN(auto core, impl_->core->hold(selector, {options.holder, options.ttl_ms, options.allow_degraded,
                                                              /*required=*/true}));
  Revision revision = from_core(core->record());
  return ApiInternals::made<HeldLease>(impl_, std::move(core), std::move(revision));
}

Result<LeaseInfo> Store::acquire_lease(const Ref& ref, const LeaseOptions& options, const std::string& nonce) const {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, impl_->selector(ref));
  SY_ASSIGN_OR_RETURN(
      const metadata::Lease lease,
      impl_->core->acquire_lease(selector, options.holder.empty() ? store::holder_of(real_runtime()) : options.holder,
                                 nonce.empty() ? real_runtime().random_hex(16) : nonce,
                                 options.ttl_ms.value_or(impl_->lease_ttl_ms), options.allow_degraded));
  return lease_info(lease);
}

Result<LeaseInfo> Store::renew_lease(const std::string& lease_id, std::int64_t ttl_ms) const {
  SY_ASSIGN_OR_RETURN(const metadata::Lease lease, impl_->core->renew_lease(lease_id, ttl_ms));
  return lease_info(lease);
}

Status Store::release_lease(const std::string& lease_id) const { return impl_->core->release_lease(lease_id); }

Result<std::vector<LeaseInfo>> Store::leases(const std::optional<Ref>& ref) const {
  SY_ASSIGN_OR_RETURN(const auto selector, impl_->selector(ref));
  SY_ASSIGN_OR_RETURN(const auto rows, impl_->core->list_leases(selector, impl_->tenant_id, impl_->namespace_id));
  std::vector<LeaseInfo> out;
  for (const auto& row : rows) out.push_back(from_core(row.lease, row.left_ms));
  return out;
}

Result<RecoverReport> recover_store(const StoreOptions& options, bool force, bool dry_run) {
  SY_ASSIGN_OR_RETURN(const store::StoreOptions core, to_core(options));
  SY_ASSIGN_OR_RETURN(store::RecoverReport report, store::recover_store(real_runtime(), core, {dry_run, force}));
  RecoverReport out{from_core(report.recovered), {}, std::move(report.moved_to)};
  for (auto& skipped : report.skipped) out.skipped.emplace_back(std::move(skipped.path), std::move(skipped.reason));
  return out;
}

}  // namespace steelyard
