#include "store/target_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;
using tiers::FaultRuntime;

class TargetFolderTest : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return root_.path() + "/" + name; }

  static void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Every name below the test's folder, hidden ones too.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(root_.path())) {
      names.push_back(entry.path().lexically_relative(root_.path()).native());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  Result<std::unique_ptr<TargetFolder>> prepare(const std::string& target, bool force = false) {
    return TargetFolder::prepare(runtime_, target, force);
  }
  /// As a writer of the materialisation does.
  static void put(const TargetFolder& target, const std::string& name, const std::string& text) {
    const UniqueFd fd(openat(target.staging_fd(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
    ASSERT_TRUE(fd.valid());
    ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  tiers::TestFolder root_;
  FaultRuntime runtime_;
};

TEST_F(TargetFolderTest, AppearsWholeAndLeavesNothingElse) {
  const auto target = prepare(at("a/b/out"));
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_TRUE((*target)->atomic());
  put(**target, "x", "1");
  EXPECT_FALSE(fs::exists(at("a/b/out")));
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "a/b", "a/b/out", "a/b/out/x"}));
  EXPECT_EQ((*target)->path(), at("a/b/out"));
}

TEST_F(TargetFolderTest, WhatIsNotPublishedIsRemoved) {
  {
    const auto target = prepare(at("out/"));
    ASSERT_TRUE(target.ok());
    put(**target, "x", "1");
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(TargetFolderTest, AFailedSyncOrRenamePublishesNothing) {
  for (const char* point : {"materialize.sync", "materialize.rename"}) {
    runtime_.disarm();
    runtime_.arm(point, EIO);
    {
      const auto target = prepare(at("out"));
      ASSERT_TRUE(target.ok());
      put(**target, "x", "1");
      EXPECT_EQ((*target)->publish().code(), Code::kUnavailable) << point;
    }
    EXPECT_TRUE(names().empty()) << point;
  }
}

TEST_F(TargetFolderTest, EveryFolderIsMadeDurable) {
  const auto target = prepare(at("out"));
  ASSERT_TRUE(target.ok());
  ASSERT_TRUE(open_or_make_folder((*target)->staging_fd(), "a/b").ok());
  ASSERT_TRUE(open_or_make_folder((*target)->staging_fd(), "c").ok());
  ASSERT_TRUE((*target)->publish({"a", "a/b", "c"}).ok());
  EXPECT_EQ(runtime_.passes("materialize.sync"), 4U);
}

TEST_F(TargetFolderTest, ANonEmptyFolderIsRefusedAndKept) {
  write(at("out/old"), "old");
  const auto target = prepare(at("out"));
  EXPECT_EQ(target.code(), Code::kConflict);
  EXPECT_NE(target.status().message().find(at("out")), std::string::npos);
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/old"}));
}

TEST_F(TargetFolderTest, AnEmptyFolderIsTaken) {
  fs::create_directory(at("out"));
  const auto target = prepare(at("out"));
  ASSERT_TRUE(target.ok());
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(read(at("out/x")), "1");
}

TEST_F(TargetFolderTest, AFolderThatIsFilledMeanwhileIsKept) {
  fs::create_directory(at("out"));
  {
    const auto target = prepare(at("out"));
    ASSERT_TRUE(target.ok());
    put(**target, "x", "1");
    write(at("out/theirs"), "theirs");
    EXPECT_EQ((*target)->publish().code(), Code::kConflict);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/theirs"}));
}

TEST_F(TargetFolderTest, ForceExchangesTheWholeFolder) {
  write(at("out/old"), "old");
  const auto target = prepare(at("out"), true);
  ASSERT_TRUE(target.ok());
  put(**target, "x", "1");
  EXPECT_EQ(read(at("out/old")), "old");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/x"}));
}

TEST_F(TargetFolderTest, WithoutAnExchangeTheOldFolderIsSetAsideFirst) {
  for (const int error : {EINVAL, ENOSYS, EOPNOTSUPP, EXDEV}) {
    fs::remove_all(at("out"));
    write(at("out/old"), "old");
    runtime_.disarm();
    runtime_.arm("materialize.exchange", error);
    {
      const auto target = prepare(at("out"), true);
      ASSERT_TRUE(target.ok());
      put(**target, "x", "1");
      const Status published = (*target)->publish();
      ASSERT_TRUE(published.ok()) << published.to_string();
      ASSERT_EQ((*target)->notes().size(), 1U);
      EXPECT_NE((*target)->notes()[0].find("in two steps"), std::string::npos) << (*target)->notes()[0];
    }
    EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/x"})) << error;
  }
}

TEST_F(TargetFolderTest, ASecondRenameThatFailsPutsTheOldFolderBack) {
  write(at("out/old"), "old");
  runtime_.arm("materialize.exchange", EINVAL);
  runtime_.arm("materialize.second_rename", EIO);
  {
    const auto target = prepare(at("out"), true);
    ASSERT_TRUE(target.ok());
    put(**target, "x", "1");
    EXPECT_EQ((*target)->publish().code(), Code::kUnavailable);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/old"}));
}

TEST_F(TargetFolderTest, WhatACrashBetweenTheRenamesLeavesSaysWhatItIs) {
  write(at("out/old"), "old");
  runtime_.arm("materialize.exchange", EINVAL);
  std::vector<std::string> between;
  runtime_.on("materialize.between_renames", [&] { between = names(); });
  const auto target = prepare(at("out"), true);
  ASSERT_TRUE(target.ok());
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_TRUE(std::ranges::any_of(between, [](const std::string& name) { return name.starts_with("out.replaced-"); }));
}

TEST_F(TargetFolderTest, AFolderThatCannotBeMovedGetsItsFilesOneByOne) {
  write(at("out/old/deep"), "old");
  runtime_.arm("materialize.exchange", EXDEV);
  runtime_.arm("materialize.set_aside", EXDEV);
  {
    const auto target = prepare(at("out"), true);
    ASSERT_TRUE(target.ok());
    put(**target, "x", "1");
    const Status published = (*target)->publish();
    ASSERT_TRUE(published.ok()) << published.to_string();
    EXPECT_FALSE((*target)->atomic());
    ASSERT_EQ((*target)->notes().size(), 1U);
    EXPECT_NE((*target)->notes()[0].find("one by one"), std::string::npos) << (*target)->notes()[0];
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/x"}));
}

TEST_F(TargetFolderTest, WhatCannotBeRemovedAfterwardsIsNamedAndNoFailure) {
  write(at("out/old"), "old");
  runtime_.arm("materialize.remove", EACCES);
  const auto target = prepare(at("out"), true);
  ASSERT_TRUE(target.ok());
  put(**target, "x", "1");
  const Status published = (*target)->publish();
  ASSERT_TRUE(published.ok()) << published.to_string();
  EXPECT_EQ(read(at("out/x")), "1");
  ASSERT_EQ((*target)->notes().size(), 1U);
  const std::string& note = (*target)->notes()[0];
  const auto left = note.find(at(".steelyard-"));
  ASSERT_NE(left, std::string::npos) << note;
  EXPECT_EQ(read(note.substr(left, note.find(':', left) - left) + "/old"), "old") << note;
}

TEST_F(TargetFolderTest, DotDotBehindALinkIsWhereTheSystemSaysItIs) {
  fs::create_directories(at("far/inside"));
  write(at("out/mine"), "mine");
  fs::create_directory_symlink(at("far/inside"), at("link"));
  const auto target = prepare(at("link/../out"));
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_EQ((*target)->path(), at("far/out"));
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(read(at("far/out/x")), "1");
  EXPECT_EQ(read(at("out/mine")), "mine");
}

TEST_F(TargetFolderTest, TheCurrentFolderIsFilledAndNotReplaced) {
  const fs::path before = fs::current_path();
  fs::create_directory(at("out"));
  fs::current_path(at("out"));
  const auto target = prepare(".");
  const bool prepared = target.ok();
  if (prepared) {
    put(**target, "x", "1");
    EXPECT_TRUE((*target)->publish().ok());
    EXPECT_FALSE((*target)->atomic());
    EXPECT_EQ(read("x"), "1") << "seen by whoever stands there";
  }
  EXPECT_EQ(prepare(".", true).code(), Code::kInvalidArgument) << "what is in it is not replaced";
  fs::current_path(before);
  EXPECT_TRUE(prepared);
}

TEST_F(TargetFolderTest, TheHomeFolderIsNotReplaced) {
  write(at("user/thesis"), "mine");
  EXPECT_EQ(TargetFolder::prepare(runtime_, at("user"), true, at("user")).code(), Code::kInvalidArgument);
  EXPECT_EQ(TargetFolder::prepare(runtime_, root_.path(), true, at("user")).code(), Code::kInvalidArgument);
  EXPECT_EQ(names(), (std::vector<std::string>{"user", "user/thesis"}));
}

TEST_F(TargetFolderTest, WhatWouldBeReplacedIsNamed) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) write(at("out/") + name, "mine");
  const Status status = prepare(at("out")).status();
  EXPECT_EQ(status.code(), Code::kConflict);
  EXPECT_NE(status.message().find("a, b, c, d, e and 2 more"), std::string::npos) << status.to_string();
}

TEST_F(TargetFolderTest, AFileIsNoTarget) {
  write(at("out"), "file");
  for (const bool force : {false, true}) EXPECT_EQ(prepare(at("out"), force).code(), Code::kInvalidArgument);
  EXPECT_EQ(prepare("").code(), Code::kInvalidArgument);
  EXPECT_EQ(read(at("out")), "file");
}

TEST_F(TargetFolderTest, ALinkToNothingAndAFileAboveAreNamed) {
  fs::create_directory_symlink(at("nowhere"), at("out"));
  const Status link = prepare(at("out")).status();
  EXPECT_EQ(link.code(), Code::kInvalidArgument);
  EXPECT_NE(link.message().find(at("out") + " is a link that leads to no folder"), std::string::npos);
  write(at("file"), "file");
  const Status above = prepare(at("file/out")).status();
  EXPECT_EQ(above.code(), Code::kInvalidArgument);
  EXPECT_NE(above.message().find(at("file")), std::string::npos);
  EXPECT_FALSE(fs::exists(at("nowhere")));
}

TEST_F(TargetFolderTest, ALinkIsFollowed) {
  fs::create_directory(at("real"));
  fs::create_directory_symlink(at("real"), at("out"));
  const auto target = prepare(at("out"));
  ASSERT_TRUE(target.ok());
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_TRUE(fs::is_symlink(at("out")));
  EXPECT_EQ(read(at("real/x")), "1");
}

/// The name that the next staging of this target would get, but for its random end.
std::string staging_of(TargetFolder& target) {
  return fs::read_symlink("/proc/self/fd/" + std::to_string(target.staging_fd())).native();
}

TEST_F(TargetFolderTest, RemovesWhatAKilledOneLeftButNotWhatIsInUse) {
  const auto live = prepare(at("out"));
  ASSERT_TRUE(live.ok());
  const std::string live_path = staging_of(**live);
  const std::string dead_path = live_path.substr(0, live_path.size() - 1) + (live_path.back() == '0' ? "1" : "0");
  write(dead_path + "/x", "dead");
  const auto next = prepare(at("out"));
  ASSERT_TRUE(next.ok());
  EXPECT_FALSE(fs::exists(dead_path));
  EXPECT_TRUE(fs::exists(live_path));
  EXPECT_TRUE(fs::exists(staging_of(**next)));
}

TEST_F(TargetFolderTest, OfTwoThatFillOneTargetOneWinsAndTheOtherIsTold) {
  auto first = prepare(at("out"));
  auto second = prepare(at("out"));
  ASSERT_TRUE(first.ok() && second.ok());
  put(**first, "x", "1");
  put(**second, "x", "2");
  EXPECT_TRUE((*second)->publish().ok());
  EXPECT_EQ((*first)->publish().code(), Code::kConflict);
  first->reset();
  second->reset();
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "out/x"}));
  EXPECT_EQ(read(at("out/x")), "2");
}

TEST_F(TargetFolderTest, AStagingThatIsRemovedBeforeItsLockIsMadeAgain) {
  // Another process found it without a lock and took it for abandoned.
  bool removed = false;
  runtime_.on("materialize.staging_made", [&] {
    if (std::exchange(removed, true)) return;
    for (const auto& entry : fs::directory_iterator(root_.path())) fs::remove_all(entry.path());
  });
  const auto target = prepare(at("out"));
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_TRUE(removed);
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(read(at("out/x")), "1");
}

TEST_F(TargetFolderTest, AStagingThatAnotherOneIsRemovingIsNotUsed) {
  UniqueFd remover;
  std::string taken;
  runtime_.on("materialize.staging_made", [&] {
    if (remover.valid()) return;
    taken = fs::directory_iterator(root_.path())->path().native();
    remover = UniqueFd(open(taken.c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_EQ(flock(remover.get(), LOCK_EX | LOCK_NB), 0);
  });
  const auto target = prepare(at("out"));
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  ASSERT_FALSE(taken.empty());
  EXPECT_NE(staging_of(**target), taken);
}

/// Targets whose parent may not be written get their files one by one. Without root's rights, which would ignore modes.
class InPlaceTargetTest : public TargetFolderTest {
 protected:
  void SetUp() override {
    fs::create_directories(at("parent/out"));
    was_ = geteuid();
    if (was_ == 0) {
      ASSERT_EQ(chown(root_.path().c_str(), kNobody, kNobody), 0);
      ASSERT_EQ(chown(at("parent").c_str(), kNobody, kNobody), 0);
      ASSERT_EQ(chown(at("parent/out").c_str(), kNobody, kNobody), 0);
      ASSERT_EQ(seteuid(kNobody), 0);
    }
    ASSERT_EQ(chmod(at("parent").c_str(), 0555), 0);
  }
  void TearDown() override {
    chmod(at("parent").c_str(), 0755);
    if (was_ == 0) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }
  std::vector<std::string> inside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(at("parent/out"))) {
      names.push_back(entry.path().filename().native());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  static constexpr uid_t kNobody = 65534;
  uid_t was_ = 0;
};

TEST_F(InPlaceTargetTest, FillsTheFolderAndSaysThatItIsNotAtomic) {
  const auto target = prepare(at("parent/out"));
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_FALSE((*target)->atomic());
  put(**target, "model.safetensors.index.json", "index");
  put(**target, "model.safetensors", "data");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(inside(), (std::vector<std::string>{"model.safetensors", "model.safetensors.index.json"}));
}

TEST_F(InPlaceTargetTest, WithoutForceNothingOfOthersIsRemoved) {
  {
    const auto target = prepare(at("parent/out"));
    ASSERT_TRUE(target.ok());
    put(**target, "x", "1");
    write(at("parent/out/theirs"), "theirs");
    EXPECT_EQ((*target)->publish().code(), Code::kConflict);
  }
  EXPECT_EQ(inside(), (std::vector<std::string>{"theirs"}));
}

TEST_F(InPlaceTargetTest, ForceReplacesWhatWasThere) {
  write(at("parent/out/old/deep"), "old");
  const auto target = prepare(at("parent/out"), true);
  ASSERT_TRUE(target.ok());
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(inside(), (std::vector<std::string>{"x"}));
}

TEST_F(InPlaceTargetTest, WhatAKilledOneLeftIsNoContent) {
  std::string dead;
  {
    const auto target = prepare(at("parent/out"));
    ASSERT_TRUE(target.ok());
    dead = staging_of(**target);
  }
  write(dead + "/x", "dead");
  const auto target = prepare(at("parent/out"));
  ASSERT_TRUE(target.ok()) << target.status().to_string();
  EXPECT_FALSE(fs::exists(dead));
  put(**target, "x", "1");
  ASSERT_TRUE((*target)->publish().ok());
  EXPECT_EQ(inside(), (std::vector<std::string>{"x"}));
}

TEST_F(InPlaceTargetTest, OfTwoThatFillOneTargetOneWinsAndTheOtherIsTold) {
  auto first = prepare(at("parent/out"));
  auto second = prepare(at("parent/out"));
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  put(**first, "x", "1");
  put(**second, "x", "2");
  EXPECT_TRUE((*second)->publish().ok());
  EXPECT_EQ((*first)->publish().code(), Code::kConflict);
  first->reset();
  second->reset();
  EXPECT_EQ(inside(), (std::vector<std::string>{"x"}));
  EXPECT_EQ(read(at("parent/out/x")), "2");
}

}  // namespace
}  // namespace steelyard::store
