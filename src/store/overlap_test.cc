#include "store/overlap.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

class Overlap : public ::testing::Test {
 protected:
  Overlap() {
    std::string pattern = (fs::temp_directory_path() / "overlap-XXXXXX").native();
    root_ = mkdtemp(pattern.data());
    fs::create_directories(root_ / "store/cold");
    fs::create_directories(root_ / "apart");
    fs::create_directory_symlink(root_ / "store", root_ / "link");
    options_.path = (root_ / "store").native();
  }
  ~Overlap() override { fs::remove_all(root_); }

  std::string at(const std::string& path) const { return (root_ / path).native(); }

  fs::path root_;
  StoreOptions options_;
};

TEST_F(Overlap, ThePathOfOneFolderInAnother) {
  EXPECT_EQ(path_within(at("store"), at("store")), "");
  EXPECT_EQ(path_within(at("store"), at("store/")), "");
  EXPECT_EQ(path_within(at("store"), at("link/cold")), "cold");
  EXPECT_EQ(path_within(at("link/"), at("store/cold/deep/er")), "cold/deep/er");
  EXPECT_EQ(path_within(root_.native(), at("apart/../store")), "store");
  EXPECT_EQ(path_within("/", "/"), "");
  EXPECT_EQ(path_within(at("store"), at("store-2")), std::nullopt);
  EXPECT_EQ(path_within(at("store"), root_.native()), std::nullopt);
  EXPECT_EQ(path_within(at("absent"), at("absent/x")), "x");
  EXPECT_EQ(path_within(at("absent"), at("abs")), std::nullopt);
}

TEST_F(Overlap, ATargetApart) {
  options_.cold_path = at("far/cold");
  for (const std::string& target : {at("apart"), at("apart/x"), at("store-2"), at("far/cold-2")}) {
    EXPECT_TRUE(check_target_apart(options_, target).ok()) << target;
  }
  for (const std::string& target : {at("store"), at("link"), at("link/x"), at("store/cold/groups/x"), root_.native(),
                                    std::string("/"), at("far"), at("far/cold"), at("far/cold/x")}) {
    EXPECT_EQ(check_target_apart(options_, target).code(), Code::kInvalidArgument) << target;
  }
}

TEST_F(Overlap, ASourceApart) {
  EXPECT_TRUE(check_source_apart(options_, at("apart"), {"model.safetensors"}).ok());
  // The store lies in the source, and nothing of it is taken.
  EXPECT_TRUE(check_source_apart(options_, root_.native(), {"apart/model.safetensors", "store-2/x"}).ok());
  const Status taken = check_source_apart(options_, root_.native(), {"a", "store/catalog.db"});
  EXPECT_EQ(taken.code(), Code::kInvalidArgument);
  EXPECT_NE(taken.hint().find("--exclude 'store/*'"), std::string::npos) << taken.hint();
  EXPECT_EQ(check_source_apart(options_, at("store"), {"catalog.db"}).code(), Code::kInvalidArgument);
  EXPECT_EQ(check_source_apart(options_, at("link/cold"), {"store.json"}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace steelyard::store
