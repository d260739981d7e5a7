#include "store/long_work.h"

#include <utility>

#include "base/workers.h"
#include "store/reconcile.h"
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
  if (asked && asked->empty()) return {};
  {
    const std::lock_guard lock(mutex_);
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

void LongWork::make_moves(const Asked& asked) {
  const auto tell = [this](const Identity& identity, ReconcileReport report) {
    done({.what = Done::What::kMove, .identity = identity, .report = std::move(report)});
  };
  Done all{.what = Done::What::kAllMoves, .asked = asked};
  all.status = report_policies(context_, asked, observer_, stop_, tell);
  done(std::move(all));
}

}  // namespace steelyard::store
