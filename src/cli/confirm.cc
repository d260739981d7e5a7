#include "cli/confirm.h"

#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "cli/output.h"

namespace steelyard::cli {
namespace {

constexpr std::size_t kAnswerBytesMax = 64;

/// One line of stdin without its end; what is longer than an answer can be is none.
std::string read_answer() {
  std::string answer;
  for (;;) {
    char c = 0;
    const ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || c == '\n') return answer;
    if (answer.size() <= kAnswerBytesMax) answer.push_back(c);
  }
}

}  // namespace

Status confirm(const Invocation& call, const std::string& question) {
  if (call.settings().on("yes")) return {};
  if (isatty(STDIN_FILENO) != 1 || !terminal().err) {
    return {Code::kInvalidArgument, question + " There is no terminal to ask at, so nothing was done",
            "--yes answers the question"};
  }
  write_stderr(question + " [y/N] ");
  const std::string answer = read_answer();
  for (const std::string_view yes : {"y", "Y", "yes", "Yes", "YES"}) {
    if (answer == yes) return {};
  }
  return {Code::kInvalidArgument, "not confirmed: nothing was done", "answer y, or give --yes"};
}

}  // namespace steelyard::cli
