#include "sim/workload/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/identity.h"
#include "sim/checkpoints.h"
#include "sim/workload/calls.h"

namespace steelyard::sim {

using metadata::Availability;
using metadata::Identity;

namespace {

constexpr std::uint64_t kChunkBytes = 1024 * 1024;
/// What a source that changes while it is read is called.
constexpr std::string_view kChanging = "!";

metadata::Lineage lineage_of(const std::string& resource) { return {"default", "default", resource, "main"}; }

}  // namespace

Client::Client(Bench& bench, Process& process, const Profile& profile, std::uint64_t seed, std::size_t container)
    : bench_(bench),
      process_(process),
      profile_(profile),
      random_(seed),
      container_(container),
      log_(make_process_log(
          process, *bench.log,
          [&bench, this](Process& by, const oplog::Append& append) {
            bench.model.witness(by, append, profile_.log.read_unavailable > 0 || faults() > faults_before_);
            for (const auto& [identity, revision] : bench.model.revisions()) {
              if (revision.published() && revision.now().committed_seq == append.sequence) bench.look_at(identity);
              if (!revision.facts.empty() && revision.facts.back().sequence == append.sequence)
                bench.see_change(identity);
            }
          },
          [&bench] { bench.check_log(); }, bench.canary, random_.next())),
      disk_(std::move(tiers::open_simulated(process.runtime(), bench.disk)).value()),
      tier_(make_tier()),
      catalog_log_(process.runtime(), *log_, log_faults()),
      observer_(*tier_),
      catalog_(process.runtime(), catalog_log_, observer_, {.snapshot_every = 0, .on_snapshot = {}}) {
  options_.io_memory = limits::kIoMemoryMin;
  options_.jobs = 2;
  options_.writer_ttl_ms = profile_.writer_ttl_ms;
  options_.lease_ttl_ms = profile_.lease_ttl_ms;
  options_.snapshot_every = profile_.snapshot_every;
  options_.abandon_after_ms = 2 * profile_.writer_ttl_ms;
  options_.gc_grace_ms = profile_.gc_grace_ms;
  if (bench_.canary == Canary::kCooldownLies) options_.policy_cooldown_ms = 0;
  store::StoreParts parts;
  parts.store_id = "simulated";
  parts.cold = make_tier();
  parts.log = std::make_unique<oplog::FaultInjectingLog>(process.runtime(), *log_, log_faults());
  if (has_hot()) parts.open_hot = [this](bool create) { return open_hot(create); };
  parts.open_source = [this](const std::string& path, bool) -> Result<std::unique_ptr<store::Source>> {
    const bool changes = path.ends_with(kChanging);
    const std::string name = changes ? path.substr(0, path.size() - kChanging.size()) : path;
    const auto found = std::find_if(checkpoints().begin(), checkpoints().end(),
                                    [&](const Checkpoint& checkpoint) { return checkpoint.path == name; });
    return open_checkpoint(process_.runtime(), *found, changes, profile_.latency_ms_max);
  };
  store_ = store::make_store(process.runtime(), options_, std::move(parts));
}

std::unique_ptr<tiers::Tier> Client::make_tier() {
  tiers::FaultPlan plan = profile_.tier;
  plan.seed = random_.next();
  plan.latency_ms_max = profile_.latency_ms_max;
  return tiers::make_fault_injecting(process_.runtime(),
                                     make_process_tier(process_, disk_, bench_.graveyard, bench_.canary,
                                                       [this](Process&, const std::vector<tiers::ObjectStat>& objects) {
                                                         bench_.removed_from_disk(objects);
                                                       }),
                                     plan, faults_);
}

oplog::LogFaultPlan Client::log_faults() {
  oplog::LogFaultPlan plan = profile_.log;
  plan.seed = random_.next();
  plan.latency_ms_max = profile_.latency_ms_max / 4;
  plan.on_crash = [this](std::string_view place) {
    if (!alive()) return;
    bench_.world.trace(fmt::format("{}: killed at {}", process_.name(), place));
    bench_.world.kill(process_);
  };
  return plan;
}

std::uint64_t Client::faults() const {
  return faults_->of("error") + faults_->of("no_space") + faults_->of("lost_answer") + faults_->of("bit_rot") +
         process_.errors();
}

Operation& Client::start(const std::string& what) {
  faults_before_ = faults();
  Operation& operation = bench_.model.begin(process_, what);
  bench_.world.set_operation(operation.id);
  bench_.world.trace(fmt::format("{}: op {} {}", process_.name(), operation.id, what));
  return operation;
}

void Client::end(const Operation& operation, const Status& status) {
  if (!alive()) return;
  bench_.world.trace(
      fmt::format("{}: op {} -> {}", process_.name(), operation.id, status.ok() ? "OK" : status.to_string()));
  if (status.code() == Code::kInternal) {
    bench_.model.violated(fmt::format("op {} ends with an internal error: {}", operation.id, status.to_string()));
  }
}

void Client::pause(std::int64_t ms_max) { process_.runtime().sleep_ms(ms_max > 0 ? random_.between(0, ms_max) : 0); }

std::optional<Identity> Client::some_revision(Kind kind) {
  std::vector<Identity> some;
  for (const auto& [identity, revision] : bench_.model.revisions()) {
    const bool importing = revision.now().availability == Availability::kImporting;
    const bool wanted = kind == Kind::kReadable    ? revision.readable()
                        : kind == Kind::kPublished ? revision.published()
                                                   : importing;
    if (wanted && !revision.compacted) some.push_back(identity);
  }
  if (some.empty()) return std::nullopt;
  return some[random_.below(some.size())];
}

void Client::play(std::uint64_t calls) {
  const std::string resources[] = {"org/model", "b", "c"};
  for (std::uint64_t i = 0; i < calls && alive(); ++i) {
    pause(profile_.pause_ms_max);
    const std::uint64_t die = random_.below(100);
    const std::string resource = resources[random_.below(3)];
    // Now and then one that is deleted.
    const auto readable = some_revision(random_.per_mille(900) ? Kind::kReadable : Kind::kPublished);
    if (random_.per_mille(120)) {
      clean_up();
      continue;
    }
    if (has_hot() && random_.per_mille(350)) {
      move_something();
      continue;
    }
    if (die < 40 || (die < 80 && !readable)) {
      std::optional<std::int64_t> generation;
      if (random_.per_mille(200)) generation = random_.between(1, 4);
      const std::size_t checkpoint = random_.per_mille(50) ? 3 : static_cast<std::size_t>(random_.below(3));
      const std::int64_t wait_ms = random_.per_mille(300) ? 2 * profile_.writer_ttl_ms : 0;
      import(resource, generation, checkpoint, random_.per_mille(50), wait_ms).ignore("judged where it was answered");
    } else if (die < 48) {
      list(random_.per_mille(500));
    } else if (die < 56) {
      inspect(*readable);
    } else if (die < 64) {
      verify(*readable).ignore("judged where it was answered");
    } else if (die < 72) {
      const auto& files = checkpoints()[bench_.model.find(*readable)->checkpoint.value_or(0)].files;
      const auto file = std::next(files.begin(), static_cast<std::ptrdiff_t>(random_.below(files.size())));
      cat(*readable, file->first, random_.per_mille(800)).ignore("judged where it was answered");
    } else if (die < 84 && readable) {
      lease(*readable);
    } else if (die < 90) {
      begin_only(resource);
    } else if (die < 95) {
      publish_by_hand(resource);
    } else if (const auto importing = some_revision(Kind::kImporting)) {
      if (random_.per_mille(500)) {
        abort(*importing);
      } else {
        abort_whole(*importing);
      }
    }
  }
}

Status Client::import(const std::string& resource, std::optional<std::int64_t> generation, std::size_t checkpoint,
                      bool source_changes, std::int64_t wait_ms) {
  store::ImportRequest request;
  request.source = checkpoints()[checkpoint].path + (source_changes ? std::string(kChanging) : "");
  request.target = selector_of({lineage_of(resource), generation.value_or(1)}, generation.has_value());
  request.chunk_bytes = kChunkBytes;
  request.verify_after_write = random_.per_mille(200);
  request.wait_ms = wait_ms;
  const store::CancelFlag cancel{false};
  Deaf deaf;
  Status status;
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    Operation& operation = start(
        fmt::format("import {} as {}#{}{}{}", request.source, resource, generation ? std::to_string(*generation) : "",
                    request.verify_after_write ? " --verify-after-write" : "", wait_ms > 0 ? " --wait" : ""));
    operation.checkpoint = checkpoint;
    const auto answer = store_->import(request, deaf, cancel);
    status = answer.status();
    end(operation, status);
    if (!alive()) break;
    bench_.model.import_answered(operation, answer, source_changes);
    if (!may_try_again(status) || status.code() == Code::kUnknownOutcome || random_.per_mille(300)) break;
    pause(2 * profile_.latency_ms_max);
  }
  return status;
}

void Client::list(bool all) {
  metadata::ListQuery query;
  query.tenant_id = query.namespace_id = "default";
  query.all = all;
  query.limit = limits::kListLimitMax;
  const Operation& operation = start(all ? "list --all" : "list");
  const auto answer = store_->list(query);
  end(operation, answer.status());
  if (alive()) bench_.model.listed(query, answer);
}

void Client::inspect(const Identity& identity) {
  const Operation& operation = start("inspect " + text_of(identity));
  const auto answer = store_->inspect(selector_of(identity));
  end(operation, answer.status());
  if (!alive()) return;
  if (!answer.ok()) {
    if (answer.code() == Code::kNotFound && !bench_.model.find(identity)->compacted) {
      bench_.model.violated(text_of(identity) + " is there and not found");
    }
    return;
  }
  bench_.model.shown(operation, answer->record);
  if (answer->manifest && answer->manifest->identity != identity) {
    bench_.model.violated(text_of(identity) + " is shown with the manifest of another");
  }
}

Status Client::verify(const Identity& identity) {
  const Operation& operation = start("verify " + text_of(identity));
  const std::vector<std::string> before = bench_.look_at(identity).damaged;
  const store::CancelFlag cancel{false};
  Deaf deaf;
  const auto answer = store_->verify(selector_of(identity), deaf, cancel);
  end(operation, answer.status());
  if (!alive()) return answer.status();
  const std::vector<std::string> after = bench_.look_at(identity).damaged;
  const std::string name = text_of(identity);
  const Revision& revision = *bench_.model.find(identity);
  if (!answer.ok()) {
    if (answer.code() == Code::kNotFound && !revision.compacted) {
      bench_.model.violated(name + " is there and not found");
    }
    return answer.status();
  }
  // One that was deleted while it was read, without its lease being waited for, may be seen in any state.
  if (!revision.readable()) return {};
  bench_.model.shown(operation, answer->record);
  std::vector<std::string> found;
  std::vector<std::string> proved;  // a read that failed names its object and proves nothing
  for (const store::Problem& problem : answer->problems) {
    if (problem.object.empty()) continue;
    if (problem.tier != "cold") {
      // A replica in memory is no damage of the revision; but it has rotted there.
      if (!bench_.may_be_rotten_in_memory(identity, problem.object) && profile_.hot.bit_rot == 0) {
        bench_.model.violated(
            fmt::format("verify of {} sees damage of {} in memory, which is whole", name, problem.object));
      }
      continue;
    }
    found.push_back(problem.object);
    if (!problem.unread) proved.push_back(problem.object);
  }
  std::sort(found.begin(), found.end());
  // A damaged manifest hides what lies behind it, and a bad read of it does too.
  const bool manifest_damaged = std::binary_search(found.begin(), found.end(), formats::manifest_key(identity));
  for (const std::string& object : before) {
    // What a repair has made whole meanwhile need not be seen.
    const bool still = std::binary_search(after.begin(), after.end(), object);
    if (still && !manifest_damaged && !std::binary_search(found.begin(), found.end(), object)) {
      bench_.model.violated(fmt::format("verify of {} does not see the damage of {}", name, object));
    }
  }
  for (const std::string& object : proved) {
    const bool there = std::binary_search(before.begin(), before.end(), object) ||
                       std::binary_search(after.begin(), after.end(), object);
    if (!bench_.model.bad_reads() && !there) {
      bench_.model.violated(fmt::format("verify of {} sees damage of {}, which is whole", name, object));
    }
  }
  const Availability wanted = found.empty() ? Availability::kReady : Availability::kDegraded;
  // Where the disk changed meanwhile, what was found may have been judged again. What memory has is no damage, and who
  // does not see the memory that the record names publishes nothing.
  const bool decides = answer->record.hot_instance.empty() && !answer->record.operation && answer->recorded;
  if (answer->record.availability != wanted && before == after && !bench_.model.bad_reads() && decides) {
    bench_.model.violated(fmt::format("verify of {} found {} problems and says {}", name, answer->problems.size(),
                                      metadata::name_of(answer->record.availability)));
  }
  return {};
}

Status Client::cat(const Identity& identity, const std::string& path, bool exact) {
  store::CatRequest request;
  request.source = selector_of(identity, exact);
  request.path = path;
  request.allow_degraded = random_.per_mille(500);
  std::uint64_t first = 0;
  std::uint64_t last = UINT64_MAX;
  const std::uint64_t size = checkpoints()[bench_.model.find(identity)->checkpoint.value_or(0)].files.at(path).size();
  if (size > 0 && random_.per_mille(300)) {
    request.first = first = random_.below(size);
    request.last = last = first + random_.below(size);
  }
  const Operation& operation = start(fmt::format("cat {}{} {}{}", text_of(identity), exact ? "" : " (or newer)", path,
                                                 request.allow_degraded ? " --allow-degraded" : ""));
  const store::CancelFlag cancel{false};
  std::string bytes;
  const Status status = store_->cat(
      request,
      [&](ByteView piece) {
        bytes.append(as_text(piece));
        return Status();
      },
      cancel);
  end(operation, status);
  if (alive()) check_cat(operation, identity, path, exact, first, last, bytes, status);
  return status;
}

void Client::check_cat(const Operation& operation, const Identity& identity, const std::string& path, bool exact,
                       std::uint64_t first, std::uint64_t last, const std::string& bytes, const Status& status) {
  const std::string name = text_of(identity);
  const Revision& revision = *bench_.model.find(identity);
  if (!status.ok()) {
    // A delete that does not wait for a reader without a lease leaves it with less than it needs.
    const bool going = std::ranges::any_of(bench_.model.revisions(), [&](const auto& one) {
      return one.first.lineage == identity.lineage && !one.second.readable() && one.second.published();
    });
    if (exact ? !revision.readable() : going) return;
    const bool damaged = exact ? bench_.model.may_be_damaged(revision) : bench_.model.any_damage();
    if (status.code() == Code::kCorrupt) {
      if (!damaged)
        bench_.model.violated(fmt::format("cat of {} finds damage where none is: {}", name, status.to_string()));
      if (status.message().find(path) == std::string::npos && status.message().find("manifest") == std::string::npos) {
        bench_.model.violated(fmt::format("cat of {} does not name the damaged file: {}", name, status.to_string()));
      }
    }
    if (exact && status.code() == Code::kNotFound) bench_.model.violated(name + " is there and not found");
    if (exact && status.code() == Code::kNotReady && !damaged) {
      bench_.model.violated(fmt::format("{} is whole and not ready: {}", name, status.to_string()));
    }
    return;
  }
  // Without a generation any that was published, and not another lineage's, is an answer.
  bool equal = false;
  for (const auto& [candidate, its] : bench_.model.revisions()) {
    if (exact ? candidate != identity : candidate.lineage != identity.lineage) continue;
    if (!its.published() || !its.checkpoint) continue;
    const auto& files = checkpoints()[*its.checkpoint].files;
    const auto file = files.find(path);
    if (file == files.end() || first > file->second.size()) continue;
    equal = equal || file->second.substr(first, last == UINT64_MAX ? std::string::npos : last - first + 1) == bytes;
  }
  if (!equal) {
    bench_.model.violated(fmt::format("op {}: cat of {} {} gives {} bytes that are not its source's", operation.id,
                                      name, path, bytes.size()));
  }
}

void Client::begin_only(const std::string& resource) {
  metadata::BeginWeightImport command;
  command.lineage = lineage_of(resource);
  command.token = process_.runtime().random_hex(16);
  command.holder = process_.name();
  command.process = process_.identity();
  command.ttl_ms = profile_.writer_ttl_ms;
  const Operation& operation = start("begin " + resource);
  std::optional<metadata::RevisionRecord> begun;
  const std::uint64_t wanted_answers = 1 + random_.below(2);
  std::uint64_t answers = 0;
  for (int tries = 0; tries < kTriesMax && alive() && answers < wanted_answers; ++tries) {
    // The answer to the first Begin names the generation, as a client that repeats it does.
    if (begun) command.weight_generation = begun->identity.weight_generation;
    const auto answer = catalog_.begin_weight_import(command);
    if (!alive()) return;
    if (!answer.ok()) {
      if (!may_try_again(answer.status())) break;
      continue;
    }
    ++answers;
    const Revision* revision = bench_.model.find(answer->record->identity);
    const auto own = operation.attempts.find(answer->record->identity);
    if (revision == nullptr || own == operation.attempts.end() || own->second != answer->record->import_attempt) {
      bench_.model.violated(fmt::format("op {} is told of an attempt that it did not begin", operation.id));
    }
    // Another attempt is right only where somebody else took over in between.
    const std::uint32_t attempt = answer->record->import_attempt;
    if (begun && begun->import_attempt != attempt && revision != nullptr &&
        revision->attempts.at(begun->import_attempt) == operation.id &&
        std::prev(revision->attempts.find(attempt))->first == begun->import_attempt) {
      bench_.model.violated(fmt::format("op {}: a repeated begin gives another attempt", operation.id));
    }
    begun = answer->record;
    pause(profile_.writer_ttl_ms / 4);
  }
  if (begun && alive()) {
    pause(profile_.writer_ttl_ms * 3 / 2);
    const Revision* revision = bench_.model.find(begun->identity);
    const bool current = revision != nullptr && revision->now().import_attempt == begun->import_attempt;
    const auto renewed = catalog_.renew_weight_import({begun->identity, command.token, begun->import_attempt});
    if (renewed.ok() && !current) bench_.model.violated("a token that was taken over is renewed");
  }
  const std::uint64_t die = random_.below(3);
  for (int tries = 0; begun && tries < kTriesMax && alive() && die < 2; ++tries) {
    Status status;
    if (die == 0) {
      status = catalog_.release_weight_import({begun->identity, command.token, begun->import_attempt});
    } else {
      metadata::AbortWeightImport abort;
      abort.identity = begun->identity;
      abort.token = command.token;
      abort.import_attempt = begun->import_attempt;
      Operation& own = start("abort by token " + text_of(begun->identity));
      own.may_abort = true;
      const auto aborted = catalog_.abort_weight_import(abort);
      end(own, aborted.status());
      if (!alive()) return;
      bench_.model.aborted(own, begun->identity, aborted);
      // The same request again is answered as the first was.
      if (aborted.ok() && tries == 0 && random_.per_mille(500)) continue;
      status = aborted.status();
    }
    if (!may_try_again(status)) break;
  }
  end(operation, {});
}

void Client::abort(const Identity& identity) {
  metadata::AbortWeightImport command;
  command.identity = identity;
  command.force = random_.per_mille(300);
  if (random_.per_mille(300)) command.only_if_idle_ms = profile_.writer_ttl_ms * 2;
  const auto record = catalog_.get_weight_revision(identity);
  if (!alive() || !record.ok()) return;
  command.expected_metadata_generation = record->metadata_generation;
  for (int tries = 0; tries < kTriesMax && alive(); ++tries) {
    Operation& operation = start(fmt::format("abort {}{}", text_of(identity), command.force ? " --force" : ""));
    operation.may_abort = true;
    operation.forces = command.force;
    const auto answer = catalog_.abort_weight_import(command);
    end(operation, answer.status());
    if (!alive()) return;
    bench_.model.aborted(operation, identity, answer);
    if (!may_try_again(answer.status())) return;
  }
}

}  // namespace steelyard::sim
