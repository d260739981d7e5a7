// Random histories: replay, snapshot and order indexes always agree with the state, whatever the commands were.
#include <random>

#include "metadata/keys.h"
#include "metadata/test_bench.h"

namespace steelyard::metadata {
namespace {

class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      if (testing::Test::HasFailure()) return;
    }
    check_replay();
    check_section();
    check_lists();
  }

 private:
  std::int64_t pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }
  Identity any() { return identity_of(pick(2) == 0 ? "llama" : "qwen/7b", 1 + pick(3)); }
  char any_token() { return static_cast<char>('a' + pick(3)); }

  Observation any_observation() {
    Observation seen;
    if (pick(2) == 0) seen.damage = {{"o"}, 1};
    seen.boot_id = pick(8) == 0 ? "" : bench_.now.epoch;
    if (pick(3) == 0 || seen.boot_id.empty()) return seen;
    seen.hot_instance = token_of(static_cast<char>('a' + pick(2)));
    seen.hot_members = static_cast<std::uint64_t>(pick(3));
    seen.hot_bytes = seen.hot_members * 50;
    return seen;
  }

  void step() {
    bench_.advance(pick(4) == 0 ? pick(70'000) : pick(100));
    if (pick(40) == 0) {
      bench_.now.epoch = "boot-" + std::to_string(++boot_);
      bench_.now.mono_ms = pick(1'000);
    }
    const Identity identity = any();
    const RevisionRecord record = bench_.record(identity);
    const std::uint64_t fence = record.metadata_generation + (pick(8) == 0 ? 1U : 0U);
    const std::uint32_t attempt = record.import_attempt + (pick(8) == 0 ? 1U : 0U);
    switch (pick(22)) {
      case 0:
      case 1:
      case 2: {
        auto command = bench_.begin(identity, any_token());
        if (pick(3) == 0) command.weight_generation.reset();
        return apply(command, true);
      }
      case 3:
        return apply(RenewWeightImport{identity, token_of(any_token()), attempt}, false);
      case 4:
        return apply(ReleaseWeightImport{identity, token_of(any_token()), attempt}, true);
      case 5:
      case 6:
        return apply(bench_.commit(identity, any_token(), attempt, fence), true);
      case 7:
        return apply(
            AbortWeightImport{identity, pick(2) == 0 ? token_of(any_token()) : "", attempt, fence, pick(3) == 0, {}},
            true);
      case 8:
      case 9: {
        auto command = bench_.acquire(identity, "holder " + std::to_string(pick(3)), 1'000 + pick(60'000));
        command.allow_degraded = pick(2) == 0;
        return apply(command, true);
      }
      case 10:
        return apply(ReconcileRevision{identity, fence, any_observation()}, false);
      case 11:
        return apply(DeleteWeightRevision{identity, fence, pick(2) == 0 ? DeleteMode::kRefuse : DeleteMode::kDrain},
                     true);
      case 12:
        return apply(FinishDelete{identity, fence}, true);
      case 13:
        return apply(
            UpdateWeightPolicy{
                identity, fence, {Residency::kHot, {}, pick(4) == 0 ? PolicyMode::kPinned : PolicyMode::kAuto}},
            true);
      case 14:
      case 15:
      case 16:
        return apply(any_start(identity, fence), true);
      default:
        return run_operation(record);
    }
  }

  StartOperation any_start(const Identity& identity, std::uint64_t fence) {
    const auto kind = static_cast<OperationKind>(1 + pick(3));
    const Residency end = kind == OperationKind::kRehydrating ? Residency::kHot : Residency::kCold;
    StartOperation command = TestBench::start(identity, fence, kind, pick(3) == 0 ? Residency::kMixed : end);
    command.operation_id = token_of("0123456789abcdef"[pick(16)]);
    command.total_members = static_cast<std::uint64_t>(1 + pick(2));
    command.total_bytes = command.total_members * 50;
    command.runner = TestBench::grant(any_token());
    if (pick(4) == 0) command.runner.reset();
    if (moves_replicas(kind)) {
      command.hot_instance = token_of(static_cast<char>('a' + pick(2)));
      command.hot_boot_id = bench_.now.epoch;
    }
    return command;
  }

  /// One of the commands of the operation that runs, mostly of its own runner.
  void run_operation(const RevisionRecord& record) {
    if (!record.operation) return;
    const Operation& operation = *record.operation;
    const std::optional<Runner> runner = find_runner(bench_.state, record.identity).value();
    RunnerToken token{operation.operation_id, token_of(any_token()), 1};
    if (runner && !runner->token.empty() && pick(6) != 0) {
      token.token = runner->token;
      token.run_attempt = runner->run_attempt;
    }
    const auto members = static_cast<std::uint64_t>(pick(4));
    switch (pick(6)) {
      case 0:
        return apply(CancelOperation{operation.operation_id}, true);
      case 1: {
        TakeOperation take{record.identity, operation.operation_id, TestBench::grant(any_token()), false, {}, {}, {}};
        take.hot_instance = pick(4) == 0 ? token_of('a') : operation.hot_instance;
        take.hot_boot_id = bench_.now.epoch;
        return apply(take, false);
      }
      case 2:
        return apply(ReportOperation{record.identity, token, members, members * 50, "", pick(5) == 0}, false);
      case 3:
      case 4:
        return apply(PermitRemoval{record.identity, token, members, 0, 0}, false);
      default: {
        EndOperation end{
            record.identity, token, pick(2) == 0 ? OperationState::kDone : OperationState::kFailed, members, 0,
            "over",          {}};
        if (pick(4) != 0) end.seen = any_observation();
        return apply(end, true);
      }
    }
  }

  void apply(const Command& command, bool retry) {
    const Result<Answer> first = bench_.run(command);
    if (!first.ok()) {
      EXPECT_NE(first.code(), Code::kInternal) << first.status().to_string();
      return;
    }
    if (!retry) return;
    const bool numbered =
        !std::holds_alternative<BeginWeightImport>(command) || std::get<BeginWeightImport>(command).weight_generation;
    const Result<Answer> second = bench_.run(command);
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    if (!numbered) return;
    EXPECT_EQ(first->record, second->record);
    EXPECT_TRUE(bench_.last.empty());
  }

  void check_replay() {
    MemoryState replayed;
    for (const auto& [sequence, entries] : bench_.log) {
      const Status legal = check_entries(replayed, sequence, entries).status();
      ASSERT_TRUE(legal.ok()) << legal.to_string();
      ASSERT_TRUE(replayed.apply(sequence, entries).ok());
    }
    EXPECT_EQ(export_canonical(replayed).value(), export_canonical(bench_.state).value());
  }

  void check_section() {
    const std::string section = save_section(bench_.state).value();
    const auto rows = load_section(section, bench_.state.sequence());
    ASSERT_TRUE(rows.ok()) << rows.status().to_string();
    MemoryState loaded;
    loaded.reset(bench_.state.sequence(), *rows);
    EXPECT_EQ(export_canonical(loaded).value(), export_canonical(bench_.state).value());
    EXPECT_EQ(save_section(loaded).value(), section);
    for (int i = 0; i < 20; ++i) {
      std::string bad = section;
      const auto at = static_cast<std::size_t>(pick(static_cast<std::int64_t>(bad.size())));
      bad[at] = static_cast<char>(bad[at] ^ (1 << pick(8)));
      EXPECT_FALSE(load_section(bad, bench_.state.sequence()).ok());
      EXPECT_FALSE(load_section(std::string_view(section).substr(0, at), bench_.state.sequence()).ok());
    }
  }

  void check_lists() {
    std::vector<RevisionRecord> expected;
    ASSERT_TRUE(bench_.state
                    .scan("r", "s", false,
                          [&](std::string_view, std::string_view value) {
                            expected.push_back(decode_record(value).value());
                            return true;
                          })
                    .ok());
    std::sort(expected.begin(), expected.end(), [](const RevisionRecord& a, const RevisionRecord& b) {
      const auto place = [](const RevisionRecord& r) {
        return std::tuple(r.committed_seq == 0, r.committed_seq == 0 ? r.begin_seq : r.committed_seq);
      };
      return place(a) < place(b);
    });
    ListQuery query;
    query.tenant_id = "default";
    query.namespace_id = "production";
    query.all = true;
    query.limit = static_cast<std::size_t>(1 + pick(3));
    std::vector<RevisionRecord> found;
    do {
      const Result<ListPage> page = list_revisions(bench_.state, query);
      ASSERT_TRUE(page.ok()) << page.status().to_string();
      ASSERT_FALSE(page->records.empty() && !found.empty()) << "an empty page follows";
      found.insert(found.end(), page->records.begin(), page->records.end());
      query.page_token = page->next_page_token;
    } while (!query.page_token.empty());
    EXPECT_EQ(found, expected);
  }

  std::mt19937_64 random_;
  TestBench bench_;
  int boot_ = 0;
};

TEST(Property, RandomHistories) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History(seed).run(120);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace steelyard::metadata
