// For tests: a process that ends at a fault point.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "tiers/directory/test_folder.h"

namespace steelyard::tiers {

/// Does the work in a process of its own, which ends at that pass of the point; false where it came through. A work
/// that fails is a failure of the test.
inline bool ends_at(const char* point, int pass, const std::function<Status(Runtime& runtime)>& work) {
  constexpr int kEndedAtPoint = 42;
  const pid_t child = ::fork();
  if (child == 0) {
    FaultRuntime runtime;
    int passes = 0;
    runtime.on(point, [&] {
      if (++passes == pass) ::_exit(kEndedAtPoint);
    });
    const Status status = work(runtime);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
    ::_exit(status.ok() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kEndedAtPoint) << WEXITSTATUS(status);
  return WEXITSTATUS(status) == kEndedAtPoint;
}

}  // namespace steelyard::tiers
