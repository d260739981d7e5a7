#include "store/plain_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/limits.h"
#include "tiers/directory/test_folder.h"

namespace steelyard::store {
namespace {

using limits::kMiB;

class PlainFilesTest : public testing::Test {
 protected:
  UniqueFd root() const { return UniqueFd(open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }
  static std::string pattern(std::uint64_t bytes) {
    std::string data(bytes, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 + i / 4096);
    return data;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_.path() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Writes `data` in steps of `step` bytes.
  Status write(const std::string& name, std::string_view data, std::uint64_t step, std::uint64_t promised) {
    SY_ASSIGN_OR_RETURN(PlainFileWriter writer,
                        PlainFileWriter::create(runtime_, root().get(), name, promised, staging_.span()));
    for (std::size_t at = 0; at < data.size(); at += step) {
      SY_RETURN_IF_ERROR(writer.append(as_bytes(data.substr(at, step))));
    }
    return writer.finish();
  }

  tiers::TestFolder folder_;
  tiers::FaultRuntime runtime_;
  tiers::AlignedBuffer staging_ = tiers::AlignedBuffer::allocate(kMiB).value();
};

TEST_F(PlainFilesTest, EverySizeAroundPagesAndStagingComesBack) {
  int number = 0;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, kMiB - 1, kMiB, kMiB + 1,
                                    2 * kMiB, 2 * kMiB + 4095, 3 * kMiB + 4097}) {
    for (const std::uint64_t step : {std::uint64_t{777}, kMiB, 4 * kMiB}) {
      const std::string name = std::to_string(number++);
      const std::string data = pattern(bytes);
      const Status status = write(name, data, step, bytes);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(read(name) == data) << bytes << " bytes in steps of " << step;
    }
  }
}

TEST_F(PlainFilesTest, OtherThanThePromisedBytesIsAnError) {
  for (const std::uint64_t promised : {std::uint64_t{9}, std::uint64_t{11}, 2 * kMiB}) {
    const Status status = write("x" + std::to_string(promised), pattern(10), 10, promised);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find("10 bytes came"), std::string::npos) << status.message();
  }
}

TEST_F(PlainFilesTest, AFailureOfAnyStepIsNamed) {
  const std::string data = pattern(kMiB + 3);
  const std::pair<const char*, int> faults[] = {{"plain.create", EACCES}, {"plain.write", ENOSPC}, {"plain.sync", EIO}};
  int number = 0;
  for (const auto& [point, error] : faults) {
    runtime_.disarm();
    runtime_.arm(point, error);
    const std::string name = "f" + std::to_string(number++);
    const Status status = write(name, data, kMiB, data.size());
    EXPECT_EQ(status.code(), errno_status(error, "", "").code()) << point;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

TEST_F(PlainFilesTest, AFilesystemThatRefusesDirectWritesIsWrittenThroughTheCache) {
  const std::string data = pattern(3 * kMiB + 5);
  runtime_.arm("plain.write", EINVAL, 1, 1);
  const Status status = write("x", data, kMiB, data.size());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(read("x") == data);
}

TEST_F(PlainFilesTest, ShortWritesGoOn) {
  const std::string data = pattern(kMiB + 5000);
  runtime_.arm("plain.short_write", EIO, 5);
  const Status status = write("x", data, kMiB, data.size());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(read("x") == data);
}

TEST_F(PlainFilesTest, AnInterruptedWriteGoesOn) {
  const std::string data = pattern(2 * kMiB + 5);
  runtime_.arm("plain.write", EINTR, 3);
  const Status status = write("x", data, kMiB, data.size());
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(read("x") == data);
}

TEST_F(PlainFilesTest, AnExistingFileOrLinkIsNotTouched) {
  std::ofstream(folder_.path() + "/there") << "old";
  std::filesystem::create_symlink("elsewhere", folder_.path() + "/link");
  EXPECT_FALSE(write("there", "new", 3, 3).ok());
  EXPECT_FALSE(write("link", "new", 3, 3).ok());
  EXPECT_EQ(read("there"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/elsewhere"));
}

TEST_F(PlainFilesTest, FoldersDeeperThanAPathMayBeAreMade) {
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += (i == 0 ? "" : "/") + std::string(200, 'd');
  for (int i = 0; i < 2; ++i) {
    const auto made = open_or_make_folder(root().get(), deep);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
  }
  EXPECT_TRUE(open_or_make_folder(root().get(), "").ok());
}

TEST_F(PlainFilesTest, ALinkInTheWayIsNotFollowed) {
  std::filesystem::create_directory_symlink("/tmp", folder_.path() + "/out");
  EXPECT_FALSE(open_or_make_folder(root().get(), "out/x").ok());
  EXPECT_FALSE(std::filesystem::exists("/tmp/x"));
}

}  // namespace
}  // namespace steelyard::store
