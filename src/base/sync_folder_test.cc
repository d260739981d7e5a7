#include "base/sync_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace steelyard {
namespace {

TEST(SyncFolder, AFolderIsSynced) {
  EXPECT_TRUE(sync_folder("/tmp").ok());
  const UniqueFd fd(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(sync_open_folder(fd.get(), "/tmp").ok());
}

TEST(SyncFolder, WhereThereIsNoFsyncForAFolderItIsNoFailure) {
  // A pipe answers EINVAL too.
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_TRUE(sync_open_folder(write_end.get(), "pipe").ok());
}

TEST(SyncFolder, ErrorsNameCallAndPath) {
  const Status absent = sync_folder("/tmp/no/such/folder");
  EXPECT_EQ(absent.code(), Code::kNotFound);
  EXPECT_NE(absent.message().find("/tmp/no/such/folder"), std::string::npos);
  const Status closed = sync_open_folder(-1, "/some/folder");
  EXPECT_EQ(closed.code(), Code::kUnavailable);
  EXPECT_NE(closed.message().find("fsync"), std::string::npos);
  EXPECT_NE(closed.message().find("/some/folder"), std::string::npos);
}

TEST(UniqueFd, CloseSaysWhatItFoundOnce) {
  UniqueFd fd(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  const int raw = fd.get();
  EXPECT_EQ(fd.close(), 0);
  EXPECT_FALSE(fd.valid());
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
  EXPECT_EQ(fd.close(), 0) << "there is nothing to close";
  EXPECT_EQ(UniqueFd(raw).close(), -EBADF);
}

}  // namespace
}  // namespace steelyard
