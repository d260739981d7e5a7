#include "store/keep_reconciled.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "formats/ref.h"
#include "store/long_work.h"
#include "store/reconcile.h"
#include "store/resolve.h"
#include "store/watch.h"

namespace steelyard::store {
namespace {

using metadata::Identity;
using metadata::RevisionRecord;

constexpr std::int64_t kLookMs = kFirstPauseMs;
constexpr std::int64_t kPassMs = kLongestPauseMs;
constexpr std::int64_t kShareOfPasses = 20;  ///< one part of so many of the time at most

constexpr std::int64_t kTakeMs = 500;  ///< what was done meanwhile is told then

/// What waiting may mend.
bool may_pass(Code code) {
  return code == Code::kBusy || code == Code::kUnavailable || code == Code::kNoSpace ||
         code == Code::kDurabilityFailed || code == Code::kUnknownOutcome;
}

/// What looks, or moves, left to do, and was told.
class Told {
 public:
  /// What of it is news. What was told is not told again, until it has ended in between.
  ReconcileReport enter(const Identity& identity, ReconcileReport report) {
    const auto before = left_.extract(formats::format_ref(identity));
    remember(report);
    return news(std::move(report), [&](const std::string& /*ref*/, Code code) {
      return !before.empty() && before.mapped().contains(code);
    });
  }

  /// Of everything.
  ReconcileReport enter_all(ReconcileReport report) {
    const std::map<std::string, std::set<Code>> before = std::exchange(left_, {});
    remember(report);
    return news(std::move(report), [&](const std::string& ref, Code code) {
      const auto found = before.find(ref);
      return found != before.end() && found->second.contains(code);
    });
  }

  void forget(const Identity& identity) { left_.erase(formats::format_ref(identity)); }
  /// All but these.
  void forget_others(const std::set<Identity>& kept) {
    std::set<std::string> refs;
    for (const Identity& identity : kept) refs.insert(formats::format_ref(identity));
    std::erase_if(left_, [&](const auto& left) { return !refs.contains(left.first); });
  }

 private:
  void remember(const ReconcileReport& report) {
    for (const auto& left : report.waiting) left_[left.ref].insert(left.why.code());
    for (const auto& left : report.failed) left_[left.ref].insert(left.why.code());
  }

  template <typename WasTold>
  static ReconcileReport news(ReconcileReport report, const WasTold& was_told) {
    const auto is_old = [&](const ReconcileReport::Left& left) { return was_told(left.ref, left.why.code()); };
    std::erase_if(report.waiting, is_old);
    std::erase_if(report.failed, is_old);
    return report;
  }

  std::map<std::string, std::set<Code>> left_;  ///< by reference
};

/// Keeps what the long work says until the keeper passes it on: observers are for one task.
class KeptWords final : public Observer {
 public:
  void progress(const Progress& progress) override {
    const std::lock_guard lock(mutex_);
    Progress* last = said_.empty() ? nullptr : std::get_if<Progress>(&said_.back());
    const bool goes_on = last != nullptr && last->phase == progress.phase && last->ref == progress.ref;
    if (goes_on) {
      *last = progress;
    } else {
      said_.emplace_back(progress);
    }
  }
  void warning(const std::string& message) override {
    const std::lock_guard lock(mutex_);
    said_.emplace_back(message);
  }
  void pass_on(Observer& observer) {
    std::vector<Word> said;
    {
      const std::lock_guard lock(mutex_);
      said.swap(said_);
    }
    for (const Word& word : said) {
      if (const auto* progress = std::get_if<Progress>(&word)) {
        observer.progress(*progress);
      } else {
        observer.warning(std::get<std::string>(word));
      }
    }
  }

 private:
  using Word = std::variant<Progress, std::string>;
  std::mutex mutex_;
  std::vector<Word> said_;
};

class Keeper {
 public:
  using Tell = std::function<Status(const ReconcileReport&)>;

  Keeper(Context& context, const std::optional<Selector>& selector, Observer& observer, KeptWords& words,
         const Tell& tell, const CancelFlag& cancel)
      : context_(context),
        selector_(selector),
        observer_(observer),
        words_(words),
        tell_(tell),
        cancel_(cancel),
        work_(context, words_) {}

  Status run() {
    bool has_begun = false;
    while (true) {
      Status status = has_begun ? turn() : begin();
      has_begun = has_begun || status.ok();
      if (told_ended_) return status;
      if (status.ok()) continue;
      if (cancel_.load()) return cancelled("reconcile");
      if (!may_pass(status.code())) return status;
      SY_RETURN_IF_ERROR(context_.catalog.check_place());
      observer_.warning(status.message() + "; it is tried again");
      // Not at once: what the log brings meanwhile may meet the same.
      SY_RETURN_IF_ERROR(wait(context_.runtime.mono_ms() + kLookMs));
    }
  }

 private:
  Status begin() {
    SY_ASSIGN_OR_RETURN(next_, context_.catalog.sequence());
    SY_ASSIGN_OR_RETURN(const ReconcileReport first, pass());
    return heard(tell_(first));
  }

  Status turn() {
    SY_RETURN_IF_ERROR(take_what_is_done());
    std::int64_t deadline = std::min(next_look_, next_pass_);
    if (!work_.idle()) deadline = std::min(deadline, context_.runtime.mono_ms() + kTakeMs);
    deadline = std::min(deadline, work_.follow_at_mono_ms());
    SY_ASSIGN_OR_RETURN(const catalog::StoreChanges batch, watch_store(context_, next_, deadline, cancel_));
    if (batch.resnapshot || context_.runtime.mono_ms() >= next_pass_) {
      SY_ASSIGN_OR_RETURN(const ReconcileReport news, pass());
      next_ = batch.next;
      return tell_news(news);
    }
    std::set<Identity> due;
    bool plan_is_old = false;
    for (const catalog::RevisionChange& change : batch.changes) {
      const Identity& identity = change.record.identity;
      const auto seen = seen_.find(identity);
      if (seen == seen_.end() || change.record.metadata_generation > seen->second) due.insert(identity);
      if (note_change(change.record)) plan_is_old = true;
    }
    SY_RETURN_IF_ERROR(add_leased(batch, due, plan_is_old));
    const std::int64_t now = context_.runtime.mono_ms();
    if (now >= next_look_) {
      SY_RETURN_IF_ERROR(add_overdue(now, due));
      next_look_ = now + kLookMs;
    }
    for (const Identity& identity : due) SY_RETURN_IF_ERROR(look_at(identity));
    if (plan_is_old || now >= work_.follow_at_mono_ms()) SY_RETURN_IF_ERROR(follow_policies());
    next_ = batch.next;  // not before: what was not looked at comes again
    return {};
  }

  /// All at once, as room that one leaves may be another's.
  Status follow_policies() {
    std::set<Identity> asked;
    for (const auto& [identity, policy] : policies_) asked.insert(identity);
    if (asked.empty()) moves_.forget_others({});
    return context_.hot == nullptr ? Status() : work_.follow(Asked(std::move(asked)));
  }

  /// Whether the policies may ask for something else after it: what is to be moved, or how much room there is.
  bool note_change(const RevisionRecord& record) {
    const bool moves = is_published(record.availability) && record.policy.mode != metadata::PolicyMode::kManual &&
                       is_meant(record.identity);
    const auto known = policies_.find(record.identity);
    if (known != policies_.end() && !moves) policies_.erase(known);
    if (moves && (known == policies_.end() || known->second != record.policy)) {
      policies_[record.identity] = record.policy;
      work_.try_again(record.identity);
    }
    // Memory changes with operations, and with removals.
    const bool fills_memory = record.hot_members > 0 || !record.finished_operations.empty() ||
                              record.availability == metadata::Availability::kDeleted;
    return !record.operation && (moves || fills_memory);
  }

  bool is_meant(const Identity& identity) const {
    return !selector_ ||
           (lineage_of(*selector_) == identity.lineage &&
            selector_->ref.weight_generation.value_or(identity.weight_generation) == identity.weight_generation);
  }

  /// A lease lets its revision come into memory, and its end lets something go on, or out of it. Who renews one is
  /// known already. Only these revisions are looked at.
  Status add_leased(const catalog::StoreChanges& batch, std::set<Identity>& due, bool& plan_is_old) {
    std::set<Identity> changed;
    for (const Identity& identity : batch.leases_taken) {
      if (read_.insert(identity).second) changed.insert(identity);
    }
    for (const Identity& identity : batch.leases_ended) {
      read_.erase(identity);
      changed.insert(identity);
    }
    for (const Identity& identity : changed) {
      const auto record = context_.catalog.get_weight_revision(identity);
      if (record.code() == Code::kNotFound) continue;
      SY_RETURN_IF_ERROR(record.status());
      const bool waits_for_it = record->availability == metadata::Availability::kDeleting || record->operation;
      if (waits_for_it && !read_.contains(identity)) due.insert(identity);
      if (record->policy.mode == metadata::PolicyMode::kManual) continue;
      work_.try_again(identity);
      plan_is_old = true;
    }
    return {};
  }

  Status add_overdue(std::int64_t now, std::set<Identity>& due) {
    SY_ASSIGN_OR_RETURN(const auto overdue, context_.catalog.find_overdue(context_.options.abandon_after_ms));
    for (const Identity& identity : overdue) {
      if (!retries_.contains(identity)) due.insert(identity);
    }
    for (const auto& [identity, retry] : retries_) {
      if (retry.until_mono_ms <= now) due.insert(identity);
    }
    return {};
  }

  /// The whole of what is meant; gives what is news.
  Result<ReconcileReport> pass() {
    const std::int64_t began = context_.runtime.mono_ms();
    std::set<Identity> later;
    // A pass may take minutes, and what is done meanwhile is told as it comes.
    const auto between = [this] { return take_what_is_done(); };
    SY_ASSIGN_OR_RETURN(Looked looked, look_at_revisions(context_, selector_, observer_, cancel_, &later, between));
    const std::int64_t now = context_.runtime.mono_ms();
    next_pass_ = now + std::max(kPassMs, (now - began) * kShareOfPasses);
    next_look_ = now + kLookMs;
    seen_ = std::move(looked.report.left_at);
    policies_ = std::move(looked.policies);
    read_.clear();
    SY_RETURN_IF_ERROR(work_.go_on_with(later));
    SY_RETURN_IF_ERROR(follow_policies());
    return looks_.enter_all(std::move(looked.report));
  }

  Status look_at(const Identity& identity) {
    if (!is_meant(identity)) return {};
    // Whoever carries it out changes the record at its end, or dies and is overdue.
    SY_ASSIGN_OR_RETURN(const bool is_being_run, context_.catalog.is_being_run(identity));
    if (is_being_run) return {};
    std::set<Identity> later;
    auto looked = look_at_revisions(context_, selector_of(identity), observer_, cancel_, &later);
    if (looked.code() == Code::kNotFound) {
      forget(identity);
      return {};
    }
    SY_RETURN_IF_ERROR(looked.status());
    if (!later.empty()) return work_.go_on_with(later);
    return enter_look(identity, std::move(looked->report));
  }

  void forget(const Identity& identity) {
    seen_.erase(identity);
    policies_.erase(identity);
    retries_.erase(identity);
    looks_.forget(identity);
    moves_.forget(identity);
  }

  Status enter_look(const Identity& identity, ReconcileReport report) {
    for (const auto& [moved, generation] : report.left_at) seen_[moved] = generation;
    if (report.waiting.empty() && report.failed.empty()) {
      retries_.erase(identity);
    } else {
      retries_[identity].lengthen(context_.runtime.mono_ms());
    }
    return tell_news(looks_.enter(identity, std::move(report)));
  }

  Status take_what_is_done() {
    std::vector<LongWork::Done> all = work_.take();
    // After it: what was said before something was done is told before it.
    words_.pass_on(observer_);
    for (LongWork::Done& done : all) {
      if (is_cancelled(done.status)) continue;
      if (!done.status.ok() && done.status.code() != Code::kNotFound && !may_pass(done.status.code())) {
        return done.status;
      }
      switch (done.what) {
        case LongWork::Done::What::kLook:
          SY_RETURN_IF_ERROR(take_look(std::move(done)));
          break;
        case LongWork::Done::What::kMove:
          moved_.insert(done.identity);
          SY_RETURN_IF_ERROR(tell_news(moves_.enter(done.identity, std::move(done.report))));
          break;
        case LongWork::Done::What::kAllMoves:
          SY_RETURN_IF_ERROR(take_all_moves(done));
          break;
      }
    }
    return {};
  }

  Status take_look(LongWork::Done done) {
    if (done.status.code() == Code::kNotFound) {
      forget(done.identity);
      return {};
    }
    if (!done.status.ok()) done.report.failed.push_back({formats::format_ref(done.identity), done.status});
    return enter_look(done.identity, std::move(done.report));
  }

  /// Of what had nothing to be told nothing waits any more.
  Status take_all_moves(const LongWork::Done& done) {
    const std::set<Identity> told = std::exchange(moved_, {});
    if (!done.status.ok()) {
      observer_.warning(done.status.message() + "; it is tried again");
    } else {
      moves_.forget_others(told);
    }
    return {};
  }

  Status tell_news(const ReconcileReport& news) {
    if (news.changes.empty() && news.waiting.empty() && news.failed.empty()) return {};
    return heard(tell_(news));
  }

  Status heard(Status told) {
    told_ended_ = !told.ok();
    return told;
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
  KeptWords& words_;  ///< of the long work
  const Tell& tell_;
  const CancelFlag& cancel_;
  std::uint64_t next_ = 0;
  std::int64_t next_look_ = 0;
  std::int64_t next_pass_ = 0;
  bool told_ended_ = false;
  std::map<Identity, std::uint64_t> seen_;         ///< the generations that our own looks left behind
  std::set<Identity> read_;                        ///< of which a lease was seen to be taken
  std::map<Identity, metadata::Policy> policies_;  ///< that move something
  std::set<Identity> moved_;                       ///< told since the policies were followed to the end
  std::map<Identity, BackOff> retries_;            ///< of looks that left something to do
  Told looks_;
  Told moves_;
  LongWork work_;  ///< last: it uses the others
};

}  // namespace

Status run_keep_reconciled(Context& context, const std::optional<Selector>& selector, Observer& observer,
                           const std::function<Status(const ReconcileReport&)>& tell, const CancelFlag& cancel) {
  KeptWords words;
  Status ended = Keeper(context, selector, observer, words, tell, cancel).run();
  words.pass_on(observer);
  return ended;
}

}  // namespace steelyard::store
