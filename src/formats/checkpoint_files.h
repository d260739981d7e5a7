// What the name of a file in a checkpoint folder means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace steelyard::formats {

/// By suffix: .safetensors .bin .pt .pth .ckpt .gguf .onnx .h5 .msgpack.
bool is_weight_file(std::string_view path);
bool is_safetensors_file(std::string_view path);
/// By name, the state of a training run (optimizer, scheduler, random numbers, arguments) and no form of the weights.
bool is_training_state(std::string_view path);
/// `*.safetensors.index.json`, and `*.safetensors.index.fp16.json` for a variant.
bool is_safetensors_index(std::string_view path);
/// `.git` and `.cache/huggingface`, at any depth, and everything below them.
bool is_never_imported(std::string_view path);

/// "" for a file of the root.
std::string_view folder_of(std::string_view path);
std::string_view base_of(std::string_view path);

/// What is wrong with a path as a relative one below some folder: "is absolute", "has the part \"..\"", ...; empty when
/// nothing is.
std::string_view path_fault(std::string_view path);

/// Shell pattern over a whole relative path: `*` and `?` match `/` too, `[a-z]` and `[!a-z]` one character; a pattern
/// that ends in `/` stands for all below that folder.
bool glob_match(std::string_view pattern, std::string_view path);

/// The flag that leaves out this file and no other, as it is typed in a shell: `--exclude 'model[[]1].bin'`.
std::string exclude_flag(std::string_view path);
/// For the reason of a skipped file. An --include of that file alone would leave out all others.
inline constexpr std::string_view kTakesEverything = "--include '*' takes everything";

/// `model-00002-of-00003.safetensors`, `model-00002-of-00003.fp16.safetensors`.
struct ShardName {
  std::string_view prefix;  ///< `model-`
  std::string_view suffix;  ///< `.safetensors`, `.fp16.safetensors`
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  std::size_t number_digits = 0;
  std::size_t count_digits = 0;
};
std::optional<ShardName> parse_shard_name(std::string_view base);
/// The base name of another shard of the same set.
std::string shard_name(const ShardName& of, std::uint64_t number);

/// What the safetensors files and the index of one set have in common: `model` of `model.safetensors`, its shards and
/// its index; `model.fp16` of `model.fp16.safetensors`, `model.fp16-00001-of-00002.safetensors`,
/// `model-00001-of-00002.fp16.safetensors`, `model.safetensors.index.fp16.json`, `model.fp16.safetensors.index.json`.
std::string safetensors_set_of(std::string_view base);
/// `model.fp16` is a variant of `model`.
bool is_variant_of(std::string_view set, std::string_view plain);

}  // namespace steelyard::formats
