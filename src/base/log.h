// The one logging front: leveled lines to stderr, or to a sink that the program sets (steelyard/log.h).
//
// Thread-safety: everything here may be used from any thread.
//
//   log_warning("skipping {}: {}", path, reason);
//
// A message is one line whatever it holds: control characters and invalid UTF-8 are written as \xNN. A message below
// the level costs one load and a branch; its text is not built. Logging never fails and never throws.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <string_view>

#include "base/status.h"
#include "steelyard/log.h"

namespace steelyard {

/// "trace", "debug", "info", "warn", "error".
std::string_view log_level_name(LogLevel level);
/// The reverse; INVALID_ARGUMENT, naming the levels, for anything else.
Result<LogLevel> parse_log_level(std::string_view name);

/// Writes to stderr as if no sink were set, whatever the level; for a sink that redirects only some messages.
void write_log_line(LogLevel level, std::string_view message);

namespace log_internal {
extern std::atomic<LogLevel> level;
void emit(LogLevel level, fmt::string_view format, fmt::format_args args);
}  // namespace log_internal

inline bool log_enabled(LogLevel level) { return level >= log_internal::level.load(std::memory_order_relaxed); }

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_internal::emit(level, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_trace(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kTrace)) log_internal::emit(LogLevel::kTrace, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_internal::emit(LogLevel::kDebug, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_internal::emit(LogLevel::kInfo, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarn)) log_internal::emit(LogLevel::kWarn, format, fmt::make_format_args(args...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kError)) log_internal::emit(LogLevel::kError, format, fmt::make_format_args(args...));
}

}  // namespace steelyard
