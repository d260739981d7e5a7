#include "formats/checkpoint_component.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "base/utf8.h"
#include "formats/checkpoint_files.h"
#include "formats/checkpoint_variants.h"

namespace steelyard::formats {
namespace {

constexpr std::string_view kStale = "if the index is stale, pass --ignore-index to take the shards as they are";

bool is_consolidated(std::string_view path) { return base_of(path).starts_with("consolidated"); }

std::string joined_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 20;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i) {
    text.append(i == 0 ? "" : ", ").append(printable(names[i]));
  }
  if (names.size() > kNamed) text.append(fmt::format(" and {} more", names.size() - kNamed));
  return text;
}

/// All tensors of several files as one column of names.
class JoinedNames {
 public:
  explicit JoinedNames(std::vector<ComponentFile*> files) : files_(std::move(files)) {
    for (const ComponentFile* file : files_) ends_.push_back(size() + file->header.tensors.size());
  }
  std::size_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  ComponentFile* file_of(std::size_t i) const { return files_[slot(i)]; }
  std::string_view operator()(std::size_t i) const {
    const std::size_t file = slot(i);
    return files_[file]->header.tensors.tensor_id(i - (file == 0 ? 0 : ends_[file - 1]));
  }

 private:
  std::size_t slot(std::size_t i) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(ends_, i) - ends_.begin());
  }
  std::vector<ComponentFile*> files_;
  std::vector<std::size_t> ends_;
};

class Settler {
 public:
  Settler(Component& component, bool keep_doubles, const std::function<AbsentShard(const std::string&)>& absent)
      : component_(component), keep_doubles_(keep_doubles), absent_(absent) {
    for (ComponentFile& file : component_.files) by_base_.emplace(base_of(file.path), &file);
  }

  Status settle() {
    set_variants_aside(component_);
    for (const CheckpointIndex& index : component_.variant_indexes) {
      if (shards_present(index) != 0) SY_RETURN_IF_ERROR(check_presence(index));
    }
    SY_RETURN_IF_ERROR(choose_indexes());
    for (const CheckpointIndex* index : chosen_) SY_RETURN_IF_ERROR(check_presence(*index));
    SY_RETURN_IF_ERROR(refuse_empty_index());
    if (!chosen_.empty()) {
      SY_RETURN_IF_ERROR(apply_indexes());
      judge_strays();
    } else {
      drop_consolidated_double();
    }
    return refuse_doubles();
  }

 private:
  ComponentFile* find_file(std::string_view base) {
    const auto found = by_base_.find(base);
    return found == by_base_.end() ? nullptr : found->second;
  }

  std::string path_of(const std::string& base) const {
    return component_.folder.empty() ? base : component_.folder + "/" + base;
  }

  std::size_t shards_present(const CheckpointIndex& index) {
    return static_cast<std::size_t>(
        std::ranges::count_if(index.shards(), [&](const std::string& shard) { return find_file(shard) != nullptr; }));
  }

  /// Two indexes that place a tensor in different shards are doubles; the better one counts.
  Status choose_indexes() {
    std::vector<CheckpointIndex*> ranked;
    for (CheckpointIndex& index : component_.indexes) ranked.push_back(&index);
    std::ranges::sort(ranked, {}, [&](const CheckpointIndex* index) {
      const std::string_view base = base_of(index->path());
      const int usual =
          base == "model.safetensors.index.json" || base == "diffusion_pytorch_model.safetensors.index.json"
              ? 0
              : (is_consolidated(base) ? 2 : 1);
      const bool nothing_there = shards_present(*index) == 0 && !index->shards().empty();
      return std::tuple(nothing_there, usual, base.size(), std::string(base));
    });
    for (CheckpointIndex* index : ranked) {
      if (!chosen_.empty() && !index->shards().empty() && shards_present(*index) == 0) {
        component_.warnings.push_back(fmt::format(
            "{}: none of the {} shards that it names is there; {} is taken as the index of {}",
            printable(index->path()), index->shards().size(), printable(chosen_.front()->path()), component_.shown()));
        continue;
      }
      CheckpointIndex* rival = nullptr;
      for (CheckpointIndex* other : chosen_) {
        if (disagree(*index, *other)) rival = other;
      }
      if (rival == nullptr) {
        chosen_.push_back(index);
      } else {
        drop_index(*index, *rival);
      }
    }
    return {};
  }

  static bool disagree(const CheckpointIndex& a, const CheckpointIndex& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto other = b.find(a.tensor(i));
      if (other && b.shards()[b.shard_of(*other)] != a.shards()[a.shard_of(i)]) return true;
    }
    return false;
  }

  void drop_index(const CheckpointIndex& index, const CheckpointIndex& rival) {
    component_.warnings.push_back(fmt::format(
        "{} and {} name the same tensors in different shards; {} is chosen ({} chooses the other)",
        printable(rival.path()), printable(index.path()), printable(rival.path()), exclude_flag(rival.path())));
    if (keep_doubles_) return;
    component_.skipped_indexes.push_back(
        {index.path(), 0, fmt::format("a second index of the tensors of {}; {}", rival.path(), kTakesEverything)});
  }

  Status check_presence(const CheckpointIndex& index) {
    std::vector<std::string> missing;
    std::vector<std::string> deselected;
    for (const std::string& shard : index.shards()) {
      if (find_file(shard) != nullptr) continue;
      (absent_(path_of(shard)) == AbsentShard::kMissing ? missing : deselected).push_back(shard);
    }
    if (!missing.empty()) {
      const bool nothing_there = missing.size() == index.shards().size();
      return {Code::kCorrupt,
              fmt::format("{}: {} of the {} shards that it names {} missing{}: {}", printable(index.path()),
                          missing.size(), index.shards().size(), missing.size() == 1 ? "is" : "are",
                          nothing_there ? ", so none is there" : "", joined_names(missing)),
              fmt::format("fetch what is missing; {}", kStale)};
    }
    if (!deselected.empty()) {
      return {Code::kInvalidArgument,
              fmt::format("{}: {} of the {} shards that it names {} left out by --include or --exclude: {}",
                          printable(index.path()), deselected.size(), index.shards().size(),
                          deselected.size() == 1 ? "is" : "are", joined_names(deselected)),
              "take them too, or leave out the index or pass --ignore-index for a part of the checkpoint"};
    }
    return {};
  }

  /// An index without tensors beside files that have some would publish none of them.
  Status refuse_empty_index() {
    const auto is_empty = [](const CheckpointIndex* index) { return index->size() == 0; };
    if (chosen_.empty() || !std::ranges::all_of(chosen_, is_empty)) return {};
    for (const ComponentFile* file : holders()) {
      if (file->header.tensors.empty()) continue;
      return {Code::kCorrupt,
              fmt::format("{}: weight_map names no tensor, but {} holds {}", printable(chosen_.front()->path()),
                          printable(file->path), file->header.tensors.size()),
              fmt::format("fetch the index again; {}", kStale)};
    }
    return {};
  }

  bool is_named(std::string_view base) const {
    return std::ranges::any_of(chosen_,
                               [&](const CheckpointIndex* index) { return index->find_shard(base).has_value(); });
  }

  Status apply_indexes() {
    for (ComponentFile& file : component_.files) {
      if (!is_named(base_of(file.path))) continue;
      for (const CheckpointIndex* index : chosen_) SY_RETURN_IF_ERROR(check_shard(*index, file));
      follow_indexes(file);
    }
    return {};
  }

  /// Every tensor that the index places in this file must be in it.
  static Status check_shard(const CheckpointIndex& index, const ComponentFile& file) {
    const auto shard = index.find_shard(base_of(file.path));
    if (!shard) return {};
    const TensorTable& table = file.header.tensors;
    const std::size_t wanted = index.tensors_in(*shard);
    std::size_t found = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const auto at = index.find(table.tensor_id(i));
      found += at && index.shard_of(*at) == *shard ? 1U : 0U;
    }
    if (found == wanted) return {};
    const auto name_at = [&table](std::size_t i) { return table.tensor_id(i); };
    const NameIndex names(table.size(), name_at);
    for (std::size_t i = 0; i < index.size(); ++i) {
      if (index.shard_of(i) != *shard || names.find(index.tensor(i), name_at)) continue;
      return {Code::kCorrupt,
              fmt::format("{} places tensor {} in {}, which lacks it ({} of {} tensors are lacking)",
                          printable(index.path()), printable(index.tensor(i)), printable(file.path), wanted - found,
                          wanted),
              fmt::format("fetch the shard and the index again; {}", kStale)};
    }
    return {};
  }

  /// The name of the shard in which the chosen indexes place a tensor.
  const std::string* placed_in(std::string_view tensor) const {
    for (const CheckpointIndex* index : chosen_) {
      if (const auto at = index->find(tensor)) return &index->shards()[index->shard_of(*at)];
    }
    return nullptr;
  }

  /// Leaves out the tensors that the index takes from another shard; those that it does not know stay.
  void follow_indexes(ComponentFile& file) {
    TensorTable& table = file.header.tensors;
    std::vector<std::size_t> elsewhere;
    std::size_t unknown = 0;
    std::string first_unknown;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const std::string* shard = placed_in(table.tensor_id(i));
      if (shard == nullptr) {
        if (unknown++ == 0) first_unknown = table.tensor_id(i);
      } else if (*shard != base_of(file.path)) {
        elsewhere.push_back(i);
      }
    }
    if (unknown != 0) {
      component_.warnings.push_back(fmt::format("{}: {} tensor{} that the index does not name (first {}); kept",
                                                printable(file.path), unknown, unknown == 1 ? "" : "s",
                                                printable(first_unknown)));
    }
    if (elsewhere.empty()) return;
    component_.warnings.push_back(fmt::format(
        "{}: {} tensor{} that the index takes from another shard (first {}); that copy counts", printable(file.path),
        elsewhere.size(), elsewhere.size() == 1 ? "" : "s", printable(table.tensor_id(elsewhere.front()))));
    TensorTable kept;
    auto next = elsewhere.begin();
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (next != elsewhere.end() && *next == i) {
        ++next;
      } else {
        kept.add(table.row(i));
      }
    }
    table = std::move(kept);
  }

  void drop(ComponentFile& file, const std::string& what) {
    file.has_tensors = false;
    file.dropped = !keep_doubles_;
    if (file.dropped) {
      file.why_dropped = fmt::format("{}; {}", what, kTakesEverything);
    }
    component_.warnings.push_back(fmt::format("{}: {}; {}", printable(file.path), what,
                                              file.dropped ? "skipped" : "kept as a weight file without tensors"));
  }

  void judge_strays() {
    for (ComponentFile& file : component_.files) {
      if (file.variant || is_named(base_of(file.path))) continue;
      const TensorTable& table = file.header.tensors;
      const std::string* shard = nullptr;
      for (std::size_t i = 0; i < table.size() && shard == nullptr; ++i) shard = placed_in(table.tensor_id(i));
      if (shard != nullptr) {
        drop(file, fmt::format("it holds tensors that {} takes from {}", chosen_.front()->path(), *shard));
        continue;
      }
      file.has_tensors = false;
      component_.warnings.push_back(fmt::format("{}: {} does not name it; kept as a weight file without tensors",
                                                printable(file.path), printable(chosen_.front()->path())));
    }
  }

  std::vector<ComponentFile*> holders() {
    std::vector<ComponentFile*> files;
    for (ComponentFile& file : component_.files) {
      if (file.has_tensors) files.push_back(&file);
    }
    return files;
  }

  std::optional<std::tuple<std::string, ComponentFile*, ComponentFile*>> first_double() {
    const JoinedNames names(holders());
    const auto repeat = NameIndex(names.size(), names).first_repeat(names);
    if (!repeat) return std::nullopt;
    return std::tuple(std::string(names(repeat->first)), names.file_of(repeat->first), names.file_of(repeat->second));
  }

  /// Without an index, consolidated files give way to the shards beside them.
  void drop_consolidated_double() {
    std::vector<ComponentFile*> others;
    std::vector<ComponentFile*> doubtful;
    for (ComponentFile* file : holders()) (is_consolidated(file->path) ? doubtful : others).push_back(file);
    if (others.empty() || doubtful.empty()) return;
    const JoinedNames names(others);
    const NameIndex by_name(names.size(), names);
    const ComponentFile* same = nullptr;
    for (const ComponentFile* file : doubtful) {
      const TensorTable& table = file->header.tensors;
      for (std::size_t i = 0; i < table.size() && same == nullptr; ++i) {
        if (const auto at = by_name.find(table.tensor_id(i), names)) same = names.file_of(*at);
      }
    }
    if (same == nullptr) return;
    // A set of consolidated files is one double: a part of it alone would be of no use.
    for (ComponentFile* file : doubtful) {
      drop(*file, fmt::format("it is a double of the tensors in {}", printable(base_of(same->path))));
    }
  }

  Status refuse_doubles() {
    if (holders().size() < 2) return {};
    const auto found = first_double();
    if (!found) return {};
    const auto& [tensor, first, second] = *found;
    return {Code::kCorrupt,
            fmt::format("tensor {} is in two files of {}: {} and {}", printable(tensor), component_.shown(),
                        printable(first->path), printable(second->path)),
            fmt::format("leave one of them out: {}", exclude_flag(second->path))};
  }

  Component& component_;
  bool keep_doubles_;
  const std::function<AbsentShard(const std::string&)>& absent_;
  std::map<std::string_view, ComponentFile*> by_base_;
  std::vector<CheckpointIndex*> chosen_;
};

}  // namespace

std::string Component::shown() const {
  return folder.empty() ? "the root folder" : fmt::format("the folder {}", printable(folder));
}

Status settle_component(Component& component, bool keep_doubles,
                        const std::function<AbsentShard(const std::string& path)>& absent) {
  return Settler(component, keep_doubles, absent).settle();
}

}  // namespace steelyard::formats
