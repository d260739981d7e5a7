#include "oplog/sqlite/turnstile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/unique_fd.h"

namespace steelyard::oplog::sqlite {
namespace {

/// Lock files of a turnstile in a folder of their own, and somebody who holds one and never lets go.
class TurnstileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "turnstile-XXXXXX").native();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    folder_fd_ = UniqueFd(open(pattern.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string base() const { return (folder_ / "catalog").native(); }
  UniqueFd hold(const std::string& suffix) const {
    UniqueFd fd(open((base() + suffix).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    EXPECT_EQ(flock(fd.get(), LOCK_EX | LOCK_NB), 0);
    return fd;
  }

  std::filesystem::path folder_;
  UniqueFd folder_fd_;
};

TEST_F(TurnstileTest, OneAtATime) {
  Turnstile first(real_runtime(), folder_fd_.get(), "catalog");
  first.enter();
  EXPECT_TRUE(first.held());
  Turnstile second(real_runtime(), folder_fd_.get(), "catalog", 20);
  second.enter();
  EXPECT_FALSE(second.held());
  first.leave();
  second.enter();
  EXPECT_TRUE(second.held());
}

TEST_F(TurnstileTest, AStuckHolderOfEitherLockIsGivenUp) {
  for (const char* suffix : {".turn", ".next"}) {
    const UniqueFd stuck = hold(suffix);
    Turnstile turnstile(real_runtime(), folder_fd_.get(), "catalog", 20);
    turnstile.enter();
    EXPECT_FALSE(turnstile.held()) << suffix;
    turnstile.leave();
  }
}

TEST_F(TurnstileTest, WhoGivesUpDoesNotKeepTheLine) {
  {
    const UniqueFd stuck = hold(".turn");
    Turnstile turnstile(real_runtime(), folder_fd_.get(), "catalog", 20);
    turnstile.enter();
  }
  Turnstile later(real_runtime(), folder_fd_.get(), "catalog", 20);
  later.enter();
  EXPECT_TRUE(later.held());
}

}  // namespace
}  // namespace steelyard::oplog::sqlite
