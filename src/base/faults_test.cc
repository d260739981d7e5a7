#include "base/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "base/runtime.h"

namespace steelyard {
namespace {

using testing::HasSubstr;

std::vector<FaultRule> rules_of(std::string_view text) {
  auto rules = parse_fault_rules(text);
  EXPECT_TRUE(rules.ok()) << rules.status().to_string();
  return rules.ok() ? std::move(rules).value() : std::vector<FaultRule>();
}

TEST(FaultRules, Parse) {
  const auto rules = rules_of("kill@import.begin,stop@a#3,EIO@tier.*,ENOSPC@b#2,trace@x#9");
  ASSERT_EQ(rules.size(), 5U);
  EXPECT_EQ(rules[0].action, FaultRule::Action::kKill);
  EXPECT_EQ(rules[0].point, "import.begin");
  EXPECT_EQ(rules[0].at_pass, 1U);
  EXPECT_EQ(rules[1].action, FaultRule::Action::kStop);
  EXPECT_EQ(rules[1].at_pass, 3U);
  EXPECT_EQ(rules[2].error_number, EIO);
  EXPECT_TRUE(rules[2].prefix);
  EXPECT_EQ(rules[2].at_pass, 0U);
  EXPECT_TRUE(rules[2].matches("tier.fsync"));
  EXPECT_FALSE(rules[2].matches("tiers"));
  EXPECT_FALSE(rules[0].matches("import.begin.x"));
  EXPECT_EQ(rules[3].error_number, ENOSPC);
  EXPECT_EQ(rules[4].action, FaultRule::Action::kTrace);
  EXPECT_TRUE(rules[4].matches("anything"));
  EXPECT_EQ(rules[4].at_pass, 0U);
}

TEST(FaultRules, EveryErrnoName) {
  const std::pair<const char*, int> names[] = {
      {"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EACCES", EACCES}, {"EROFS", EROFS},     {"EMLINK", EMLINK},
      {"EPERM", EPERM},   {"EXDEV", EXDEV}, {"EINVAL", EINVAL}, {"ENOTSUP", ENOTSUP}, {"ETIMEDOUT", ETIMEDOUT},
      {"EAGAIN", EAGAIN}, {"EBUSY", EBUSY}, {"ENOMEM", ENOMEM}, {"EINTR", EINTR},     {"EBADF", EBADF},
      {"ENOSYS", ENOSYS}};
  for (const auto& [name, number] : names) EXPECT_EQ(rules_of(std::string(name) + "@p")[0].error_number, number);
}

TEST(FaultRules, Refusals) {
  for (const char* text : {"", "kill", "kill@", "kill@a,", "oops@a", "kill@a#", "kill@a#0", "kill@a#x", "kill@a#1x",
                           "kill@a#-1", "kill@#1", "@a"}) {
    const auto rules = parse_fault_rules(text);
    EXPECT_EQ(rules.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(rules.status().message(), HasSubstr("fault rule '")) << text;
  }
}

TEST(FaultRules, EveryMatchingRuleCountsEveryPass) {
  auto rules = rules_of("EIO@a#1,EROFS@a#2,EPERM@a#2");
  auto acting = rules_acting_on(rules, "a");
  ASSERT_EQ(acting.size(), 1U);
  EXPECT_EQ(acting[0].error_number, EIO);
  EXPECT_TRUE(rules_acting_on(rules, "b").empty());
  acting = rules_acting_on(rules, "a");
  ASSERT_EQ(acting.size(), 2U);
  EXPECT_EQ(acting[0].error_number, EROFS);
  EXPECT_TRUE(rules_acting_on(rules, "a").empty());
}

// Each of these runs in a fresh process, whose runtime reads the environment.
class FaultsFromEnvironment : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(FaultsFromEnvironment, KillAtTheNamedPass) {
  EXPECT_EXIT(
      {
        setenv("STEELYARD_FAULT", "kill@x#2", 1);
        const int first = real_runtime().point("x");
        SY_POINT(real_runtime(), "y");
        if (first == 0) SY_POINT(real_runtime(), "x");
        _exit(1);
      },
      testing::KilledBySignal(SIGKILL), "");
}

TEST_F(FaultsFromEnvironment, ErrnoOnEveryPass) {
  EXPECT_EXIT(
      {
        setenv("STEELYARD_FAULT", "ENOSPC@tier.*", 1);
        Runtime& runtime = real_runtime();
        const bool right = runtime.point("tier.write") == ENOSPC && runtime.point("tier.write") == ENOSPC &&
                           runtime.point("log.write") == 0;
        _exit(right ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

TEST_F(FaultsFromEnvironment, TraceWritesEachPointPassed) {
  const std::string path = testing::TempDir() + "steelyard_fault_trace";
  EXPECT_EXIT(
      {
        unlink(path.c_str());
        setenv("STEELYARD_FAULT_TRACE", path.c_str(), 1);
        setenv("STEELYARD_FAULT", "trace@all,EIO@b", 1);
        SY_POINT(real_runtime(), "a");
        _exit(real_runtime().point("b") == EIO ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "a\nb\n");
  unlink(path.c_str());
}

TEST_F(FaultsFromEnvironment, ABadRuleEndsTheProcessAndIsQuoted) {
  EXPECT_EXIT(
      {
        setenv("STEELYARD_FAULT", "explode@x", 1);
        real_runtime();
        _exit(0);
      },
      testing::KilledBySignal(SIGABRT), "explode@x");
}

TEST_F(FaultsFromEnvironment, NothingArmedWithoutTheVariable) {
  EXPECT_EXIT(
      {
        setenv("STEELYARD_FAULT", "", 1);
        _exit(real_runtime().point("x") == 0 ? 7 : 1);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace steelyard
