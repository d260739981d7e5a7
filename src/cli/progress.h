// Progress of a long verb on stderr: a bar, plain lines, JSON events, or nothing; and warnings.
//
// Thread-safety: called from worker threads, one call at a time (store::Observer).
#pragma once

#include <cstdint>
#include <string>

#include "base/runtime.h"
#include "cli/settings.h"
#include "store/store.h"

namespace steelyard::cli {

enum class ProgressStyle : std::uint8_t { kBar, kPlain, kJson, kNone };

class ProgressPrinter final : public store::Observer {
 public:
  /// `auto` is a bar on a terminal and plain lines elsewhere; with --quiet nothing.
  ProgressPrinter(Runtime& runtime, const Settings& settings);
  ~ProgressPrinter() override;
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  void progress(const store::Progress& progress) override;
  void warning(const std::string& message) override;
  /// Takes the bar away; before anything else is printed.
  void clear();

 private:
  void begin_phase(const store::Progress& progress, std::int64_t now_ms);
  void show(std::int64_t now_ms);
  std::string line(std::int64_t now_ms) const;

  Runtime& runtime_;
  ProgressStyle style_ = ProgressStyle::kNone;
  store::Progress now_;  ///< what is true, never going back
  std::int64_t begun_ms_ = 0;
  std::int64_t shown_ms_ = 0;
  bool complete_shown_ = false;
  bool bar_drawn_ = false;
};

/// Log messages and warnings become lines of stderr, or JSON events under `--progress json`, from the log level on.
void install_log_sink(const Settings& settings);

}  // namespace steelyard::cli
