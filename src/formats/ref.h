// References: how people write an identity on the command line, `resource[@revision][#generation]`.
//
// Grammar and worked examples: docs/formats/identity-and-keys.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "formats/identity.h"

namespace steelyard::formats {

struct Ref {
  std::string resource_id;
  std::optional<std::string> revision;
  std::optional<std::int64_t> weight_generation;
  bool operator==(const Ref&) const = default;
};

/// Splits at the last `#`, then at the last `@`, then unescapes (`%` and two hex digits) and validates each part.
/// INVALID_ARGUMENT with the escaped spelling as hint where a literal `@` or `#` was probably meant.
Result<Ref> parse_ref(std::string_view text);

/// The complete, escaped spelling; parse_ref gives the same identity back.
std::string format_ref(const Identity& identity);

}  // namespace steelyard::formats
