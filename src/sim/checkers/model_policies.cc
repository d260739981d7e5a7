// Who begins to move a revision without being asked to: for a policy, or to make room.
#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "metadata/mixed_plan.h"
#include "sim/checkers/model.h"

namespace steelyard::sim {

using metadata::Availability;
using metadata::LastUse;
using metadata::OperationKind;
using metadata::OperationState;
using metadata::Policy;
using metadata::PolicyMode;
using metadata::Residency;
using metadata::RevisionRecord;

namespace {

std::string name_of(const metadata::Operation& begun, const Revision& revision) {
  return fmt::format("operation {} of {}", begun.operation_id, text_of(revision.now().identity));
}

}  // namespace

/// The set is that of the ratio and the sizes alone, so whoever resumes it moves the same.
void Model::check_plan(const metadata::Operation& begun, const Revision& revision) {
  if (!begun.ratio_millionths || revision.objects.empty()) return;
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 1; i < revision.objects.size(); ++i) sizes.push_back(revision.objects[i].bytes);
  const auto plan = metadata::plan_mixed(sizes, *begun.ratio_millionths);
  if (plan.ok() && plan->digest == begun.plan_digest) return;
  violated(name_of(begun, revision) + " moves another set than its ratio gives");
}

/// The record is still as it was before.
void Model::check_reason(const Operation& by, const oplog::Append& append, const metadata::Operation& begun,
                         const Revision& revision) {
  if (by.moves == revision.now().identity) return;
  // The other half of a ratio, or once more what could not go on as it was.
  const auto ended = by.ended.find(revision.now().identity);
  if (ended != by.ended.end() && ended->second.target == begun.target &&
      ended->second.ratio_millionths == begun.ratio_millionths) {
    return;
  }
  if (by.makes_room) {
    ++tally_.for_room;
    if (begun.kind != OperationKind::kEvicting || begun.target != Residency::kCold) {
      violated(name_of(begun, revision) + " is to make room, and does not");
    }
    return check_passed_over(by, append, begun, revision);
  }
  if (by.follows) return check_policy(by, append, begun, revision);
  violated(fmt::format("op {} ({}) begins {}, and nobody asked for it", by.id, by.what, name_of(begun, revision)));
}

void Model::check_policy(const Operation& by, const oplog::Append& append, const metadata::Operation& begun,
                         const Revision& revision) {
  const std::string name = name_of(begun, revision);
  const Policy& policy = revision.now().policy;
  ++tally_.by_policy;
  if (policy.mode == PolicyMode::kManual) {
    return violated(fmt::format("op {} begins {}, whose policy is manual", by.id, name));
  }
  if (policy.mode == PolicyMode::kPinned) return;  // where it goes was judged already
  if (is_cooling(revision, append)) violated(fmt::format("op {} begins {} inside its cool-down", by.id, name));
  if (begun.kind == OperationKind::kEvicting) {
    ++tally_.for_room;
    if (begun.target != Residency::kCold) violated(name + " is to make room, and does not");
    return check_passed_over(by, append, begun, revision);
  }
  if (begun.target != policy.prefer || begun.ratio_millionths != policy.ratio_millionths) {
    violated(name + " goes where its policy does not want it");
  }
  if (!leased_during(by, revision.now().identity)) violated(name + " brings in what nobody reads");
}

bool Model::is_cooling(const Revision& revision, const oplog::Append& append) const {
  return std::ranges::any_of(revision.moves, [&](const auto& one) {
    const Move& move = one.second;
    return move.state != OperationState::kRunning && metadata::moves_replicas(move.operation.kind) &&
           move.ended.epoch_ordinal == epoch_ordinal_ &&
           append.at.mono_ms - move.ended.mono_ms < limits::kPolicyCooldownMs;
  });
}

/// It has been as it is for as long as the call lasts, and nobody reads it.
bool Model::is_steady(const Operation& by, const Revision& revision) const {
  return revision.facts.back().sequence <= by.begun_at && !leased_during(by, revision.now().identity);
}

LastUse Model::use_of(const Revision& revision) const {
  const auto used = uses_.find(revision.now().identity);
  LastUse last = used == uses_.end() ? LastUse() : used->second;
  for (const auto& [id, move] : revision.moves) {
    const bool brought = move.operation.kind == OperationKind::kRehydrating && move.state == OperationState::kDone;
    if (brought) last = std::max(last, move.ended);
  }
  return last;
}

/// Something of it was never brought into that memory by another revision.
bool Model::holds_alone(const Revision& revision, const std::string& instance) const {
  if (revision.objects.empty()) return false;
  return std::any_of(revision.objects.begin() + 1, revision.objects.end(), [&](const Member& member) {
    return member.bytes > 0 && std::ranges::none_of(revisions_, [&](const auto& one) {
             const Revision& other = one.second;
             const auto works_there = [&](const auto& move) { return move.second.operation.hot_instance == instance; };
             return &other != &revision && std::ranges::count(other.objects, member.sha256, &Member::sha256) != 0 &&
                    std::ranges::any_of(other.moves, works_there);
           });
  });
}

/// None that is as idle, would free something, and was used longer ago stays.
void Model::check_passed_over(const Operation& by, const oplog::Append& append, const metadata::Operation& begun,
                              const Revision& revision) {
  if (by.disturbed || !is_steady(by, revision)) return;
  for (const auto& [identity, other] : revisions_) {
    const RevisionRecord& record = other.now();
    const Policy& policy = record.policy;
    const bool held = by.makes_room ? policy.mode == PolicyMode::kPinned && policy.prefer != Residency::kCold
                                    : policy.mode != PolicyMode::kAuto || is_cooling(other, append);
    const bool there = record.availability == Availability::kReady && !record.operation &&
                       record.residency == Residency::kHot && record.hot_instance == begun.hot_instance;
    if (&other == &revision || by.moves == identity || held || !there || !is_steady(by, other)) continue;
    if (use_of(other) >= use_of(revision) || !holds_alone(other, begun.hot_instance)) continue;
    violated(fmt::format("op {} evicts {} for room, and {} was used longer ago", by.id,
                         text_of(revision.now().identity), text_of(identity)));
  }
}

}  // namespace steelyard::sim
