#include <utility>

#include "tiers/directory/layout.h"
#include "tiers/simulated/simulated_tier.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using State = SimulatedDisk::State;

class HeldMaking final : public HeldAttempt {
 public:
  HeldMaking(AttemptName name, std::uint64_t made) : HeldAttempt(std::move(name)), made_(made) {}
  std::uint64_t made() const { return made_; }

 private:
  std::uint64_t made_;
};

}  // namespace

Status SimulatedTier::remove(const ObjectName& name) {
  SY_RETURN_IF_ERROR(check(name));
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto attempt = state_->attempts.find(name.in);
  Status status = attempt == state_->attempts.end() ? Status() : remove_object(attempt->second, name);
  state_->drop_unused_content();
  return status;
}

Result<std::unique_ptr<HeldAttempt>> SimulatedTier::hold_attempt(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end() || !found->second.is_there()) return not_found(describe(attempt));
  return std::unique_ptr<HeldAttempt>(std::make_unique<HeldMaking>(attempt, found->second.made));
}

Status SimulatedTier::remove_held(const HeldAttempt& attempt) {
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  waiting_content_.erase(attempt.name());
  const auto found = state_->attempts.find(attempt.name());
  if (found == state_->attempts.end()) return {};
  State::Attempt& there = found->second;
  if (there.made != static_cast<const HeldMaking&>(attempt).made()) return {};
  there.committed.reset();
  there.temporaries.clear();
  std::vector<ObjectName> names;
  for (const auto& [name, object] : there.objects) names.push_back(name);
  Status first;
  for (const ObjectName& name : names) {
    Status status = remove_object(there, name);
    if (first.ok()) first = std::move(status);
  }
  state_->drop_unused_content();
  // Removals may still be undone by a crash; the emptied attempt stays in the disk's books, unlisted.
  return first;
}

Status SimulatedTier::remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end()) return {};
  const std::int64_t now_ms = runtime_.wall_ms();
  std::erase_if(found->second.temporaries, [&](const auto& temporary) {
    return !live_temporaries_.contains(temporary.first) && now_ms - temporary.second >= idle_ms;
  });
  return {};
}

Status SimulatedTier::remove_group(const std::string& group) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const GroupListing listing = listing_of(group);
  if (!listing.attempts.empty() || !listing.by_operation.empty()) {
    const AttemptName held =
        listing.attempts.empty() ? listing.by_operation.front() : AttemptName{group, listing.attempts.front()};
    return {Code::kConflict, "there still is " + describe(held)};
  }
  state_->deleting.erase(group);
  return {};
}

Status SimulatedTier::remove_empty_group(const std::string& group) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  return alive();  // a group in which nothing is left has no folder here
}

Status SimulatedTier::remove_content(const Digest& sha256) {
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  state_->content.erase(sha256);
  return {};
}

Status SimulatedTier::remove_object(State::Attempt& attempt, const ObjectName& name) {
  if (state_->blocked_removals.contains(name)) return {Code::kUnavailable, "cannot remove " + describe(name)};
  const auto found = attempt.objects.find(name);
  if (found == attempt.objects.end()) return {};
  touch_content(found->second.inode);
  if (!state_->in_memory()) attempt.removed.insert_or_assign(name, found->second);
  attempt.objects.erase(found);
  return {};
}

void SimulatedTier::touch_content(const std::shared_ptr<State::Inode>& inode) {
  for (auto& [digest, entry] : state_->content) {
    if (entry.inode == inode) entry.changed_at_ms = runtime_.wall_ms();
  }
}

}  // namespace steelyard::tiers
