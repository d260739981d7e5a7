#include "api/open_revision.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/utf8.h"
#include "formats/ref.h"

namespace steelyard {
namespace {

Status check_range(std::string_view what, std::uint64_t has, std::uint64_t offset, std::uint64_t bytes) {
  if (offset <= has && bytes <= has - offset) return {};
  return {Code::kInvalidArgument,
          fmt::format("{} bytes at {} are not all in {}, which has {} bytes", bytes, offset, what, has)};
}

}  // namespace

std::vector<FilePiece> pieces_of(const formats::StoredManifest& manifest) {
  std::vector<FilePiece> out;
  for (std::size_t file = 0; file < manifest.files.size(); ++file) {
    std::uint64_t file_offset = 0;
    for (const formats::Piece& piece : manifest.files[file].pieces) {
      out.push_back({piece.run, piece.offset, piece.bytes, file, file_offset});
      file_offset += piece.bytes;
    }
  }
  std::ranges::sort(out, {}, [](const FilePiece& piece) { return std::tuple(piece.run, piece.offset); });
  return out;
}

OpenRevision::OpenRevision(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const Revision& OpenRevision::revision() const { return impl_->revision; }

std::size_t OpenRevision::file_count() const { return impl_->files.size(); }

const FileInfo& OpenRevision::file(std::size_t index) const {
  SY_CHECK(index < file_count(), "a file that does not exist");
  return impl_->files[index];
}

std::size_t OpenRevision::tensor_count() const { return impl_->core->manifest()->tensors.size(); }

TensorInfo OpenRevision::tensor(std::size_t index) const {
  SY_CHECK(index < tensor_count(), "a tensor that does not exist");
  const formats::TensorRow row = impl_->core->manifest()->tensors.row(index);
  TensorInfo out;
  out.tensor_id = row.tensor_id;
  out.dtype = row.dtype;
  out.shape.assign(row.shape.begin(), row.shape.end());
  if (!row.place) return out;
  out.whole = true;
  out.bytes = row.place->bytes;
  const std::tuple place(row.place->run, row.place->offset);
  auto after = std::ranges::upper_bound(impl_->pieces, place, {},
                                        [](const FilePiece& piece) { return std::tuple(piece.run, piece.offset); });
  if (after == impl_->pieces.begin()) return out;
  const FilePiece& piece = *--after;
  const std::uint64_t within = row.place->offset - piece.offset;
  if (piece.run != row.place->run || within > piece.bytes || row.place->bytes > piece.bytes - within) return out;
  out.file = piece.file;
  out.file_offset = piece.file_offset + within;
  return out;
}

std::optional<std::size_t> OpenRevision::find_tensor(std::string_view tensor_id) const {
  return impl_->core->manifest()->tensors.find(tensor_id);
}

Result<File> OpenRevision::open_file(std::string_view path) const {
  const auto& files = impl_->files;
  const auto found = std::ranges::lower_bound(files, path, {}, &FileInfo::path);
  if (found == files.end() || found->path != path) {
    return Status(Code::kNotFound,
                  fmt::format("{} has no file {}", format_ref(impl_->revision.identity), printable(path)),
                  "OpenRevision::file names its files");
  }
  return File(std::make_shared<const File::Impl>(File::Impl{impl_, static_cast<std::size_t>(found - files.begin())}));
}

Status OpenRevision::read_tensor(std::size_t index, std::uint64_t offset, std::span<std::byte> into) const {
  const TensorInfo info = tensor(index);
  const std::string name = "tensor " + printable(info.tensor_id);
  if (!info.whole) {
    return {Code::kInvalidArgument, name + " is stored in fragments, not in one piece",
            "make a plan of OpenRevision::manifest for it"};
  }
  SY_RETURN_IF_ERROR(check_range(name, info.bytes, offset, into.size()));
  const std::string what = info.file ? name + " of " + printable(file(*info.file).path) : name;
  return impl_->core->read_place(*impl_->core->manifest()->tensors.row(index).place, offset, into, what);
}

StoredManifest OpenRevision::manifest() const { return ApiInternals::made<StoredManifest>(impl_->core->manifest()); }

File::File(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const FileInfo& File::info() const { return impl_->revision->files[impl_->index]; }

Status File::read(std::uint64_t offset, std::span<std::byte> into) const {
  SY_RETURN_IF_ERROR(check_range(printable(info().path), size(), offset, into.size()));
  const store::OpenRevision& core = *impl_->revision->core;
  return core.read_file(core.manifest()->files[impl_->index], offset, into);
}

HeldLease::HeldLease(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const std::string& HeldLease::lease_id() const { return impl_->core->lease_id(); }
const Revision& HeldLease::revision() const { return impl_->revision; }
Status HeldLease::check() const { return impl_->core->check(); }

}  // namespace steelyard
