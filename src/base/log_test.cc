#include "base/log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace steelyard {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// Puts level and sink back when a test ends.
class Log : public testing::Test {
 protected:
  void TearDown() override {
    set_log_level(LogLevel::kWarn);
    set_log_sink({});
  }
  LogSink collector() {
    return [this](LogLevel level, std::string_view message) {
      const std::lock_guard lock(mutex_);
      seen_.emplace_back(level, message);
    };
  }
  std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> seen_;
};

TEST_F(Log, AWarningIsExactlyOneLineOnStderr) {
  testing::internal::CaptureStderr();
  log_warning("file {} has {} tensors\nand\x1b[31m more", "a.safetensors", 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: file a.safetensors has 3 tensors\\x0aand\\x1b[31m more\n");
}

TEST_F(Log, DefaultLevelIsWarn) {
  testing::internal::CaptureStderr();
  log_trace("t");
  log_debug("d");
  log_info("i");
  log_warning("w");
  log_error("e");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: w\nerror: e\n");
}

TEST_F(Log, EveryLevelHasItsPrefix) {
  set_log_level(LogLevel::kTrace);
  testing::internal::CaptureStderr();
  log_trace("m");
  log_debug("m");
  log_info("m");
  log_at(LogLevel::kWarn, "m");
  log_error("m");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "trace: m\ndebug: m\ninfo: m\nwarning: m\nerror: m\n");
}

TEST_F(Log, SinkReceivesWhatPassesTheLevel) {
  set_log_sink(collector());
  testing::internal::CaptureStderr();
  log_info("hidden");
  log_warning("a {}", 1);
  set_log_level(LogLevel::kError);
  log_warning("hidden");
  log_error("b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(seen_, ElementsAre(Pair(LogLevel::kWarn, "a 1"), Pair(LogLevel::kError, "b")));
}

TEST_F(Log, ReplacingTheSinkGivesTheOldOneBack) {
  set_log_sink(collector());
  const LogSink old = set_log_sink([](LogLevel, std::string_view) {});
  ASSERT_TRUE(old);
  old(LogLevel::kWarn, "kept");
  EXPECT_THAT(seen_, ElementsAre(Pair(LogLevel::kWarn, "kept")));
  set_log_sink({});
  EXPECT_FALSE(set_log_sink({}));
}

TEST_F(Log, ASinkMayLogAndMayThrow) {
  set_log_sink([this](LogLevel level, std::string_view message) {
    if (message == "outer") log_warning("inner");
    collector()(level, message);
    throw std::runtime_error("sink");
  });
  log_warning("outer");
  EXPECT_THAT(seen_, ElementsAre(Pair(LogLevel::kWarn, "inner"), Pair(LogLevel::kWarn, "outer")));
}

TEST_F(Log, LinesOfSeveralThreadsDoNotMix) {
  testing::internal::CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 100; ++i) log_warning("{}-{}-{}", t, i, std::string(200, 'x'));
      });
    }
  }
  std::multiset<std::string> lines;
  const std::string text = testing::internal::GetCapturedStderr();
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    lines.insert(text.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 400U);
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(lines.count(fmt::format("warning: {}-{}-{}", t, i, std::string(200, 'x'))), 1U);
    }
  }
}

TEST_F(Log, LevelNames) {
  for (const char* name : {"trace", "debug", "info", "warn", "error"}) {
    const auto level = parse_log_level(name);
    ASSERT_TRUE(level.ok());
    EXPECT_EQ(log_level_name(*level), name);
  }
  for (const char* name : {"", "warning", "WARN", "off"}) {
    const auto level = parse_log_level(name);
    EXPECT_EQ(level.code(), Code::kInvalidArgument);
    EXPECT_EQ(level.status().hint(), "use trace, debug, info, warn or error");
  }
}

}  // namespace
}  // namespace steelyard
