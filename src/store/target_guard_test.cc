#include "store/target_guard.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>

#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

/// Stands in a folder of its own.
class TargetGuardTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    fs::create_directories(at("here/inside"));
    fs::create_directories(at("user/models"));
    fs::current_path(at("here"));
  }
  void TearDown() override { fs::current_path(before_); }
  std::string at(const std::string& name) const { return root_.path() + "/" + name; }
  void expect_refused(const std::string& path, std::string_view why) const {
    const Status status = check_replaceable(path, at("user"));
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << path;
    EXPECT_NE(status.message().find(why), std::string::npos) << status.to_string();
    EXPECT_FALSE(status.hint().empty());
  }

  tiers::TestFolder root_;
  fs::path before_;
};

TEST_F(TargetGuardTest, FoldersOfTheSystemAreKept) {
  for (const char* path : {"/", "/etc", "/home", "/root", "/tmp", "/usr", "/var"}) expect_refused(path, "the system");
}

TEST_F(TargetGuardTest, TheHomeFolderAndTheCurrentOneAreKept) {
  expect_refused(at("user"), "it is your home folder");
  expect_refused(at("here"), "it is the current folder");
  expect_refused(root_.path(), "it holds");
  EXPECT_TRUE(is_current_folder(at("here")));
  EXPECT_FALSE(is_current_folder(at("here/inside")));
  EXPECT_FALSE(is_current_folder(root_.path()));
}

TEST_F(TargetGuardTest, AFolderOfItsOwnIsReplaced) {
  EXPECT_TRUE(check_replaceable(at("user/models"), at("user")).ok());
  EXPECT_TRUE(check_replaceable(at("here/inside"), at("user")).ok());
  EXPECT_TRUE(check_replaceable(at("user/models"), "").ok());
}

TEST_F(TargetGuardTest, WhatIsMountedInItKeepsAFolder) {
  const std::string place = at("user/models/with space");
  fs::create_directory(place);
  if (geteuid() != 0 || mount("tmpfs", place.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "a tmpfs cannot be mounted here";
  }
  expect_refused(at("user/models"), "mounted in it, at " + place);
  EXPECT_TRUE(check_replaceable(place, "").ok()) << "a mount point itself is a target";
  umount2(place.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace steelyard::store
