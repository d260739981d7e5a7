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
  command.damage = {{"object"}, 1};
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
       [](auto current) { return ReconcileRevision{kIdentity, current, {}, Residency::kCold, {}, {}, 0}; }},
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
      {"policy.fence",
       [](auto) {
         return UpdateWeightPolicy{kIdentity, 99, {}};
       }},
  };
  return kCommands;
}

// `+` appends, `=` is OK without appending; otherwise the code: nf NOT_FOUND, cf CONFLICT, st STALE_GENERATION, nr
// NOT_READY, by BUSY.
constexpr const char* kTable = R"(
command            absent compacted live expired returned READY DEGRADED aborting DELETING aborted DELETED
begin.own          +      cf        =    +       +        cf    cf       cf       cf       cf      cf
begin.other        +      cf        by   +       +        cf    cf       cf       cf       cf      cf
begin.gone         +      cf        +    +       +        cf    cf       cf       cf       cf      cf
begin.gone_other   +      cf        by   +       +        cf    cf       cf       cf       cf      cf
begin.labels       +      cf        cf   cf      cf       cf    cf       cf       cf       cf      cf
begin.auto         +      +         by   +       +        +     +        +        +        +       +
renew.own          nf     nf        +    +       st       st    st       st       st       st      st
renew.other        nf     nf        st   st      st       st    st       st       st       st      st
renew.attempt      nf     nf        st   st      st       st    st       st       st       st      st
release.own        nf     nf        +    +       =        =     =        =        =        =       =
release.other      nf     nf        st   st      =        =     =        =        =        =       =
release.attempt    nf     nf        st   st      st       st    st       st       st       st      st
commit.first       nf     nf        +    +       st       =     =        cf       =        cf      =
commit.other_args  nf     nf        +    +       st       cf    cf       cf       cf       cf      cf
commit.other       nf     nf        st   st      st       cf    cf       cf       cf       cf      cf
commit.attempt     nf     nf        st   st      st       st    st       st       st       st      st
commit.fence       nf     nf        st   st      st       cf    cf       cf       cf       cf      cf
abort.token        nf     nf        +    +       st       cf    cf       =        cf       =       cf
abort.other        nf     nf        st   st      st       cf    cf       =        cf       =       cf
abort.plain        nf     nf        by   +       +        cf    cf       =        cf       =       cf
abort.fence        nf     nf        st   st      st       cf    cf       st       cf       st      cf
abort.force        nf     nf        +    +       +        cf    cf       =        cf       =       cf
abort.gone         nf     nf        +    +       +        cf    cf       =        cf       =       cf
abort.gone_other   nf     nf        by   +       +        cf    cf       =        cf       =       cf
abort.idle         nf     nf        by   by      by       cf    cf       =        cf       =       cf
abort.idle_short   nf     nf        by   +       by       cf    cf       =        cf       =       cf
acquire            nf     nf        nr   nr      nr       +     nr       nr       nr       nr      nr
acquire.degraded   nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr
reconcile.whole    nf     nf        nr   nr      nr       =     +        nr       nr       nr      nr
reconcile.damaged  nf     nf        nr   nr      nr       +     =        nr       nr       nr      nr
reconcile.fence    nf     nf        nr   nr      nr       st    st       nr       nr       nr      nr
reap               nf     nf        =    =       =        =     =        =        =        =       =
delete             nf     =         nr   nr      nr       +     +        =        =        =       =
delete.fence       nf     =         nr   nr      nr       st    st       st       st       =       =
finish             nf     =         cf   cf      cf       cf    cf       +        +        =       =
finish.fence       nf     =         cf   cf      cf       cf    cf       st       st       =       =
compact            =      =         cf   cf      cf       =     =        =        =        +       +
policy             nf     nf        nr   nr      nr       +     +        nr       nr       nr      nr
policy.fence       nf     nf        nr   nr      nr       st    st       nr       nr       nr      nr
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
    default:
      return answer.status().to_string();
  }
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
      } else if (name == "begin.own" || name.starts_with("commit") || name.starts_with("abort") || name == "delete") {
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
