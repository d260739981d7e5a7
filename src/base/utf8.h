// UTF-8 checks for names that come from outside.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace steelyard {

/// Valid UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF.
bool is_valid_utf8(std::string_view text);
/// Holds a control character: U+0000..U+001F, U+007F, or U+0080..U+009F. The text must be valid UTF-8.
bool has_control_character(std::string_view text);
/// For messages: the text with control characters and invalid bytes as \xNN.
std::string printable(std::string_view text);
/// For messages: the printable text in double quotes. Of more than kQuotedBytesMax bytes only the beginning is shown,
/// and how long it is: `"abc…" (70000 bytes)`.
std::string in_quotes(std::string_view text);
inline constexpr std::size_t kQuotedBytesMax = 200;
/// For commands that a message names: the printable text as one word of a shell, in quotes where it needs them.
std::string shell_word(std::string_view text);

}  // namespace steelyard
