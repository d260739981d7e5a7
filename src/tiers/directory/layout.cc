#include "tiers/directory/layout.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace steelyard::tiers::directory {
namespace {

constexpr std::size_t kOperationDigits = 32;

std::string zero_padded(std::uint64_t number, int digits) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%0*llu", digits, static_cast<unsigned long long>(number));
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace

bool is_lower_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Status check_group(std::string_view group) {
  if (is_lower_hex(group, 64)) return {};
  return {Code::kInvalidArgument, "a group is named by 64 lower-case hex digits, not \"" + std::string(group) + "\""};
}

Status check_attempt(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check_group(attempt.group));
  if (attempt.operation.empty() || is_lower_hex(attempt.operation, kOperationDigits)) return {};
  return {Code::kInvalidArgument,
          "an operation is named by 32 lower-case hex digits, not \"" + attempt.operation + "\""};
}

Status check_name(const ObjectName& name) {
  SY_RETURN_IF_ERROR(check_attempt(name.in));
  if (name.kind == ObjectKind::kPayload && name.index > kPayloadIndexMax) {
    return {Code::kInvalidArgument,
            "payload index " + std::to_string(name.index) + " is over " + std::to_string(kPayloadIndexMax)};
  }
  return {};
}

std::string group_path(std::string_view group) {
  return std::string("groups/").append(group.substr(0, 2)).append("/").append(group);
}

std::string attempt_path(const AttemptName& attempt) {
  std::string path = group_path(attempt.group) + "/" + std::to_string(attempt.attempt);
  if (!attempt.operation.empty()) path.append("-").append(attempt.operation);
  return path;
}

std::string object_path(const ObjectName& name) {
  if (name.kind == ObjectKind::kManifest) return attempt_path(name.in) + "/manifest";
  return attempt_path(name.in) + "/p/" + zero_padded(name.index, 8);
}

std::vector<std::string> folders_above(const AttemptName& attempt) {
  std::vector<std::string> folders = folders_above(attempt.group);
  folders.insert(folders.begin(), attempt_path(attempt));
  return folders;
}

std::vector<std::string> folders_above(const std::string& group) {
  const std::string path = group_path(group);
  return {path, path.substr(0, path.rfind('/')), "groups", "."};
}

std::string temporary_path(const AttemptName& attempt, std::string_view temporary) {
  return attempt_path(attempt).append("/tmp/").append(temporary);
}

std::string content_path(const Digest& sha256) {
  const std::string hex = sha256.hex();
  return "content/" + hex.substr(0, 2) + "/" + hex;
}

std::string catalog_path(std::uint64_t sequence) { return "catalog/" + zero_padded(sequence, 20); }

std::optional<std::uint64_t> parse_digits(std::string_view text, std::size_t digits) {
  if (text.size() != digits) return std::nullopt;
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<AttemptName> parse_attempt(const std::string& group, std::string_view text) {
  AttemptName attempt{group};
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    attempt.operation = text.substr(dash + 1);
    if (!is_lower_hex(attempt.operation, kOperationDigits)) return std::nullopt;
    text = text.substr(0, dash);
  }
  if (text.empty() || text.size() > 10 || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  const auto number = parse_digits(text, text.size());
  if (!number.has_value() || *number > UINT32_MAX) return std::nullopt;
  attempt.attempt = static_cast<std::uint32_t>(*number);
  return attempt;
}

bool is_index_name(std::string_view name) {
  constexpr std::string_view kPrefix = "index-";
  return name.starts_with(kPrefix) && is_lower_hex(name.substr(kPrefix.size()), 64);
}

std::string describe(const AttemptName& attempt) {
  std::string text = "attempt " + std::to_string(attempt.attempt) + " of group " + attempt.group;
  if (!attempt.operation.empty()) text.append(" by operation ").append(attempt.operation);
  return text;
}

std::string describe(const ObjectName& name) {
  if (name.kind == ObjectKind::kManifest) return "the manifest of " + describe(name.in);
  return "payload " + zero_padded(name.index, 8) + " of " + describe(name.in);
}

}  // namespace steelyard::tiers::directory
