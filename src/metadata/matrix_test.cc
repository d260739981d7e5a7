// Every command in every state, against a table written by hand (docs/lifecycle.md).
#include <functional>
#include <map>
#include <sstream>

#include "metadata/test_bench.h"

namespace steelyard::metadata {
namespace {

const Identity kIdentity = identity_of("llama", 1);

ReconcileRevision damaged(std::uint64_t generation) {
  ReconcileRevision command;
  command.identity = kIdentity;
  command.observed_generation = generation;
  command.seen.damage = {{"object"}, 1};
  return command;
}

void abort(TestBench& bench) {
  bench.must(bench.begin(kIdentity, 'a'));
  bench.must(AbortWeightImport{kIdentity, token_of('a'), 1, 0, false, std::nullopt});
}

void remove(TestBench& bench) {
  bench.publish(kIdentity);
  bench.must(DeleteWeightRevision{kIdentity, 2, DeleteMode::kRefuse});
}

void finish(TestBench& bench) { bench.must(FinishDelete{kIdentity, bench.record(kIdentity).metadata_generation}); }

void make_hot(TestBench& bench) {
  bench.publish(kIdentity);
  bench.must(ReconcileRevision{kIdentity, 2, TestBench::hot(2, token_of('1'), "boot-a")});
}

void evict(TestBench& bench) {
  make_hot(bench);
  bench.must(TestBench::start(kIdentity, 3, OperationKind::kEvicting, Residency::kCold));
}

RunnerToken runner_of(char token) { return {token_of('f'), token_of(token), 1}; }

void remove_replicas(TestBench& bench) {
  evict(bench);
  bench.must(PermitRemoval{kIdentity, runner_of('a'), 1, 0, 0});
}

/// Another operation than the one that the states have.
StartOperation start(std::uint64_t current, OperationKind kind, Residency target) {
  StartOperation command = TestBench::start(kIdentity, current, kind, target);
  command.operation_id = token_of('e');
  return command;
}

TakeOperation take(char token) {
  return {kIdentity, token_of('f'), TestBench::grant(token), false, {}, token_of('1'), "boot-a"};
}

EndOperation end(char token, OperationState state, std::optional<Observation> seen) {
  return {kIdentity, runner_of(token), state, 2, 100, "over", std::move(seen)};
}

Observation all_hot() { return TestBench::hot(2, token_of('1'), "boot-a"); }
Observation none_hot() { return TestBench::hot(0, token_of('1'), "boot-a"); }

const std::vector<std::pair<std::string, std::function<void(TestBench&)>>>& states() {
  static const std::vector<std::pair<std::string, std::function<void(TestBench&)>>> kStates = {
      {"absent", [](TestBench& bench) { bench.must(BeginEpoch{}); }},
      {"compacted",
       [](TestBench& bench) {
         remove(bench);
         finish(bench);
         bench.append({encode_entry({WatermarkPut{{kIdentity.lineage, 1}}, std::nullopt}),
                       encode_entry({RevisionRemoved{bench.record(kIdentity)}, bench.now.mono_ms})});
       }},
      {"live", [](TestBench& bench) { bench.must(bench.begin(kIdentity, 'a')); }},
      {"expired",
       [](TestBench& bench) {
         bench.must(bench.begin(kIdentity, 'a'));
         bench.advance(limits::kWriterTtlMs);
       }},
      {"returned",
       [](TestBench& bench) {
         bench.must(bench.begin(kIdentity, 'a'));
         bench.must(ReleaseWeightImport{kIdentity, token_of('a'), 1});
       }},
      {"READY", [](TestBench& bench) { bench.publish(kIdentity); }},
      {"DEGRADED",
       [](TestBench& bench) {
         bench.publish(kIdentity);
         bench.must(damaged(2));
       }},
      {"aborting", abort},
      {"DELETING", remove},
      {"aborted",
       [](TestBench& bench) {
         abort(bench);
         finish(bench);
       }},
      {"DELETED",
       [](TestBench& bench) {
         remove(bench);
         finish(bench);
       }},
      {"leased",
       [](TestBench& bench) {
         bench.publish(kIdentity);
         bench.must(bench.acquire(kIdentity, "other"));
       }},
      {"HOT", make_hot},
      {"pinned",
       [](TestBench& bench) {
         make_hot(bench);
         bench.must(UpdateWeightPolicy{kIdentity, 3, {Residency::kHot, {}, PolicyMode::kPinned}});
       }},
      {"evicting", evict},
      {"removing", remove_replicas},
      {"paused",
       [](TestBench& bench) {
         remove_replicas(bench);
         bench.must(bench.acquire(kIdentity, "other"));
       }},
      {"rehydr",
       [](TestBench& bench) {
         bench.publish(kIdentity);
         bench.must(TestBench::start(kIdentity, 2, OperationKind::kRehydrating, Residency::kHot));
       }},
      {"repair",
       [](TestBench& bench) {
         bench.publish(kIdentity);
         bench.must(TestBench::start(kIdentity, 2, OperationKind::kRepairing, Residency::kCold));
       }},
  };
  return kStates;
}

using Make = std::function<Command(std::uint64_t current)>;

AbortWeightImport abort_of_gone(std::uint64_t generation, char writer) {
  AbortWeightImport command;
  command.identity = kIdentity;
  command.expected_metadata_generation = generation;
  command.current_writer_gone = true;
  command.gone_process = TestBench::begin(kIdentity, writer).process;
  return command;
}

const std::map<std::string, Make>& commands() {
  static const std::map<std::string, Make> kCommands = {
      {"begin.own", [](auto) { return TestBench::begin(kIdentity, 'a'); }},
      {"begin.other", [](auto) { return TestBench::begin(kIdentity, 'b'); }},
      {"begin.gone",
       [](auto) {
         auto command = TestBench::begin(kIdentity, 'b');
         command.current_writer_gone = true;
         command.gone_process = TestBench::begin(kIdentity, 'a').process;
         return command;
       }},
      {"begin.gone_other",
       [](auto) {
         auto command = TestBench::begin(kIdentity, 'b');
         command.current_writer_gone = true;
         command.gone_process = TestBench::begin(kIdentity, 'c').process;
         return command;
       }},
      {"begin.labels",
       [](auto) {
         auto command = TestBench::begin(kIdentity, 'b');
         command.labels = {{"k", "v"}};
         return command;
       }},
      {"begin.auto",
       [](auto) {
         auto command = TestBench::begin(kIdentity, 'b');
         command.weight_generation.reset();
         return command;
       }},
      {"renew.own",
       [](auto) {
         return RenewWeightImport{kIdentity, token_of('a'), 1};
       }},
      {"renew.other",
       [](auto) {
         return RenewWeightImport{kIdentity, token_of('b'), 1};
       }},
      {"renew.attempt",
       [](auto) {
         return RenewWeightImport{kIdentity, token_of('a'), 2};
       }},
      {"release.own",
       [](auto) {
         return ReleaseWeightImport{kIdentity, token_of('a'), 1};
       }},
      {"release.other",
       [](auto) {
         return ReleaseWeightImport{kIdentity, token_of('b'), 1};
       }},
      {"release.attempt",
       [](auto) {
         return ReleaseWeightImport{kIdentity, token_of('a'), 2};
       }},
      {"commit.first", [](auto) { return TestBench::commit(kIdentity, 'a', 1, 1); }},
      {"commit.other_args",
       [](auto) {
         auto command = TestBench::commit(kIdentity, 'a', 1, 1);
         command.summary.logical_bytes = 7;
         return command;
       }},
      {"commit.other", [](auto) { return TestBench::commit(kIdentity, 'b', 1, 1); }},
      {"commit.attempt", [](auto) { return TestBench::commit(kIdentity, 'a', 2, 1); }},
      {"commit.fence", [](auto) { return TestBench::commit(kIdentity, 'a', 1, 99); }},
      {"abort.token", [](auto) { return AbortWeightImport{kIdentity, token_of('a'), 1, 0, false, {}}; }},
      {"abort.other", [](auto) { return AbortWeightImport{kIdentity, token_of('b'), 1, 0, false, {}}; }},
      {"abort.plain", [](auto current) { return AbortWeightImport{kIdentity, "", 0, current, false, {}}; }},
      {"abort.fence", [](auto) { return AbortWeightImport{kIdentity, "", 0, 99, false, {}}; }},
      {"abort.force", [](auto current) { return AbortWeightImport{kIdentity, "", 0, current, true, {}}; }},
      {"abort.gone", [](auto current) { return abort_of_gone(current, 'a'); }},
      {"abort.gone_other", [](auto current) { return abort_of_gone(current, 'c'); }},
      {"abort.idle",
       [](auto current) { return AbortWeightImport{kIdentity, "", 0, current, false, limits::kAbandonAfterMs}; }},
      {"abort.idle_short",
       [](auto current) { return AbortWeightImport{kIdentity, "", 0, current, false, limits::kWriterTtlMs}; }},
      {"acquire", [](auto) { return TestBench::acquire(kIdentity, "reader"); }},
      {"acquire.degraded",
       [](auto) {
         auto command = TestBench::acquire(kIdentity, "reader");
         command.allow_degraded = true;
         return command;
       }},
      {"reconcile.whole",
       [](auto current) {
         return ReconcileRevision{kIdentity, current, {}};
       }},
      {"reconcile.damaged", [](auto current) { return damaged(current); }},
      {"reconcile.fence", [](auto) { return damaged(99); }},
      {"reap", [](auto) { return ReapLeases{kIdentity}; }},
      {"delete",
       [](auto current) {
         return DeleteWeightRevision{kIdentity, current, DeleteMode::kRefuse};
       }},
      {"delete.fence",
       [](auto) {
         return DeleteWeightRevision{kIdentity, 99, DeleteMode::kRefuse};
       }},
      {"finish",
       [](auto current) {
         return FinishDelete{kIdentity, current};
       }},
      {"finish.fence",
       [](auto) {
         return FinishDelete{kIdentity, 99};
       }},
      {"compact",
       [](auto) {
         return CompactTombstones{kIdentity.lineage, 1};
       }},
      {"policy",
       [](auto current) {
         return UpdateWeightPolicy{kIdentity, current, {Residency::kHot, {}, PolicyMode::kAuto}};
       }},
      {"reconcile.hot",
       [](auto current) {
         return ReconcileRevision{kIdentity, current, all_hot()};
       }},
      {"reconcile.elsewhere",
       [](auto current) {
         return ReconcileRevision{kIdentity, current, TestBench::hot(0, token_of('2'), "boot-a")};
       }},
      {"reconcile.reboot",
       [](auto current) {
         return ReconcileRevision{kIdentity, current, TestBench::hot(0, token_of('2'), "boot-b")};
       }},
      {"delete.drain",
       [](auto current) {
         return DeleteWeightRevision{kIdentity, current, DeleteMode::kDrain};
       }},
      {"policy.pin",
       [](auto current) {
         return UpdateWeightPolicy{kIdentity, current, {Residency::kHot, {}, PolicyMode::kPinned}};
       }},
      {"start.evict", [](auto current) { return start(current, OperationKind::kEvicting, Residency::kCold); }},
      {"start.mixed",
       [](auto current) {
         auto command = start(current, OperationKind::kEvicting, Residency::kMixed);
         command.total_members = 1;
         return command;
       }},
      {"start.rehydrate", [](auto current) { return start(current, OperationKind::kRehydrating, Residency::kHot); }},
      {"start.repair", [](auto current) { return start(current, OperationKind::kRepairing, Residency::kCold); }},
      {"start.fence", [](auto) { return start(99, OperationKind::kEvicting, Residency::kCold); }},
      {"start.elsewhere",
       [](auto current) {
         auto command = start(current, OperationKind::kEvicting, Residency::kCold);
         command.hot_instance = token_of('2');
         return command;
       }},
      {"start.retry", [](auto) { return TestBench::start(kIdentity, 3, OperationKind::kEvicting, Residency::kCold); }},
      {"take", [](auto) { return take('b'); }},
      {"take.own", [](auto) { return take('a'); }},
      {"take.gone",
       [](auto) {
         auto command = take('b');
         command.current_runner_gone = true;
         command.gone_process = TestBench::grant('a').process;
         return command;
       }},
      {"take.elsewhere",
       [](auto) {
         auto command = take('b');
         command.hot_instance = token_of('2');
         return command;
       }},
      {"report.own", [](auto) { return ReportOperation{kIdentity, runner_of('a'), 1, 50, "", false}; }},
      {"report.other", [](auto) { return ReportOperation{kIdentity, runner_of('b'), 1, 50, "", false}; }},
      {"permit",
       [](auto) {
         return PermitRemoval{kIdentity, runner_of('a'), 2, 0, 0};
       }},
      {"permit.other",
       [](auto) {
         return PermitRemoval{kIdentity, runner_of('b'), 2, 0, 0};
       }},
      {"end.cold", [](auto) { return end('a', OperationState::kDone, none_hot()); }},
      {"end.hot", [](auto) { return end('a', OperationState::kDone, all_hot()); }},
      {"end.blind", [](auto) { return end('a', OperationState::kDone, std::nullopt); }},
      {"end.failed", [](auto) { return end('a', OperationState::kFailed, none_hot()); }},
      {"end.other", [](auto) { return end('b', OperationState::kDone, none_hot()); }},
      {"cancel", [](auto) { return CancelOperation{token_of('f')}; }},
      {"policy.fence",
       [](auto) {
         return UpdateWeightPolicy{kIdentity, 99, {}};
       }},
  };
  return kCommands;
}

// `+` appends, `=` is OK without appending; otherwise the code: nf NOT_FOUND, cf CONFLICT, st STALE_GENERATION, nr
// NOT_READY, by BUSY, ia INVALID_ARGUMENT, ps POLICY_UNSATISFIABLE, un UNAVAILABLE.
constexpr const char* kTable = R"(
command             absent compacted live expired returned READY DEGRADED aborting DELETING aborted DELETED leased HOT pinned evicting removing paused rehydr repair
begin.own           +      cf        =    +       +        cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
begin.other         +      cf        by   +       +        cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
begin.gone          +      cf        +    +       +        cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
begin.gone_other    +      cf        by   +       +        cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
begin.labels        +      cf        cf   cf      cf       cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
begin.auto          +      +         by   +       +        +     +        +        +        +       +       +      +   +      +        +        +      +      +
renew.own           nf     nf        +    +       st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
renew.other         nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
renew.attempt       nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
release.own         nf     nf        +    +       =        =     =        =        =        =       =       =      =   =      =        =        =      =      =
release.other       nf     nf        st   st      =        =     =        =        =        =       =       =      =   =      =        =        =      =      =
release.attempt     nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
commit.first        nf     nf        +    +       st       =     =        cf       =        cf      =       =      =   =      =        =        =      =      =
commit.other_args   nf     nf        +    +       st       cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
commit.other        nf     nf        st   st      st       cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
commit.attempt      nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
commit.fence        nf     nf        st   st      st       cf    cf       cf       cf       cf      cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.token         nf     nf        +    +       st       cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.other         nf     nf        st   st      st       cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.plain         nf     nf        by   +       +        cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.fence         nf     nf        st   st      st       cf    cf       st       cf       st      cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.force         nf     nf        +    +       +        cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.gone          nf     nf        +    +       +        cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.gone_other    nf     nf        by   +       +        cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.idle          nf     nf        by   by      by       cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
abort.idle_short    nf     nf        by   +       by       cf    cf       =        cf       =       cf      cf     cf  cf     cf       cf       cf     cf     cf
acquire             nf     nf        nr   nr      nr       +     nr       nr       nr       nr      nr      +      +   +      +        +        +      +      +
acquire.degraded    nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      +      +   +      +        +        +      +      +
reconcile.whole     nf     nf        nr   nr      nr       =     +        nr       nr       nr      nr      =      =   =      =        =        =      =      =
reconcile.damaged   nf     nf        nr   nr      nr       +     =        nr       nr       nr      nr      +      =   =      =        +        +      +      +
reconcile.fence     nf     nf        nr   nr      nr       st    st       nr       nr       nr      nr      st     st  st     st       st       st     st     st
reconcile.hot       nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      +      =   =      =        =        =      +      +
reconcile.elsewhere nf     nf        nr   nr      nr       =     +        nr       nr       nr      nr      =      =   =      =        =        =      =      =
reconcile.reboot    nf     nf        nr   nr      nr       =     +        nr       nr       nr      nr      =      +   +      +        =        =      =      =
reap                nf     nf        =    =       =        =     =        =        =        =       =       =      =   =      =        =        =      =      =
delete              nf     =         nr   nr      nr       +     +        =        =        =       =       by     +   +      +        +        by     +      +
delete.fence        nf     =         nr   nr      nr       st    st       st       st       =       =       st     st  st     st       st       st     st     st
delete.drain        nf     =         nr   nr      nr       +     +        =        =        =       =       +      +   +      +        +        +      +      +
finish              nf     =         cf   cf      cf       cf    cf       +        +        =       =       cf     cf  cf     cf       cf       cf     cf     cf
finish.fence        nf     =         cf   cf      cf       cf    cf       st       st       =       =       cf     cf  cf     cf       cf       cf     cf     cf
compact             =      =         cf   cf      cf       =     =        =        =        +       +       =      =   =      =        =        =      =      =
policy              nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      +      +   +      +        +        +      +      +
policy.pin          nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      +      +   +      by       by       by     +      +
policy.fence        nf     nf        nr   nr      nr       st    st       nr       nr       nr      nr      st     st  st     st       st       st     st     st
start.evict         nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      by     +   ps     by       by       by     by     by
start.mixed         nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      by     +   ps     by       by       by     by     by
start.rehydrate     nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      +      +   +      by       by       by     by     by
start.repair        nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      +      +   +      by       by       by     by     by
start.fence         nf     nf        nr   nr      nr       st    st       nr       nr       nr      nr      st     st  st     by       by       by     by     by
start.elsewhere     nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr      by     un  ps     by       by       by     by     by
start.retry         nf     nf        nr   nr      nr       st    +        nr       nr       nr      nr      st     +   st     =        =        =      cf     cf
take                nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     by       by       by     by     by
take.own            nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     =        =        =      =      =
take.gone           nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     +        +        +      +      +
take.elsewhere      nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     un       un       un     by     by
report.own          nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     +        +        +      +      +
report.other        nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
permit              nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     +        +        by     ia     ia
permit.other        nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
end.cold            nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     +        +        +      nr     +
end.hot             nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     nr       nr       nr     +      +
end.blind           nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     ia       ia       ia     ia     +
end.failed          nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     +        +        +      +      +
end.other           nf     nf        st   st      st       st    st       st       st       st      st      st     st  st     st       st       st     st     st
cancel              nf     nf        nf   nf      nf       nf    nf       nf       nf       nf      nf      nf     nf  nf     +        +        +      +      +
)";

std::string outcome(TestBench& bench, const Result<Answer>& answer) {
  switch (answer.code()) {
    case Code::kOk:
      return bench.last.empty() ? "=" : "+";
    case Code::kNotFound:
      return "nf";
    case Code::kConflict:
      return "cf";
    case Code::kStaleGeneration:
      return "st";
    case Code::kNotReady:
      return "nr";
    case Code::kBusy:
      return "by";
    case Code::kInvalidArgument:
      return "ia";
    case Code::kPolicyUnsatisfiable:
      return "ps";
    case Code::kUnavailable:
      return "un";
    default:
      return answer.status().to_string();
  }
}

bool answers_retries(const std::string& name) {
  const std::string verb = name.substr(0, name.find('.'));
  return name == "begin.own" || verb == "commit" || verb == "abort" || verb == "delete" || verb == "policy" ||
         verb == "start" || verb == "end" || verb == "cancel";
}

TEST(Matrix, EveryCommandInEveryState) {
  std::istringstream table(kTable);
  std::string line;
  std::vector<std::string> columns;
  std::size_t rows = 0;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string name;
    if (!(words >> name)) continue;
    std::vector<std::string> cells;
    for (std::string cell; words >> cell;) cells.push_back(cell);
    if (name == "command") {
      columns = cells;
      continue;
    }
    ASSERT_EQ(cells.size(), states().size()) << name;
    ASSERT_TRUE(commands().contains(name)) << name;
    ++rows;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      TestBench bench;
      ASSERT_EQ(columns[i], states()[i].first);
      states()[i].second(bench);
      bench.advance(1);
      const std::uint64_t before = bench.record(kIdentity).metadata_generation;
      const Command command = commands().at(name)(before);
      const std::string rows_before = export_canonical(bench.state).value();
      const Result<Answer> answer = bench.run(command);
      EXPECT_EQ(outcome(bench, answer), cells[i])
          << name << " when " << columns[i] << ": " << (answer.ok() ? "" : answer.status().to_string());
      if (!answer.ok()) {
        EXPECT_FALSE(answer.status().message().empty());
        EXPECT_EQ(export_canonical(bench.state).value(), rows_before);
      } else if (answers_retries(name)) {
        // A retry answers like the first call, and appends nothing.
        const Result<Answer> retry = bench.run(command);
        ASSERT_TRUE(retry.ok()) << name << " when " << columns[i] << ": " << retry.status().to_string();
        EXPECT_EQ(retry->record, answer->record);
        EXPECT_TRUE(bench.last.empty());
      }
    }
  }
  EXPECT_EQ(rows, commands().size());
}

}  // namespace
}  // namespace steelyard::metadata
