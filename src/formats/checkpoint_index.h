// `*.safetensors.index.json` (is_safetensors_index): which tensor of a component lies in which shard.
//
// Thread-compatible value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "formats/name_index.h"
#include "formats/tensor_table.h"

namespace steelyard::formats {

class CheckpointIndex {
 public:
  /// CORRUPT, naming the file and what is wrong: bad JSON with its position, no weight_map, a value that is not the
  /// name of a safetensors file in the index's own folder, a tensor named twice.
  static Result<CheckpointIndex> parse(const std::string& path, std::string_view json);

  const std::string& path() const { return path_; }
  std::size_t size() const { return names_.size(); }
  std::string_view tensor(std::size_t i) const { return names_.at(i); }
  /// Number of the shard that holds tensor i.
  std::uint32_t shard_of(std::size_t i) const { return shard_of_[i]; }
  std::size_t tensors_in(std::uint32_t shard) const { return tensors_in_[shard]; }
  /// Base names, in the order in which the index first names them.
  const std::vector<std::string>& shards() const { return shards_; }
  std::optional<std::uint32_t> find_shard(std::string_view base) const;
  /// Position of a tensor.
  std::optional<std::size_t> find(std::string_view tensor) const;

 private:
  Status read(std::string_view json);
  Status read_weight_map(class JsonCursor& cursor);
  Status bad(std::string_view what) const;

  std::string path_;
  StringColumn names_;
  std::vector<std::uint32_t> shard_of_;
  std::vector<std::string> shards_;
  std::map<std::string, std::uint32_t, std::less<>> shard_numbers_;  // ordered: no choice of names makes it slow
  std::vector<std::size_t> tensors_in_;                              ///< by shard
  NameIndex by_name_;
};

}  // namespace steelyard::formats
