#include "formats/checkpoint_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "formats/checkpoint_files.h"
#include "formats/json_cursor.h"

namespace steelyard::formats {

Status CheckpointIndex::bad(std::string_view what) const {
  return {Code::kCorrupt, fmt::format("{}: {}", printable(path_), what),
          "fetch the index again, or pass --ignore-index to take the shards as they are"};
}

Result<CheckpointIndex> CheckpointIndex::parse(const std::string& path, std::string_view json) {
  CheckpointIndex index;
  index.path_ = path;
  SY_RETURN_IF_ERROR(index.read(json));
  const auto name_at = [&index](std::size_t i) { return index.names_.at(i); };
  index.tensors_in_.resize(index.shards_.size());
  for (const std::uint32_t shard : index.shard_of_) ++index.tensors_in_[shard];
  index.by_name_ = NameIndex(index.size(), name_at);
  if (const auto repeat = index.by_name_.first_repeat(name_at)) {
    return index.bad(fmt::format("weight_map names the tensor {} twice", printable(name_at(repeat->second))));
  }
  return index;
}

Status CheckpointIndex::read(std::string_view json) {
  JsonCursor cursor(json);
  if (const Status open = cursor.expect('{'); !open.ok()) return bad(open.message());
  bool seen = false;
  std::string scratch;
  bool more = !cursor.take('}');
  while (more) {
    const auto key = cursor.string(scratch);
    if (!key.ok()) return bad(key.status().message());
    const bool is_map = *key == "weight_map";
    if (const Status colon = cursor.expect(':'); !colon.ok()) return bad(colon.message());
    if (is_map) {
      if (seen) return bad("it has weight_map twice");
      seen = true;
      SY_RETURN_IF_ERROR(read_weight_map(cursor));
    } else if (const Status value = cursor.skip_value(); !value.ok()) {
      return bad(value.message());
    }
    more = !cursor.take('}');
    if (!more) break;
    if (const Status comma = cursor.expect(','); !comma.ok()) return bad(comma.message());
  }
  if (const Status end = cursor.expect_end(); !end.ok()) return bad(end.message());
  if (!seen) return bad("it has no weight_map; wanted an object that gives each tensor its shard");
  return {};
}

Status CheckpointIndex::read_weight_map(JsonCursor& cursor) {
  if (cursor.peek() != '{') return bad(fmt::format("weight_map begins with {}; wanted an object", cursor.found()));
  if (const Status open = cursor.expect('{'); !open.ok()) return bad(open.message());
  if (cursor.take('}')) return {};
  std::string name_scratch;
  std::string shard_scratch;
  while (true) {
    const auto name = cursor.string(name_scratch);
    if (!name.ok()) return bad(name.status().message());
    if (const Status colon = cursor.expect(':'); !colon.ok()) return bad(colon.message());
    if (cursor.peek() != '"') {
      return bad(fmt::format("weight_map gives tensor {} a value beginning with {}; wanted the name of a shard",
                             printable(*name), cursor.found()));
    }
    const auto shard = cursor.string(shard_scratch);
    if (!shard.ok()) return bad(shard.status().message());
    std::string_view fault = path_fault(*shard);
    if (fault.empty() && shard->find('/') != std::string_view::npos) fault = "lies in another folder";
    if (fault.empty() && !is_safetensors_file(*shard)) fault = "is no .safetensors file";
    if (!fault.empty()) {
      return bad(
          fmt::format("weight_map places tensor {} in \"{}\", which {}; wanted a .safetensors file of the "
                      "index's own folder",
                      printable(*name), printable(*shard), fault));
    }
    const bool as_before = !shard_of_.empty() && shards_[shard_of_.back()] == *shard;
    if (as_before) {
      shard_of_.push_back(shard_of_.back());
    } else {
      const auto number = static_cast<std::uint32_t>(shards_.size());
      const auto [found, added] = shard_numbers_.try_emplace(std::string(*shard), number);
      if (added) shards_.emplace_back(*shard);
      shard_of_.push_back(found->second);
    }
    names_.push_back(*name);
    if (cursor.take('}')) return {};
    if (const Status comma = cursor.expect(','); !comma.ok()) return bad(comma.message());
  }
}

std::optional<std::uint32_t> CheckpointIndex::find_shard(std::string_view base) const {
  const auto found = shard_numbers_.find(base);
  if (found == shard_numbers_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::size_t> CheckpointIndex::find(std::string_view tensor) const {
  return by_name_.find(tensor, [this](std::size_t i) { return names_.at(i); });
}

}  // namespace steelyard::formats
