// The real Source: a scanned folder, hub snapshot or single file.

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "store/drop_behind.h"
#include "store/io_budget.h"
#include "store/source.h"
#include "store/source_folder.h"

namespace steelyard::store {
namespace {

class OpenFolderFile final : public OpenSource {
 public:
  OpenFolderFile(const SourceTree& tree, const TreeFile& file, UniqueFd fd, bool drop_behind)
      : tree_(tree), file_(file), fd_(std::move(fd)) {
    if (drop_behind) cache_.emplace(fd_.get(), file_.facts.bytes);
  }
  Status read(std::uint64_t offset, ByteSpan into) override {
    if (!cache_) return read_source_file(tree_, file_, fd_.get(), offset, into);
    while (!into.empty()) {
      const ByteSpan piece =
          into.first(static_cast<std::size_t>(std::min<std::uint64_t>(cache_->enter(offset), into.size())));
      SY_RETURN_IF_ERROR(read_source_file(tree_, file_, fd_.get(), offset, piece));
      offset += piece.size();
      into = into.subspan(piece.size());
    }
    return {};
  }
  Status check_unchanged() override { return unchanged(tree_, file_, fd_.get()); }

 private:
  const SourceTree& tree_;
  const TreeFile& file_;
  UniqueFd fd_;
  std::optional<DropBehind> cache_;  ///< goes before the descriptor does
};

class FolderSource final : public Source {
 public:
  FolderSource(SourceTree tree, bool drop_behind)
      : tree_(std::move(tree)), listing_(tree_.listing()), drop_behind_(drop_behind) {}

  const std::vector<formats::SourceFile>& files() const override { return listing_; }

  Result<std::unique_ptr<OpenSource>> open(const std::string& path) override {
    const TreeFile* file = tree_.find(path);
    SY_CHECK(file != nullptr, "only files of the listing are opened");
    SY_ASSIGN_OR_RETURN(UniqueFd fd, open_source_file(tree_, *file));
    return std::unique_ptr<OpenSource>(std::make_unique<OpenFolderFile>(tree_, *file, std::move(fd), drop_behind_));
  }

  std::vector<std::pair<std::string, std::string>> facts() const override {
    const DefaultName name = default_name(tree_.root);
    const bool hub = name.revision != "main";
    std::vector<std::pair<std::string, std::string>> facts;
    facts.emplace_back("kind", !tree_.is_folder ? "file" : hub ? "hub_snapshot" : "folder");
    if (hub) {
      facts.emplace_back("hub_repository", name.resource_id);
      facts.emplace_back("hub_commit", name.revision);
    }
    if (is_valid_utf8(tree_.root) && !has_control_character(tree_.root)) facts.emplace_back("path", tree_.root);
    return facts;
  }

 private:
  const SourceTree tree_;
  const std::vector<formats::SourceFile> listing_;
  const bool drop_behind_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_source(const std::string& path, bool follow_links) {
  SY_ASSIGN_OR_RETURN(SourceTree tree, scan_source(path, follow_links));
  // Elsewhere a source that is read stays cached, as with any reader.
  const bool drop_behind = memory_is_scarce(cgroup_memory_limit(), physical_memory_bytes());
  return std::unique_ptr<Source>(std::make_unique<FolderSource>(std::move(tree), drop_behind));
}

formats::SourceReader reader_of(Source& source) {
  struct Last {
    std::string path;
    std::unique_ptr<OpenSource> file;
  };
  return [&source, last = std::make_shared<Last>()](const std::string& path, std::uint64_t offset,
                                                    std::uint64_t bytes) -> Result<std::string> {
    if (!last->file || last->path != path) {
      SY_ASSIGN_OR_RETURN(last->file, source.open(path));
      last->path = path;
    }
    std::string text(bytes, '\0');
    SY_RETURN_IF_ERROR(last->file->read(offset, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
    return text;
  };
}

}  // namespace steelyard::store
