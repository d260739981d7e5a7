#include "cli/progress.h"

#include <algorithm>

#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/json.h"
#include "cli/output.h"
#include "cli/words.h"

namespace steelyard::cli {
namespace {

constexpr std::int64_t kBarEveryMs = 100;
constexpr std::int64_t kPlainEveryMs = 3000;
// Half of the longest silence that readers of the events may count on, 200 ms.
constexpr std::int64_t kJsonEveryMs = 100;

bool json_events = false;

void print_message(LogLevel level, const std::string& message) {
  if (json_events) {
    Json json;
    json.begin_object().key("event").string(level >= LogLevel::kWarn ? "warning" : log_level_name(level));
    json.key("message").string(message).end_object();
    write_stderr(json.text() + "\n");
    return;
  }
  const Colour colour = level == LogLevel::kError  ? Colour::kRed
                        : level == LogLevel::kWarn ? Colour::kYellow
                                                   : Colour::kDim;
  const std::string word = level == LogLevel::kWarn ? "warning:" : std::string(log_level_name(level)) + ":";
  write_stderr(coloured(word, colour, terminal().colour_err) + " " + printable(message) + "\n");
}

/// What a phase counts beside its bytes: moves and repairs work by object.
std::string_view unit_of(std::string_view phase) {
  return phase == "evict" || phase == "rehydrate" || phase == "repair" ? "object" : "file";
}

std::string event_of(const store::Progress& progress) {
  Json json;
  json.begin_object().key("event").string("progress").key("phase").string(progress.phase);
  json.key("ref").string_or_null(progress.ref);
  json.key("bytes_done").integer(progress.bytes_done).key("bytes_total").integer(progress.bytes_total);
  json.key("files_done").integer(progress.files_done).key("files_total").integer(progress.files_total);
  json.end_object();
  return json.text() + "\n";
}

bool is_complete(const store::Progress& progress) {
  return progress.bytes_done >= progress.bytes_total && progress.files_done >= progress.files_total;
}

unsigned percent_of(const store::Progress& progress) {
  if (is_complete(progress)) return 100;
  if (progress.bytes_total == 0) return 0;
  const double share = static_cast<double>(progress.bytes_done) / static_cast<double>(progress.bytes_total);
  return std::min(99U, static_cast<unsigned>(share * 100));
}

}  // namespace

void install_log_sink(const Settings& settings) {
  json_events = settings.text("progress") == "json";
  if (Result<LogLevel> level = parse_log_level(settings.text("log_level")); level.ok()) set_log_level(*level);
  set_log_sink([](LogLevel level, std::string_view message) { print_message(level, std::string(message)); });
}

ProgressPrinter::ProgressPrinter(Runtime& runtime, const Settings& settings) : runtime_(runtime) {
  const std::string style = settings.text("progress");
  if (style == "json") {
    style_ = ProgressStyle::kJson;
  } else if (style == "plain") {
    style_ = ProgressStyle::kPlain;
  } else if (style == "auto" && !settings.on("quiet")) {
    style_ = terminal().err ? ProgressStyle::kBar : ProgressStyle::kPlain;
  }
}

ProgressPrinter::~ProgressPrinter() { clear(); }

void ProgressPrinter::clear() {
  if (!bar_drawn_) return;
  write_stderr("\r\x1b[K");
  bar_drawn_ = false;
}

void ProgressPrinter::begin_phase(const store::Progress& progress, std::int64_t now_ms) {
  now_ = progress;
  begun_ms_ = now_ms;
  complete_shown_ = false;
  // Plain lines come only when the work takes long; the others begin at once.
  shown_ms_ = style_ == ProgressStyle::kPlain ? now_ms : now_ms - kPlainEveryMs;
}

void ProgressPrinter::progress(const store::Progress& progress) {
  if (style_ == ProgressStyle::kNone) return;
  const std::int64_t now_ms = runtime_.mono_ms();
  if (progress.phase != now_.phase || progress.ref != now_.ref) {
    begin_phase(progress, now_ms);
  } else {
    now_.bytes_done = std::max(now_.bytes_done, std::min(progress.bytes_done, now_.bytes_total));
    now_.files_done = std::max(now_.files_done, std::min(progress.files_done, now_.files_total));
  }
  const std::int64_t every_ms = style_ == ProgressStyle::kBar    ? kBarEveryMs
                                : style_ == ProgressStyle::kJson ? kJsonEveryMs
                                                                 : kPlainEveryMs;
  // The end of a phase is always told, once; in plain lines only where others came before it.
  const bool last =
      is_complete(now_) && !complete_shown_ && (style_ != ProgressStyle::kPlain || shown_ms_ != begun_ms_);
  if (last || (!complete_shown_ && now_ms - shown_ms_ >= every_ms)) show(now_ms);
}

void ProgressPrinter::show(std::int64_t now_ms) {
  shown_ms_ = now_ms;
  complete_shown_ = is_complete(now_);
  switch (style_) {
    case ProgressStyle::kJson:
      write_stderr(event_of(now_));
      break;
    case ProgressStyle::kPlain:
      write_stderr(line(now_ms) + "\n");
      break;
    case ProgressStyle::kBar: {
      constexpr std::size_t kBarColumns = 20;
      const std::size_t full = kBarColumns * percent_of(now_) / 100;
      const std::string bar = "[" + std::string(full, '#') + std::string(kBarColumns - full, '.') + "] " + line(now_ms);
      write_stderr("\r" + shortened(bar, std::max<std::size_t>(terminal().columns, 20) - 1) + "\x1b[K");
      bar_drawn_ = true;
      break;
    }
    case ProgressStyle::kNone:
      break;
  }
}

std::string ProgressPrinter::line(std::int64_t now_ms) const {
  std::string text =
      now_.phase + (now_.ref.empty() ? "" : " " + now_.ref) + ": " + std::to_string(percent_of(now_)) + " %";
  if (now_.bytes_total > 0) text += ", " + format_size(now_.bytes_done) + " of " + format_size(now_.bytes_total);
  if (now_.files_total > 1) {
    text += ", " + part_words(now_.files_done, now_.files_total, unit_of(now_.phase));
  }
  const std::int64_t spent_ms = now_ms - begun_ms_;
  if (spent_ms >= 500 && now_.bytes_done > 0) {
    const double rate = static_cast<double>(now_.bytes_done) * 1000 / static_cast<double>(spent_ms);
    text += ", " + format_size(static_cast<std::uint64_t>(rate)) + "/s";
    if (!is_complete(now_)) {
      const double left_ms = static_cast<double>(now_.bytes_total - now_.bytes_done) / rate * 1000;
      text += ", " + format_age(static_cast<std::int64_t>(left_ms)) + " left";
    }
  }
  return text;
}

void ProgressPrinter::warning(const std::string& message) {
  clear();
  if (log_enabled(LogLevel::kWarn)) print_message(LogLevel::kWarn, message);
}

}  // namespace steelyard::cli
