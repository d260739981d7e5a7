// Where things lie in a directory tier, relative to its folder (docs/formats/directory-tier.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tiers/tier.h"

namespace steelyard::tiers::directory {

inline constexpr std::uint64_t kLayoutVersion = 1;
inline constexpr std::uint32_t kPayloadIndexMax = 99'999'999;  ///< 8 digits
inline constexpr std::size_t kTemporaryNameBytes = 8;          ///< 16 hex digits
/// Before those digits, for `store.json` on its way to its name.
inline constexpr std::string_view kStoreFileTemporaryPrefix = ".store.json-";

/// INVALID_ARGUMENT unless the group is 64 lower-case hex digits.
Status check_group(std::string_view group);
/// The same for the parts of a name: the operation is 32 lower-case hex digits or empty.
Status check_attempt(const AttemptName& attempt);
/// And the index's range.
Status check_name(const ObjectName& name);

std::string group_path(std::string_view group);
std::string attempt_path(const AttemptName& attempt);
std::string object_path(const ObjectName& name);
/// The attempt's folder and those above it, up to the tier's own: what has to be synced for its name to be durable.
std::vector<std::string> folders_above(const AttemptName& attempt);
/// The same for a group's folder.
std::vector<std::string> folders_above(const std::string& group);
std::string temporary_path(const AttemptName& attempt, std::string_view temporary);
std::string content_path(const Digest& sha256);
std::string catalog_path(std::uint64_t sequence);

bool is_lower_hex(std::string_view text, std::size_t digits);
/// Exactly `digits` decimal digits.
std::optional<std::uint64_t> parse_digits(std::string_view text, std::size_t digits);
/// The name of an attempt's folder: a decimal number without leading zeros, or that, `-` and an operation.
std::optional<AttemptName> parse_attempt(const std::string& group, std::string_view text);
/// `index-<64 hex>`: a derived index beside the manifest.
bool is_index_name(std::string_view name);

/// For messages: "payload 00000003 of attempt 2 of group 5dbb…".
std::string describe(const ObjectName& name);
std::string describe(const AttemptName& attempt);

}  // namespace steelyard::tiers::directory
