#include "store/source_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/utf8.h"
#include "store/hub_cache.h"

namespace steelyard::store {
namespace {

/// Bounds what a folder of links to folders of links can be made to unfold to.
constexpr std::size_t kFilesMax = std::size_t{1} << 21;
/// Descriptors of folders that still have to be read; the others are opened by their path when their turn comes.
constexpr std::size_t kPendingOpenMax = 128;
/// A path that is longer is opened piece by piece.
constexpr std::size_t kPieceBytesMax = 3000;

FileFacts facts_of(const struct stat& status) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  FileFacts facts;
  facts.device = status.st_dev;
  facts.inode = status.st_ino;
  facts.bytes = static_cast<std::uint64_t>(status.st_size);
  facts.mtime_ns = status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec;
  facts.ctime_ns = status.st_ctim.tv_sec * kNsPerSecond + status.st_ctim.tv_nsec;
  return facts;
}

bool same_inode(const FileFacts& a, const FileFacts& b) { return a.device == b.device && a.inode == b.inode; }

std::string joined(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return fmt::format("{}{}{}", folder, folder.ends_with('/') ? "" : "/", name);
}

std::string shown_path(std::string_view root, std::string_view relative) {
  return printable(relative.empty() ? std::string(root) : joined(root, relative));
}

/// openat for relative paths of any length: whole parts at a time, each piece below the kernel's limit.
/// -1 and errno on failure.
UniqueFd open_below(int root, std::string_view path, int flags) {
  UniqueFd folder;
  while (path.size() > kPieceBytesMax) {
    std::size_t cut = path.rfind('/', kPieceBytesMax);
    if (cut == std::string_view::npos) cut = path.find('/');
    if (cut == std::string_view::npos) break;
    const std::string piece(path.substr(0, cut));
    folder = UniqueFd(::openat(folder.valid() ? folder.get() : root, piece.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return {};
    path.remove_prefix(cut + 1);
  }
  const std::string rest(path.empty() ? "." : path);
  return UniqueFd(::openat(folder.valid() ? folder.get() : root, rest.c_str(), flags | O_CLOEXEC));
}

/// The place of an open file by the kernel's own account.
Result<std::string> real_path(int fd, const std::string& shown) {
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  std::array<char, PATH_MAX + 1> buffer{};
  const ssize_t bytes = ::readlink(link.c_str(), buffer.data(), buffer.size());
  if (bytes < 0 || static_cast<std::size_t>(bytes) == buffer.size()) {
    return errno_status(bytes < 0 ? errno : ENAMETOOLONG, "readlink", shown)
        .with_hint("where this link leads cannot be told; pass --follow-links if it is meant");
  }
  return std::string(buffer.data(), static_cast<std::size_t>(bytes));
}

bool is_inside(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

class Walker {
 public:
  Walker(const std::string& root, bool follow_links) : root_(root), follow_links_(follow_links) {}

  Result<SourceTree> walk(UniqueFd root_fd) {
    root_fd_ = std::move(root_fd);
    SY_RETURN_IF_ERROR(learn_bounds());
    struct stat status {};
    if (::fstat(root_fd_.get(), &status) != 0) return errno_status(errno, "fstat", printable(root_));
    folders_.push_back({"", facts_of(status), kNoParent, {}});
    // Folders are kept by path, so that neither depth nor width costs descriptors.
    for (std::size_t next = 0; next < folders_.size(); ++next) SY_RETURN_IF_ERROR(read_folder(next));
    SourceTree tree;
    tree.root = root_;
    tree.files = std::move(files_);
    std::ranges::sort(tree.files, {}, &TreeFile::path);
    return tree;
  }

 private:
  static constexpr std::size_t kNoParent = SIZE_MAX;
  struct Folder {
    std::string path;
    FileFacts facts;
    std::size_t parent = kNoParent;  ///< index in folders_
    UniqueFd pending;                ///< may be open already, as a path
  };

  Status learn_bounds() {
    if (follow_links_) return {};
    SY_ASSIGN_OR_RETURN(std::string real, real_path(root_fd_.get(), printable(root_)));
    const auto hub = hub_place(real);
    inside_.push_back(std::move(real));
    // A `blobs` that is itself a link could lead anywhere: it is no reason to trust what it leads to.
    struct stat status {};
    if (!hub) return {};
    std::string blobs = hub->repository + "/blobs";
    if (::lstat(blobs.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) inside_.push_back(std::move(blobs));
    return {};
  }

  Status changed(std::string_view path) const {
    return {Code::kCorrupt, fmt::format("{}: it changed while the source was scanned", shown_path(root_, path)),
            "import again when nobody writes to the source"};
  }

  Status read_folder(std::size_t index) {
    const std::string path = folders_[index].path;
    const std::string shown = shown_path(root_, path);
    const UniqueFd pending = std::move(folders_[index].pending);
    if (pending.valid()) --pending_open_;
    constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NONBLOCK;
    UniqueFd fd = pending.valid() ? open_below(pending.get(), "", kFlags) : open_below(root_fd_.get(), path, kFlags);
    if (!fd.valid()) return errno == ENOENT || errno == ENOTDIR ? changed(path) : errno_status(errno, "open", shown);
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return errno_status(errno, "fstat", shown);
    if (!same_inode(facts_of(status), folders_[index].facts)) return changed(path);
    const int folder = fd.get();
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(folder), ::closedir);
    if (!entries) return errno_status(errno, "fdopendir", shown);
    static_cast<void>(fd.release());  // the stream closes it
    while (true) {
      errno = 0;
      const struct dirent* entry = ::readdir(entries.get());
      if (entry == nullptr) return errno == 0 ? Status() : errno_status(errno, "readdir", shown);
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      SY_RETURN_IF_ERROR(visit(index, folder, path, name));
    }
  }

  Status visit(std::size_t parent, int folder, std::string_view folder_path, std::string_view name) {
    const std::string path = joined(folder_path, name);
    if (formats::is_never_imported(path)) return {};
    const std::string shown = shown_path(root_, path);
    if (!is_valid_utf8(name)) {
      return {Code::kInvalidArgument, fmt::format("{}: the name is not UTF-8", shown),
              "rename it: names are kept as UTF-8 text"};
    }
    const std::string c_name(name);
    struct stat status {};
    if (::fstatat(folder, c_name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT ? changed(path) : errno_status(errno, "stat", shown);
    }
    if (S_ISLNK(status.st_mode)) return visit_link(parent, folder, path, c_name);
    if (S_ISDIR(status.st_mode)) return add_folder(parent, folder, path, c_name, facts_of(status), O_NOFOLLOW);
    if (S_ISREG(status.st_mode)) return add_file(folder, path, c_name, facts_of(status), O_NOFOLLOW);
    return special(path, status.st_mode);
  }

  Status visit_link(std::size_t parent, int folder, const std::string& path, const std::string& name) {
    const std::string shown = shown_path(root_, path);
    const UniqueFd target(::openat(folder, name.c_str(), O_PATH | O_CLOEXEC));
    if (!target.valid()) {
      if (errno == ELOOP) return cycle(path);
      if (errno == ENOENT || errno == ENOTDIR) {
        return {Code::kCorrupt, fmt::format("{}: the link leads to nothing ({})", shown, link_text(folder, name)),
                "fetch the file it stands for, or remove the link"};
      }
      return errno_status(errno, "open", shown);
    }
    struct stat status {};
    if (::fstat(target.get(), &status) != 0) return errno_status(errno, "fstat", shown);
    if (!follow_links_) {
      SY_ASSIGN_OR_RETURN(const std::string real, real_path(target.get(), shown));
      if (std::ranges::none_of(inside_, [&](const std::string& bound) { return is_inside(real, bound); })) {
        return {Code::kInvalidArgument,
                fmt::format("{}: the link leaves the source: it leads to {}", shown, printable(real)),
                "pass --follow-links to take what it leads to"};
      }
    }
    const FileFacts facts = facts_of(status);
    if (S_ISDIR(status.st_mode)) {
      for (std::size_t above = parent; above != kNoParent; above = folders_[above].parent) {
        if (same_inode(folders_[above].facts, facts)) return cycle(path);
      }
      return add_folder(parent, folder, path, name, facts, 0);
    }
    if (S_ISREG(status.st_mode)) return add_file(folder, path, name, facts, 0);
    return special(path, status.st_mode);
  }

  Status cycle(std::string_view path) const {
    return {
        Code::kCorrupt,
        fmt::format("{}: a link cycle: the link leads back to itself or to a folder above it", shown_path(root_, path)),
        "remove the link"};
  }

  static std::string link_text(int folder, const std::string& name) {
    std::array<char, PATH_MAX> buffer{};
    const ssize_t bytes = ::readlinkat(folder, name.c_str(), buffer.data(), buffer.size());
    if (bytes < 0) return "unreadable";
    return printable(std::string_view(buffer.data(), static_cast<std::size_t>(bytes)));
  }

  Status special(std::string_view path, mode_t mode) const {
    const std::string_view kind = S_ISFIFO(mode) ? "a fifo" : S_ISSOCK(mode) ? "a socket" : "a device";
    return {Code::kInvalidArgument,
            fmt::format("{}: {}; only regular files and folders can be imported", shown_path(root_, path), kind),
            "remove it from the source"};
  }

  Status refuse_too_many() const {
    return {Code::kInvalidArgument, fmt::format("{}: more than {} files and folders", printable(root_), kFilesMax),
            "import a smaller folder; links to folders are followed and count each time"};
  }

  Status add_folder(std::size_t parent, int folder, const std::string& path, const std::string& name,
                    const FileFacts& facts, int flags) {
    if (files_.size() + folders_.size() >= kFilesMax) return refuse_too_many();
    UniqueFd pending;
    if (pending_open_ < kPendingOpenMax) {
      pending = UniqueFd(::openat(folder, name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | flags));
      if (pending.valid()) ++pending_open_;
    }
    folders_.push_back({path, facts, parent, std::move(pending)});
    return {};
  }

  /// Opens the file at once: what may not be read is better known before anything is written.
  Status add_file(int folder, const std::string& path, const std::string& name, const FileFacts& facts, int flags) {
    if (files_.size() + folders_.size() >= kFilesMax) return refuse_too_many();
    const UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags));
    if (!fd.valid()) {
      return errno == ENOENT || errno == ELOOP ? changed(path) : errno_status(errno, "open", shown_path(root_, path));
    }
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return errno_status(errno, "fstat", shown_path(root_, path));
    if (!same_inode(facts_of(status), facts)) return changed(path);
    files_.push_back({path, facts_of(status)});
    return {};
  }

  const std::string& root_;
  bool follow_links_;
  UniqueFd root_fd_;
  std::vector<std::string> inside_;  ///< real paths that links may lead into
  std::vector<Folder> folders_;
  std::size_t pending_open_ = 0;
  std::vector<TreeFile> files_;
};

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

std::string_view base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

const TreeFile* SourceTree::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(files, path, {}, &TreeFile::path);
  return found != files.end() && found->path == path ? &*found : nullptr;
}

std::vector<formats::SourceFile> SourceTree::listing() const {
  std::vector<formats::SourceFile> listing;
  listing.reserve(files.size());
  for (const TreeFile& file : files) listing.push_back({file.path, file.facts.bytes});
  return listing;
}

Result<SourceTree> scan_source(const std::string& path, bool follow_links) {
  const std::string shown = printable(path);
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, fmt::format("the source \"{}\" is not a path", shown),
                  "name a checkpoint folder or a weight file");
  }
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    struct stat status {};
    if (error == ENOENT && ::lstat(path.c_str(), &status) == 0) {
      return Status(Code::kCorrupt, fmt::format("{}: the link leads to nothing", shown),
                    "fetch what it stands for, or name another source");
    }
    if (error == ELOOP) return Status(Code::kCorrupt, fmt::format("{}: a link cycle", shown), "remove the link");
    if (error == ENXIO) {
      return Status(Code::kInvalidArgument, fmt::format("{}: neither a folder nor a regular file", shown),
                    "name a checkpoint folder or a weight file");
    }
    return errno_status(error, "open", shown);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return errno_status(errno, "fstat", shown);
  if (S_ISDIR(status.st_mode)) {
    SY_RETURN_IF_ERROR(refuse_hub_folder(path));
    return Walker(path, follow_links).walk(std::move(fd));
  }
  if (!S_ISREG(status.st_mode)) {
    return Status(Code::kInvalidArgument, fmt::format("{}: neither a folder nor a regular file", shown),
                  "name a checkpoint folder or a weight file");
  }
  SourceTree tree;
  tree.root = path;
  tree.is_folder = false;
  tree.files.push_back({std::string(base_name(path)), facts_of(status)});
  if (!is_valid_utf8(tree.files[0].path)) {
    return Status(Code::kInvalidArgument, fmt::format("{}: the name is not UTF-8", shown),
                  "rename it: names are kept as UTF-8 text");
  }
  return tree;
}

Result<UniqueFd> open_source_file(const SourceTree& tree, const TreeFile& file) {
  const std::string shown = tree.is_folder ? shown_path(tree.root, file.path) : printable(tree.root);
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd;
  if (tree.is_folder) {
    const UniqueFd root(::open(tree.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (root.valid()) fd = open_below(root.get(), file.path, kFlags);
  } else {
    fd = UniqueFd(::open(tree.root.c_str(), kFlags | O_CLOEXEC));
  }
  if (!fd.valid()) {
    if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) return errno_status(errno, "open", shown);
    return Status(Code::kCorrupt, fmt::format("{}: it changed while it was read: it is gone", shown),
                  "import again when nobody writes to the source");
  }
  SY_RETURN_IF_ERROR(unchanged(tree, file, fd.get()));
  return fd;
}

Status unchanged(const SourceTree& tree, const TreeFile& file, int fd) {
  const std::string shown = tree.is_folder ? shown_path(tree.root, file.path) : printable(tree.root);
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno_status(errno, "fstat", shown);
  const FileFacts now = facts_of(status);
  if (now == file.facts) return {};
  const std::string what = !same_inode(now, file.facts) ? std::string("another file stands there now")
                           : now.bytes != file.facts.bytes
                               ? fmt::format("it had {} bytes and has {}", file.facts.bytes, now.bytes)
                               : std::string("its times of change differ");
  return {Code::kCorrupt, fmt::format("{}: it changed while it was read: {}", shown, what),
          "import again when nobody writes to the source"};
}

Status read_source_file(const SourceTree& tree, const TreeFile& file, int fd, std::uint64_t offset, ByteSpan into) {
  const std::string shown = tree.is_folder ? shown_path(tree.root, file.path) : printable(tree.root);
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t bytes = ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return errno_status(errno, "read", shown).annotate("reading", fmt::format("byte {}", offset + done));
    if (bytes == 0) {
      return {Code::kCorrupt,
              fmt::format("{}: it changed while it was read: it ends at byte {}, wanted {}", shown, offset + done,
                          offset + into.size()),
              "import again when nobody writes to the source"};
    }
    done += static_cast<std::size_t>(bytes);
  }
  return {};
}

formats::SourceReader source_reader(const SourceTree& tree) {
  return [&tree](const std::string& path, std::uint64_t offset, std::uint64_t bytes) -> Result<std::string> {
    const TreeFile* file = tree.find(path);
    SY_CHECK(file != nullptr, "the reader was asked for a file that the scan did not list");
    SY_ASSIGN_OR_RETURN(const UniqueFd fd, open_source_file(tree, *file));
    std::string text(bytes, '\0');
    SY_RETURN_IF_ERROR(
        read_source_file(tree, *file, fd.get(), offset, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
    SY_RETURN_IF_ERROR(unchanged(tree, *file, fd.get()));
    return text;
  };
}

DefaultName default_name(const std::string& path) {
  std::string whole(without_trailing_slashes(path));
  const auto resolve = [](const std::string& text) {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(text.c_str(), nullptr), std::free);
    return real ? std::string(real.get()) : text;
  };
  const std::string_view last = base_name(whole);
  if (last.empty() || last == "." || last == "..") {
    whole = resolve(whole);
  } else if (!whole.starts_with('/')) {
    whole = joined(resolve("."), whole);  // its parents may make it a snapshot
  }
  if (const auto hub = hub_place(whole)) {
    struct stat status {};
    if (::stat(whole.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      return {hub->resource_id, hub->revision, hub_ref_of(*hub)};
    }
  }
  DefaultName name;
  name.resource_id = base_name(whole);
  return name;
}

}  // namespace steelyard::store
