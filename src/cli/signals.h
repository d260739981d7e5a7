// SIGINT and SIGTERM: the first asks a long verb to end cleanly, the second ends the process at once.
#pragma once

#include <string_view>

#include "store/store.h"

namespace steelyard::cli {

/// A first signal ends the process with 128 + its number and a last word, as long as no verb watches the flag.
void install_signal_handlers(bool json);

/// The verb that the last word names from now on. Called once at most.
void name_verb_in_last_word(std::string_view verb, bool json);

/// While one lives, a first signal only sets the flag.
class WatchSignals {
 public:
  WatchSignals();
  ~WatchSignals();
  WatchSignals(const WatchSignals&) = delete;
  WatchSignals& operator=(const WatchSignals&) = delete;
  const store::CancelFlag& flag() const;
};

/// The signal that came, or 0.
int signal_received();

}  // namespace steelyard::cli
