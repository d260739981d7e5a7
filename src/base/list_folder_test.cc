#include "base/list_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace steelyard {
namespace {

namespace fs = std::filesystem;

TEST(ListFolderTest, EveryEntryOrWhyNot) {
  std::string name = (fs::temp_directory_path() / "sy-list-XXXXXX").native();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path folder(name);
  std::error_code error = std::make_error_code(std::errc::io_error);
  EXPECT_TRUE(list_folder(folder, error).empty());
  EXPECT_FALSE(error) << "an earlier error does not stay";
  ASSERT_EQ(mkdir((folder / "inner").c_str(), 0755), 0);
  ASSERT_EQ(symlink("nowhere", (folder / ".link").c_str()), 0);
  EXPECT_THAT(list_folder(folder, error), testing::UnorderedElementsAre(folder / "inner", folder / ".link"));
  EXPECT_FALSE(error);
  EXPECT_TRUE(list_folder(folder / "absent", error).empty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_TRUE(list_folder("/proc/self/status", error).empty());
  EXPECT_EQ(error, std::errc::not_a_directory);
  fs::remove_all(folder, error);
}

}  // namespace
}  // namespace steelyard
