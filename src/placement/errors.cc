#include "placement/errors.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace steelyard::placement {
namespace {

std::string with_found(std::string message, std::string_view found) {
  if (!found.empty()) message.append(", found ").append(found);
  return message;
}

Status about(const Path& path, std::string_view words, std::string_view found) {
  return contract_error(path, with_found(fmt::format("{} {}", path.name(), words), found));
}

}  // namespace

std::string Path::text() const {
  std::string out = parent_ != nullptr ? parent_->text() : std::string();
  if (indexed_) return out.append("[").append(std::to_string(index_)).append("]");
  if (!out.empty() && !field_.empty()) out += '.';
  return out.append(field_);
}

std::string_view Path::name() const {
  if (!indexed_ && !field_.empty()) return field_;
  return parent_ != nullptr ? parent_->name() : std::string_view("value");
}

Status contract_error(const Path& path, std::string_view message) {
  std::string text = path.text();
  if (!text.empty()) text += ": ";
  return {Code::kInvalidArgument, text.append(message)};
}

Status not_a_string(const Path& path) { return about(path, "must be a non-empty string", {}); }

Status not_an_integer(const Path& path, std::string_view found) { return about(path, "must be an integer", found); }

Status not_integers(const Path& path) { return about(path, "must contain integers", {}); }

Status below_minimum(const Path& path, std::int64_t minimum, std::string_view found) {
  return about(path, fmt::format("must be at least {}", minimum), found);
}

Status beyond_63_bits(const Path& path, std::string_view found) { return about(path, "must fit in 63 bits", found); }

Status beyond_64_bits(const Path& path, std::string_view found) {
  return about(path, "must fit in an unsigned 64-bit integer", found);
}

std::string shown(std::string_view text) {
  constexpr std::size_t kShownBytes = 200;
  if (text.size() <= kShownBytes) return fmt::format("\"{}\"", printable(text));
  return fmt::format("\"{}...\" ({} bytes)", printable(text.substr(0, kShownBytes)), text.size());
}

std::string shown(std::span<const std::int64_t> numbers) {
  constexpr std::size_t kShown = 16;
  std::string text = "(";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i == kShown) return text.append(", ...)");
    if (i != 0) text += ", ";
    text += std::to_string(numbers[i]);
  }
  return text.append(")");
}

}  // namespace steelyard::placement
