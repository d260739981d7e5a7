// Where the program writes: stdout in whole documents, stderr in whole lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace steelyard::cli {

/// Opens /dev/null in place of standard descriptors that are closed, so that no file of the store gets their numbers,
/// and arranges that a closed pipe is seen by write(). Call first in main.
void prepare_standard_files();

/// Stdout, buffered. A failure is a status: a full disk, or that nobody reads any more (a closed pipe or descriptor).
class Output {
 public:
  void write(std::string_view text) { buffer_.append(text); }
  void line(std::string_view text) { buffer_.append(text).push_back('\n'); }
  /// What is buffered, then `bytes` without a copy.
  Status write_through(ByteView bytes);
  Status flush() { return write_through({}); }
  /// The same failure as a write would give where nobody reads any more, for who writes seldom.
  Status check_reader();

 private:
  std::string buffer_;
};

/// Ends the process silently by SIGPIPE where a write found that nobody reads stdout. Call when the verb has ended and
/// given back what it held.
void end_if_nobody_reads();

/// Writes whole to stderr. Failures are of no consequence: there is nowhere to tell them.
void write_stderr(std::string_view text);

/// What the two ends are, and how wide; asked once.
struct Terminal {
  bool out = false;  ///< stdout is one
  bool err = false;
  bool colour_out = false;  ///< NO_COLOR and TERM=dumb respected
  bool colour_err = false;
  std::size_t columns = 80;
  bool columns_known = false;  ///< of stdout, or by COLUMNS
};
const Terminal& terminal();

enum class Colour : unsigned char { kNone, kRed, kYellow, kGreen, kBold, kDim };
/// The text in a colour where `enabled`.
std::string coloured(std::string_view text, Colour colour, bool enabled);

/// Columns that the text takes on a terminal: one a code point.
std::size_t width_of(std::string_view text);
/// At most `columns` columns; a cut is shown by `…`.
std::string shortened(std::string_view text, std::size_t columns);

/// A table with a heading. Where it is wider than the terminal, the widest column gives way, those that hold what
/// nobody copies before the others, and what one pastes back never: then lines wrap. Elsewhere, and on a terminal that
/// does not know its width, nothing is cut.
class Table {
 public:
  struct Column {
    std::string heading;
    bool right = false;
    bool first_to_cut = false;
    bool whole = false;  ///< never cut: a reference, an id
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> row);
  std::string render(const Terminal& on) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace steelyard::cli
