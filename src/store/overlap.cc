#include "store/overlap.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/utf8.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

/// The same path, or the same folder under two paths (a bind mount).
bool same_folder(const fs::path& a, const fs::path& b) {
  if (a == b) return true;
  struct stat one {};
  struct stat other {};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

struct Place {
  std::string path;
  std::string_view what;
};

std::vector<Place> places_of(const StoreOptions& options) {
  std::vector<Place> places;
  if (!options.path.empty()) places.push_back({options.path, "the store"});
  if (!options.cold_path.empty()) places.push_back({options.cold_path, "the cold tier"});
  return places;
}

}  // namespace

std::string resolved_path(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return path;
  fs::path whole = fs::weakly_canonical(absolute, error);
  if (error) whole = absolute;
  return (whole.has_filename() || whole == whole.root_path() ? whole : whole.parent_path()).native();
}

std::optional<std::string> path_within(const std::string& outer, const std::string& inner) {
  const fs::path folder = resolved_path(outer);
  fs::path rest;
  for (fs::path at = resolved_path(inner);; at = at.parent_path()) {
    if (same_folder(at, folder)) return rest.native();
    if (!at.has_relative_path()) return std::nullopt;
    rest = rest.empty() ? at.filename() : at.filename() / rest;
  }
}

Status check_target_apart(const StoreOptions& options, const std::string& target) {
  for (const Place& place : places_of(options)) {
    if (!path_within(target, place.path) && !path_within(place.path, target)) continue;
    return {Code::kInvalidArgument,
            fmt::format("{} cannot be materialised to: {} at {} is that folder, lies in it or holds it",
                        printable(target), place.what, printable(place.path)),
            "name a folder outside of the store"};
  }
  return {};
}

Status check_source_apart(const StoreOptions& options, const std::string& source,
                          const std::vector<std::string>& files) {
  for (const Place& place : places_of(options)) {
    const bool is_inside = path_within(place.path, source).has_value();
    const auto within = path_within(source, place.path);
    if (!is_inside && !within) continue;
    const std::string prefix = within && !within->empty() ? *within + "/" : "";
    if (!is_inside && std::ranges::none_of(files, [&](const std::string& path) { return path.starts_with(prefix); })) {
      continue;
    }
    return {Code::kInvalidArgument,
            fmt::format("the source {} shares files with {} at {}: a store cannot be imported into itself",
                        printable(source), place.what, printable(place.path)),
            prefix.empty() ? "name another source"
                           : fmt::format("name a store elsewhere with --store, or pass --exclude '{}*'", prefix)};
  }
  return {};
}

}  // namespace steelyard::store
