#include "formats/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/checked.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/checkpoint_component.h"
#include "formats/name_index.h"

namespace steelyard::formats {
namespace {

/// Room for the 8 length bytes and for a whole pointer file.
constexpr std::uint64_t kHeadBytes = kLfsPointerBytesMax;

bool matches_any(const std::vector<std::string>& patterns, std::string_view path) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return glob_match(pattern, path); });
}

class Planner {
 public:
  Planner(const std::vector<SourceFile>& listing, const SourceReader& read, const CheckpointOptions& options)
      : listing_(listing), read_(read), options_(options) {
    std::ranges::sort(listing_, {}, &SourceFile::path);
  }

  Result<CheckpointPlan> plan() {
    SY_RETURN_IF_ERROR(check_listing());
    select();
    warn_of_idle_patterns();
    skip_by_default();
    SY_RETURN_IF_ERROR(refuse_pointers());
    SY_RETURN_IF_ERROR(refuse_missing_numbers());
    SY_RETURN_IF_ERROR(plan_components());
    SY_RETURN_IF_ERROR(add_other_files());
    SY_RETURN_IF_ERROR(refuse_equal_names());
    SY_RETURN_IF_ERROR(refuse_emptiness());
    std::ranges::sort(plan_.files, {}, &PlannedFile::path);
    std::ranges::sort(plan_.skipped, {}, &SkippedFile::path);
    return std::move(plan_);
  }

 private:
  /// Paths that a folder cannot hold together, or that would leave it when written out again.
  Status check_listing() const {
    for (std::size_t i = 0; i < listing_.size(); ++i) {
      const std::string& path = listing_[i].path;
      if (const std::string_view fault = path_fault(path); !fault.empty()) {
        return {Code::kInvalidArgument,
                fmt::format("the path \"{}\" {}; wanted a relative path", printable(path), fault), "rename the file"};
      }
      if (i > 0 && path == listing_[i - 1].path) {
        return {Code::kInvalidArgument, fmt::format("{} is listed twice", printable(path)), "rename one of the two"};
      }
      for (std::string_view above = folder_of(path); !above.empty(); above = folder_of(above)) {
        if (in_listing(above)) {
          return {Code::kInvalidArgument,
                  fmt::format("{} is a file and, by {}, a folder", printable(above), printable(path)),
                  "rename one of the two"};
        }
      }
    }
    return {};
  }

  bool in_listing(std::string_view path) const {
    const auto found = std::ranges::lower_bound(listing_, path, {}, &SourceFile::path);
    return found != listing_.end() && found->path == path;
  }

  void select() {
    for (const SourceFile& file : listing_) {
      if (is_never_imported(file.path)) continue;
      if (matches_any(options_.exclude, file.path)) {
        plan_.skipped.push_back({file.path, file.bytes, "left out by --exclude"});
      } else if (!options_.include.empty() && !matches_any(options_.include, file.path)) {
        plan_.skipped.push_back({file.path, file.bytes, "not named by --include"});
      } else {
        chosen_.push_back(file);
      }
    }
  }

  void warn_of_idle_patterns() {
    for (const auto& [flag, patterns] :
         {std::pair("--include", &options_.include), std::pair("--exclude", &options_.exclude)}) {
      for (const std::string& pattern : *patterns) {
        const auto matched = [&](const SourceFile& file) { return glob_match(pattern, file.path); };
        if (std::ranges::any_of(listing_, matched)) continue;
        plan_.warnings.push_back(fmt::format("{} '{}' matches no file of the source", flag, printable(pattern)));
      }
    }
  }

  /// With a safetensors set in the root, the same weights in other formats are dead load.
  void skip_by_default() {
    if (!options_.include.empty()) return;
    const auto in_root_set = [](const SourceFile& file) {
      return folder_of(file.path).empty() && is_safetensors_file(file.path);
    };
    if (std::ranges::none_of(chosen_, in_root_set)) return;
    std::map<std::string, SkippedFile> folders;
    std::vector<SkippedFile> state;
    std::vector<SourceFile> kept;
    for (SourceFile& file : chosen_) {
      const std::string top = file.path.substr(0, file.path.find('/'));
      if (top.size() < file.path.size() && (top == "original" || top == "metal")) {
        SkippedFile& folder = folders[top];
        folder.path = top;
        folder.bytes += file.bytes;
        folder.reason = fmt::format("another form of the safetensors weights in the root; {}", kTakesEverything);
      } else if (is_weight_file(file.path) && !is_safetensors_file(file.path)) {
        plan_.skipped.push_back({file.path, file.bytes, why_not_safetensors(file.path)});
        if (is_training_state(file.path)) state.push_back(plan_.skipped.back());
      } else {
        kept.push_back(std::move(file));
      }
    }
    chosen_ = std::move(kept);
    for (auto& [top, folder] : folders) plan_.skipped.push_back(std::move(folder));
    if (!state.empty()) warn_of_skipped_state(state);
  }

  /// The root alone decides that files of other formats are dead load; where that is least certain, the reason says so.
  std::string why_not_safetensors(const std::string& path) const {
    if (is_training_state(path)) {
      return fmt::format("by its name the state of a training run, not safetensors; {}", kTakesEverything);
    }
    const std::string_view folder = folder_of(path);
    const bool has_own = std::ranges::any_of(listing_, [&](const SourceFile& file) {
      return is_safetensors_file(file.path) && folder_of(file.path) == folder;
    });
    return fmt::format("not safetensors, and the root has safetensors files{}; {}",
                       has_own ? std::string() : fmt::format(" (the folder {} itself has none)", printable(folder)),
                       kTakesEverything);
  }

  /// Weights in another format are the same weights; this is kept nowhere else.
  void warn_of_skipped_state(const std::vector<SkippedFile>& state) {
    constexpr std::size_t kNamedMax = 3;
    std::string names;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < state.size(); ++i) {
      if (i < kNamedMax) names.append(i == 0 ? "" : ", ").append(printable(state[i].path));
      bytes = checked_add(bytes, state[i].bytes).value_or(UINT64_MAX);
    }
    if (state.size() > kNamedMax) names.append(fmt::format(" and {} more", state.size() - kNamedMax));
    plan_.warnings.push_back(fmt::format("the state of a training run beside the weights is not taken: {} ({}); {}",
                                         names, format_size(bytes), kTakesEverything));
  }

  bool is_index(const SourceFile& file) const { return !options_.ignore_index && is_safetensors_index(file.path); }

  /// All pointer files at once: one `git lfs pull` mends them all.
  Status refuse_pointers() {
    std::vector<std::string> pointers;
    for (const SourceFile& file : chosen_) {
      const bool safetensors = is_safetensors_file(file.path);
      if (!safetensors && file.bytes > kLfsPointerBytesMax) continue;
      SY_ASSIGN_OR_RETURN(std::string head, read_(file.path, 0, std::min(file.bytes, kHeadBytes)));
      const auto pointer = parse_lfs_pointer(head);
      // A text that only mentions a pointer is no pointer.
      if (pointer && (pointer->complete || is_weight_file(file.path) || is_index(file))) {
        pointers.push_back(
            pointer->bytes
                ? fmt::format("{} ({} bytes, stands for {})", printable(file.path), file.bytes, *pointer->bytes)
                : fmt::format("{} ({} bytes, stands for an unknown size)", printable(file.path), file.bytes));
      }
      if (safetensors) heads_.emplace(file.path, head.substr(0, 8));
    }
    if (pointers.empty()) return {};
    std::string names;
    for (const std::string& pointer : pointers) names.append(names.empty() ? "" : ", ").append(pointer);
    return {Code::kCorrupt,
            fmt::format("{} git-lfs pointer file{} instead of the content: {}", pointers.size(),
                        pointers.size() == 1 ? "" : "s", names),
            "run `git lfs pull` in the source"};
  }

  /// Folders whose index says what belongs together need no guess from the numbers.
  bool has_index(std::string_view folder) const {
    return std::ranges::any_of(
        chosen_, [&](const SourceFile& file) { return is_index(file) && folder_of(file.path) == folder; });
  }

  Status refuse_missing_numbers() {
    // (folder, prefix, suffix, count, digits of both) -> the numbers that are there.
    using Set =
        std::tuple<std::string_view, std::string_view, std::string_view, std::uint64_t, std::size_t, std::size_t>;
    std::map<Set, std::set<std::uint64_t>> sets;
    for (const SourceFile& file : chosen_) {
      if (!is_weight_file(file.path)) continue;
      const auto shard = parse_shard_name(base_of(file.path));
      const std::string_view folder = folder_of(file.path);
      if (!shard || (is_safetensors_file(file.path) && has_index(folder))) continue;
      sets[{folder, shard->prefix, shard->suffix, shard->count, shard->number_digits, shard->count_digits}].insert(
          shard->number);
    }
    for (const auto& [set, numbers] : sets) {
      const auto& [folder, prefix, suffix, count, number_digits, count_digits] = set;
      const ShardName name{prefix, suffix, 0, count, number_digits, count_digits};
      const std::uint64_t first = numbers.contains(0) ? 0 : 1;
      std::string missing;
      std::uint64_t absent = 0;
      bool deselected = false;
      for (std::uint64_t number = first; number < first + count; ++number) {
        if (numbers.contains(number)) continue;
        const std::string base = shard_name(name, number);
        deselected = deselected || in_listing(folder.empty() ? base : fmt::format("{}/{}", folder, base));
        if (++absent <= 20) missing.append(missing.empty() ? "" : ", ").append(printable(base));
      }
      if (absent == 0) continue;
      if (absent > 20) missing.append(fmt::format(" and {} more", absent - 20));
      const std::string what =
          fmt::format("{} of the {} files {} are not there: {}", absent, count,
                      printable(fmt::format("{}{}{}*-of-{:0{}}{}", folder, folder.empty() ? "" : "/", prefix, count,
                                            count_digits, suffix)),
                      missing);
      if (!deselected) return {Code::kCorrupt, what, "fetch what is missing"};
      plan_.warnings.push_back(fmt::format("{} (left out by --include or --exclude)", what));
    }
    return {};
  }

  Status plan_components() {
    std::map<std::string, Component> components;
    for (const SourceFile& file : chosen_) {
      const bool index = is_index(file);
      if (!index && !is_safetensors_file(file.path)) continue;
      Component& component = components[std::string(folder_of(file.path))];
      component.folder = folder_of(file.path);
      if (index) {
        SY_ASSIGN_OR_RETURN(CheckpointIndex parsed, read_index(file));
        component.indexes.push_back(std::move(parsed));
      }
    }
    // Indexes first: a missing shard is better known before the others are read.
    for (const SourceFile& file : chosen_) {
      if (!is_safetensors_file(file.path)) continue;
      ComponentFile member{.path = file.path, .bytes = file.bytes, .header = {}, .why_dropped = {}};
      SY_ASSIGN_OR_RETURN(member.header, read_header(file));
      components[std::string(folder_of(file.path))].files.push_back(std::move(member));
    }
    for (auto& [folder, component] : components) {
      SY_RETURN_IF_ERROR(settle_component(component, !options_.include.empty(), [this](const std::string& path) {
        return in_listing(path) ? AbsentShard::kDeselected : AbsentShard::kMissing;
      }));
      take(component);
    }
    return {};
  }

  void take(Component& component) {
    for (std::string& warning : component.warnings) plan_.warnings.push_back(std::move(warning));
    for (SkippedFile& index : component.skipped_indexes) {
      settled_.insert(index.path);
      index.bytes = std::ranges::lower_bound(listing_, index.path, {}, &SourceFile::path)->bytes;
      plan_.skipped.push_back(std::move(index));
    }
    for (ComponentFile& file : component.files) {
      settled_.insert(file.path);
      if (file.dropped) {
        plan_.skipped.push_back({std::move(file.path), file.bytes, std::move(file.why_dropped)});
        continue;
      }
      PlannedFile planned{std::move(file.path), file.bytes, FileKind::kWeight, {}, {}};
      if (!component.folder.empty()) planned.component = component.folder + "/";
      if (file.has_tensors) {
        for (std::string& warning : file.header.warnings) plan_.warnings.push_back(std::move(warning));
        file.header.warnings.clear();
        planned.header = std::move(file.header);
      }
      plan_.files.push_back(std::move(planned));
    }
  }

  Status check_limit(const SourceFile& file) const {
    if (file.bytes <= options_.header_limit) return {};
    return {Code::kCorrupt,
            fmt::format("{}: the index has {} bytes; the limit is {}", printable(file.path), file.bytes,
                        options_.header_limit),
            fmt::format("if the file is right, raise the limit: --header-limit {}", file.bytes)};
  }

  Result<CheckpointIndex> read_index(const SourceFile& file) {
    SY_RETURN_IF_ERROR(check_limit(file));
    SY_ASSIGN_OR_RETURN(const std::string json, read_(file.path, 0, file.bytes));
    return CheckpointIndex::parse(file.path, json);
  }

  Result<SafetensorsHeader> read_header(const SourceFile& file) {
    const std::string& head = heads_.at(file.path);
    SY_ASSIGN_OR_RETURN(const std::uint64_t length,
                        safetensors_header_length(file.path, as_bytes(head), file.bytes, options_.header_limit));
    SY_ASSIGN_OR_RETURN(const std::string json, read_(file.path, 8, length));
    return parse_safetensors_header(file.path, json, file.bytes);
  }

  Status add_other_files() {
    for (const SourceFile& file : chosen_) {
      if (settled_.contains(file.path)) continue;
      const FileKind kind = is_weight_file(file.path) ? FileKind::kWeight : FileKind::kMetadata;
      plan_.files.push_back({file.path, file.bytes, kind, {}, {}});
    }
    for (const PlannedFile& file : plan_.files) {
      const auto sum = checked_add(plan_.logical_bytes, file.bytes);
      if (!sum) {
        return {Code::kInvalidArgument,
                fmt::format("{}: the sizes of all files overflow 64 bits", printable(file.path))};
      }
      plan_.logical_bytes = *sum;
    }
    return {};
  }

  /// A root tensor `a/b` and a tensor `b` of the folder `a` would have one id.
  Status refuse_equal_names() const {
    std::vector<std::pair<const PlannedFile*, std::size_t>> tensors;
    std::set<std::string_view> components;
    for (const PlannedFile& file : plan_.files) {
      if (file.header && !file.header->tensors.empty()) components.insert(file.component);
    }
    if (components.size() < 2) return {};
    for (const PlannedFile& file : plan_.files) {
      if (!file.header) continue;
      for (std::size_t i = 0; i < file.header->tensors.size(); ++i) tensors.emplace_back(&file, i);
    }
    const auto name_at = [&](std::size_t i) {
      const auto& [file, row] = tensors[i];
      return file->component + std::string(file->header->tensors.tensor_id(row));
    };
    const auto repeat = NameIndex(tensors.size(), name_at).first_repeat(name_at);
    if (!repeat) return {};
    return {Code::kCorrupt,
            fmt::format("duplicate tensor name {}: in {} and in {}", printable(name_at(repeat->second)),
                        printable(tensors[repeat->first].first->path), printable(tensors[repeat->second].first->path)),
            "rename the tensor or the folder: tensors of a folder are named <folder>/<name>"};
  }

  Status refuse_emptiness() const {
    if (plan_.files.empty()) {
      return {Code::kInvalidArgument,
              fmt::format("there is no file to import; the source has {} files, {} skipped", listing_.size(),
                          plan_.skipped.size()),
              "name a checkpoint folder, or take files with --include"};
    }
    const auto is_weight = [](const PlannedFile& file) { return file.kind == FileKind::kWeight; };
    if (options_.allow_empty || std::ranges::any_of(plan_.files, is_weight)) return {};
    return {Code::kInvalidArgument,
            fmt::format("there is no weight file among the {} file{} to import; wanted .safetensors, .bin, .pt, .pth, "
                        ".ckpt, .gguf, .onnx, .h5 or .msgpack",
                        plan_.files.size(), plan_.files.size() == 1 ? "" : "s"),
            "name another source, or pass --allow-empty to import metadata alone"};
  }

  std::vector<SourceFile> listing_;
  const SourceReader& read_;
  const CheckpointOptions& options_;
  CheckpointPlan plan_;
  std::vector<SourceFile> chosen_;
  std::map<std::string, std::string> heads_;  ///< first 8 bytes of the safetensors files
  std::set<std::string, std::less<>> settled_;
};

}  // namespace

Result<CheckpointPlan> plan_checkpoint(const std::vector<SourceFile>& listing, const SourceReader& read,
                                       const CheckpointOptions& options) {
  return Planner(listing, read, options).plan();
}

}  // namespace steelyard::formats
