#include "formats/ref.h"

#include <algorithm>
#include <charconv>

#include "base/limits.h"
#include "base/utf8.h"

namespace steelyard::formats {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Escapes only the separators: the spelling meant by someone who wrote them as part of a name.
std::string escape_separators(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '@') {
      out += "%40";
    } else if (c == '#') {
      out += "%23";
    } else {
      out += c;
    }
  }
  return out;
}

class RefParser {
 public:
  explicit RefParser(std::string_view text) : text_(text), names_(text) {}

  Result<Ref> parse() {
    Ref ref;
    const std::size_t hash = text_.rfind('#');
    if (hash != std::string_view::npos) {
      names_ = text_.substr(0, hash);
      generation_ = text_.substr(hash + 1);
    }
    resource_ = names_;
    const std::size_t at = names_.rfind('@');
    if (at != std::string_view::npos) {
      resource_ = names_.substr(0, at);
      revision_ = names_.substr(at + 1);
    }
    if (generation_) {
      SY_ASSIGN_OR_RETURN(ref.weight_generation, parse_generation(*generation_));
    }
    SY_RETURN_IF_ERROR(refuse_separators());
    SY_ASSIGN_OR_RETURN(ref.resource_id, parse_name("resource_id", resource_));
    if (revision_) {
      SY_ASSIGN_OR_RETURN(ref.revision, parse_name("revision", *revision_));
    }
    return ref;
  }

 private:
  Status refuse(const std::string& what, std::string hint = {}) const {
    return Status(Code::kInvalidArgument, "reference \"" + printable(text_) + "\": " + what, std::move(hint));
  }

  static std::string literal_hint(std::string_view separator, std::string_view escape, const std::string& spelling) {
    return "a literal \"" + std::string(separator) + "\" is written " + std::string(escape) + ": " +
           printable(spelling);
  }

  Result<std::int64_t> parse_generation(std::string_view digits) const {
    constexpr std::string_view kWanted = "; wanted: digits after the last \"#\", 1 to 9223372036854775807";
    if (digits.empty()) return refuse("the generation is empty" + std::string(kWanted), "leave the \"#\" away");
    if (!all_digits(digits)) {
      // The "#" was part of a name: everything after it belongs to the name, and an "@" in it may be the separator.
      std::string spelling = escape_separators(text_);
      const std::size_t at = text_.rfind('@');
      if (at != std::string_view::npos) {
        spelling = escape_separators(text_.substr(0, at)) + "@" + escape_separators(text_.substr(at + 1));
      }
      return refuse("the generation is \"" + printable(digits) + "\"" + std::string(kWanted),
                    literal_hint("#", "%23", spelling));
    }
    if (digits.front() == '0') {
      const std::size_t first = digits.find_first_not_of('0');
      return refuse(
          "the generation is \"" + std::string(digits) + "\"" + std::string(kWanted) + ", without leading zeros",
          first == std::string_view::npos ? "generations begin at 1" : "write #" + std::string(digits.substr(first)));
    }
    std::int64_t generation = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), generation);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return refuse("the generation is \"" + std::string(digits) + "\"" + std::string(kWanted));
    }
    return generation;
  }

  /// A "#" before the last one, or an "@" before the last one, is part of a name that should have been escaped.
  Status refuse_separators() const {
    const bool second_hash = names_.find('#') != std::string_view::npos;
    const bool second_at = resource_.find('@') != std::string_view::npos;
    if (!second_hash && !second_at) return {};
    std::string spelling = escape_separators(resource_);
    if (revision_) spelling += "@" + escape_separators(*revision_);
    if (generation_) spelling += "#" + std::string(*generation_);
    if (second_hash) return refuse("found a second \"#\"; wanted at most one", literal_hint("#", "%23", spelling));
    return refuse("found a second \"@\"; wanted at most one", literal_hint("@", "%40", spelling));
  }

  Result<std::string> parse_name(std::string_view field, std::string_view escaped) const {
    std::string name;
    for (std::size_t i = 0; i < escaped.size(); ++i) {
      if (escaped[i] != '%') {
        name += escaped[i];
        continue;
      }
      const int high = i + 2 < escaped.size() ? hex_value(escaped[i + 1]) : -1;
      const int low = i + 2 < escaped.size() ? hex_value(escaped[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return refuse(std::string(field) + " holds \"" + printable(escaped.substr(i, 3)) +
                          "\"; wanted: two hex digits after \"%\"",
                      "a literal \"%\" is written %25");
      }
      name += static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (Status status = validate_name(field, name); !status.ok()) return refuse(status.message());
    return name;
  }

  std::string_view text_;
  std::string_view names_;  ///< without the generation
  std::string_view resource_;
  std::optional<std::string_view> revision_;
  std::optional<std::string_view> generation_;
};

/// Escapes `%`, `@`, `#` and control characters (those above U+007F byte by byte).
void append_escaped(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  const auto escape = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == 0xC2 && next >= 0x80 && next <= 0x9F) {
      escape(text[i]);
      escape(text[++i]);
    } else if (byte < 0x20 || byte == 0x7F || text[i] == '%' || text[i] == '@' || text[i] == '#') {
      escape(text[i]);
    } else {
      out += text[i];
    }
  }
}

}  // namespace

Result<Ref> parse_ref(std::string_view text) { return RefParser(text).parse(); }

std::string format_ref(const Identity& identity) {
  std::string out;
  append_escaped(identity.lineage.resource_id, out);
  out += '@';
  append_escaped(identity.lineage.revision, out);
  out += '#';
  out += std::to_string(identity.weight_generation);
  return out;
}

}  // namespace steelyard::formats
