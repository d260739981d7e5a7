// Row keys: one table letter per kind of row, then parts that cannot run into each other, in byte order.
//
// Layout and a worked example: docs/formats/op-log.md. Text parts are escaped (00 -> 00 ff) and ended by 00 01, so no
// text is a prefix of another and the order of the keys is that of the texts. Numbers are big-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "metadata/types.h"

namespace steelyard::metadata::keys {

inline constexpr char kRevision = 'r';       ///< identity -> RevisionRecord
inline constexpr char kWriter = 'w';         ///< identity -> Writer
inline constexpr char kLease = 'l';          ///< identity, lease id -> Lease
inline constexpr char kWatermark = 'm';      ///< lineage -> Watermark
inline constexpr char kRunner = 'u';         ///< identity -> Runner
inline constexpr char kAccess = 'a';         ///< identity -> Access
inline constexpr char kEpoch = 'e';          ///< one row: EpochState
inline constexpr char kLastInstant = 't';    ///< one row: 8 bytes big-endian
inline constexpr char kGroup = 'g';          ///< index: group digest -> revision key
inline constexpr char kOrder = 'o';          ///< index: tenant, namespace, class, sequence, name -> state, revision key
inline constexpr char kResourceOrder = 'p';  ///< index: tenant, namespace, resource, class, sequence, name -> the same
inline constexpr char kLeaseId = 'i';        ///< index: lease id -> lease key
inline constexpr char kOperationId = 'x';    ///< index: operation id -> revision key

/// In the order indexes the committed stand before the uncommitted.
enum class OrderClass : std::uint8_t { kCommitted = 1, kUncommitted = 2 };

std::string of(char table, const Lineage& lineage);
std::string of(char table, const Identity& identity);
std::string lease(const Identity& identity, std::string_view lease_id);
std::string epoch();
std::string last_instant();

std::string group(const Digest& digest);
std::string lease_id(std::string_view lease_id);
std::string operation_id(std::string_view operation_id);
std::string order(const Identity& identity, OrderClass order_class, std::uint64_t sequence);
std::string resource_order(const Identity& identity, OrderClass order_class, std::uint64_t sequence);

/// Prefixes, for ranges.
std::string namespace_prefix(char table, std::string_view tenant_id, std::string_view namespace_id);
std::string resource_prefix(char table, std::string_view tenant_id, std::string_view namespace_id,
                            std::string_view resource_id);
/// The first key after all keys with this prefix; empty when there is none.
std::string after_prefix(std::string prefix);

/// Value of an order row: the availability as one byte, then the revision's key.
std::string order_value(Availability availability, std::string_view revision_key);
struct OrderValue {
  Availability availability = Availability::kImporting;
  std::string_view revision_key;
};
std::optional<OrderValue> parse_order_value(std::string_view value);

std::string be64(std::uint64_t number);
/// `bytes` are exactly 8.
std::optional<std::uint64_t> parse_be64(std::string_view bytes);

}  // namespace steelyard::metadata::keys
