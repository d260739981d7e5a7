// Whose folder it is: store.json, foreign files, newer layouts, reading without permission to write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "hash/sha256.h"
#include "tiers/directory/test_folder.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string content_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class DirectoryOpen : public testing::Test {
 protected:
  Status open(const DirectoryOptions& options) { return open_directory(real_runtime(), options).status(); }
  TestFolder folder_;
  const std::string path_ = folder_.path() + "/deep/tier";
};

TEST_F(DirectoryOpen, ANewFolderGetsItsStoreFile) {
  ASSERT_TRUE(open(test_options(path_)).ok());
  EXPECT_EQ(content_of(path_ + "/store.json"),
            "{\"format\":\"steelyard-directory-tier\",\"layout_version\":1,"
            "\"store_id\":\"0123456789abcdef0123456789abcdef\"}\n");
  EXPECT_EQ(*directory_store_id(path_), test_options(path_).store_id);
  auto again = test_options(path_ + "/");
  again.create = false;
  EXPECT_TRUE(open(again).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), fs::directory_iterator()), 1);
}

TEST_F(DirectoryOpen, NothingIsMadeUnlessAskedFor) {
  auto options = test_options(path_);
  options.create = false;
  EXPECT_EQ(open(options).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(directory_store_id(path_).code(), Code::kNotFound);
  fs::create_directories(path_);
  EXPECT_EQ(open(options).code(), Code::kNotFound);
  options.create = options.read_only = true;
  EXPECT_EQ(open(options).code(), Code::kNotFound);
  EXPECT_TRUE(fs::is_empty(path_));
}

TEST_F(DirectoryOpen, ForeignFilesAreRefusedByName) {
  fs::create_directories(path_ + "/lost+found");
  ASSERT_TRUE(open(test_options(path_)).ok()) << "a new filesystem is empty";
  const std::string other = folder_.path() + "/other";
  fs::create_directories(other);
  std::ofstream(other + "/thesis.doc") << "mine";
  const Status status = open(test_options(other));
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("thesis.doc"));
  EXPECT_FALSE(fs::exists(other + "/store.json"));
}

TEST_F(DirectoryOpen, AnotherStoresFolderIsRefused) {
  ASSERT_TRUE(open(test_options(path_)).ok());
  auto other = test_options(path_);
  other.store_id = std::string(32, '9');
  const Status status = open(other);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr(test_options(path_).store_id));
  EXPECT_THAT(status.message(), HasSubstr(other.store_id));
}

TEST_F(DirectoryOpen, NewerLayoutAndDamageAreToldApart) {
  fs::create_directories(path_);
  const std::string file = path_ + "/store.json";
  const auto code_with = [&](const std::string& text) {
    std::ofstream(file) << text;
    return open(test_options(path_)).code();
  };
  const std::string id = test_options(path_).store_id;
  EXPECT_EQ(code_with("{\"format\":\"steelyard-directory-tier\",\"layout_version\":2,\"more\":[1]}"),
            Code::kUnavailable);
  EXPECT_EQ(code_with(""), Code::kCorrupt);
  EXPECT_EQ(code_with("{"), Code::kCorrupt);
  EXPECT_EQ(code_with("[]"), Code::kCorrupt);
  EXPECT_EQ(code_with("{\"layout_version\":1,\"store_id\":\"" + id + "\"}"), Code::kCorrupt);
  EXPECT_EQ(code_with("{\"format\":\"steelyard-directory-tier\",\"layout_version\":1,\"store_id\":\"x\"}"),
            Code::kCorrupt);
  EXPECT_EQ(code_with("{\"format\":\"steelyard-directory-tier\",\"layout_version\":\"1\",\"store_id\":\"" + id + "\"}"),
            Code::kCorrupt);
  EXPECT_EQ(code_with("{ \"format\":\"steelyard-directory-tier\",\"layout_version\":1,\"store_id\":\"" + id + "\"}"),
            Code::kCorrupt);
}

TEST_F(DirectoryOpen, OfManyCreatorsOneWinsAndNothingElseIsLeft) {
  for (int round = 0; round < 20; ++round) {
    const std::string path = folder_.path() + "/race" + std::to_string(round);
    std::vector<Status> results(6);
    {
      std::vector<std::unique_ptr<Task>> tasks;
      for (std::size_t i = 0; i < results.size(); ++i) {
        tasks.push_back(real_runtime().spawn("create", [&, i] {
          auto options = test_options(path);
          options.store_id = std::string(32, static_cast<char>('a' + i / 2));
          results[i] = open(options);
        }));
      }
    }
    const std::string winner = *directory_store_id(path);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool same = winner == std::string(32, static_cast<char>('a' + i / 2));
      EXPECT_EQ(results[i].code(), same ? Code::kOk : Code::kCorrupt) << results[i].to_string();
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 1);
  }
}

TEST_F(DirectoryOpen, ReserveIsKeptFree) {
  auto options = test_options(path_);
  options.reserve_free_bytes = 0;
  auto all = open_directory(real_runtime(), options);
  const std::uint64_t free_bytes = *(*all)->available_bytes();
  options.reserve_free_bytes = free_bytes / 2;
  auto half = open_directory(real_runtime(), options);
  EXPECT_LE(*(*half)->available_bytes(), free_bytes - free_bytes / 4);
  options.reserve_free_bytes = UINT64_MAX;
  auto none = open_directory(real_runtime(), options);
  EXPECT_EQ(*(*none)->available_bytes(), 0U);
  options.reserve_free_bytes.reset();
  auto usual = open_directory(real_runtime(), options);
  EXPECT_LT(*(*usual)->available_bytes(), free_bytes);
}

/// Runs in a child that has given up root; the child's exit code is the number of the first check that failed.
int as_nobody(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(99);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

TEST_F(DirectoryOpen, AnUnprivilegedUserReadsWithoutWriting) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  const ObjectName name{{std::string(64, 'a'), 1}, ObjectKind::kPayload, 0};
  const std::vector<std::byte> bytes(2 * 1024 * 1024 + 5, std::byte{3});
  {
    auto tier = open_directory(real_runtime(), test_options(path_));
    ASSERT_TRUE(tier.ok());
    auto put = (*tier)->start_put(name, bytes, hash::sha256(bytes));
    ASSERT_TRUE((*put)->finish().ok());
    ASSERT_TRUE((*tier)->put_committed(name.in, "record").ok());
  }
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  EXPECT_EQ(as_nobody([&] {
              auto options = test_options(path_);
              options.create = false;
              options.read_only = true;
              auto tier = open_directory(real_runtime(), options);
              if (!tier.ok()) return 1;
              std::vector<std::byte> found(bytes.size());
              if (!(*tier)->read(name, {{0, found}}).ok() || found != bytes) return 2;
              if (!(*tier)->stat(name).ok() || (*tier)->list_attempt(name.in)->size() != 1) return 3;
              if (*(*tier)->read_committed(name.in) != "record") return 4;
              if (!(*tier)->usage().ok()) return 5;
              if ((*tier)->start_put(name, bytes, hash::sha256(bytes)).code() != Code::kUnauthorized) return 6;
              if ((*tier)->remove(name).code() != Code::kUnauthorized) return 7;
              // Opened for writing, the filesystem itself refuses.
              options.read_only = false;
              auto writable = open_directory(real_runtime(), options);
              const ObjectName other{name.in, ObjectKind::kPayload, 1};
              const std::vector<std::byte> few(10);
              if (!writable.ok()) return 8;
              const auto refused = (*writable)->start_put(other, few, hash::sha256(few));
              return refused.code() == Code::kUnauthorized ? 0 : 9;
            }),
            0);
}

}  // namespace
}  // namespace steelyard::tiers
