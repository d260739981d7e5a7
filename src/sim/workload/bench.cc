#include "sim/workload/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/identity.h"
#include "oplog/open.h"
#include "oplog/replay.h"
#include "sim/workload/lying_log.h"

namespace steelyard::sim {
namespace {

/// The digest of its payload group, in hex.
std::string_view group_of(const Revision& revision) {
  const std::string_view id = revision.now().payload_group_id;
  return id.substr(id.find(':') + 1);
}

}  // namespace

Profile draw_profile(Random& random) {
  constexpr std::int64_t kLatencies[] = {3, 50, 400, 4000};
  constexpr std::uint32_t kTierRates[] = {0, 0, 2'000, 10'000, 40'000};  // millionths
  constexpr std::uint32_t kLogRates[] = {0, 0, 5, 20, 60};               // per mille
  Profile profile;
  profile.latency_ms_max = random.one_of(kLatencies);
  profile.tier.error = random.one_of(kTierRates);
  profile.tier.no_space = random.one_of(kTierRates) / 4;
  profile.tier.short_write = random.one_of(kTierRates) / 2;
  profile.tier.lost_answer = random.one_of(kTierRates);
  profile.tier.bit_rot = random.per_mille(150) ? 20'000 : 0;
  profile.log.before = random.one_of(kLogRates);
  profile.log.lost_answer = random.one_of(kLogRates);
  profile.log.lost_request = random.one_of(kLogRates);
  profile.log.unreadable_after_loss = 500;
  profile.log.read_unavailable = random.one_of(kLogRates);
  constexpr std::uint32_t kCrashes[] = {0, 5, 20};
  profile.log.crash = random.one_of(kCrashes);
  constexpr std::uint64_t kPoints[] = {0, 10, 60};
  profile.points.tier_errno = random.one_of(kPoints) / 2;
  profile.points.kill = random.one_of(kPoints);
  profile.points.stop = random.one_of(kPoints);
  profile.points.stop_ms_max = 150'000;
  constexpr std::int64_t kWriterTtls[] = {5'000, 20'000, 60'000};
  profile.writer_ttl_ms = random.one_of(kWriterTtls);
  constexpr std::int64_t kLeaseTtls[] = {2'000, 30'000};
  profile.lease_ttl_ms = random.one_of(kLeaseTtls);
  constexpr std::uint64_t kSnapshots[] = {0, 12, 40};
  profile.snapshot_every = random.one_of(kSnapshots);
  constexpr std::int64_t kPauses[] = {5, 500, 20'000};
  profile.pause_ms_max = random.one_of(kPauses);
  profile.gc_grace_ms = random.per_mille(700) ? 0 : 3'600'000;
  profile.clients = 2 + random.below(3);
  profile.calls_per_client = 4 + random.below(9);
  profile.troubles = random.below(12);
  profile.damages = random.per_mille(300);
  profile.followed = random.per_mille(250);
  profile.kept = random.per_mille(60);
  constexpr std::uint64_t kMemories[] = {0, 1, 1, 2};
  profile.memories = random.one_of(kMemories);
  profile.hot.error = random.one_of(kTierRates);
  profile.hot.no_space = random.one_of(kTierRates) / 4;
  profile.hot.short_write = random.one_of(kTierRates) / 2;
  profile.hot.lost_answer = random.one_of(kTierRates);
  profile.hot.bit_rot = random.per_mille(150) ? 20'000 : 0;
  return profile;
}

Profile quiet_profile() {
  Profile profile;
  profile.writer_ttl_ms = 20'000;
  profile.lease_ttl_ms = 30'000;
  return profile;
}

Bench::Bench(std::uint64_t seed, Canary canary_in)
    : world(seed),
      verdict(world),
      model(world, verdict),
      random(seed ^ 0x5eed0010),
      canary(canary_in),
      profile(draw_profile(random)),
      disk(std::make_shared<tiers::SimulatedDisk>(seed ^ 0x5eed0011)),
      log(make_lying_log(oplog::open_memory(world.nature().runtime()), canary)) {
  for (std::uint64_t i = 0; i < profile.memories; ++i) {
    memories.push_back(
        std::make_shared<tiers::SimulatedDisk>(seed ^ (0x5eed0012 + i), tiers::SimulatedMedium::kMemory));
  }
  if (profile.tier.bit_rot > 0) model.allow_bad_reads();
  if (canary == Canary::kGoneLies) world.lie_about_the_gone();
}

DiskFindings Bench::look_at(const metadata::Identity& identity) {
  Revision& revision = *model.find(identity);
  if (!revision.readable() && !model.live_lease_of(identity)) return {};
  DiskFindings findings = check_on_disk(model, world.nature().runtime(), disk, revision);
  if (revision.objects.empty()) revision.objects = findings.objects;
  return findings;
}

void Bench::see_change(const metadata::Identity& identity) {
  const Revision& revision = *model.find(identity);
  if (revision.facts.size() < 2 || !revision.readable()) return;
  const metadata::RevisionRecord& before = revision.facts[revision.facts.size() - 2].record;
  const metadata::RevisionRecord& now = revision.now();
  if (now.hot_members != before.hot_members || now.hot_instance != before.hot_instance ||
      now.hot_millionths != before.hot_millionths) {
    check_claim(model, world.nature().runtime(), memories, revision);
  }
  if (before.operation && !now.operation) {
    const metadata::Operation& ended = now.finished_operations.back();
    const bool late = late_step_at >= revision.moves.at(ended.operation_id).begun_at;
    check_set(model, world.nature().runtime(), memories, revision, ended, late);
  }
  if (before.availability != metadata::Availability::kDegraded || now.availability != metadata::Availability::kReady) {
    return;
  }
  // Who says that it is whole again has looked at what was recorded.
  const std::vector<std::string> damaged = look_at(identity).damaged;
  std::vector<std::string> in_memory;
  for (const auto& memory : memories) {
    const std::vector<bool> whole = look_into(model, world.nature().runtime(), memory, revision).whole;
    for (std::uint32_t i = 0; i < whole.size(); ++i) {
      if (whole[i]) in_memory.push_back(formats::payload_key(identity, i));
    }
  }
  for (const std::string& key : before.damage.objects) {
    if (std::ranges::binary_search(damaged, key) && std::ranges::count(in_memory, key) == 0) {
      model.violated(fmt::format("{} is READY again and {} is damaged", text_of(identity), key));
    }
  }
}

void Bench::set_capacity(tiers::SimulatedDisk& of, std::optional<std::uint64_t> bytes) {
  of.set_capacity(bytes);
  if (bytes) {
    limited.insert(&of);
  } else if (limited.erase(&of) > 0) {
    short_of_room_at = model.sequence() + 1;
  }
}

bool Bench::is_short_of_room(const Operation& operation) const {
  const bool injected = profile.tier.no_space > 0 || profile.hot.no_space > 0 || profile.points.tier_errno > 0;
  return injected || !limited.empty() || short_of_room_at > operation.begun_at;
}

void Bench::check_log() {
  if (const Status status = oplog::verify_state(*log); !status.ok()) {
    model.violated("the log does not imply the state it serves: " + status.to_string());
  }
}

void Bench::look_at_all() {
  for (const auto& [identity, revision] : model.revisions()) {
    if (revision.published()) look_at(identity);
  }
  look_at_memories();
}

void Bench::look_at_memories(const std::string& group) {
  for (const auto& [identity, revision] : model.revisions()) {
    if (!group.empty() && group_of(revision) != group) continue;
    check_claim(model, world.nature().runtime(), memories, revision);
  }
}

bool Bench::may_be_rotten_in_memory(const metadata::Identity& identity, const std::string& key) {
  const Revision& revision = *model.find(identity);
  for (std::uint32_t i = 0; i + 1 < revision.objects.size(); ++i) {
    if (formats::payload_key(identity, i) == key) return is_rotten_in_memory(revision.objects[i + 1].sha256);
  }
  return false;
}

bool Bench::is_rotten_in_memory(const Digest& sha256) {
  return std::ranges::any_of(memories, [&](const auto& memory) {
    return model.is_damaged_hot(instance_of(world.nature().runtime(), memory), sha256);
  });
}

void Bench::removed_from_memory(Process& process, const std::string& instance,
                                const std::vector<tiers::ObjectStat>& before) {
  Runtime& machine = world.nature().runtime();
  for (const tiers::ObjectStat& stat : before) {
    if (stat.name.kind != tiers::ObjectKind::kPayload) continue;
    const auto found = std::ranges::find_if(
        model.revisions(), [&](const auto& one) { return group_of(one.second) == stat.name.in.group; });
    if (found == model.revisions().end()) continue;
    const auto& [identity, revision] = *found;
    if (canary == Canary::kHotRemoveSpreads) {
      disk->truncate({{stat.name.in.group, stat.name.in.attempt}, stat.name.kind, stat.name.index}, 0);
    }
    Model::Removal removal{identity, stat.name.index, stat.name.in.operation, true, instance};
    if (revision.readable() && stat.name.index + 1 < revision.objects.size()) {
      const Digest& sha256 = revision.objects[stat.name.index + 1].sha256;
      // Who removes a replica that rotted there takes nothing from anybody.
      if (is_rotten_in_memory(sha256)) continue;
      removal.readable_left = is_whole_on_disk(machine, disk, revision, stat.name.index);
      for (const auto& memory : memories) {
        const MemoryFindings in_memory = look_into(model, machine, memory, revision);
        removal.readable_left =
            removal.readable_left || (stat.name.index < in_memory.whole.size() && in_memory.whole[stat.name.index]);
      }
      // A repair without room that has misread one removes it, and the others have it.
      if (profile.hot.bit_rot > 0 && removal.readable_left) continue;
    }
    model.replica_removed(process, removal);
  }
  if (!before.empty()) look_at_memories(before.front().name.in.group);
}

void Bench::removed_from_disk(const std::vector<tiers::ObjectStat>& before) {
  for (const tiers::ObjectStat& stat : before) {
    const auto found = std::ranges::find_if(
        model.revisions(), [&](const auto& one) { return group_of(one.second) == stat.name.in.group; });
    if (found == model.revisions().end()) continue;
    const auto& [identity, revision] = *found;
    if (!revision.published() || stat.name.in.attempt != revision.now().import_attempt) continue;
    const std::string what = fmt::format("{} {} of {} is taken from the disk",
                                         stat.name.kind == tiers::ObjectKind::kManifest ? "the manifest" : "object",
                                         stat.name.index, text_of(identity));
    if (revision.readable()) model.violated(what + ", and everybody may read it");
    if (const auto lease = model.live_lease_of(identity)) {
      model.violated(fmt::format("{} under lease {} of {}", what, lease->lease_id, lease->holder));
    }
  }
}

void Bench::look_for_garbage(std::size_t container) {
  std::map<std::string, const Revision*> owners;
  for (const auto& [identity, revision] : model.revisions()) owners[std::string(group_of(revision))] = &revision;
  const auto tier = std::move(tiers::open_simulated(world.nature().runtime(), disk)).value();
  const std::vector<std::string> groups = tier->list_groups().value();
  for (const std::string& group : groups) {
    const auto owner = owners.find(group);
    if (owner == owners.end()) {
      model.violated("group " + group + " is nobody's");
      continue;
    }
    const Revision& revision = *owner->second;
    const std::vector<std::uint32_t> attempts = tier->list_group(group).value().attempts;
    for (const std::uint32_t attempt : attempts) {
      if (revision.readable() && attempt == revision.now().import_attempt) continue;
      model.violated(fmt::format("attempt {} of {} is left after a gc", attempt, text_of(revision.now().identity)));
    }
  }
  const std::vector<tiers::ContentEntry> content = tier->list_content().value();
  for (const tiers::ContentEntry& entry : content) {
    if (entry.links == 1) model.violated("content " + entry.sha256.hex() + " is used by nobody after a gc");
  }
  if (container >= memories.size()) return;
  const auto hot = tiers::open_simulated(world.nature().runtime(), memories[container], false);
  if (!hot.ok()) return;
  const std::vector<std::string> in_memory = (*hot)->list_groups().value();
  for (const std::string& group : in_memory) {
    const auto owner = owners.find(group);
    if (owner != owners.end() && owner->second->readable()) continue;
    model.violated(fmt::format("group {} is left in memory after a gc, and its revision is gone", group));
  }
}

void Bench::look_for_anything() {
  Runtime& machine = world.nature().runtime();
  const auto tier = std::move(tiers::open_simulated(machine, disk)).value();
  if (const std::uint64_t bytes = tier->usage({}).value().bytes; bytes > 0) {
    model.violated(fmt::format("{} bytes are left on the disk after everything was deleted", bytes));
  }
  for (const auto& memory : memories) {
    const auto hot = tiers::open_simulated(machine, memory, false);
    if (!hot.ok()) continue;
    const tiers::TierUsage usage = (*hot)->usage({}).value();
    if (usage.bytes > 0 || usage.free_bytes != usage.capacity_bytes) {
      model.violated(fmt::format("{} of {} bytes are left in memory after everything was deleted",
                                 usage.capacity_bytes - usage.free_bytes, usage.capacity_bytes));
    }
  }
}

}  // namespace steelyard::sim
