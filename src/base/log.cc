#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"trace", "debug", "info", "warn", "error"};
constexpr std::array<std::string_view, 5> kPrefixes = {"trace: ", "debug: ", "info: ", "warning: ", "error: "};

/// The sink in use. Messages hold a share of it, so that it may be replaced while one is under way.
struct SinkSlot {
  std::mutex mutex;
  std::shared_ptr<LogSink> sink;
};

SinkSlot& sink_slot() {
  static auto* slot = new SinkSlot;  // never destroyed: threads may log until the process ends
  return *slot;
}

}  // namespace

namespace log_internal {

std::atomic<LogLevel> level{LogLevel::kWarn};

void emit(LogLevel message_level, fmt::string_view format, fmt::format_args args) {
  std::shared_ptr<LogSink> sink;
  {
    SinkSlot& slot = sink_slot();
    const std::lock_guard lock(slot.mutex);
    sink = slot.sink;
  }
  try {
    const std::string message = printable(fmt::vformat(format, args));
    if (sink) {
      (*sink)(message_level, message);
    } else {
      write_log_line(message_level, message);
    }
  } catch (const std::exception&) {
    // A message that cannot be built or delivered must not end what it reports on.
  }
}

}  // namespace log_internal

std::string_view log_level_name(LogLevel level) { return kNames[static_cast<std::size_t>(level)]; }

Result<LogLevel> parse_log_level(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return Status(Code::kInvalidArgument, "log level '" + printable(name) + "' is unknown",
                "use trace, debug, info, warn or error");
}

void set_log_level(LogLevel level) { log_internal::level.store(level, std::memory_order_relaxed); }
LogLevel log_level() { return log_internal::level.load(std::memory_order_relaxed); }

LogSink set_log_sink(LogSink sink) {
  auto next = sink ? std::make_shared<LogSink>(std::move(sink)) : nullptr;
  SinkSlot& slot = sink_slot();
  const std::lock_guard lock(slot.mutex);
  std::swap(slot.sink, next);
  return next ? *next : LogSink();
}

void write_log_line(LogLevel level, std::string_view message) {
  std::string line(kPrefixes[static_cast<std::size_t>(level)]);
  line.append(printable(message)).push_back('\n');
  // One write for a line, so that lines of several threads and processes do not mix.
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace steelyard
