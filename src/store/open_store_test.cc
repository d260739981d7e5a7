#include "store/open_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "catalog/catalog.h"
#include "store/group_observer.h"
#include "store/store_lock.h"
#include "tiers/directory/test_folder.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

class OpenStoreTest : public testing::Test {
 protected:
  OpenStoreTest() { options_.path = root_.path() + "/a/store"; }

  Result<StoreParts> open(OpenMode mode) { return open_parts(runtime_, options_, mode); }
  std::string cold() const { return options_.cold_path.empty() ? options_.path + "/cold" : options_.cold_path; }

  tiers::TestFolder root_;
  tiers::FaultRuntime runtime_;
  StoreOptions options_;
};

TEST_F(OpenStoreTest, OnlyCreateMakesAStore) {
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kWrite}) {
    const auto parts = open(mode);
    EXPECT_EQ(parts.code(), Code::kNotFound);
    EXPECT_NE(parts.status().message().find(options_.path), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(root_.path()));
  const auto made = open(OpenMode::kCreate);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_FALSE(made->read_only);
  const auto again = open(OpenMode::kRead);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->store_id, made->store_id);
}

TEST_F(OpenStoreTest, AFileInTheWayIsNamed) {
  std::ofstream(root_.path() + "/a") << "file";
  EXPECT_EQ(open(OpenMode::kCreate).code(), Code::kInvalidArgument);
  options_.path = root_.path() + "/a";
  EXPECT_EQ(open(OpenMode::kCreate).code(), Code::kInvalidArgument);
}

TEST_F(OpenStoreTest, AFolderWithOtherFilesIsNotTaken) {
  fs::create_directories(options_.path);
  std::ofstream(options_.path + "/thesis.tex") << "mine";
  const Status status = open(OpenMode::kCreate).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("thesis.tex"), std::string::npos) << status.to_string();
  EXPECT_NE(status.hint().find("--store DIR or STEELYARD_STORE"), std::string::npos) << status.to_string();
  EXPECT_EQ(std::distance(fs::directory_iterator(options_.path), {}), 1);
}

TEST_F(OpenStoreTest, AColdTierIsNotMadeAmongOtherFiles) {
  options_.cold_path = root_.path() + "/volume";
  fs::create_directories(options_.cold_path + "/datasets");
  const Status status = open(OpenMode::kCreate).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("datasets"), std::string::npos) << status.to_string();
  EXPECT_NE(status.hint().find("--cold-path"), std::string::npos) << status.to_string();
}

TEST_F(OpenStoreTest, WhatACreatorLeftIsNoStranger) {
  fs::create_directories(options_.path + "/lost+found");
  fs::create_directories(options_.path + "/cold");
  for (const char* name :
       {"catalog.turn", "catalog.next", "catalog.db.new-0123456789abcdef", "cold/.store.json-01234567"}) {
    std::ofstream(options_.path + "/" + name) << "";
  }
  const auto parts = open(OpenMode::kCreate);
  EXPECT_TRUE(parts.ok()) << parts.status().to_string();
}

TEST_F(OpenStoreTest, ACreatorThatDiedAfterTheColdTierIsFollowed) {
  const std::string id(32, 'a');
  tiers::DirectoryOptions cold_options;
  cold_options.path = cold();
  cold_options.store_id = id;
  cold_options.create = true;
  ASSERT_TRUE(tiers::open_directory(runtime_, cold_options).ok());
  EXPECT_EQ(open(OpenMode::kRead).code(), Code::kNotFound);
  const auto parts = open(OpenMode::kCreate);
  ASSERT_TRUE(parts.ok()) << parts.status().to_string();
  EXPECT_EQ(parts->store_id, id);
}

TEST_F(OpenStoreTest, WhoMayWriteMustBeSeenByARecovery) {
  ASSERT_TRUE(open(OpenMode::kCreate).ok());
  runtime_.arm("store.share", ENOLCK);
  for (const OpenMode mode : {OpenMode::kCreate, OpenMode::kWrite}) {
    const Status status = open(mode).status();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("lock " + options_.path), std::string::npos) << status.to_string();
  }
  EXPECT_TRUE(open(OpenMode::kRead).ok());
  runtime_.arm("store.share", EOPNOTSUPP);
  EXPECT_TRUE(open(OpenMode::kWrite).ok()) << "a filesystem without locks";
  runtime_.arm("store.share", EWOULDBLOCK);
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kWrite}) EXPECT_EQ(open(mode).code(), Code::kBusy);
}

TEST_F(OpenStoreTest, TheLockIsGivenBackWhenAllElseIsClosed) {
  Code while_closing = Code::kOk;
  {
    const auto parts = open(OpenMode::kCreate);
    ASSERT_TRUE(parts.ok()) << parts.status().to_string();
    TierObserver observer(*parts->cold);
    catalog::Catalog catalog(runtime_, *parts->log, observer, {});
    metadata::BeginWeightImport begin;
    begin.lineage = {"default", "default", "model", "main"};
    begin.token = std::string(32, 'a');
    begin.ttl_ms = 60'000;
    begin.holder = "test";
    ASSERT_TRUE(catalog.begin_weight_import(begin).ok());
    runtime_.on("log.close", [&] { while_closing = own_store(options_.path).code(); });
  }
  EXPECT_EQ(while_closing, Code::kBusy);
  EXPECT_TRUE(own_store(options_.path).ok());
}

TEST_F(OpenStoreTest, TwoCreatorsMakeOneStore) {
  std::string other_id;
  bool inside = false;
  runtime_.on("tier.before_store_file", [&] {
    if (std::exchange(inside, true)) return;
    const auto other = open_parts(real_runtime(), options_, OpenMode::kCreate);
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    other_id = other->store_id;
  });
  const auto parts = open(OpenMode::kCreate);
  ASSERT_TRUE(parts.ok()) << parts.status().to_string();
  EXPECT_EQ(parts->store_id, other_id);
}

TEST_F(OpenStoreTest, ObjectsWithoutTheirCatalogAreNeverAnEmptyStore) {
  {
    const auto parts = open(OpenMode::kCreate);
    ASSERT_TRUE(parts.ok());
    ASSERT_TRUE(parts->cold->put_deleting(std::string(64, 'a'), "going").ok());
  }
  fs::remove(options_.path + "/catalog.db");
  fs::remove(options_.path + "/catalog.db-wal");
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kWrite, OpenMode::kCreate}) {
    const auto parts = open(mode);
    EXPECT_EQ(parts.code(), Code::kUnavailable);
    EXPECT_NE(parts.status().hint().find("recover"), std::string::npos) << parts.status().hint();
  }
  EXPECT_FALSE(fs::exists(options_.path + "/catalog.db"));
}

TEST_F(OpenStoreTest, ACatalogWithoutItsColdTierIsNotGivenANewOne) {
  options_.cold_path = root_.path() + "/volume/cold";
  ASSERT_TRUE(open(OpenMode::kCreate).ok());
  fs::rename(root_.path() + "/volume", root_.path() + "/unmounted");
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kCreate}) {
    const auto parts = open(mode);
    EXPECT_EQ(parts.code(), Code::kUnavailable);
    EXPECT_NE(parts.status().message().find(options_.cold_path), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(root_.path() + "/volume"));
}

TEST_F(OpenStoreTest, AnotherStoresColdTierIsRefused) {
  options_.cold_path = root_.path() + "/cold";
  ASSERT_TRUE(open(OpenMode::kCreate).ok());
  const std::string first = options_.path;
  options_.path = root_.path() + "/b/store";
  options_.cold_path.clear();
  ASSERT_TRUE(open(OpenMode::kCreate).ok());
  options_.cold_path = root_.path() + "/cold";
  const auto parts = open(OpenMode::kRead);
  EXPECT_EQ(parts.code(), Code::kCorrupt) << parts.status().to_string();
}

TEST_F(OpenStoreTest, AFailureOnTheWayLeavesSomethingTheNextCallCompletes) {
  for (const char* point : {"tier.mkdir", "tier.open_tmp", "tier.link"}) {
    runtime_.disarm();
    runtime_.arm(point, EIO);
    EXPECT_FALSE(open(OpenMode::kCreate).ok()) << point;
  }
  runtime_.disarm();
  EXPECT_TRUE(open(OpenMode::kCreate).ok());
}

TEST_F(OpenStoreTest, TheFoldersAboveANewStoreAreMadeDurable) {
  runtime_.arm("store.sync_folder", EIO);
  const auto failed = open(OpenMode::kCreate);
  EXPECT_EQ(failed.code(), Code::kUnavailable);
  EXPECT_NE(failed.status().message().find("fsync"), std::string::npos);
  runtime_.disarm();
  fs::remove_all(root_.path() + "/a");
  const auto before = runtime_.passes("store.sync_folder");
  options_.path += "/";
  ASSERT_TRUE(open(OpenMode::kCreate).ok());
  EXPECT_EQ(runtime_.passes("store.sync_folder") - before, 2U) << "of the folders that hold `a` and `store`";
}

TEST_F(OpenStoreTest, AColdTierOfNobodyIsNotTakenByASecondStore) {
  // The cold tier is there with objects, the store's folder is new: its catalog is elsewhere.
  options_.cold_path = root_.path() + "/cold";
  {
    const auto parts = open(OpenMode::kCreate);
    ASSERT_TRUE(parts.ok());
    ASSERT_TRUE(parts->cold->put_deleting(std::string(64, 'a'), "going").ok());
  }
  options_.path = root_.path() + "/new";
  EXPECT_EQ(open(OpenMode::kCreate).code(), Code::kUnavailable);
  EXPECT_FALSE(fs::exists(root_.path() + "/new/catalog.db"));
}

}  // namespace
}  // namespace steelyard::store
