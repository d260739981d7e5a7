#include "cli/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "cli/documents.h"

namespace steelyard::cli {
namespace {

store::CancelFlag cancel_flag{false};
std::atomic<int> received{0};
std::atomic<bool> watched{false};
std::atomic<bool> json_notice{false};
std::atomic<const std::string*> named_notice{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
                  std::atomic<const std::string*>::is_always_lock_free,
              "a signal handler uses them");

// Only what is async-signal-safe.
void on_signal(int number) {
  const int saved = errno;
  const bool first = received.exchange(number) == 0;
  if (first && watched.load()) {
    cancel_flag.store(true);
    errno = saved;
    return;
  }
  static constexpr std::string_view kText = "error: interrupted\nhint: run the command again\n";
  static constexpr std::string_view kJson =
      "{\"error\":{\"code\":\"UNAVAILABLE\",\"message\":\"interrupted\",\"hint\":\"run the command again\"}}\n";
  std::string_view notice = json_notice.load() ? kJson : kText;
  if (const std::string* named = named_notice.load()) notice = *named;
  if (::write(STDERR_FILENO, notice.data(), notice.size()) < 0) errno = saved;
  _exit(128 + number);
}

}  // namespace

void install_signal_handlers(bool json) {
  json_notice.store(json);
  struct sigaction act {};
  act.sa_handler = on_signal;
  sigemptyset(&act.sa_mask);
  act.sa_flags = SA_RESTART;
  sigaction(SIGINT, &act, nullptr);
  sigaction(SIGTERM, &act, nullptr);
}

void name_verb_in_last_word(std::string_view verb, bool json) {
  static const std::string notice = [&] {
    const Status status = store::cancelled(std::string(verb)).with_hint("run the command again");
    return json ? error_document(status) + "\n" : "error: " + status.message() + "\nhint: " + status.hint() + "\n";
  }();
  named_notice.store(&notice);
}

WatchSignals::WatchSignals() { watched.store(true); }
WatchSignals::~WatchSignals() { watched.store(false); }
const store::CancelFlag& WatchSignals::flag() const { return cancel_flag; }

int signal_received() { return received.load(); }

}  // namespace steelyard::cli
