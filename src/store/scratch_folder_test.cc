// Folders for trying things, beside another process that looks for what killed ones left.
#include "store/scratch_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

class ScratchFolderTest : public testing::Test {
 protected:
  std::vector<std::string> folders() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(root_.path())) found.push_back(entry.path().native());
    return found;
  }

  tiers::TestFolder root_;
  tiers::FaultRuntime runtime_;
};

TEST_F(ScratchFolderTest, OneThatAnotherTakesForLeftOverIsMadeAgain) {
  UniqueFd other;
  runtime_.on("scratch.after_folder", [&] {
    if (other.valid()) return;
    other = UniqueFd(open(folders().at(0).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
  });
  ScratchFolder scratch(runtime_, root_.path(), "doctor-");
  const Status made = scratch.make();
  ASSERT_TRUE(made.ok()) << made.to_string();
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  const UniqueFd folder(open(fs::path(scratch.path()).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_NE(flock(folder.get(), LOCK_EX | LOCK_NB), 0) << "it is kept from others";
  EXPECT_EQ(folders().size(), 1U);
}

TEST_F(ScratchFolderTest, OneThatAnotherRemovedIsMadeAgain) {
  bool removed = false;
  runtime_.on("scratch.after_folder", [&] {
    if (removed) return;
    removed = true;
    fs::remove(folders().at(0));
  });
  ScratchFolder scratch(runtime_, root_.path(), "doctor-");
  const Status made = scratch.make();
  ASSERT_TRUE(made.ok()) << made.to_string();
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST_F(ScratchFolderTest, NothingStaysWhereItIsAlwaysTaken) {
  std::vector<UniqueFd> others;
  runtime_.on("scratch.after_folder", [&] {
    others.emplace_back(open(folders().at(0).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(flock(others.back().get(), LOCK_EX | LOCK_NB), 0);
  });
  {
    ScratchFolder scratch(runtime_, root_.path(), "doctor-");
    EXPECT_FALSE(scratch.make().ok());
  }
  EXPECT_GT(others.size(), 1U);
  EXPECT_TRUE(folders().empty());
}

}  // namespace
}  // namespace steelyard::store
