#include "store/block_sources.h"

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "base/log.h"
#include "hash/xxh3.h"
#include "store/manifest_file.h"

namespace steelyard::store {
namespace {

/// Of the same block in many objects (zeros, say) a few are enough to try.
constexpr std::size_t kPlacesMax = 8;

std::uint64_t block_bytes(std::uint64_t object_bytes, std::uint64_t block) {
  return std::min(limits::kBlockBytes, object_bytes - block * limits::kBlockBytes);
}

/// What a place that has no such bytes answers, as against one that could not be read now.
bool says_no(const Status& status) { return status.code() == Code::kNotFound || status.code() == Code::kCorrupt; }

}  // namespace

BlockSources::BlockSources(Context& context, const metadata::RevisionRecord& record,
                           const formats::StoredManifest& manifest, std::vector<std::uint32_t> wanted, Source* source,
                           const HotReplicas& hot)
    : context_(context),
      manifest_(manifest),
      own_(attempt_of(record)),
      wanted_(std::move(wanted)),
      source_(source),
      hot_(hot) {
  if (source_ == nullptr) return;
  for (const formats::SourceFile& file : source_->files()) source_sizes_[file.bytes].push_back(file.path);
  const std::set<std::uint32_t> objects(wanted_.begin(), wanted_.end());
  for (std::uint32_t file = 0; file < manifest_.files.size(); ++file) {
    std::uint64_t file_offset = 0;
    for (const formats::Piece& piece : manifest_.files[file].pieces) {
      for (const auto& range : formats::ranges_of(manifest_.runs[piece.run], piece.offset, piece.bytes)) {
        if (objects.contains(range.object)) {
          parts_[range.object].push_back({range.offset, range.bytes, file, file_offset});
        }
        file_offset += range.bytes;
      }
    }
  }
}

Result<bool> BlockSources::fetch(std::uint32_t object, std::uint64_t block, ByteSpan into) {
  unread_ = Status();
  if (hot_.has(object)) {
    const Status hot = hot_.tier->read(hot_.name_of(object), {{block * limits::kBlockBytes, into}});
    if (hot.ok() && is_right(object, block, into)) return true;
    // Memory that cannot be read now keeps nobody from saying that the block is nowhere else.
    if (!hot.ok()) log_info("a replica in memory cannot be read: {}", hot.to_string());
  }
  if (source_ != nullptr) {
    SY_ASSIGN_OR_RETURN(const bool found, from_source(object, block, into));
    if (found) return true;
  }
  const auto read = [&]() -> Status {
    SY_ASSIGN_OR_RETURN(const auto pending, context_.cold.start_read_content(manifest_.objects[object].sha256,
                                                                             {{block * limits::kBlockBytes, into}}));
    return pending->finish();
  };
  const Status content = read();
  if (content.ok() && is_right(object, block, into)) return true;
  if (!content.ok()) could_not_read(content);
  SY_ASSIGN_OR_RETURN(const bool elsewhere, from_elsewhere(object, block, into));
  if (elsewhere) return true;
  SY_RETURN_IF_ERROR(unread_);
  return false;
}

bool BlockSources::is_right(std::uint32_t object, std::uint64_t block, ByteView bytes) const {
  return hash::xxh3(bytes) == manifest_.objects[object].blocks[block];
}

void BlockSources::could_not_read(Status status) {
  if (says_no(status)) return;
  log_info("a place where a block might be cannot be read: {}", status.to_string());
  if (unread_.ok()) unread_ = std::move(status);
}

/// The file of the same path first, then files of the same size under other names.
Result<bool> BlockSources::from_source(std::uint32_t object, std::uint64_t block, ByteSpan into) {
  const std::uint64_t begin = block * limits::kBlockBytes;
  std::vector<FilePart> parts;
  std::uint64_t covered = 0;
  for (const FilePart& part : parts_[object]) {
    if (part.offset >= begin + into.size() || part.offset + part.bytes <= begin) continue;
    FilePart cut = part;
    if (cut.offset < begin) {
      cut.file_offset += begin - cut.offset;
      cut.bytes -= begin - cut.offset;
      cut.offset = begin;
    }
    cut.bytes = std::min(cut.bytes, begin + into.size() - cut.offset);
    covered += cut.bytes;
    parts.push_back(cut);
  }
  // Bytes of a run that no file has are in no source.
  if (parts.empty() || covered < into.size()) return false;
  const auto try_with = [&](const std::string* renamed) {
    const Status status = read_parts(parts, begin, renamed, into);
    if (!status.ok()) could_not_read(status);
    return status.ok() && is_right(object, block, into);
  };
  if (try_with(nullptr)) return true;
  if (parts.size() != 1) return false;
  const formats::FileEntry& file = manifest_.files[parts.front().file];
  const auto same_size = source_sizes_.find(file.bytes);
  if (same_size == source_sizes_.end()) return false;
  std::vector<std::string>& paths = same_size->second;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths[i] == file.path || !try_with(&paths[i])) continue;
    std::swap(paths[0], paths[i]);  // the next block is probably in it too
    return true;
  }
  return false;
}

Status BlockSources::read_parts(const std::vector<FilePart>& parts, std::uint64_t block_offset,
                                const std::string* renamed, ByteSpan into) {
  for (const FilePart& part : parts) {
    const std::string& path = renamed != nullptr ? *renamed : manifest_.files[part.file].path;
    SY_ASSIGN_OR_RETURN(OpenSource * file, open(path));
    SY_RETURN_IF_ERROR(file->read(part.file_offset, into.subspan(part.offset - block_offset, part.bytes)));
  }
  return {};
}

Result<OpenSource*> BlockSources::open(const std::string& path) {
  if (open_file_ && open_path_ == path) return open_file_.get();
  const auto& files = source_->files();
  const bool there = std::ranges::any_of(files, [&](const formats::SourceFile& file) { return file.path == path; });
  if (!there) return Status(Code::kNotFound, "the source has no file " + path);
  open_file_.reset();
  SY_ASSIGN_OR_RETURN(open_file_, source_->open(path));
  open_path_ = path;
  return open_file_.get();
}

Result<bool> BlockSources::from_elsewhere(std::uint32_t object, std::uint64_t block, ByteSpan into) {
  if (!places_) SY_RETURN_IF_ERROR(index_blocks());
  const auto found = places_->find(manifest_.objects[object].blocks[block]);
  if (found == places_->end()) return false;
  for (const Place& place : found->second) {
    const tiers::AttemptName& attempt = (*attempts_)[place.attempt].name;
    if (attempt == own_ && place.object == object && place.block == block) continue;
    const Status read =
        context_.cold.read(payload_of(attempt, place.object), {{place.block * limits::kBlockBytes, into}});
    if (read.ok() && is_right(object, block, into)) return true;
    if (!read.ok()) could_not_read(read);
  }
  return false;
}

Status BlockSources::list_attempts() {
  if (attempts_) return {};
  std::vector<Attempt> attempts;
  SY_ASSIGN_OR_RETURN(const auto groups, context_.cold.list_groups());
  for (const std::string& group : groups) {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, context_.cold.list_group(group));
    if (listing.deleting) continue;
    for (const std::uint32_t attempt : listing.attempts) {
      const bool committed = std::ranges::count(listing.committed_attempts, attempt) != 0;
      attempts.push_back({{group, attempt}, committed || tiers::AttemptName{group, attempt} == own_});
    }
  }
  attempts_ = std::move(attempts);
  return {};
}

/// Reads every manifest of the tier, and keeps where the wanted blocks are.
Status BlockSources::index_blocks() {
  SY_RETURN_IF_ERROR(list_attempts());
  std::unordered_map<std::uint64_t, std::vector<Place>> places;
  std::unordered_map<std::uint64_t, std::uint64_t> bytes_of_sum;
  for (const std::uint32_t object : wanted_) {
    const formats::ObjectEntry& entry = manifest_.objects[object];
    for (std::uint64_t block = 0; block < entry.blocks.size(); ++block) {
      places[entry.blocks[block]];
      bytes_of_sum[entry.blocks[block]] = block_bytes(entry.bytes, block);
    }
  }
  for (std::uint32_t i = 0; i < attempts_->size(); ++i) {
    if (!(*attempts_)[i].committed) continue;
    const auto bytes = read_manifest_bytes(context_.cold, (*attempts_)[i].name);
    // Its bytes are judged block by block when they are used, so a manifest that lies about them does no harm.
    const auto manifest = bytes.ok() ? formats::read_manifest(*bytes) : bytes.status();
    if (!manifest.ok()) {
      could_not_read(manifest.status());
      continue;
    }
    for (std::uint32_t object = 0; object < manifest->objects.size(); ++object) {
      const formats::ObjectEntry& entry = manifest->objects[object];
      for (std::uint64_t block = 0; block < entry.blocks.size(); ++block) {
        const auto found = places.find(entry.blocks[block]);
        if (found == places.end() || found->second.size() == kPlacesMax) continue;
        if (block_bytes(entry.bytes, block) != bytes_of_sum[entry.blocks[block]]) continue;
        found->second.push_back({i, object, block});
      }
    }
  }
  places_ = std::move(places);
  return {};
}

/// Finds the names that share the bytes of the wanted objects: by going through the whole tier, unless no bytes have
/// more names than the object's own and the content index's.
Status BlockSources::index_storage() {
  std::map<std::uint64_t, std::vector<tiers::ObjectName>> storages;
  for (const std::uint32_t object : wanted_) {
    const auto stat = context_.cold.stat(payload_of(own_, object));
    if (!stat.ok()) continue;
    const auto entry = context_.cold.stat_content(manifest_.objects[object].sha256);
    const bool indexed = entry.ok() && entry->storage == stat->storage;
    if (stat->links > (indexed ? 2U : 1U)) storages[stat->storage];
  }
  if (storages.empty()) {
    storages_ = std::move(storages);
    return {};
  }
  SY_RETURN_IF_ERROR(list_attempts());
  for (const Attempt& attempt : *attempts_) {
    SY_ASSIGN_OR_RETURN(const auto members, context_.cold.list_attempt(attempt.name));
    for (const tiers::ObjectStat& member : members) {
      if (member.name.kind != tiers::ObjectKind::kPayload) continue;
      const auto found = storages.find(member.storage);
      if (found != storages.end()) found->second.push_back(member.name);
    }
  }
  storages_ = std::move(storages);
  return {};
}

Result<std::vector<tiers::ObjectName>> BlockSources::sharing(const tiers::ObjectName& name) {
  if (!storages_) SY_RETURN_IF_ERROR(index_storage());
  const auto stat = context_.cold.stat(name);
  // Nothing, or nothing that could be shared, has the name.
  if (stat.code() == Code::kNotFound || stat.code() == Code::kCorrupt) return std::vector<tiers::ObjectName>();
  SY_RETURN_IF_ERROR(stat.status());
  const auto found = storages_->find(stat->storage);
  if (found == storages_->end()) return std::vector<tiers::ObjectName>();
  std::vector<tiers::ObjectName> names = found->second;
  std::erase(names, name);
  return names;
}

}  // namespace steelyard::store
