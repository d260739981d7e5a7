// Threads that share their caller's work.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"

namespace steelyard {

/// Starts up to `count` tasks that all run `body`, and gives those that run: fewer, or none, where the system has no
/// threads left. For work that the caller does as well until none is left, so that a missing worker costs time and
/// nothing else. For a task that must run see try_spawn.
[[nodiscard]] std::vector<std::unique_ptr<Task>> spawn_workers(Runtime& runtime, std::string_view name,
                                                               std::size_t count, const std::function<void()>& body);

/// As Runtime::spawn, but UNAVAILABLE where the system has no thread left. Every task that a verb needs is started so.
[[nodiscard]] Result<std::unique_ptr<Task>> try_spawn(Runtime& runtime, std::string_view name,
                                                      const std::function<void()>& body);

}  // namespace steelyard
