#include "cli/progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace steelyard::cli {
namespace {

/// A runtime whose clock the test moves.
class ManualClock final : public Runtime {
 public:
  std::int64_t now_ms = 1000;

  std::int64_t mono_ms() override { return now_ms; }
  std::int64_t mono_ns() override { return now_ms * 1'000'000; }
  std::int64_t wall_ms() override { return now_ms; }
  const std::string& epoch() override { return epoch_; }
  void fill_random(ByteSpan) override {}
  void sleep_ms(std::int64_t duration_ms) override { now_ms += duration_ms; }
  std::unique_ptr<Event> make_event() override { return nullptr; }
  std::unique_ptr<Task> spawn(std::string_view, std::function<void()>) override { return nullptr; }
  const ProcessIdentity& self() override { return self_; }
  bool provably_gone(const ProcessIdentity&) override { return false; }

 protected:
  int point_armed(const char*) override { return 0; }

 private:
  std::string epoch_ = "epoch";
  ProcessIdentity self_;
};

Settings with(std::string_view name, const std::string& text) {
  SettingFlags flags;
  flags.values.emplace_back(find_setting(name), text);
  Result<Settings> settings = Settings::load(flags);
  EXPECT_TRUE(settings.ok());
  return *settings;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(Progress, PlainLinesOnlyWhenTheWorkTakesLong) {
  ManualClock clock;
  ProgressPrinter printer(clock, with("progress", "plain"));
  testing::internal::CaptureStderr();
  printer.progress({"verify", 0, 100, 0, 2});
  printer.progress({"verify", 100, 100, 2, 2});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");

  testing::internal::CaptureStderr();
  printer.progress({"import", 0, 1000, 0, 2});
  for (std::uint64_t done = 100; done <= 900; done += 100) {
    clock.now_ms += 1000;
    printer.progress({"import", done, 1000, 0, 2});
  }
  printer.progress({"import", 1000, 1000, 2, 2});
  const auto lines = lines_of(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 4U);  // after 3, 6 and 9 seconds, and the end
  EXPECT_EQ(lines[0], "import: 30 %, 300B of 1000B, 0 of 2 files, 100B/s, 7s left");
  EXPECT_EQ(lines[3].find("import: 100 %"), 0U);
  EXPECT_EQ(lines[3].find('\r'), std::string::npos);
}

TEST(Progress, MovesAndRepairsCountObjects) {
  for (const std::string phase : {"evict", "rehydrate", "repair"}) {
    ManualClock clock;
    ProgressPrinter printer(clock, with("progress", "plain"));
    testing::internal::CaptureStderr();
    printer.progress({phase, 0, 1000, 0, 2});
    clock.now_ms += 5000;
    printer.progress({phase, 500, 1000, 1, 2});
    const auto lines = lines_of(testing::internal::GetCapturedStderr());
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_EQ(lines[0].find(phase + ": 50 %, 500B of 1000B, 1 of 2 objects"), 0U) << lines[0];
  }
}

TEST(Progress, EventsComeOftenAndEndOnceAtAHundredPercent) {
  ManualClock clock;
  ProgressPrinter printer(clock, with("progress", "json"));
  testing::internal::CaptureStderr();
  for (std::uint64_t done = 0; done <= 1000; done += 50) {
    printer.progress({"import", done, 1000, done / 1000, 1});
    clock.now_ms += 50;
  }
  printer.progress({"import", 1000, 1000, 1, 1});
  const auto lines = lines_of(testing::internal::GetCapturedStderr());
  EXPECT_EQ(
      lines.front(),
      R"({"event":"progress","phase":"import","ref":null,"bytes_done":0,"bytes_total":1000,"files_done":0,"files_total":1})");
  EXPECT_EQ(lines.size(), 11U);  // every 100 ms of 1000, both ends included
  EXPECT_EQ(
      lines.back(),
      R"({"event":"progress","phase":"import","ref":null,"bytes_done":1000,"bytes_total":1000,"files_done":1,"files_total":1})");
}

TEST(Progress, EachOfSeveralRevisionsHasItsPhasesToItself) {
  ManualClock clock;
  ProgressPrinter events(clock, with("progress", "json"));
  testing::internal::CaptureStderr();
  events.progress({"evict", 900, 1000, 1, 2, "m@main#1"});
  events.progress({"evict", 100, 2000, 0, 3, "n@main#1"});
  auto lines = lines_of(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(
      lines[1],
      R"({"event":"progress","phase":"evict","ref":"n@main#1","bytes_done":100,"bytes_total":2000,"files_done":0,"files_total":3})");
  ProgressPrinter plain(clock, with("progress", "plain"));
  testing::internal::CaptureStderr();
  plain.progress({"evict", 0, 2000, 0, 3, "n@main#1"});
  clock.now_ms += 5000;
  plain.progress({"evict", 1000, 2000, 1, 3, "n@main#1"});
  lines = lines_of(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find("evict n@main#1: 50 %, 1000B of 1.95KiB, 1 of 3 objects"), 0U) << lines[0];
}

TEST(Progress, NeverGoesBackNorPastTheTotal) {
  ManualClock clock;
  ProgressPrinter printer(clock, with("progress", "json"));
  testing::internal::CaptureStderr();
  for (std::uint64_t done : {0U, 600U, 400U, 2000U}) {
    printer.progress({"verify", done, 1000, 0, 1});
    clock.now_ms += 1000;
  }
  const auto lines = lines_of(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[2].find(R"("bytes_done":600,)"), std::string::npos);
  EXPECT_NE(lines[3].find(R"("bytes_done":1000,)"), std::string::npos);
}

TEST(Progress, NoneAndQuietSayNothing) {
  for (const Settings& settings : {with("progress", "none"), with("quiet", "true")}) {
    ManualClock clock;
    ProgressPrinter printer(clock, settings);
    testing::internal::CaptureStderr();
    printer.progress({"import", 0, 10, 0, 1});
    clock.now_ms += 60'000;
    printer.progress({"import", 10, 10, 1, 1});
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

}  // namespace
}  // namespace steelyard::cli
