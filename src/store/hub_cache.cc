#include "store/hub_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "base/unique_fd.h"
#include "base/utf8.h"
#include "formats/checkpoint_files.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModels = "models--";
constexpr std::string_view kSnapshots = "snapshots";
/// Entries of a folder that are looked at, so that a strange place costs no more.
constexpr std::size_t kEntriesMax = 10'000;
constexpr std::size_t kNamedMax = 5;

/// `ORG--NAME` as `ORG/NAME`.
std::string resource_of(std::string_view name) {
  const std::size_t organisation = name.find("--");
  if (organisation == std::string_view::npos) return std::string(name);
  return fmt::format("{}/{}", name.substr(0, organisation), name.substr(organisation + 2));
}

bool is_repository_name(std::string_view base) { return base.size() > kModels.size() && base.starts_with(kModels); }

/// A folder, and no link to one.
bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

/// The commit in a file of `refs/`; empty when there is none to read.
std::string commit_of(const fs::path& ref) {
  const UniqueFd fd(::open(ref.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW));
  std::array<char, 256> text{};
  const ssize_t bytes = fd.valid() ? ::pread(fd.get(), text.data(), text.size(), 0) : 0;
  std::string content(text.data(), bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r' || content.back() == ' ')) {
    content.pop_back();
  }
  return content;
}

/// The entries of a folder, sorted; none where it cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end && entries.size() < kEntriesMax;
       at.increment(error)) {
    entries.push_back(at->path());
  }
  std::ranges::sort(entries);
  return entries;
}

/// The snapshots that may be meant: that of `refs/main`, else all.
std::vector<fs::path> snapshots_of(const fs::path& repository) {
  const fs::path folder = repository / kSnapshots;
  const std::string commit = commit_of(repository / "refs/main");
  if (!commit.empty() && commit.find('/') == std::string::npos && is_folder(folder / commit)) return {folder / commit};
  std::vector<fs::path> snapshots = entries_of(folder);
  std::erase_if(snapshots, [](const fs::path& path) { return !is_folder(path); });
  return snapshots;
}

std::string joined(const std::vector<std::string>& texts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < std::min(texts.size(), kNamedMax); ++i) {
    out.append(i == 0 ? "" : separator).append(printable(texts[i]));
  }
  if (texts.size() > kNamedMax) out.append(fmt::format(" and {} more", texts.size() - kNamedMax));
  return out;
}

std::string shown(const std::vector<fs::path>& paths) {
  std::vector<std::string> texts;
  for (const fs::path& path : paths) texts.push_back(path.string());
  return joined(texts, ", or ");
}

/// A whole repository has each file twice, as blob and as link, and perhaps several commits.
Status refuse_repository(const std::string& path, const fs::path& repository) {
  const std::vector<fs::path> snapshots = snapshots_of(repository);
  return {Code::kInvalidArgument,
          fmt::format("{}: a repository of a hub cache, which has each file twice and may have several commits; wanted "
                      "one of its snapshots",
                      printable(path)),
          snapshots.empty() ? "it has no snapshot: fetch the model again"
                            : fmt::format("name the snapshot: {}", shown(snapshots))};
}

Status refuse_cache(const std::string& path, const std::vector<fs::path>& repositories) {
  std::vector<std::string> names;
  std::vector<fs::path> snapshots;
  for (const fs::path& repository : repositories) {
    names.push_back(resource_of(repository.filename().string().substr(kModels.size())));
    const std::vector<fs::path> found = snapshots_of(repository);
    snapshots.insert(snapshots.end(), found.begin(), found.end());
  }
  return {Code::kInvalidArgument,
          fmt::format("{}: a hub cache with the model{} {}; wanted a snapshot of one of them", printable(path),
                      names.size() == 1 ? "" : "s", joined(names, ", ")),
          snapshots.empty() ? "none of them has a snapshot: fetch the model again"
                            : fmt::format("name the snapshot: {}", shown(snapshots))};
}

/// The repositories right below a folder that is no checkpoint itself.
std::vector<fs::path> repositories_of(const fs::path& folder) {
  std::vector<fs::path> entries = entries_of(folder);
  std::error_code error;
  for (const fs::path& path : entries) {
    if (formats::is_weight_file(path.string()) && fs::is_regular_file(path, error)) return {};
  }
  std::erase_if(entries, [](const fs::path& path) {
    return !is_repository_name(path.filename().string()) || !is_folder(path / kSnapshots);
  });
  return entries;
}

}  // namespace

std::optional<HubPlace> hub_place(std::string_view path) {
  const fs::path place(path);
  const fs::path snapshots = place.parent_path();
  const fs::path repository = snapshots.parent_path();
  const std::string name = repository.filename().string();
  if (place.filename().empty() || snapshots.filename() != kSnapshots || !is_repository_name(name)) return std::nullopt;
  return HubPlace{repository.string(), resource_of(std::string_view(name).substr(kModels.size())),
                  place.filename().string()};
}

std::optional<std::string> hub_ref_of(const HubPlace& hub) {
  const fs::path refs = fs::path(hub.repository) / "refs";
  std::vector<fs::path> pending = {refs};
  std::vector<std::string> names;
  for (std::size_t next = 0; next < pending.size() && pending.size() + names.size() < kEntriesMax; ++next) {
    for (const fs::path& path : entries_of(fs::path(pending[next]))) {
      if (is_folder(path)) pending.push_back(path);
      std::error_code error;
      if (!fs::is_regular_file(fs::symlink_status(path, error)) || commit_of(path) != hub.revision) continue;
      if (std::string name = path.lexically_relative(refs).string(); is_valid_utf8(name)) names.push_back(name);
    }
  }
  if (names.empty()) return std::nullopt;
  if (std::ranges::find(names, "main") != names.end()) return "main";
  return *std::ranges::min_element(names);
}

Status refuse_hub_folder(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return {};
  fs::path given(path);
  if (given.filename().empty()) given = given.parent_path();  // `folder/`
  if (is_repository_name(real.filename().string()) && is_folder(real / "blobs") && is_folder(real / kSnapshots)) {
    return refuse_repository(path, given);
  }
  if (real.filename() == kSnapshots && is_repository_name(real.parent_path().filename().string())) {
    return refuse_repository(path, real.parent_path());
  }
  for (const fs::path& cache : {given, given / "hub"}) {
    const std::vector<fs::path> repositories = repositories_of(cache);
    if (!repositories.empty()) return refuse_cache(path, repositories);
  }
  return {};
}

}  // namespace steelyard::store
