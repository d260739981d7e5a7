// Where the library's own messages go. A warning is about what the caller cannot see in a result: a read without a
// lease, a copy that was skipped. Without a sink messages of level kWarn and above are lines on stderr.
//
// Everything here is thread-safe and for the whole process.
#pragma once

#include <functional>
#include <string_view>

namespace steelyard {

enum class LogLevel : unsigned char { kTrace, kDebug, kInfo, kWarn, kError };

/// Messages below it are dropped. kWarn until it is set.
void set_log_level(LogLevel level);
LogLevel log_level();

/// Receives each message that passes the level: one line, without prefix and without a line feed. It is called on the
/// logging thread with no lock held, so it must be thread-safe, and it may log itself. It must not throw.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// Replaces the sink; an empty one means stderr, where a message is the one line `warning: <message>` (`trace:`,
/// `debug:`, `info:`, `error:`). Returns the sink before. A message under way on another thread may still reach that.
LogSink set_log_sink(LogSink sink);

}  // namespace steelyard
