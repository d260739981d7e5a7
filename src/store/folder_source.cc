// The real Source: a scanned folder, hub snapshot or single file.

#include "base/utf8.h"
#include "store/source.h"
#include "store/source_folder.h"

namespace steelyard::store {
namespace {

class OpenFolderFile final : public OpenSource {
 public:
  OpenFolderFile(const SourceTree& tree, const TreeFile& file, UniqueFd fd)
      : tree_(tree), file_(file), fd_(std::move(fd)) {}
  Status read(std::uint64_t offset, ByteSpan into) override {
    return read_source_file(tree_, file_, fd_.get(), offset, into);
  }
  Status check_unchanged() override { return unchanged(tree_, file_, fd_.get()); }

 private:
  const SourceTree& tree_;
  const TreeFile& file_;
  UniqueFd fd_;
};

class FolderSource final : public Source {
 public:
  explicit FolderSource(SourceTree tree) : tree_(std::move(tree)), listing_(tree_.listing()) {}

  const std::vector<formats::SourceFile>& files() const override { return listing_; }

  Result<std::unique_ptr<OpenSource>> open(const std::string& path) override {
    const TreeFile* file = tree_.find(path);
    SY_CHECK(file != nullptr, "only files of the listing are opened");
    SY_ASSIGN_OR_RETURN(UniqueFd fd, open_source_file(tree_, *file));
    return std::unique_ptr<OpenSource>(std::make_unique<OpenFolderFile>(tree_, *file, std::move(fd)));
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
};

}  // namespace

Result<std::unique_ptr<Source>> open_source(const std::string& path, bool follow_links) {
  SY_ASSIGN_OR_RETURN(SourceTree tree, scan_source(path, follow_links));
  return std::unique_ptr<Source>(std::make_unique<FolderSource>(std::move(tree)));
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
