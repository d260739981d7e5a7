#include "store/long_work.h"

#include <algorithm>
#include <utility>

#include "base/workers.h"
#include "store/reconcile.h"
#include "store/reconcile_moves.h"
#include "store/resolve.h"

namespace steelyard::store {

using metadata::Identity;

LongWork::~LongWork() {
  if (!task_) return;
  stop_.store(true);
  {
    const std::lock_guard lock(mutex_);
    if (woken_) woken_->set();
  }
  task_->join();
}

Status LongWork::start() {
  if (task_) return {};
  SY_ASSIGN_OR_RETURN(task_, try_spawn(context_.runtime, "long-work", [this] { work(); }));
  return {};
}

Status LongWork::go_on_with(const std::set<Identity>& revisions) {
  if (revisions.empty()) return {};
  {
    const std::lock_guard lock(mutex_);
    looks_.insert(revisions.begin(), revisions.end());
    if (woken_) woken_->set();
  }
  return start();
}

Status LongWork::follow(const Asked& asked) {
  {
    const std::lock_guard lock(mutex_);
    if (asked && asked->empty()) {
      pauses_.clear();
      again_at_mono_ms_ = INT64_MAX;
      return {};
    }
    if (!moves_) {
      moves_ = asked;
    } else if (!asked) {
      moves_->reset();
    } else if (*moves_) {
      (*moves_)->insert(asked->begin(), asked->end());
    }
    if (woken_) woken_->set();
  }
  return start();
}

bool LongWork::idle() {
  const std::lock_guard lock(mutex_);
  return !works_ && looks_.empty() && !moves_ && done_.empty();
}

std::vector<LongWork::Done> LongWork::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void LongWork::done(Done one) {
  const std::lock_guard lock(mutex_);
  done_.push_back(std::move(one));
}

void LongWork::work() {
  while (!stop_.load()) {
    const std::shared_ptr<Event> woken = context_.runtime.make_event();
    std::optional<Identity> look;
    std::optional<Asked> moves;
    {
      const std::lock_guard lock(mutex_);
      works_ = true;
      if (!looks_.empty()) {
        look = std::move(looks_.extract(looks_.begin()).value());
      } else if (moves_) {
        moves = std::exchange(moves_, std::nullopt);
      } else {
        works_ = false;
        woken_ = woken;
      }
    }
    if (look) {
      look_at(*look);
    } else if (moves) {
      make_moves(*moves);
    } else if (!stop_.load()) {
      woken->wait_until(INT64_MAX);
      const std::lock_guard lock(mutex_);
      woken_.reset();
    }
  }
}

void LongWork::look_at(const Identity& identity) {
  auto looked = look_at_revisions(context_, selector_of(identity), observer_, stop_, nullptr);
  Done one{.what = Done::What::kLook, .identity = identity};
  one.status = looked.status();
  if (looked.ok()) one.report = std::move(looked->report);
  done(std::move(one));
}

Status LongWork::may_try(const metadata::Move& move) {
  const std::lock_guard lock(mutex_);
  const auto pause = pauses_.find(move.identity);
  const bool waits =
      pause != pauses_.end() && pause->second.tried && context_.runtime.mono_ms() < pause->second.until_mono_ms;
  if (waits) return pause->second.why;
  trying_ = move.identity;
  return {};
}

void LongWork::pause(const Identity& identity, const ReconcileReport& report, std::int64_t now) {
  const std::lock_guard lock(mutex_);
  const bool tried = std::exchange(trying_, std::nullopt) == identity;
  const bool waits = !report.waiting.empty();
  if (!waits && report.failed.empty()) {
    pauses_.erase(identity);
    return;
  }
  Pause& pause = pauses_[identity];
  if (now < pause.until_mono_ms && !tried) return;
  pause.tried = tried;
  pause.lengthen(now);
  pause.why = (waits ? report.waiting : report.failed).front().why;
}

void LongWork::try_again(const Identity& identity) {
  const std::lock_guard lock(mutex_);
  pauses_.erase(identity);
}

std::int64_t LongWork::follow_at_mono_ms() {
  const std::lock_guard lock(mutex_);
  std::int64_t at = INT64_MAX;
  if (works_ || moves_) return at;
  at = again_at_mono_ms_;
  for (const auto& [identity, pause] : pauses_) at = std::min(at, pause.until_mono_ms);
  return at;
}

void LongWork::make_moves(const Asked& asked) {
  const std::int64_t began = context_.runtime.mono_ms();
  std::int64_t again = INT64_MAX;
  PolicyReports reports;
  reports.tell = [this](const Identity& identity, ReconcileReport report) {
    pause(identity, report, context_.runtime.mono_ms());
    done({.what = Done::What::kMove, .identity = identity, .report = std::move(report)});
  };
  reports.may_try = [this](const metadata::Move& move) { return may_try(move); };
  reports.on_again = [&again](std::int64_t at_mono_ms) { again = at_mono_ms; };
  Done all{.what = Done::What::kAllMoves, .asked = asked};
  all.status = report_policies(context_, asked, observer_, stop_, reports);
  {
    const std::lock_guard lock(mutex_);
    if (!all.status.ok()) again = context_.runtime.mono_ms() + kFirstPauseMs;
    again_at_mono_ms_ = again;
    for (auto& [identity, pause] : pauses_) {
      if (!all.status.ok()) pause.until_mono_ms = std::max(pause.until_mono_ms, again);
    }
    // Those of which nothing is wanted any more.
    std::erase_if(pauses_, [&](const auto& one) { return one.second.until_mono_ms <= began; });
  }
  done(std::move(all));
}

}  // namespace steelyard::store
