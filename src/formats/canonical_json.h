// Canonical JSON: one text for one value, so that a digest of the text is a digest of the value.
//
// The form canonical_utf8: keys sorted by code point (which is the byte order of UTF-8), no white space, integers only,
// strings in UTF-8 with exactly these escapes: \b \f \n \r \t \" \\ and \u00xx (lower-case hex) for the other controls
// below U+0020. Everything else, DEL too, stands for itself.
//
// The form canonical_ascii is the same but for strings: DEL is an escape too, \u007f, and so is everything above it:
// \uXXXX with lower-case hex, a surrogate pair above U+FFFF. The text is then ASCII.
//
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace steelyard::formats {

/// How strings are spelt; everything else is common to all canonical forms.
enum class CanonicalForm : std::uint8_t { kUtf8, kAscii };

/// Appends canonical JSON to a string, which the caller may empty between calls. Calls in a wrong order and keys out of
/// order are programmers' errors.
class CanonicalJsonWriter {
 public:
  explicit CanonicalJsonWriter(std::string& out, CanonicalForm form = CanonicalForm::kUtf8) : out_(out), form_(form) {}

  void begin_object();
  /// Keys of one object strictly ascend. The text of `name` must live until the object ends.
  void key(std::string_view name);
  void end_object();
  void begin_array();
  void end_array();
  /// `text` must be valid UTF-8.
  void string(std::string_view text);
  void integer(std::int64_t value);
  void integer(std::uint64_t value);
  void integer(std::uint32_t value) { integer(std::uint64_t{value}); }
  void null();

  /// key() and a value in one.
  void field(std::string_view name, std::string_view text) { key(name), string(text); }
  void field(std::string_view name, std::int64_t value) { key(name), integer(value); }
  void field(std::string_view name, std::uint64_t value) { key(name), integer(value); }
  void field(std::string_view name, std::uint32_t value) { key(name), integer(value); }

 private:
  struct Level {
    bool object = false;
    bool first = true;
    std::string_view last_key;
  };
  void before_value();
  void put_string(std::string_view text);

  std::string& out_;
  CanonicalForm form_;
  std::vector<Level> levels_;
  bool key_pending_ = false;
};

/// Reads exactly the texts that CanonicalJsonWriter (kUtf8) writes, in one pass and without a copy of the text: any
/// other spelling of the same value is refused where it differs.
///
/// The caller asks for what it expects. Every call gives false once something was wrong; error() then says what, with
/// the path of the field: `files[3].pieces[0].run: found …; wanted …`. A caller may therefore chain calls with && or
/// look at error() at the end.
class CanonicalJsonReader {
 public:
  explicit CanonicalJsonReader(std::string_view text) : text_(text) {}

  /// `fields`: every name the object may have, sorted; it must live until the object ends.
  bool begin_object(std::span<const std::string_view> fields);
  /// The next field must be `name`. Asking in the order of `fields` is the caller's duty.
  bool key(std::string_view name);
  /// True, and the field is taken, if the next field is `name`. False for "not there" too: look at failed().
  bool optional_key(std::string_view name);
  bool end_object();

  /// An object with names of its own: true for each entry, whose name is then in `name`.
  bool begin_map();
  bool next_entry(std::string& name);

  bool begin_array();
  /// True while there is another element to read; false at the end, which is then taken, or on an error.
  bool next_element();

  /// A view of the text, or of a buffer that the next call of string() may overwrite.
  bool string(std::string_view& out);
  bool integer(std::int64_t& out);
  bool integer(std::uint64_t& out);
  bool integer(std::uint32_t& out);

  /// After the value: nothing may follow.
  bool end();
  /// Records that the value just read is not acceptable, at its path.
  bool refuse(std::string_view found_and_wanted);

  bool failed() const { return error_.has_value(); }
  /// "path: what"; empty when nothing was wrong.
  std::string error() const { return error_.value_or(std::string()); }
  /// Bytes not read yet.
  std::size_t remaining() const { return text_.size() - at_; }

 private:
  enum class Kind : std::uint8_t { kObject, kMap, kArray };
  struct Level {
    Kind kind = Kind::kObject;
    bool first = true;
    std::span<const std::string_view> fields;
    std::size_t next_field = 0;  ///< in fields: those before it were read or passed over
    std::uint64_t seen = 0;      ///< one bit per field
    std::size_t index = 0;       ///< of the array's current element, plus 1
    std::string_view current;    ///< the object's current field
    std::string map_key;         ///< the map's current entry
  };

  bool open(char bracket, Kind kind, std::string_view wanted);
  bool take(char c);
  bool peek_key(std::string_view& name);
  bool wrong_key(std::string_view wanted);
  bool wrong_value(std::string_view wanted);
  bool scan_string(std::string_view& out);
  bool scan_escape();
  bool scan_number(bool& negative, std::uint64_t& magnitude);
  std::string describe() const;
  std::string path() const;

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Level> levels_;
  std::string scratch_;
  std::optional<std::string> error_;
};

}  // namespace steelyard::formats
