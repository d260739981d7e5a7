#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace steelyard {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, "odd", "pass an even number");
  return value / 2;
}

Result<int> quarter(int value) {
  SY_ASSIGN_OR_RETURN(const int once, half(value));
  return half(once);
}

TEST(Status, OkCarriesNothing) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.to_string(), "OK");
  EXPECT_EQ(status.message(), "");
}

TEST(Status, AnnotateAndHint) {
  const Status status = Status(Code::kCorrupt, "bad magic").annotate("reading", "x.db").with_hint("restore it");
  EXPECT_EQ(status.to_string(), "CORRUPT: reading x.db: bad magic (restore it)");
}

TEST(Status, CopiesAreIndependent) {
  const Status a(Code::kBusy, "held");
  const Status b = Status(a).annotate("taking", "lock");
  EXPECT_EQ(a.message(), "held");
  EXPECT_EQ(b.message(), "taking lock: held");
}

TEST(Result, PropagatesTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(6).status().to_string(), "INVALID_ARGUMENT: odd (pass an even number)");
}

TEST(Status, ErrnoChoosesTheCodeThatCallersActOn) {
  EXPECT_EQ(errno_status(ENOSPC, "write", "/x").code(), Code::kNoSpace);
  EXPECT_EQ(errno_status(EROFS, "open", "/x").code(), Code::kUnauthorized);
  EXPECT_EQ(errno_status(ENOENT, "open", "/x").code(), Code::kNotFound);
  EXPECT_EQ(errno_status(EIO, "read", "/x").code(), Code::kUnavailable);
}

}  // namespace
}  // namespace steelyard
