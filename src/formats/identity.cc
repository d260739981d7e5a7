#include "formats/identity.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "hash/framed.h"

namespace steelyard::formats {
namespace {

constexpr std::uint32_t kPayloadIndexDigits = 8;
constexpr std::uint32_t kPayloadIndexEnd = 100'000'000;
constexpr char kUpperHex[] = "0123456789ABCDEF";

constexpr auto kKept = [] {
  std::array<bool, 256> kept{};
  for (unsigned c = 'A'; c <= 'Z'; ++c) kept[c] = true;
  for (unsigned c = 'a'; c <= 'z'; ++c) kept[c] = true;
  for (unsigned c = '0'; c <= '9'; ++c) kept[c] = true;
  for (const unsigned char c : {'-', '_', '.', '~'}) kept[c] = true;
  return kept;
}();

bool kept(char c) { return kKept[static_cast<unsigned char>(c)]; }

int upper_hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::size_t encoded_bytes(std::string_view text) {
  return text.size() + 2 * static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !kept(c); }));
}

Status refuse(std::string_view field, const std::string& found, std::string_view wanted) {
  return Status(Code::kInvalidArgument, std::string(field) + " " + found + "; wanted: " + std::string(wanted));
}

constexpr std::string_view kNameRule =
    "1 to 1024 bytes of valid UTF-8 without control characters, not \".\" and not \"..\"";
constexpr std::string_view kTenantRule = "1 to 255 bytes of valid UTF-8, not beginning with \"_\"";

Status validate_tenant(std::string_view tenant) {
  constexpr std::string_view kField = "tenant_id";
  if (tenant.empty()) return refuse(kField, "is empty", kTenantRule);
  if (tenant.size() > limits::kTenantBytesMax) {
    return refuse(kField, "has " + std::to_string(tenant.size()) + " bytes", kTenantRule);
  }
  if (!is_valid_utf8(tenant)) return refuse(kField, in_quotes(tenant) + " is not valid UTF-8", kTenantRule);
  if (tenant.front() == '_') return refuse(kField, in_quotes(tenant) + " begins with \"_\"", kTenantRule);
  return {};
}

void append_encoded(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const auto end = std::ranges::find_if_not(text, kept);
    out.append(text.begin(), end);
    text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
    if (text.empty()) return;
    const auto byte = static_cast<unsigned char>(text.front());
    out += '%';
    out += kUpperHex[byte >> 4];
    out += kUpperHex[byte & 15];
    text.remove_prefix(1);
  }
}

/// The manifest key up to and with the last `/`.
std::string key_prefix(const Identity& identity) {
  constexpr std::size_t kBesidesNames = 64;  // with what follows the prefix
  const Lineage& lineage = identity.lineage;
  std::string key;
  key.reserve(lineage.namespace_id.size() + lineage.resource_id.size() + lineage.revision.size() + kBesidesNames);
  key += "weights/";
  for (const std::string* part : {&lineage.namespace_id, &lineage.resource_id, &lineage.revision}) {
    append_encoded(key, *part);
    key += '/';
  }
  key += std::to_string(identity.weight_generation);
  key += '/';
  return key;
}

void put_digits(char* digits, std::uint32_t number) {
  for (std::uint32_t i = kPayloadIndexDigits; i-- > 0; number /= 10) digits[i] = static_cast<char>('0' + number % 10);
}

}  // namespace

Status validate_name(std::string_view field, std::string_view text) {
  if (text.empty()) return refuse(field, "is empty", kNameRule);
  if (text.size() > limits::kIdentityPartBytesMax) {
    return refuse(field, "has " + std::to_string(text.size()) + " bytes", kNameRule);
  }
  if (!is_valid_utf8(text)) return refuse(field, in_quotes(text) + " is not valid UTF-8", kNameRule);
  if (has_control_character(text)) return refuse(field, in_quotes(text) + " holds a control character", kNameRule);
  if (text == "." || text == "..") return refuse(field, "is " + in_quotes(text), kNameRule);
  return {};
}

Status validate(const Lineage& lineage) {
  SY_RETURN_IF_ERROR(validate_tenant(lineage.tenant_id));
  SY_RETURN_IF_ERROR(validate_name("namespace", lineage.namespace_id));
  SY_RETURN_IF_ERROR(validate_name("resource_id", lineage.resource_id));
  SY_RETURN_IF_ERROR(validate_name("revision", lineage.revision));
  return {};
}

Status validate(const Identity& identity) {
  SY_RETURN_IF_ERROR(validate(identity.lineage));
  if (identity.weight_generation < 1) {
    return refuse("weight_generation", "is " + std::to_string(identity.weight_generation),
                  "1 to " + std::to_string(limits::kGenerationMax));
  }
  const Lineage& lineage = identity.lineage;
  constexpr std::string_view kManifest = "manifest";
  const std::size_t bytes = std::string_view("weights/////").size() + encoded_bytes(lineage.namespace_id) +
                            encoded_bytes(lineage.resource_id) + encoded_bytes(lineage.revision) +
                            std::to_string(identity.weight_generation).size() + kManifest.size();
  if (bytes > limits::kManifestKeyBytesMax) {
    return refuse("manifest key", "has " + std::to_string(bytes) + " bytes once percent-encoded",
                  "at most " + std::to_string(limits::kManifestKeyBytesMax) +
                      " bytes; shorten namespace, resource_id or revision (each byte outside A-Z a-z 0-9 - _ . ~ "
                      "counts three)");
  }
  return {};
}

std::string percent_encode(std::string_view text) {
  std::string out;
  out.reserve(encoded_bytes(text));
  append_encoded(out, text);
  return out;
}

Result<std::string> percent_decode(std::string_view encoded) {
  const auto bad = [&](std::size_t at, std::string_view what) {
    return Status(Code::kInvalidArgument,
                  "encoded name " + in_quotes(encoded) + " at byte " + std::to_string(at) + ": " + std::string(what));
  };
  std::string out;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (kept(encoded[i])) {
      out += encoded[i];
      continue;
    }
    if (encoded[i] != '%') return bad(i, "found a byte that is always escaped");
    const int high = i + 2 < encoded.size() ? upper_hex_value(encoded[i + 1]) : -1;
    const int low = i + 2 < encoded.size() ? upper_hex_value(encoded[i + 2]) : -1;
    if (high < 0 || low < 0) return bad(i, "wanted two upper-case hex digits after \"%\"");
    const char decoded = static_cast<char>(high * 16 + low);
    if (kept(decoded)) return bad(i, "found an escape of a byte that is never escaped");
    out += decoded;
    i += 2;
  }
  return out;
}

std::string manifest_key(const Identity& identity) { return key_prefix(identity).append("manifest"); }

std::string payload_key(const Identity& identity, std::uint32_t index) {
  SY_CHECK(index < kPayloadIndexEnd, "a payload index has eight digits");
  std::string key = key_prefix(identity) + "payload/" + std::string(kPayloadIndexDigits, '0');
  put_digits(key.data() + key.size() - kPayloadIndexDigits, index);
  return key;
}

Digest payload_group_digest(const Identity& identity) {
  return hash::FramedSha256()
      .add(identity.lineage.tenant_id)
      .add(identity.lineage.namespace_id)
      .add(identity.lineage.resource_id)
      .add(identity.lineage.revision)
      .add(std::to_string(identity.weight_generation))
      .finish();
}

std::string payload_group_id(const Identity& identity) {
  std::string id;
  id.reserve(std::string_view("weight:").size() + 2 * sizeof(Digest::bytes));
  return id.append("weight:").append(payload_group_digest(identity).hex());
}

std::string payload_keys_sha256(const Identity& identity, std::uint32_t count) {
  SY_CHECK(count <= kPayloadIndexEnd, "a payload index has eight digits");
  hash::FramedSha256 sha;
  std::string key = key_prefix(identity) + "payload/" + std::string(kPayloadIndexDigits, '0');
  char* const digits = key.data() + key.size() - kPayloadIndexDigits;
  // All keys have one length, so the order of the numbers is the order of the bytes.
  for (std::uint32_t index = 0; index < count; ++index) {
    put_digits(digits, index);
    sha.add(key);
  }
  return sha.finish().hex();
}

}  // namespace steelyard::formats
