#include "sim/workload/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "formats/identity.h"
#include "oplog/open.h"
#include "oplog/replay.h"
#include "sim/checkpoints.h"
#include "sim/workload/bench.h"
#include "sim/workload/client.h"
#include "store/rebuild.h"
#include "tiers/simulated.h"

namespace steelyard::sim {

using metadata::Availability;
using metadata::Identity;

namespace {

/// Replacements of killed clients in one history.
constexpr int kRestartsMax = 8;
constexpr int kRottenTriesMax = 4;
constexpr std::int64_t kPollMs = 500;
constexpr std::uint64_t kLateStepsPerMille = 400;
/// Memories that have room for some revisions only.
constexpr std::uint64_t kShortMemoryPerMille = 700;
/// Histories in the end of which everything is deleted.
constexpr std::uint64_t kEmptiedPerMille = 300;

/// The fibre that does to the machine what happens to machines.
class Nature {
 public:
  Nature(Bench& bench, History& history) : bench_(bench), history_(history) {}

  void play() {
    bench_.world.set_points(bench_.profile.points);
    for (std::uint64_t i = 0; i < bench_.profile.clients; ++i) start_client();
    draw_followers();
    start_followers();
    for (const auto& memory : bench_.memories) {
      if (bench_.random.per_mille(kShortMemoryPerMille))
        bench_.set_capacity(*memory, bench_.random.between(6'000, 24'000));
    }
    for (std::uint64_t i = 0; i < bench_.profile.troubles; ++i) {
      // Short waits fall into the middle of calls, long ones past times to live.
      clock().sleep_ms(bench_.random.between(1, bench_.random.per_mille(500) ? 1'000 : 40'000));
      trouble();
      if (bench_.random.per_mille(kLateStepsPerMille)) complete_a_late_step();
      replace_the_dead();
    }
    while (std::any_of(clients_.begin(), clients_.end(),
                       [](const Slot& slot) { return slot.busy && slot.process->alive(); })) {
      clock().sleep_ms(kPollMs);
      replace_the_dead();
    }
    while (!bench_.graveyard.empty() && bench_.random.per_mille(500)) complete_a_late_step();
    bench_.world.set_points({});
    bench_.set_capacity(*bench_.disk, std::nullopt);
    for (const auto& memory : bench_.memories) bench_.set_capacity(*memory, std::nullopt);
    end_followers();
    if (bench_.random.per_mille(500)) reboot();
    bench_.calm = true;
    audit();
    // Durable is what is there after the power failed, twice if need be.
    reboot();
    audit();
    check_log();
    check_recovery();
    if (bench_.random.per_mille(kEmptiedPerMille)) empty();
  }

 private:
  struct Slot {
    Process* process = nullptr;
    bool busy = false;
  };

  Runtime& clock() { return bench_.world.nature().runtime(); }

  void start_client() {
    const std::size_t slot = clients_.size();
    Process& process = bench_.world.start_process(fmt::format("client-{}", slot));
    clients_.push_back({&process, true});
    const std::uint64_t seed = bench_.random.next();
    const std::size_t container = some_container();
    bench_.world.spawn(process, "main", [this, slot, seed, container, &process] {
      {
        Client client(bench_, process, bench_.profile, seed, container);
        client.play(bench_.profile.calls_per_client);
      }
      clients_[slot].busy = false;
      bench_.world.kill(process);  // it exits
    });
  }

  /// A process that does one thing as long as it lives, and after it another one that goes on.
  struct Follower {
    std::string name;
    std::size_t container = 0;
    std::function<void(Client& client, const store::CancelFlag& stop)> act;
    std::shared_ptr<store::CancelFlag> stop{};  ///< of the process
    Process* process = nullptr;
    bool busy = false;
  };

  void draw_followers() {
    if (bench_.profile.followed) {
      if (bench_.random.per_mille(300)) followed_.resource = "org/model";
      followers_.push_back(
          {"watcher", 0, [this](Client& client, const store::CancelFlag& stop) { client.follow(followed_, stop); }});
    }
    if (bench_.profile.kept) {
      followers_.push_back({"keeper", some_container(),
                            [](Client& client, const store::CancelFlag& stop) { client.keep_reconciled(stop); }});
    }
  }

  void start_followers() {
    for (Follower& follower : followers_) {
      if (follower.busy && follower.process->alive()) continue;
      Process& process = bench_.world.start_process(follower.name);
      follower.process = &process;
      follower.stop = std::make_shared<store::CancelFlag>(false);
      process.set_on_death([stop = follower.stop] { stop->store(true); });
      follower.busy = true;
      const std::uint64_t seed = bench_.random.next();
      bench_.world.spawn(process, "main", [this, &follower, &process, seed, stop = follower.stop] {
        {
          Client client(bench_, process, bench_.profile, seed, follower.container);
          follower.act(client, *stop);
        }
        if (follower.process == &process) follower.busy = false;
        bench_.world.kill(process);  // it exits
      });
    }
  }

  void end_followers() {
    for (const Follower& follower : followers_) follower.stop->store(true);
    const auto busy = [](const Follower& follower) { return follower.busy && follower.process->alive(); };
    while (std::ranges::any_of(followers_, busy)) clock().sleep_ms(kPollMs);
    history_.watched += followed_.changes;
    history_.anew += followed_.anew;
  }

  void replace_the_dead() {
    start_followers();
    const auto busy = std::count_if(clients_.begin(), clients_.end(),
                                    [](const Slot& slot) { return slot.busy && slot.process->alive(); });
    for (auto missing = static_cast<std::int64_t>(bench_.profile.clients) - busy; missing > 0; --missing) {
      if (restarts_ == kRestartsMax) return;
      ++restarts_;
      start_client();
    }
  }

  void trouble() {
    if (!bench_.memories.empty() && bench_.random.per_mille(300)) return trouble_a_memory();
    switch (bench_.random.below(bench_.profile.damages ? 7 : 5)) {
      case 0:
        return kill_one();
      case 1:
        return reboot();
      case 2:
        return stop_one();
      case 3:
        return complete_a_late_step();
      case 4:
        return change_capacity();
      default:
        return damage_something();
    }
  }

  void complete_a_late_step() {
    const auto step = bench_.graveyard.complete_one(bench_.random);
    if (!step) return;
    bench_.world.trace("a write of a dead process " +
                       (step->status.ok() ? "completes" : "fails: " + step->status.to_string()));
    if (!step->status.ok()) return;
    ++(step->streamed ? history_.late_streams : history_.late_puts);
    bench_.late_step_at = bench_.model.sequence();
    bench_.look_at_memories();
  }

  std::size_t some_container() { return bench_.memories.empty() ? 0 : bench_.random.below(bench_.memories.size()); }

  void trouble_a_memory() {
    const std::size_t container = some_container();
    tiers::SimulatedDisk& memory = *bench_.memories[container];
    switch (bench_.random.below(bench_.profile.damages ? 4 : 3)) {
      case 0:
        bench_.world.trace(fmt::format("the memory of container {} is wiped", container));
        memory.vanish();
        break;
      case 1:
        bench_.set_capacity(memory, std::nullopt);
        bench_.world.trace(fmt::format("the memory of container {} has room", container));
        break;
      case 2: {
        const std::uint64_t bytes = 1 + bench_.random.below(30'000);
        bench_.set_capacity(memory, bytes);
        bench_.world.trace(fmt::format("the memory of container {} has room for {} bytes", container, bytes));
        break;
      }
      default:
        damage_a_memory(container);
    }
    bench_.look_at_memories();
  }

  /// Turns a bit of a replica.
  void damage_a_memory(std::size_t container) {
    const auto tier = tiers::open_simulated(clock(), bench_.memories[container], false);
    if (!tier.ok()) return;
    std::vector<tiers::ObjectName> replicas;
    const auto collect = [&](const tiers::ObjectStat& stat) {
      if (stat.bytes > 0) replicas.push_back(stat.name);
    };
    (*tier)->usage(collect).status().ignore("the simulated memory always answers");
    if (replicas.empty()) return;
    const tiers::ObjectName& name = replicas[bench_.random.below(replicas.size())];
    for (const auto& [identity, revision] : bench_.model.revisions()) {
      if (!revision.now().payload_group_id.ends_with(name.in.group) || name.index + 1 >= revision.objects.size()) {
        continue;
      }
      bench_.model.damage_hot((*tier)->instance().value(), revision.objects[name.index + 1].sha256);
      bench_.memories[container]->rot(name, 0);
      bench_.world.trace(
          fmt::format("rot object {} of {} in the memory of container {}", name.index, text_of(identity), container));
      ++history_.damages;
      return;
    }
  }

  Process* some_client() {
    std::vector<Process*> alive;
    for (const Slot& slot : clients_) {
      if (slot.busy && slot.process->alive()) alive.push_back(slot.process);
    }
    for (const Follower& follower : followers_) {
      if (follower.busy && follower.process->alive()) alive.push_back(follower.process);
    }
    return alive.empty() ? nullptr : alive[bench_.random.below(alive.size())];
  }

  void kill_one() {
    Process* const victim = some_client();
    if (victim == nullptr) return;
    bench_.world.trace("kill " + victim->name());
    bench_.world.kill(*victim);
    ++history_.kills;
    clock().sleep_ms(0);  // it ends before anything else happens
  }

  void stop_one() {
    Process* const victim = some_client();
    if (victim == nullptr) return;
    const std::int64_t duration_ms = bench_.random.between(1'000, 200'000);
    bench_.world.trace(fmt::format("stop {} for {} ms", victim->name(), duration_ms));
    bench_.world.stop(*victim, duration_ms);
  }

  void reboot() {
    const std::int64_t wall_step_ms = bench_.random.between(-3'600'000, 3'600'000);
    bench_.world.trace(fmt::format("the power fails; the wall clock jumps by {} ms", wall_step_ms));
    bench_.world.reboot(wall_step_ms);
    clock().sleep_ms(0);  // the dead come to their end
    bench_.disk->crash();
    for (const auto& memory : bench_.memories) memory->crash();
    bench_.graveyard = Graveyard();
    ++history_.reboots;
    bench_.look_at_all();
    bench_.check_log();
  }

  void change_capacity() {
    if (bench_.random.per_mille(500)) {
      bench_.set_capacity(*bench_.disk, std::nullopt);
      bench_.world.trace("the disk has room");
      return;
    }
    const std::uint64_t bytes = 1 + bench_.random.below(64'000);
    bench_.set_capacity(*bench_.disk, bytes);
    bench_.world.trace(fmt::format("the disk has room for {} bytes", bytes));
  }

  /// Turns a bit of a published member, or cuts it short; each content at most once.
  void damage_something() {
    std::vector<std::pair<Identity, std::uint32_t>> members;
    for (const auto& [identity, revision] : bench_.model.revisions()) {
      for (std::uint32_t i = 0; revision.readable() && i < revision.objects.size(); ++i) {
        if (!bench_.model.is_damaged(revision.objects[i].sha256)) members.emplace_back(identity, i);
      }
    }
    if (members.empty()) return;
    const auto& [identity, member] = members[bench_.random.below(members.size())];
    const Revision& revision = *bench_.model.find(identity);
    tiers::ObjectName name{{formats::payload_group_digest(identity).hex(), revision.now().import_attempt},
                           member == 0 ? tiers::ObjectKind::kManifest : tiers::ObjectKind::kPayload,
                           member == 0 ? 0 : member - 1};
    bench_.model.damage(revision.objects[member].sha256);
    const std::uint64_t offset = bench_.random.below(64);
    const bool cut = bench_.random.per_mille(300);
    const bool done = cut ? bench_.disk->truncate(name, offset) : bench_.disk->rot(name, offset);
    bench_.world.trace(fmt::format("{} {} of {} at {}{}", cut ? "cut" : "rot",
                                   member == 0 ? "the manifest" : "an object", text_of(identity), offset,
                                   done ? "" : ": nothing there"));
    ++history_.damages;
  }

  /// A process without faults finds everything that was acknowledged, and finishes what was begun.
  void audit() {
    bench_.world.trace("audit");
    bench_.look_at_all();
    const std::size_t container = some_container();
    in_peace(container, [&](Client& client) { audit_with(client, container); });
  }

  /// Has a process without faults do something in that container.
  void in_peace(std::size_t container, const std::function<void(Client& client)>& act) {
    Process& auditor = bench_.world.start_process("auditor");
    bool done = false;
    const std::uint64_t seed = bench_.random.next();
    bench_.world.spawn(auditor, "main", [&] {
      {
        Client client(bench_, auditor, quiet_profile(), seed, container);
        act(client);
      }
      done = true;
      bench_.world.kill(auditor);  // it exits
    });
    while (!done) clock().sleep_ms(kPollMs);
  }

  /// Everything is deleted, and freed by a process of each container: then nothing is left.
  void empty() {
    bench_.world.trace("everything is deleted");
    in_peace(0, [&](Client& client) {
      for (const auto& [identity, revision] : bench_.model.revisions()) {
        if (revision.readable()) client.finish(identity);
      }
    });
    for (std::size_t container = 0; container < std::max<std::size_t>(1, bench_.memories.size()); ++container) {
      in_peace(container, [&](Client& client) {
        if (const Status status = client.gc(false); !status.ok()) {
          bench_.model.violated("gc in peace: " + status.to_string());
        }
        bench_.look_for_garbage(container);
      });
    }
    bench_.look_for_anything();
  }

  void audit_with(Client& client, std::size_t container) {
    client.list(false);
    client.list(true);
    if (bench_.profile.followed) client.follow_to_the_end(followed_);
    std::vector<Identity> published;
    std::vector<Identity> importing;
    std::vector<Identity> deleting;
    for (const auto& [identity, revision] : bench_.model.revisions()) {
      if (revision.readable()) published.push_back(identity);
      if (revision.now().availability == Availability::kDeleting) deleting.push_back(identity);
      if (revision.now().availability == Availability::kImporting) importing.push_back(identity);
    }
    for (const Identity& identity : published) {
      const Status verified = client.verify(identity);
      if (!verified.ok()) {
        bench_.model.violated(
            fmt::format("{} cannot be verified in peace: {}", text_of(identity), verified.to_string()));
      }
      const Revision& revision = *bench_.model.find(identity);
      if (!revision.checkpoint) continue;
      for (const auto& [path, bytes] : checkpoints()[*revision.checkpoint].files) {
        const Status read = client.cat(identity, path, true);
        if (!read.ok() && !bench_.model.may_be_damaged(revision)) {
          bench_.model.violated(
              fmt::format("{} of {} cannot be read in peace: {}", path, text_of(identity), read.to_string()));
        }
      }
    }
    // What was interrupted can be imported again: at once where its writer is gone, else after its time to live, which
    // the first append of an epoch grants once more.
    const std::int64_t patience_ms = 2 * std::max(bench_.profile.writer_ttl_ms, quiet_profile().writer_ttl_ms);
    for (const Identity& identity : importing) {
      Status imported;
      // Rotten content that is read back is not linked again; each object may need a try of its own.
      for (int tries = 0; tries < kRottenTriesMax; ++tries) {
        imported = client.import(identity.lineage.resource_id, identity.weight_generation, 1, false, patience_ms);
        if (imported.code() != Code::kCorrupt || !bench_.model.any_damage()) break;
      }
      if (!imported.ok()) {
        bench_.model.violated(fmt::format("{} cannot be imported again: {}", text_of(identity), imported.to_string()));
      }
    }
    // So is what was being deleted; leases of the dead run out.
    for (const Identity& identity : deleting) client.finish(identity);
    for (const Identity& identity : published) {
      client.settle(identity, patience_ms);
      client.make_whole(identity, patience_ms);
    }
    const Status reconciled = client.reconcile();
    // What is damaged for good cannot be brought to where its policy wants it.
    if (!reconciled.ok() && !(reconciled.code() == Code::kCorrupt && bench_.model.any_damage())) {
      bench_.model.violated("reconcile in peace: " + reconciled.to_string());
    }
    if (!bench_.memories.empty()) {
      for (const Identity& identity : published) {
        const auto damaged = bench_.look_at(identity).damaged;
        if (std::ranges::binary_search(damaged, formats::manifest_key(identity))) continue;
        check_exact(bench_.model, clock(), bench_.memories, container, *bench_.model.find(identity));
      }
      if (!published.empty()) client.warm_and_cool(published[bench_.random.below(published.size())]);
    }
    const Status collected = client.gc(false);
    if (!collected.ok()) bench_.model.violated("gc in peace: " + collected.to_string());
    bench_.look_for_garbage(container);
    bench_.look_at_all();
    client.list(true);
  }

  void check_log() {
    bench_.check_log();
    std::uint64_t length = 0;
    bench_.log
        ->view([&](const oplog::StateView& view) {
          length = view.sequence();
          return Status();
        })
        .ignore("the memory log always answers");
    if (length != bench_.model.sequence()) {
      bench_.model.violated(fmt::format("the log has {} appends, {} were seen", length, bench_.model.sequence()));
    }
  }

  /// Were the catalog lost now, the cold tier would bring back what is published, and nothing else.
  void check_recovery() {
    const auto tier = tiers::open_simulated(clock(), bench_.disk);
    SY_CHECK(tier.ok(), "a simulated tier opens");
    auto rebuilt = store::rebuild_catalog(**tier);
    if (!rebuilt.ok()) return bench_.model.violated("a recovery in peace: " + rebuilt.status().to_string());
    std::map<Identity, const metadata::RevisionRecord*> published;
    for (const metadata::RevisionRecord& record : rebuilt->published) published.emplace(record.identity, &record);
    for (const auto& [identity, revision] : bench_.model.revisions()) {
      const auto found = published.find(identity);
      const bool wanted = revision.readable();
      if (found == published.end()) {
        if (!wanted || bench_.model.may_be_damaged(revision)) continue;
        bench_.model.violated(fmt::format("a recovery does not bring {} back", text_of(identity)));
      } else if (!wanted) {
        bench_.model.violated(fmt::format("a recovery brings {} back, which is {}", text_of(identity),
                                          name_of(revision.now().availability)));
      } else if (found->second->import_attempt != revision.now().import_attempt ||
                 found->second->summary != revision.now().summary) {
        bench_.model.violated(fmt::format("a recovery brings {} back as something else", text_of(identity)));
      }
    }
    const auto log = oplog::open_memory(clock());
    Status restored = log->restore(rebuilt->snapshot);
    if (restored.ok()) restored = oplog::verify_state(*log);
    if (!restored.ok()) bench_.model.violated("a rebuilt catalog cannot be restored: " + restored.to_string());
  }

  Bench& bench_;
  History& history_;
  std::vector<Slot> clients_;
  std::vector<Follower> followers_;  ///< of which none comes or goes while one runs
  Client::Followed followed_;
  int restarts_ = 0;
};

}  // namespace

History run_history(std::uint64_t seed, Canary canary) {
  History history;
  history.seed = seed;
  Bench bench(seed, canary);
  Nature nature(bench, history);
  bench.world.spawn(bench.world.nature(), "nature", [&] { nature.play(); });
  if (!bench.world.run()) bench.model.violated("something waits for ever");
  history.violations = bench.verdict.violations();
  history.appends = bench.model.sequence();
  for (const auto& [identity, revision] : bench.model.revisions()) {
    history.published += revision.published() ? 1 : 0;
    history.deleted += revision.now().availability == Availability::kDeleted ? 1 : 0;
    history.takeovers += revision.attempts.size() - 1;
  }
  history.leases = bench.model.leases_granted();
  history.moves = bench.model.tally();
  history.switches = bench.world.switches();
  history.trace = bench.world.trace_text();
  return history;
}

std::string replay_command(std::uint64_t seed) { return fmt::format("make sim SEED={} HISTORIES=1 VERBOSE=1", seed); }

}  // namespace steelyard::sim
