#include "sim/workload/bench.h"

#include "oplog/open.h"

namespace steelyard::sim {

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
  profile.clients = 2 + random.below(3);
  profile.calls_per_client = 4 + random.below(9);
  profile.troubles = random.below(12);
  profile.damages = random.per_mille(300);
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
      log(oplog::open_memory(world.nature().runtime())) {
  if (profile.tier.bit_rot > 0) model.allow_bad_reads();
  if (canary == Canary::kGoneLies) world.lie_about_the_gone();
}

DiskFindings Bench::look_at(const metadata::Identity& identity) {
  Revision& revision = *model.find(identity);
  DiskFindings findings = check_on_disk(model, world.nature().runtime(), disk, revision);
  if (revision.objects.empty()) revision.objects = findings.objects;
  return findings;
}

void Bench::look_at_all() {
  for (const auto& [identity, revision] : model.revisions()) {
    if (revision.published()) look_at(identity);
  }
}

}  // namespace steelyard::sim
