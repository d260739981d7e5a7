#include "metadata/keys.h"

namespace steelyard::metadata::keys {
namespace {

constexpr std::string_view kTextEnd("\0\x01", 2);

void append_text(std::string& key, std::string_view text) {
  for (std::size_t zero = text.find('\0'); zero != std::string_view::npos; zero = text.find('\0')) {
    key.append(text.substr(0, zero + 1)).push_back('\xff');
    text.remove_prefix(zero + 1);
  }
  key.append(text).append(kTextEnd);
}

void append_be64(std::string& key, std::uint64_t number) {
  char bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>((number >> (56 - 8 * i)) & 0xff);
  key.append(bytes, sizeof bytes);
}

/// Room for a key of these names, nothing of which needs an escape.
std::string begin_key(char table, const Lineage& lineage) {
  constexpr std::size_t kBesidesNames = 1 + 4 * kTextEnd.size() + 1 + 8 + 8;
  std::string key;
  key.reserve(lineage.tenant_id.size() + lineage.namespace_id.size() + lineage.resource_id.size() +
              lineage.revision.size() + kBesidesNames);
  key.push_back(table);
  append_text(key, lineage.tenant_id);
  append_text(key, lineage.namespace_id);
  return key;
}

void append_name(std::string& key, const Identity& identity) {
  append_text(key, identity.lineage.revision);
  append_be64(key, static_cast<std::uint64_t>(identity.weight_generation));
}

}  // namespace

std::string be64(std::uint64_t number) {
  std::string out;
  append_be64(out, number);
  return out;
}

std::optional<std::uint64_t> parse_be64(std::string_view bytes) {
  if (bytes.size() != 8) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : bytes) number = (number << 8) | static_cast<unsigned char>(c);
  return number;
}

std::string namespace_prefix(char table, std::string_view tenant_id, std::string_view namespace_id) {
  std::string key(1, table);
  append_text(key, tenant_id);
  append_text(key, namespace_id);
  return key;
}

std::string resource_prefix(char table, std::string_view tenant_id, std::string_view namespace_id,
                            std::string_view resource_id) {
  std::string key = namespace_prefix(table, tenant_id, namespace_id);
  append_text(key, resource_id);
  return key;
}

std::string of(char table, const Lineage& lineage) {
  std::string key = begin_key(table, lineage);
  append_text(key, lineage.resource_id);
  append_text(key, lineage.revision);
  return key;
}

std::string of(char table, const Identity& identity) {
  std::string key = of(table, identity.lineage);
  append_be64(key, static_cast<std::uint64_t>(identity.weight_generation));
  return key;
}

std::string lease(const Identity& identity, std::string_view lease_id) { return of(kLease, identity).append(lease_id); }

std::string epoch() { return std::string(1, kEpoch); }
std::string last_instant() { return std::string(1, kLastInstant); }
std::string group(const Digest& digest) { return std::string(1, kGroup).append(as_text(digest.bytes)); }
std::string lease_id(std::string_view lease_id) { return std::string(1, kLeaseId).append(lease_id); }
std::string operation_id(std::string_view operation_id) { return std::string(1, kOperationId).append(operation_id); }

std::string order(const Identity& identity, OrderClass order_class, std::uint64_t sequence) {
  std::string key = begin_key(kOrder, identity.lineage);
  key.push_back(static_cast<char>(order_class));
  append_be64(key, sequence);
  append_text(key, identity.lineage.resource_id);
  append_name(key, identity);
  return key;
}

std::string resource_order(const Identity& identity, OrderClass order_class, std::uint64_t sequence) {
  std::string key = begin_key(kResourceOrder, identity.lineage);
  append_text(key, identity.lineage.resource_id);
  key.push_back(static_cast<char>(order_class));
  append_be64(key, sequence);
  append_name(key, identity);
  return key;
}

std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

std::string order_value(Availability availability, std::string_view revision_key) {
  return std::string(1, static_cast<char>(availability)).append(revision_key);
}

std::optional<OrderValue> parse_order_value(std::string_view value) {
  if (value.size() < 2 || value[0] < 1 || value[0] > 5) return std::nullopt;
  return OrderValue{static_cast<Availability>(value[0]), value.substr(1)};
}

}  // namespace steelyard::metadata::keys
