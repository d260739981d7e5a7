// Which instance a process finds, whose it is, and what becomes of it while it is in use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "hash/sha256.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::tiers {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const AttemptName kAttempt{std::string(64, 'a'), 1, std::string(32, 'b')};
const ObjectName kObject{kAttempt, ObjectKind::kPayload, 0};

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class MemoryOpen : public testing::Test {
 protected:
  void SetUp() override {
    if (!folder_.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
  }
  Result<std::unique_ptr<Tier>> open(bool create = true) {
    MemoryOptions options = memory_test_options(folder_.path());
    options.create = create;
    return open_memory(runtime_, options);
  }
  std::string instance_file() { return path_ + "/instance-" + runtime_.epoch(); }
  static Status put(Tier& tier, const ObjectName& name, const std::vector<std::byte>& bytes) {
    SY_ASSIGN_OR_RETURN(auto pending, tier.start_put(name, bytes, hash::sha256(bytes)));
    return pending->finish().status();
  }

  TestTmpfs folder_;
  FaultRuntime runtime_;
  const std::string path_ = instance_path(folder_.path());
  const std::vector<std::byte> bytes_ = std::vector<std::byte>(5000, std::byte{7});
};

TEST_F(MemoryOpen, TheInstanceFileSaysWhichAndWhose) {
  EXPECT_EQ(open(false).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(path_));
  runtime_.set_epoch("6a3f0c1e-52d9-4c3f-9d0a-0b1c2d3e4f50");
  const auto tier = open();
  ASSERT_TRUE(tier.ok()) << tier.status().to_string();
  const std::string id = *(*tier)->instance();
  EXPECT_EQ(
      content_of(path_ + "/instance-6a3f0c1e-52d9-4c3f-9d0a-0b1c2d3e4f50"),
      "{\"boot_id\":\"6a3f0c1e-52d9-4c3f-9d0a-0b1c2d3e4f50\",\"format\":\"steelyard-memory-tier\",\"instance\":\"" +
          id + "\",\"layout_version\":1,\"store_id\":\"0123456789abcdef0123456789abcdef\"}\n");
  EXPECT_EQ(id.substr(0, 16), hash::sha256(as_bytes("6a3f0c1e-52d9-4c3f-9d0a-0b1c2d3e4f50")).hex().substr(0, 16));
  EXPECT_EQ(*(*open(false))->instance(), id);
  EXPECT_EQ((*tier)->traits().name, "hot");
}

TEST_F(MemoryOpen, ProcessesThatMakeItAtOnceAgree) {
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      children.push_back(::fork());
      if (children.back() == 0) {
        const auto tier = open();
        const std::string id = tier.ok() ? *(*tier)->instance() : tier.status().to_string().substr(0, 32);
        ::_exit(::write(ends[1], id.data(), id.size()) == static_cast<ssize_t>(id.size()) ? 0 : 1);
      }
    }
    ::close(ends[1]);
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    std::set<std::string> ids;
    std::string id(32, '\0');
    while (::read(ends[0], id.data(), id.size()) == static_cast<ssize_t>(id.size())) ids.insert(id);
    ::close(ends[0]);
    ASSERT_EQ(ids.size(), 1U) << *ids.begin() << " and another";
    EXPECT_EQ(*(*open())->instance(), *ids.begin());
    EXPECT_EQ(std::distance(fs::directory_iterator(path_), fs::directory_iterator()), 1) << "no temporary name stays";
    fs::remove_all(path_);
  }
}

TEST_F(MemoryOpen, ACreatorKilledAnywhereIsFollowedByTheNext) {
  for (const char* point : {"tier.after_instance_folder", "tier.instance_write", "tier.before_instance",
                            "tier.instance_link", "tier.after_instance"}) {
    const pid_t child = ::fork();
    if (child == 0) {
      runtime_.on(point, [] { ::_exit(42); });
      ::_exit(open().ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 42) << point;
    const auto tier = open();
    ASSERT_TRUE(tier.ok()) << point << ": " << tier.status().to_string();
    EXPECT_TRUE(put(**tier, kObject, bytes_).ok());
    fs::remove_all(path_);
  }
}

TEST_F(MemoryOpen, InstancesOfOneFolderAreKnownByTheirIds) {
  const auto made = [&](const std::string& hot_path) {
    MemoryOptions options = memory_test_options(hot_path);
    return *(*open_memory(runtime_, options))->instance();
  };
  fs::create_directories(path_ + "/a");
  fs::create_directories(path_ + "/b");
  const std::string first = made(path_ + "/a");
  const std::string elsewhere = made(path_ + "/b");
  fs::remove_all(instance_path(path_ + "/a"));
  const std::string second = made(path_ + "/a");
  constexpr std::size_t kBootDigits = 16;
  constexpr std::size_t kPlaceDigits = 24;
  EXPECT_NE(first, second);
  EXPECT_EQ(first.substr(0, kPlaceDigits), second.substr(0, kPlaceDigits));
  EXPECT_EQ(first.substr(0, kBootDigits), elsewhere.substr(0, kBootDigits));
  EXPECT_NE(first.substr(0, kPlaceDigits), elsewhere.substr(0, kPlaceDigits));
}

TEST_F(MemoryOpen, AnotherBootIsAnotherInstance) {
  const auto before = open();
  ASSERT_TRUE(before.ok());
  const std::string old_instance = *(*before)->instance();
  runtime_.set_epoch("11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(open(false).code(), Code::kNotFound);
  const auto after = open();
  ASSERT_TRUE(after.ok());
  const std::string new_instance = *(*after)->instance();
  EXPECT_NE(new_instance, old_instance);
  runtime_.set_epoch("");
}

TEST_F(MemoryOpen, WipedWhileItIsUsedIsUnknownAndMappingsStay) {
  auto tier = std::move(open()).value();
  const std::string id = *tier->instance();
  ASSERT_TRUE(put(*tier, kObject, bytes_).ok());
  const AddressRange range = AddressRange::reserve(bytes_.size()).value();
  ASSERT_TRUE(tier->map(kObject, bytes_.size(), range, 0).ok());
  auto reading = tier->start_read(kObject, {});
  ASSERT_TRUE(reading.ok());
  auto stream = tier->open_put({kAttempt, ObjectKind::kPayload, 1}, bytes_.size(), hash::sha256(bytes_));
  const std::vector<std::byte> others(6000, std::byte{9});
  auto writing = tier->start_put({kAttempt, ObjectKind::kPayload, 2}, others, hash::sha256(others));
  ASSERT_TRUE(writing.ok());

  fs::remove_all(path_);
  const auto all_seven = [&] {
    const auto view = range.view(0, bytes_.size());
    return std::all_of(view.begin(), view.end(), [](std::byte value) { return value == std::byte{7}; });
  };
  EXPECT_TRUE(all_seven());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(tier->instance().code(), Code::kUnavailable);
    EXPECT_THAT(tier->instance().status().message(), HasSubstr(id));
    EXPECT_EQ(tier->stat(kObject).code(), Code::kUnavailable);
    EXPECT_EQ(tier->start_read(kObject, {}).code(), Code::kUnavailable);
    EXPECT_EQ(tier->map(kObject, bytes_.size(), range, 0).code(), Code::kUnavailable);
    EXPECT_EQ(tier->list_attempt(kAttempt, nullptr).code(), Code::kUnavailable);
    EXPECT_EQ(tier->list_group(kAttempt.group).code(), Code::kUnavailable);
    EXPECT_EQ(tier->list_groups().code(), Code::kUnavailable);
    EXPECT_EQ(tier->list_content().code(), Code::kUnavailable);
    EXPECT_EQ(put(*tier, {kAttempt, ObjectKind::kPayload, 3}, others).code(), Code::kUnavailable);
    EXPECT_EQ(tier->reserve(std::string(32, 'c'), 4096).code(), Code::kUnavailable);
    // Mounted anew: it has the same path and is another one.
    if (round == 0) {
      EXPECT_EQ((*writing)->finish().status().code(), Code::kUnavailable);
      const auto anew = open();
      ASSERT_TRUE(anew.ok());
      EXPECT_NE(*(*anew)->instance(), id);
      EXPECT_EQ((*anew)->stat(kObject).code(), Code::kNotFound);
    }
  }
  EXPECT_TRUE(tier->remove(kObject).ok());
  EXPECT_TRUE(tier->remove_attempt(kAttempt).ok() || tier->remove_attempt(kAttempt).code() == Code::kUnavailable);
  tier.reset();
  EXPECT_TRUE(all_seven());
}

TEST_F(MemoryOpen, WhatIsNoInstanceOfThisStoreIsRefused) {
  ASSERT_TRUE(open().ok());
  const std::string whole = content_of(instance_file());
  const auto refused = [&](const std::string& text, Code code, const std::string& why) {
    fs::remove(instance_file());
    std::ofstream(instance_file()) << text;
    const Status status = open().status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_THAT(status.message(), HasSubstr(instance_file()));
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  refused("", Code::kCorrupt, "format");
  refused(whole.substr(0, 50), Code::kCorrupt, "format");
  refused("[]", Code::kCorrupt, "format");
  refused(with("steelyard-memory-tier", "another"), Code::kCorrupt, "format");
  refused(with("\"layout_version\":1", "\"layout_version\":2"), Code::kUnavailable, "version 2");
  refused(with("\"layout_version\":1", "\"layout_version\":\"1\""), Code::kCorrupt, "layout_version");
  refused(with("0123456789abcdef0123456789abcdef", std::string(32, '1')), Code::kCorrupt, std::string(32, '1'));
  refused(with(runtime_.epoch(), std::string(36, '2')), Code::kCorrupt, std::string(36, '2'));
  refused(with("\"instance\":\"", "\"instance\":\"x"), Code::kCorrupt, "32 lower-case hex digits");
  refused(whole + " ", Code::kCorrupt, "canonical");
  fs::remove(instance_file());
  std::ofstream(instance_file()) << whole;
  EXPECT_TRUE(open().ok());

  fs::remove_all(path_);
  std::ofstream(path_) << "a file";
  EXPECT_FALSE(open().ok());
  fs::remove(path_);
  fs::create_directory_symlink("/dev/shm", path_);
  EXPECT_FALSE(open().ok()) << "a link is not followed";
}

TEST_F(MemoryOpen, OnlyATmpfsIsTaken) {
  const TestFolder disk("/var/tmp");
  MemoryOptions options = memory_test_options(disk.path());
  const Status status = open_memory(runtime_, options).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(disk.path()));
  EXPECT_THAT(status.hint(), HasSubstr("hot.path"));
  EXPECT_TRUE(fs::is_empty(disk.path()));
  options = memory_test_options(folder_.path());
  options.store_id = "../../etc";
  EXPECT_EQ(open_memory(runtime_, options).code(), Code::kInvalidArgument);
}

TEST_F(MemoryOpen, APathThatCannotBeUsedIsASettingThatIsWrong) {
  MemoryOptions options = memory_test_options(folder_.path());
  std::ofstream(folder_.path() + "/file") << "no folder";
  const auto refused = [&](const std::string& path, const std::string& found) {
    options.path = path;
    for (const Status& status : {open_memory(runtime_, options).status(), look_at_memory_place(options).status()}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
      EXPECT_THAT(status.message(), HasSubstr("hot.path " + found));
      EXPECT_THAT(status.hint(), HasSubstr("--hot-path"));
    }
  };
  refused("", "is empty");
  refused("shm", "shm is relative");
  refused(folder_.path() + "/absent", folder_.path() + "/absent does not exist");
  refused(folder_.path() + "/file", folder_.path() + "/file is no folder");
  refused(folder_.path() + "/" + std::string(300, 'x'), folder_.path() + "/xxx");
}

TEST_F(MemoryOpen, APathThatThisUserMayNotUseIsSaidSo) {
  const MemoryOptions options = memory_test_options(folder_.path());
  for (const int error : {EACCES, EROFS}) {
    runtime_.arm("tier.mkdir", error);
    const Status status = open_memory(runtime_, options).status();
    runtime_.disarm();
    EXPECT_EQ(status.code(), Code::kUnauthorized) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("hot.path " + folder_.path()));
    EXPECT_THAT(status.hint(), HasSubstr("--hot-path"));
  }
}

TEST_F(MemoryOpen, AStrangersInstanceIsRefusedWhereEverybodyMayMakeOne) {
  ASSERT_TRUE(open().ok());
  if (::geteuid() != 0 || ::chown(path_.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root gives folders away";
  EXPECT_TRUE(open().ok()) << "the folder above is private";
  ASSERT_EQ(::chmod(folder_.path().c_str(), 01777), 0);
  const Status status = open().status();
  EXPECT_EQ(status.code(), Code::kUnauthorized);
  EXPECT_THAT(status.message(), HasSubstr("12345"));
  MemoryOptions options = memory_test_options(folder_.path());
  options.trusted_owner = 12345;
  EXPECT_TRUE(open_memory(runtime_, options).ok()) << "the store's owner is trusted";
}

TEST_F(MemoryOpen, ModesFollowTheUmaskAndAGroupIsPassedOn) {
  const auto mode = [](const std::string& path) {
    struct stat there {};
    EXPECT_EQ(::stat(path.c_str(), &there), 0) << path;
    return there.st_mode & 07777U;
  };
  const std::string object = path_ + "/groups/aa/" + kAttempt.group + "/1-" + kAttempt.operation + "/p/00000000";
  const mode_t before = ::umask(077);
  ASSERT_TRUE(put(**open(), kObject, bytes_).ok());
  EXPECT_EQ(mode(path_), 0700U);
  EXPECT_EQ(mode(object), 0400U);
  fs::remove_all(path_);
  ::umask(002);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 02775), 0);
  ASSERT_TRUE(put(**open(), kObject, bytes_).ok());
  EXPECT_EQ(mode(path_), 02775U);
  EXPECT_EQ(mode(fs::path(object).parent_path()), 02775U);
  EXPECT_EQ(mode(object), 0444U);
  EXPECT_EQ(mode(instance_file()), 0444U);
  ::umask(before);
}

TEST_F(MemoryOpen, WithoutPermissionToWriteItIsReadAndMapped) {
  ASSERT_TRUE(put(**open(), kObject, bytes_).ok());
  MemoryOptions options = memory_test_options(folder_.path());
  options.read_only = true;
  const auto tier = open_memory(runtime_, options);
  ASSERT_TRUE(tier.ok()) << tier.status().to_string();
  const AddressRange range = AddressRange::reserve(bytes_.size()).value();
  EXPECT_TRUE((*tier)->map(kObject, bytes_.size(), range, 0).ok());
  EXPECT_EQ(put(**tier, {kAttempt, ObjectKind::kPayload, 1}, bytes_).code(), Code::kUnauthorized);
  EXPECT_EQ((*tier)->remove(kObject).code(), Code::kUnauthorized);
  EXPECT_EQ((*tier)->reserve(std::string(32, 'c'), 1).code(), Code::kUnauthorized);
  EXPECT_TRUE((*tier)->available_bytes().ok());
}

}  // namespace
}  // namespace steelyard::tiers
