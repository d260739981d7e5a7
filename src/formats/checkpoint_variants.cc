#include "formats/checkpoint_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "formats/checkpoint_files.h"
#include "formats/name_index.h"

namespace steelyard::formats {
namespace {

/// The files and indexes that belong together by name: safetensors_set_of().
struct WeightSet {
  std::string name;
  std::vector<ComponentFile*> files;
  std::vector<CheckpointIndex*> indexes;
  std::vector<WeightSet*> doubles;  ///< variants of this one
  bool is_double = false;
};

/// Shortest name first, so that a plain set comes before its variants.
std::vector<WeightSet> sets_of(Component& component) {
  std::map<std::string, WeightSet> sets;
  // An index says what its shards belong to, whatever they are called; a shard of two indexes belongs to the plain one.
  std::map<std::string, std::string> owner;
  for (CheckpointIndex& index : component.indexes) {
    const std::string name = safetensors_set_of(base_of(index.path()));
    sets[name].indexes.push_back(&index);
    for (const std::string& shard : index.shards()) {
      const auto [at, added] = owner.try_emplace(shard, name);
      if (!added && name.size() < at->second.size()) at->second = name;
    }
  }
  for (ComponentFile& file : component.files) {
    const std::string base(base_of(file.path));
    const auto at = owner.find(base);
    sets[at == owner.end() ? safetensors_set_of(base) : at->second].files.push_back(&file);
  }
  std::vector<WeightSet> sorted;
  for (auto& [name, set] : sets) {
    set.name = name;
    sorted.push_back(std::move(set));
  }
  std::ranges::stable_sort(sorted, {}, [](const WeightSet& set) { return set.name.size(); });
  return sorted;
}

bool share_a_tensor(const WeightSet& plain, const WeightSet& variant) {
  std::vector<std::string_view> names;
  for (const ComponentFile* file : plain.files) {
    const TensorTable& table = file->header.tensors;
    for (std::size_t i = 0; i < table.size(); ++i) names.push_back(table.tensor_id(i));
  }
  const auto name_at = [&names](std::size_t i) { return names[i]; };
  const NameIndex by_name(names.size(), name_at);
  for (const CheckpointIndex* index : variant.indexes) {
    for (std::size_t i = 0; i < index->size(); ++i) {
      if (by_name.find(index->tensor(i), name_at)) return true;
    }
  }
  for (const ComponentFile* file : variant.files) {
    const TensorTable& table = file->header.tensors;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (by_name.find(table.tensor_id(i), name_at)) return true;
    }
  }
  return false;
}

/// A set in few words: its index, or its files.
std::string shown(const WeightSet& set) {
  if (!set.indexes.empty()) return printable(set.indexes.front()->path());
  const std::string first = printable(set.files.front()->path);
  return set.files.size() == 1 ? first : fmt::format("{} and {} more", first, set.files.size() - 1);
}

std::string warning_of(const WeightSet& plain) {
  std::string doubles;
  for (const WeightSet* variant : plain.doubles) {
    doubles.append(doubles.empty() ? "" : ", ").append(shown(*variant));
    if (variant->files.empty()) doubles.append(" (none of its shards is there)");
  }
  return fmt::format(
      "the tensors are taken from {}; the same ones are in {}, kept as weight files without tensors (to choose a "
      "variant, "
      "leave out the plain files with --exclude)",
      shown(plain), doubles);
}

}  // namespace

void set_variants_aside(Component& component) {
  std::vector<WeightSet> sets = sets_of(component);
  for (auto variant = sets.begin(); variant != sets.end(); ++variant) {
    const auto plain = std::find_if(sets.begin(), variant, [&](const WeightSet& set) {
      return !set.is_double && !set.files.empty() && is_variant_of(variant->name, set.name) &&
             share_a_tensor(set, *variant);
    });
    if (plain == variant) continue;
    variant->is_double = true;
    plain->doubles.push_back(&*variant);
    for (ComponentFile* file : variant->files) {
      file->has_tensors = false;
      file->variant = true;
    }
  }
  std::vector<std::string> moved;
  for (const WeightSet& set : sets) {
    if (!set.doubles.empty()) component.warnings.push_back(warning_of(set));
    for (const CheckpointIndex* index : set.indexes) {
      if (set.is_double) moved.push_back(index->path());
    }
  }
  if (moved.empty()) return;
  std::vector<CheckpointIndex> kept;
  for (CheckpointIndex& index : component.indexes) {
    const bool is_moved = std::ranges::find(moved, index.path()) != moved.end();
    (is_moved ? component.variant_indexes : kept).push_back(std::move(index));
  }
  component.indexes = std::move(kept);
}

}  // namespace steelyard::formats
