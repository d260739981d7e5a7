#include "store/keep_reconciled.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "store/reconcile.h"
#include "store/resolve.h"
#include "store/watch.h"

namespace steelyard::store {
namespace {

using metadata::Identity;
using metadata::RevisionRecord;

constexpr std::int64_t kLookMs = 10'000;
constexpr std::int64_t kPassMs = 5 * 60'000;
constexpr std::int64_t kShareOfPasses = 20;  ///< one part of so many of the time at most

/// What waiting may mend.
bool may_pass(Code code) {
  return code == Code::kBusy || code == Code::kUnavailable || code == Code::kNoSpace ||
         code == Code::kDurabilityFailed || code == Code::kUnknownOutcome;
}

class Keeper {
 public:
  using Tell = std::function<Status(const ReconcileReport&)>;

  Keeper(Context& context, const std::optional<Selector>& selector, Observer& observer, const Tell& tell,
         const CancelFlag& cancel)
      : context_(context), selector_(selector), observer_(observer), tell_(tell), cancel_(cancel) {}

  Status run() {
    bool has_begun = false;
    while (true) {
      Status status = has_begun ? turn() : begin();
      has_begun = has_begun || status.ok();
      if (told_ended_) return status;
      if (status.ok()) continue;
      if (cancel_.load()) return cancelled("reconcile");
      if (!may_pass(status.code())) return status;
      observer_.warning(status.message() + "; it is tried again");
      // Not at once: what the log brings meanwhile may meet the same.
      SY_RETURN_IF_ERROR(wait(context_.runtime.mono_ms() + kLookMs));
    }
  }

 private:
  struct Retry {
    std::int64_t at_mono_ms = 0;
    std::int64_t pause_ms = kLookMs;
  };

  Status begin() {
    SY_ASSIGN_OR_RETURN(next_, context_.catalog.sequence());
    SY_ASSIGN_OR_RETURN(const ReconcileReport first, pass());
    remember(first);
    return heard(tell_(first));
  }

  Status turn() {
    const std::int64_t deadline = std::min(next_look_, next_pass_);
    SY_ASSIGN_OR_RETURN(const catalog::StoreChanges batch, watch_store(context_, next_, deadline, cancel_));
    if (batch.resnapshot || context_.runtime.mono_ms() >= next_pass_) {
      SY_ASSIGN_OR_RETURN(ReconcileReport report, pass());
      next_ = batch.next;
      return tell_news(std::move(report), std::nullopt);
    }
    std::set<Identity> due;
    for (const catalog::RevisionChange& change : batch.changes) {
      const auto seen = seen_.find(change.record.identity);
      if (seen == seen_.end() || change.record.metadata_generation > seen->second) due.insert(change.record.identity);
    }
    SY_RETURN_IF_ERROR(add_released(batch.leases_ended, due));
    const std::int64_t now = context_.runtime.mono_ms();
    if (now >= next_look_) {
      SY_RETURN_IF_ERROR(add_overdue(now, due));
      next_look_ = now + kLookMs;
    }
    for (const Identity& identity : due) SY_RETURN_IF_ERROR(look_at(identity));
    next_ = batch.next;  // not before: what was not looked at comes again
    return {};
  }

  bool is_meant(const Identity& identity) const {
    return !selector_ ||
           (lineage_of(*selector_) == identity.lineage &&
            selector_->ref.weight_generation.value_or(identity.weight_generation) == identity.weight_generation);
  }

  /// Where the end of a lease lets something go on.
  Status add_released(const std::vector<Identity>& released, std::set<Identity>& due) {
    for (const Identity& identity : released) {
      const auto record = context_.catalog.get_weight_revision(identity);
      if (record.code() == Code::kNotFound) continue;
      SY_RETURN_IF_ERROR(record.status());
      if (record->availability == metadata::Availability::kDeleting || record->operation ||
          record->policy.mode != metadata::PolicyMode::kManual) {
        due.insert(identity);
      }
    }
    return {};
  }

  Status add_overdue(std::int64_t now, std::set<Identity>& due) {
    SY_ASSIGN_OR_RETURN(const auto overdue, context_.catalog.find_overdue(context_.options.abandon_after_ms));
    for (const Identity& identity : overdue) {
      if (!retries_.contains(identity)) due.insert(identity);
    }
    for (const auto& [identity, retry] : retries_) {
      if (retry.at_mono_ms <= now) due.insert(identity);
    }
    return {};
  }

  /// The whole of what is meant.
  Result<ReconcileReport> pass() {
    const std::int64_t began = context_.runtime.mono_ms();
    SY_ASSIGN_OR_RETURN(ReconcileReport report, run_reconcile(context_, selector_, observer_, cancel_));
    const std::int64_t now = context_.runtime.mono_ms();
    next_pass_ = now + std::max(kPassMs, (now - began) * kShareOfPasses);
    next_look_ = now + kLookMs;
    seen_ = std::move(report.left_at);
    return report;
  }

  Status look_at(const Identity& identity) {
    if (!is_meant(identity)) return {};
    // Whoever carries it out changes the record at its end, or dies and is overdue.
    SY_ASSIGN_OR_RETURN(const bool is_being_run, context_.catalog.is_being_run(identity));
    if (is_being_run) return {};
    auto report = run_reconcile(context_, selector_of(identity), observer_, cancel_);
    if (report.code() == Code::kNotFound) {
      seen_.erase(identity);
      retries_.erase(identity);
      return {};
    }
    SY_RETURN_IF_ERROR(report.status());
    for (const auto& [moved, generation] : report->left_at) seen_[moved] = generation;
    if (report->waiting.empty() && report->failed.empty()) {
      retries_.erase(identity);
    } else {
      const auto [retry, fresh] = retries_.try_emplace(identity);
      if (!fresh) retry->second.pause_ms = std::min(2 * retry->second.pause_ms, kPassMs);
      retry->second.at_mono_ms = context_.runtime.mono_ms() + retry->second.pause_ms;
    }
    return tell_news(*std::move(report), identity);
  }

  /// What was told is not told again, until it has ended in between.
  Status tell_news(ReconcileReport report, const std::optional<Identity>& only) {
    const std::map<std::string, std::set<Code>> before = left_;
    if (only) left_.erase(formats::format_ref(*only));
    if (!only) left_.clear();
    remember(report);
    const auto is_old = [&before](const ReconcileReport::Left& left) {
      const auto found = before.find(left.ref);
      return found != before.end() && found->second.contains(left.why.code());
    };
    std::erase_if(report.waiting, is_old);
    std::erase_if(report.failed, is_old);
    if (report.changes.empty() && report.waiting.empty() && report.failed.empty()) return {};
    return heard(tell_(report));
  }

  Status heard(Status told) {
    told_ended_ = !told.ok();
    return told;
  }

  void remember(const ReconcileReport& report) {
    for (const auto& left : report.waiting) left_[left.ref].insert(left.why.code());
    for (const auto& left : report.failed) left_[left.ref].insert(left.why.code());
  }

  Status wait(std::int64_t until_mono_ms) {
    constexpr std::int64_t kSliceMs = 250;
    while (context_.runtime.mono_ms() < until_mono_ms) {
      if (cancel_.load()) return cancelled("reconcile");
      context_.runtime.sleep_ms(kSliceMs);
    }
    return {};
  }

  Context& context_;
  const std::optional<Selector> selector_;
  Observer& observer_;
  const Tell& tell_;
  const CancelFlag& cancel_;
  std::uint64_t next_ = 0;
  std::int64_t next_look_ = 0;
  std::int64_t next_pass_ = 0;
  bool told_ended_ = false;
  std::map<Identity, std::uint64_t> seen_;      ///< the generations that our own looks left behind
  std::map<Identity, Retry> retries_;           ///< what a look could not do
  std::map<std::string, std::set<Code>> left_;  ///< by reference: what was said to wait or to have failed
};

}  // namespace

Status run_keep_reconciled(Context& context, const std::optional<Selector>& selector, Observer& observer,
                           const std::function<Status(const ReconcileReport&)>& tell, const CancelFlag& cancel) {
  return Keeper(context, selector, observer, tell, cancel).run();
}

}  // namespace steelyard::store
