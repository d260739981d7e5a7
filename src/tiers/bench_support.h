// For measuring programs: what fails ends them with a word, and times are medians.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"

namespace steelyard::tiers {

inline void require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

template <typename T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = real_runtime().mono_ns();
  work();
  return static_cast<double>(real_runtime().mono_ns() - begin) / 1e9;
}

inline void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace steelyard::tiers
