#include "formats/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace steelyard::formats {
namespace {

bool has_suffix(std::string_view path, std::string_view suffix) {
  const std::string_view base = base_of(path);
  return base.size() > suffix.size() && base.ends_with(suffix);
}

/// Bytes of the UTF-8 character that begins at `at`.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) ++end;
  return end - at;
}

/// Matches `[...]` at the start of `pattern`. `bytes` is its length, 0 when it never closes (then it is a plain `[`).
bool match_class(std::string_view pattern, std::string_view character, std::size_t& bytes) {
  std::size_t at = 1;
  const bool negated = at < pattern.size() && pattern[at] == '!';
  if (negated) ++at;
  const std::size_t first = at;
  bool matched = false;
  while (at < pattern.size() && (pattern[at] != ']' || at == first)) {
    const std::string_view low = pattern.substr(at, character_bytes(pattern, at));
    at += low.size();
    std::string_view high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      high = pattern.substr(at + 1, character_bytes(pattern, at + 1));
      at += 1 + high.size();
    }
    // UTF-8 keeps the order of code points.
    matched = matched || (low <= character && character <= high);
  }
  bytes = at < pattern.size() ? at + 1 : 0;
  return matched != negated;
}

/// `model.safetensors.index.fp16.json`.
struct IndexName {
  std::string_view stem;     ///< `model`
  std::string_view variant;  ///< `fp16`, empty without one
};

std::optional<IndexName> parse_index_name(std::string_view base) {
  constexpr std::string_view kIndex = ".safetensors.index.";
  constexpr std::string_view kJson = "json";
  const std::size_t at = base.rfind(kIndex);
  if (at == std::string_view::npos || at == 0 || !base.ends_with(kJson)) return std::nullopt;
  std::string_view variant = base.substr(at + kIndex.size());
  variant.remove_suffix(kJson.size());
  if (variant.empty()) return IndexName{base.substr(0, at), {}};
  // What is left is `fp16.`: one part, not empty.
  if (variant.find('.') != variant.size() - 1 || variant.size() < 2) return std::nullopt;
  variant.remove_suffix(1);
  return IndexName{base.substr(0, at), variant};
}

std::optional<std::uint64_t> number_of(std::string_view digits) {
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

}  // namespace

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_weight_file(std::string_view path) {
  static constexpr std::array<std::string_view, 9> kSuffixes = {".safetensors", ".bin",  ".pt", ".pth",    ".ckpt",
                                                                ".gguf",        ".onnx", ".h5", ".msgpack"};
  return std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return has_suffix(path, suffix); });
}

bool is_safetensors_file(std::string_view path) { return has_suffix(path, ".safetensors"); }

bool is_training_state(std::string_view path) {
  static constexpr std::array<std::string_view, 6> kBeginnings = {"optimizer", "scheduler",     "scaler",
                                                                  "rng_state", "random_states", "training_args"};
  // As DeepSpeed writes them: with a stage of sharding the model's part of the state is no whole weight either.
  static constexpr std::array<std::string_view, 2> kParts = {"optim_states", "zero_pp_rank_"};
  const std::string_view base = base_of(path);
  return std::ranges::any_of(kBeginnings, [&](std::string_view name) { return base.starts_with(name); }) ||
         std::ranges::any_of(kParts, [&](std::string_view name) { return base.find(name) != std::string_view::npos; });
}

bool is_safetensors_index(std::string_view path) { return parse_index_name(base_of(path)).has_value(); }

bool is_never_imported(std::string_view path) {
  std::string_view before;
  while (true) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part == ".git" || (before == ".cache" && part == "huggingface")) return true;
    if (part.size() == path.size()) return false;
    before = part;
    path.remove_prefix(part.size() + 1);
  }
}

std::string_view path_fault(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.find('\0') != std::string_view::npos) return "has a NUL byte";
  if (!is_valid_utf8(path)) return "is not UTF-8";
  if (path.front() == '/') return "is absolute";
  while (true) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty()) return "has an empty part";
    if (part == ".") return "has the part \".\"";
    if (part == "..") return "has the part \"..\"";
    if (part.size() == path.size()) return {};
    path.remove_prefix(part.size() + 1);
  }
}

bool glob_match(std::string_view pattern, std::string_view path) {
  if (pattern.starts_with("./")) pattern.remove_prefix(2);
  const std::string whole_folder = pattern.ends_with('/') ? fmt::format("{}*", pattern) : std::string();
  if (!whole_folder.empty()) pattern = whole_folder;
  std::size_t p = 0;
  std::size_t t = 0;
  // Where the last `*` stood, and how far it reaches: the only place worth going back to.
  std::size_t star = std::string_view::npos;
  std::size_t star_end = 0;
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = t;
      continue;
    }
    if (p == pattern.size() && t == path.size()) return true;
    bool fits = false;
    if (p < pattern.size() && t < path.size()) {
      const std::size_t character = character_bytes(path, t);
      std::size_t pattern_bytes = 1;
      std::size_t text_bytes = 1;
      if (pattern[p] == '?') {
        fits = true;
        text_bytes = character;
      } else if (std::size_t bytes = 0; pattern[p] == '[') {
        fits = match_class(pattern.substr(p), path.substr(t, character), bytes);
        if (bytes == 0) {
          fits = path[t] == '[';
        } else {
          pattern_bytes = bytes;
          text_bytes = character;
        }
      } else {
        fits = pattern[p] == path[t];
      }
      if (fits) {
        p += pattern_bytes;
        t += text_bytes;
        continue;
      }
    }
    if (star == std::string_view::npos || star_end == path.size()) return false;
    p = star + 1;
    star_end += character_bytes(path, star_end);
    t = star_end;
  }
}

std::string exclude_flag(std::string_view path) {
  std::string pattern;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[') {
      pattern.append(1, '[').append(1, c).append(1, ']');
    } else if (c == '\'') {
      pattern.append("'\\''");  // the shell's quotes end, and begin again
    } else {
      pattern.append(1, c);
    }
  }
  return fmt::format("--exclude '{}'", printable(pattern));
}

std::optional<ShardName> parse_shard_name(std::string_view base) {
  ShardName name;
  constexpr std::string_view kOf = "-of-";
  const std::size_t of = base.rfind(kOf);
  if (of == std::string_view::npos) return std::nullopt;
  const std::size_t dot = base.find('.', of);
  if (dot == std::string_view::npos) return std::nullopt;
  name.suffix = base.substr(dot);
  const std::string_view count = base.substr(of + kOf.size(), dot - of - kOf.size());
  const std::string_view stem = base.substr(0, of);
  const std::size_t dash = stem.rfind('-');
  const std::string_view number = dash == std::string_view::npos ? stem : stem.substr(dash + 1);
  name.prefix = stem.substr(0, stem.size() - number.size());
  const auto number_value = number_of(number);
  const auto count_value = number_of(count);
  constexpr std::uint64_t kShardsMax = 100'000;
  if (!number_value || !count_value || *number_value > *count_value || *count_value > kShardsMax) return std::nullopt;
  name.number = *number_value;
  name.count = *count_value;
  name.number_digits = number.size();
  name.count_digits = count.size();
  return name;
}

std::string shard_name(const ShardName& of, std::uint64_t number) {
  return fmt::format("{}{:0{}}-of-{:0{}}{}", of.prefix, number, of.number_digits, of.count, of.count_digits, of.suffix);
}

std::string safetensors_set_of(std::string_view base) {
  if (const auto index = parse_index_name(base)) {
    return index->variant.empty() ? std::string(index->stem) : fmt::format("{}.{}", index->stem, index->variant);
  }
  constexpr std::string_view kSuffix = ".safetensors";
  if (const auto shard = parse_shard_name(base)) {
    std::string_view stem = shard->prefix;
    if (stem.ends_with('-')) stem.remove_suffix(1);
    std::string_view variant = shard->suffix;
    if (variant.ends_with(kSuffix)) variant.remove_suffix(kSuffix.size());
    return fmt::format("{}{}", stem, variant);
  }
  if (base.ends_with(kSuffix)) base.remove_suffix(kSuffix.size());
  return std::string(base);
}

bool is_variant_of(std::string_view set, std::string_view plain) {
  return !plain.empty() && set.size() > plain.size() + 1 && set.starts_with(plain) && set[plain.size()] == '.';
}

}  // namespace steelyard::formats
