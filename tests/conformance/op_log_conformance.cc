#include "tests/conformance/op_log_conformance.h"

#include <atomic>
#include <charconv>
#include <set>

#include "base/runtime.h"
#include "oplog/replay.h"

namespace steelyard::oplog::testing {
namespace {

class PlainCodec final : public StateCodec {
 public:
  Result<std::vector<metadata::RowChange>> changes_of(const Entry& entry) const override {
    const std::string& text = entry.bytes;
    const auto space = text.find(' ');
    if (space == std::string::npos) return Status(Code::kCorrupt, "plain entry without a word");
    const std::string word = text.substr(0, space);
    const std::string rest = text.substr(space + 1);
    if (word == "del") return std::vector<metadata::RowChange>{{rest, std::nullopt}};
    if (word == "step") return std::vector<metadata::RowChange>{{"step", rest}};
    if (word != "put") return Status(Code::kUnavailable, "newer: entry type " + word);
    const auto second = rest.find(' ');
    if (second == std::string::npos) return Status(Code::kCorrupt, "put without a value");
    return std::vector<metadata::RowChange>{{rest.substr(0, second), rest.substr(second + 1)}};
  }

  Result<std::vector<metadata::RowChange>> check_entries(const StateView& before, std::uint64_t,
                                                         const std::vector<Entry>& entries) const override {
    SY_ASSIGN_OR_RETURN(const auto row, before.get("step"));
    std::uint64_t number = row ? std::stoull(*row) : 0;
    std::vector<metadata::RowChange> changes;
    for (const Entry& entry : entries) {
      SY_ASSIGN_OR_RETURN(auto some, changes_of(entry));
      changes.insert(changes.end(), some.begin(), some.end());
      if (!entry.bytes.starts_with("step ")) continue;
      if (std::stoull(entry.bytes.substr(5)) != ++number) return Status(Code::kCorrupt, "step out of turn");
    }
    return changes;
  }

  Result<std::string> export_canonical(const StateView& view) const override {
    std::string out = std::to_string(view.sequence()) + "\n";
    SY_ASSIGN_OR_RETURN(const std::string rows, save_section(view));
    return out + rows;
  }

  std::string section_name() const override { return "plain"; }

  Result<std::string> save_section(const StateView& view) const override {
    std::string out;
    SY_RETURN_IF_ERROR(view.scan("", "", false, [&](std::string_view key, std::string_view value) {
      out.append(key).append("=").append(value).append("\n");
      return true;
    }));
    return out;
  }

  Result<std::shared_ptr<const metadata::SortedRows>> load_section(std::string_view section,
                                                                   std::uint64_t) const override {
    metadata::SortedRows::Builder rows;
    while (!section.empty()) {
      const auto end = section.find('\n');
      const auto equals = section.find('=');
      if (end == std::string_view::npos || equals >= end) return Status(Code::kCorrupt, "plain section");
      rows.add(rows.keep(section.substr(0, equals)), rows.keep(section.substr(equals + 1, end - equals - 1)));
      section.remove_prefix(end + 1);
    }
    auto sorted = std::move(rows).finish();
    if (!sorted) return Status(Code::kCorrupt, "plain section");
    return std::make_shared<const metadata::SortedRows>(*std::move(sorted));
  }
};

}  // namespace

const StateCodec& plain_codec() {
  static const PlainCodec codec;
  return codec;
}

Entry put(const std::string& key, const std::string& value) { return Entry{"put " + key + " " + value}; }
Entry del(const std::string& key) { return Entry{"del " + key}; }
Entry step(std::uint64_t number) { return Entry{"step " + std::to_string(number)}; }

Result<std::uint64_t> write_step(OpLog& log, const std::string& writer) {
  std::uint64_t number = 0;
  SY_ASSIGN_OR_RETURN(const std::uint64_t sequence,
                      log.write([&](const StateView& view, const Now&) -> Result<std::vector<Entry>> {
                        SY_ASSIGN_OR_RETURN(const auto row, view.get("step"));
                        number = (row ? std::stoull(*row) : 0) + 1;
                        return std::vector<Entry>{step(number), put("by-" + std::to_string(number), writer)};
                      }));
  static_cast<void>(sequence);
  return number;
}

std::uint64_t OpLogConformance::append(std::vector<Entry> entries) {
  auto result = log().write([&](const StateView&, const Now&) -> Result<std::vector<Entry>> { return entries; });
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *result : 0;
}

std::string OpLogConformance::get(const std::string& key) {
  std::string out;
  const Status status = log().view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(const auto value, view.get(key));
    out = value.value_or("(absent)");
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

std::string OpLogConformance::exported() {
  std::string out;
  const Status status = log().view([&](const StateView& view) -> Status {
    SY_ASSIGN_OR_RETURN(out, plain_codec().export_canonical(view));
    return Status();
  });
  EXPECT_TRUE(status.ok()) << status.to_string();
  return out;
}

TEST_P(OpLogConformance, CapabilitiesAreAsDeclared) {
  const Capabilities found = log().capabilities();
  EXPECT_EQ(found.durable, GetParam().wanted.durable);
  EXPECT_EQ(found.standbys_must_understand_entries, GetParam().wanted.standbys_must_understand_entries);
  EXPECT_EQ(found.read_only, GetParam().wanted.read_only);
  EXPECT_EQ(found.backend, GetParam().wanted.backend);
}

TEST_P(OpLogConformance, AppendsAreNumberedFromOneInOrder) {
  EXPECT_EQ(append({put("a", "1")}), 1U);
  EXPECT_EQ(append({put("a", "2"), put("b", "3")}), 2U);
  EXPECT_EQ(get("a"), "2");
  const auto all = log().read(0, 10);
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].sequence, 1U);
  EXPECT_EQ((*all)[1].entries, (std::vector<Entry>{put("a", "2"), put("b", "3")}));
  EXPECT_FALSE((*all)[1].at.epoch.empty());
  EXPECT_EQ(log().read(1, 10)->size(), 1U);
  EXPECT_EQ(log().read(0, 1)->size(), 1U);
  EXPECT_TRUE(log().read(2, 10)->empty());
}

TEST_P(OpLogConformance, RequestIdsAreSixteenBytesAndDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) append({put("a", std::to_string(i))});
  const auto all = log().read(0, 100);
  ASSERT_TRUE(all.ok());
  for (const Append& each : *all) {
    EXPECT_EQ(each.request_id.size(), 16U);
    ids.insert(each.request_id);
  }
  EXPECT_EQ(ids.size(), 20U);
}

TEST_P(OpLogConformance, NothingIsAppendedForNoEntriesOrAnError) {
  append({put("a", "1")});
  EXPECT_EQ(append({}), 1U);
  const auto refused = log().write([](const StateView& view, const Now&) -> Result<std::vector<Entry>> {
    return Status(Code::kConflict, "at " + std::to_string(view.sequence()), "the hint");
  });
  EXPECT_EQ(refused.status().to_string(), "CONFLICT: at 1 (the hint)");
  const auto unknown = log().write([](const StateView&, const Now&) -> Result<std::vector<Entry>> {
    return std::vector<Entry>{put("a", "2"), Entry{"fly away"}};
  });
  EXPECT_EQ(unknown.code(), Code::kUnavailable);
  EXPECT_EQ(get("a"), "1");
  EXPECT_EQ(log().read(0, 10)->size(), 1U);
}

TEST_P(OpLogConformance, RowsAreRemovedAndScannedInOrder) {
  append({put("a", "1"), put("b", "2"), put("b!", "3"), put("c", "4")});
  append({del("b"), del("none")});
  std::string seen;
  const auto collect = [&](const std::string& from, const std::string& to, bool descending, std::size_t limit) {
    seen.clear();
    std::size_t rows = 0;
    const Status status = log().view([&](const StateView& view) {
      return view.scan(from, to, descending, [&](std::string_view key, std::string_view value) {
        seen.append(key).append(value).append(" ");
        return ++rows < limit;
      });
    });
    EXPECT_TRUE(status.ok());
    return seen;
  };
  EXPECT_EQ(collect("", "", false, 99), "a1 b!3 c4 ");
  EXPECT_EQ(collect("", "", true, 99), "c4 b!3 a1 ");
  EXPECT_EQ(collect("b", "c", false, 99), "b!3 ");
  EXPECT_EQ(collect("b", "c", true, 99), "b!3 ");
  EXPECT_EQ(collect("", "", true, 1), "c4 ");
  EXPECT_EQ(collect("c", "b", false, 99), "");
}

TEST_P(OpLogConformance, LongScansGiveEveryRowOnce) {
  std::vector<Entry> entries;
  std::string wanted;
  for (int i = 1000; i < 4000; ++i) {
    entries.push_back(put("k" + std::to_string(i), "v"));
    wanted += "k" + std::to_string(i) + " ";
  }
  append(entries);
  std::string up;
  std::vector<std::string> down;
  EXPECT_TRUE(log()
                  .view([&](const StateView& view) -> Status {
                    SY_RETURN_IF_ERROR(view.scan("k", "l", false, [&](std::string_view key, std::string_view) {
                      up.append(key).append(" ");
                      return view.get(key).ok();  // the visitor may read
                    }));
                    return view.scan("k", "", true, [&](std::string_view key, std::string_view) {
                      down.emplace_back(key);
                      return true;
                    });
                  })
                  .ok());
  EXPECT_EQ(up, wanted);
  std::string reversed;
  for (auto it = down.rbegin(); it != down.rend(); ++it) reversed += *it + " ";
  EXPECT_EQ(reversed, wanted);
}

TEST_P(OpLogConformance, AViewIsOneState) {
  append({put("a", "1"), put("b", "1")});
  EXPECT_TRUE(log()
                  .view([&](const StateView& view) -> Status {
                    EXPECT_EQ(*view.get("a").value(), "1");
                    append({put("a", "2"), put("b", "2")});
                    EXPECT_EQ(*view.get("b").value(), "1");
                    EXPECT_EQ(view.sequence(), 1U);
                    return Status();
                  })
                  .ok());
  EXPECT_EQ(get("b"), "2");
}

TEST_P(OpLogConformance, TheErrorOfAReaderComesBack) {
  EXPECT_EQ(log().view([](const StateView&) { return Status(Code::kNotReady, "mine"); }).message(), "mine");
}

TEST_P(OpLogConformance, ThreadsWriteInTurnAndEachGetsItsOwnAnswer) {
  constexpr int kThreads = 8;
  constexpr int kWrites = 25;
  std::vector<std::unique_ptr<Task>> tasks;
  std::atomic<int> refused{0};
  std::atomic<int> failed{0};
  for (int t = 0; t < kThreads; ++t) {
    tasks.push_back(real_runtime().spawn("writer", [&, t] {
      for (int i = 0; i < kWrites; ++i) {
        if (!write_step(log(), std::to_string(t)).ok()) ++failed;
        const auto bad = log().write([t](const StateView&, const Now&) -> Result<std::vector<Entry>> {
          return Status(Code::kBusy, std::to_string(t));
        });
        if (bad.status().message() == std::to_string(t)) ++refused;
      }
    }));
  }
  tasks.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(refused, kThreads * kWrites);
  EXPECT_EQ(get("step"), std::to_string(kThreads * kWrites));
  EXPECT_EQ(log().read(0, 1000)->size(), static_cast<std::size_t>(kThreads * kWrites));
  const Status verified = verify_state(log(), plain_codec());
  EXPECT_TRUE(verified.ok()) << verified.to_string();
}

TEST_P(OpLogConformance, WatchSeesWhatIsThereAndWakesForWhatComes) {
  Runtime& runtime = real_runtime();
  EXPECT_FALSE(*log().watch(0, runtime.mono_ms(), nullptr));
  append({put("a", "1")});
  EXPECT_TRUE(*log().watch(0, runtime.mono_ms(), nullptr));
  const auto task = runtime.spawn("writer", [&] { append({put("a", "2")}); });
  EXPECT_TRUE(*log().watch(1, runtime.mono_ms() + 60'000, nullptr));
  task->join();
  EXPECT_EQ(get("a"), "2");
}

TEST_P(OpLogConformance, AWatchHearsACancel) {
  std::atomic<bool> cancel{false};
  const auto task = real_runtime().spawn("canceller", [&] { cancel.store(true); });
  EXPECT_FALSE(*log().watch(log().length().value(), INT64_MAX, &cancel));
  task->join();
}

TEST_P(OpLogConformance, SnapshotsAllowTrimmingAndNothingElseDoes) {
  EXPECT_EQ(log().newest_snapshot().code(), Code::kNotFound);
  append({put("a", "1")});
  append({put("b", "2")});
  EXPECT_EQ(log().trim(1).code(), Code::kInvalidArgument);
  EXPECT_EQ(*log().length(), 2U);
  EXPECT_EQ(*log().save_snapshot(), 2U);
  EXPECT_EQ(*log().save_snapshot(), 2U);
  EXPECT_EQ(*log().length(), 0U);
  append({put("c", "3")});
  EXPECT_EQ(*log().length(), 1U);
  EXPECT_EQ(log().trim(3).code(), Code::kInvalidArgument);
  const Status trimmed = log().trim(2);
  EXPECT_TRUE(trimmed.ok()) << trimmed.to_string();
  const auto gone = log().read(0, 10);
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_NE(gone.status().message().find("resnapshot"), std::string::npos);
  EXPECT_EQ(log().read(2, 10)->size(), 1U);
  EXPECT_TRUE(verify_state(log(), plain_codec()).ok());
  EXPECT_EQ(*log().save_snapshot(), 3U);
  EXPECT_TRUE(log().trim(3).ok());
  EXPECT_EQ(append({put("d", "4")}), 4U);
  EXPECT_TRUE(verify_state(log(), plain_codec()).ok());
}

TEST_P(OpLogConformance, RestoreGoesOnWhereTheSnapshotWas) {
  Snapshot snapshot;
  snapshot.sequence = 41;
  snapshot.sections = {{"plain", "a=1\nb=2\n"}, {"other", "kept"}};
  const Status restored = log().restore(snapshot);
  ASSERT_TRUE(restored.ok()) << restored.to_string();
  EXPECT_EQ(exported(), "41\na=1\nb=2\n");
  EXPECT_EQ(append({put("b", "3")}), 42U);
  EXPECT_EQ(log().restore(snapshot).code(), Code::kConflict);
  EXPECT_TRUE(verify_state(log(), plain_codec()).ok());
  EXPECT_EQ(*log().save_snapshot(), 42U);
  const auto again = decode_snapshot(*log().newest_snapshot());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->sequence, 42U);
  EXPECT_EQ(again->sections, (std::map<std::string, std::string>{{"other", "kept"}, {"plain", "a=1\nb=3\n"}}));
}

TEST_P(OpLogConformance, ASnapshotWithoutOurSectionRestoresAnEmptyState) {
  Snapshot snapshot;
  snapshot.sequence = 7;
  snapshot.sections = {{"other", "kept"}};
  ASSERT_TRUE(log().restore(snapshot).ok());
  EXPECT_EQ(exported(), "7\n");
  EXPECT_EQ(decode_snapshot(*log().newest_snapshot())->sections.at("other"), "kept");
}

TEST_P(OpLogConformance, AMalformedSectionChangesNothing) {
  Snapshot snapshot;
  snapshot.sequence = 7;
  snapshot.sections = {{"plain", "no equals sign\n"}};
  EXPECT_EQ(log().restore(snapshot).code(), Code::kCorrupt);
  EXPECT_EQ(exported(), "0\n");
  EXPECT_EQ(log().newest_snapshot().code(), Code::kNotFound);
  EXPECT_EQ(append({put("a", "1")}), 1U);
}

TEST_P(OpLogConformance, AReopenedLogIsTheSame) {
  if (!GetParam().wanted.durable) GTEST_SKIP() << "not durable";
  append({put("a", "1")});
  EXPECT_TRUE(log().save_snapshot().ok());
  append({put("b", "2")});
  const std::string before = exported();
  fixture_->reopen();
  EXPECT_EQ(exported(), before);
  EXPECT_EQ(append({put("c", "3")}), 3U);
  EXPECT_EQ(*log().length(), 2U);
  EXPECT_TRUE(verify_state(log(), plain_codec()).ok());
}

}  // namespace steelyard::oplog::testing
