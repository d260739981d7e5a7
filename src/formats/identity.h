// Identity of a revision, and the keys and digests derived from it.
//
// Grammar and worked examples: docs/formats/identity-and-keys.md.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace steelyard::formats {

/// An identity without its generation: the line of generations that one (resource, revision) name has had.
struct Lineage {
  std::string tenant_id;
  std::string namespace_id;  ///< the identity's field `namespace`
  std::string resource_id;
  std::string revision;
  auto operator<=>(const Lineage&) const = default;
};

/// The exact name of one immutable revision. Bytes are exact: no case folding, no Unicode normalisation.
struct Identity {
  Lineage lineage;
  std::int64_t weight_generation = 0;  ///< 1..2^63-1
  auto operator<=>(const Identity&) const = default;
};

/// INVALID_ARGUMENT naming the field, what is wrong with it and what is allowed. The second also checks the generation
/// and the length of the encoded manifest key.
Status validate(const Lineage& lineage);
Status validate(const Identity& identity);

/// The rules of namespace, resource_id and revision for one of them; `field` is its name in messages.
Status validate_name(std::string_view field, std::string_view text);

/// Keeps `A-Z a-z 0-9 - _ . ~`, everything else as %XX upper-case: a bijection between byte strings and the texts that
/// percent_decode takes.
std::string percent_encode(std::string_view text);
/// The inverse. INVALID_ARGUMENT, with the offset, for any text that percent_encode does not write: a byte that is not
/// kept, a `%` without two upper-case hex digits, an escape of a byte that is kept.
Result<std::string> percent_decode(std::string_view encoded);

/// `weights/<namespace>/<resource_id>/<revision>/<weight_generation>/manifest`, text parts percent-encoded.
std::string manifest_key(const Identity& identity);
/// `<manifest key without /manifest>/payload/<8 digits>`; `index` is below 10^8.
std::string payload_key(const Identity& identity, std::uint32_t index);

/// SHA-256 over the five fields, framed (hash/framed.h); `weight:` + its hex is the payload group id.
Digest payload_group_digest(const Identity& identity);
std::string payload_group_id(const Identity& identity);

/// Hex SHA-256, framed, over the byte-sorted payload keys 0..count-1.
std::string payload_keys_sha256(const Identity& identity, std::uint32_t count);

}  // namespace steelyard::formats
