#include "cli/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "cli/settings.h"

namespace steelyard::cli {
namespace {

bool stdout_was_closed = false;
bool nobody_reads = false;

[[noreturn]] void end_by_sigpipe() {
  struct sigaction act {};
  act.sa_handler = SIG_DFL;
  sigaction(SIGPIPE, &act, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGPIPE);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(SIGPIPE);
  _exit(128 + SIGPIPE);
}

/// 0, or the errno that ended it.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

Terminal find_terminal() {
  Terminal found;
  found.out = isatty(STDOUT_FILENO) == 1;
  found.err = isatty(STDERR_FILENO) == 1;
  const char* term = std::getenv("TERM");
  const bool colours = !environment("NO_COLOR") && (term == nullptr || std::string_view(term) != "dumb");
  found.colour_out = found.out && colours;
  found.colour_err = found.err && colours;
  winsize size{};
  if ((found.out && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) ||
      (found.err && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)) {
    found.columns = size.ws_col;
    found.columns_known = true;
  } else if (auto columns = environment("COLUMNS")) {
    const long number = std::strtol(columns->c_str(), nullptr, 10);
    if (number >= 20 && number <= 1000) {
      found.columns = static_cast<std::size_t>(number);
      found.columns_known = true;
    }
  }
  return found;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

void prepare_standard_files() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    if (fd == STDOUT_FILENO) stdout_was_closed = true;
    // The lowest free number is this one, since those below it are open by now.
    if (open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) != fd) _exit(1);
  }
  struct sigaction act {};
  act.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &act, nullptr);
  // A file that reaches the process's limit is an error of that write, with a message, not the end.
  sigaction(SIGXFSZ, &act, nullptr);
}

Status Output::write_through(ByteView bytes) {
  if (buffer_.empty() && bytes.empty()) return {};
  int error_number = stdout_was_closed ? EPIPE : write_all(STDOUT_FILENO, buffer_);
  buffer_.clear();
  if (error_number == 0) error_number = write_all(STDOUT_FILENO, as_text(bytes));
  if (error_number == 0) return {};
  if (error_number == EPIPE) nobody_reads = true;
  return errno_status(error_number, "write", "standard output");
}

Status Output::check_reader() {
  pollfd out{STDOUT_FILENO, 0, 0};
  if (!stdout_was_closed && (poll(&out, 1, 0) <= 0 || (out.revents & POLLERR) == 0)) return {};
  nobody_reads = true;
  return errno_status(EPIPE, "write", "standard output");
}

void end_if_nobody_reads() {
  if (nobody_reads) end_by_sigpipe();
}

void write_stderr(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

const Terminal& terminal() {
  static const Terminal found = find_terminal();
  return found;
}

std::string coloured(std::string_view text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::kNone) return std::string(text);
  const char* begin = "";
  switch (colour) {
    case Colour::kRed:
      begin = "\x1b[1;31m";
      break;
    case Colour::kYellow:
      begin = "\x1b[33m";
      break;
    case Colour::kGreen:
      begin = "\x1b[32m";
      break;
    case Colour::kBold:
      begin = "\x1b[1m";
      break;
    case Colour::kDim:
      begin = "\x1b[2m";
      break;
    case Colour::kNone:
      break;
  }
  return begin + std::string(text) + "\x1b[0m";
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (width_of(text) <= columns) return std::string(text);
  std::size_t end = 0;
  for (std::size_t width = 0; end < text.size(); ++end) {
    if (continues(text[end])) continue;
    if (++width >= std::max<std::size_t>(columns, 1)) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

void Table::add(std::vector<std::string> row) {
  SY_CHECK(row.size() == columns_.size(), "a row has as many cells as the table has columns");
  rows_.push_back(std::move(row));
}

std::string Table::render(const Terminal& on) const {
  constexpr std::size_t kGap = 2;
  constexpr std::size_t kColumnsMin = 8;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width_of(column.heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  if (on.out && on.columns_known) {
    std::size_t total = kGap * (widths.size() - 1);
    for (std::size_t width : widths) total += width;
    for (const bool first : {true, false}) {
      while (total > on.columns) {
        std::size_t* widest = nullptr;
        for (std::size_t i = 0; i < widths.size(); ++i) {
          if (columns_[i].whole || (first && !columns_[i].first_to_cut)) continue;
          if (widest == nullptr || widths[i] > *widest) widest = &widths[i];
        }
        if (widest == nullptr || *widest <= kColumnsMin) break;
        --*widest;
        --total;
      }
    }
  }
  std::string out;
  auto add_row = [&](auto cell_of, Colour colour) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = shortened(cell_of(i), widths[i]);
      const std::string pad(widths[i] - width_of(cell), ' ');
      line += columns_[i].right ? pad + cell : cell + pad;
      if (i + 1 < columns_.size()) line.append(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += coloured(line, colour, on.colour_out) + "\n";
  };
  add_row([&](std::size_t i) { return std::string_view(columns_[i].heading); }, Colour::kBold);
  for (const auto& row : rows_) {
    add_row([&](std::size_t i) { return std::string_view(row[i]); }, Colour::kNone);
  }
  return out;
}

}  // namespace steelyard::cli
