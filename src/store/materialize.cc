#include "store/materialize.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/workers.h"
#include "store/damage_record.h"
#include "store/file_segments.h"
#include "store/lease_guard.h"
#include "store/manifest_file.h"
#include "store/overlap.h"
#include "store/plain_files.h"
#include "store/progress_meter.h"
#include "store/resolve.h"
#include "store/target_folder.h"
#include "store/verified_reader.h"

namespace steelyard::store {
namespace {

class Materialization {
 public:
  Materialization(Context& context, const metadata::RevisionRecord& record, const formats::StoredManifest& manifest,
                  TargetFolder& target, bool allow_degraded, Observer& observer, StopSignal& stop)
      : context_(context),
        record_(record),
        manifest_(manifest),
        attempt_(attempt_of(record)),
        hot_(open_hot_to_read(context, record, manifest, stop)),
        target_(target),
        allow_degraded_(allow_degraded),
        stop_(stop),
        queue_(manifest.files.size()),
        bytes_(std::accumulate(manifest.files.begin(), manifest.files.end(), std::uint64_t{0},
                               [](std::uint64_t sum, const auto& file) { return sum + file.bytes; })),
        progress_(context.runtime, observer, "materialize", bytes_, manifest.files.size()) {
    std::iota(queue_.begin(), queue_.end(), std::size_t{0});
    std::stable_sort(queue_.begin(), queue_.end(),
                     [&](std::size_t a, std::size_t b) { return manifest_.files[a].bytes > manifest_.files[b].bytes; });
  }

  /// What was written.
  std::uint64_t files() const { return files_written_; }
  std::uint64_t bytes() const { return bytes_written_; }
  /// What was not, by path.
  std::vector<MaterializeResult::Missing> missing() {
    std::ranges::sort(missing_, {}, &MaterializeResult::Missing::file);
    return std::move(missing_);
  }

  Status run() {
    SY_RETURN_IF_ERROR(check_space());
    const unsigned workers =
        std::min<unsigned>(context_.options.jobs, static_cast<unsigned>(std::max<std::size_t>(queue_.size(), 1)));
    // Two pieces to read into and one to write from for each worker.
    const std::uint64_t piece_bytes = read_piece_bytes(context_.io_budget / 3 * 2, workers);
    const auto work = [&] {
      auto buffers = ReadBuffers::allocate(piece_bytes);
      if (!buffers.ok()) return stop_.fail(std::move(buffers).status());
      const auto staging = tiers::AlignedBuffer::allocate(piece_bytes);
      if (!staging.ok()) return stop_.fail(staging.status());
      while (!stop_.stopped()) {
        const std::size_t turn = next_.fetch_add(1);
        if (turn >= queue_.size()) return;
        const formats::FileEntry& file = manifest_.files[queue_[turn]];
        if (Status status = write(file, *buffers, staging->span()); !status.ok()) {
          stop_.fail(std::move(status).annotate("materialising", printable(file.path)));
        }
      }
    };
    auto tasks = spawn_workers(context_.runtime, "materialize-worker", workers - 1, work);
    work();
    tasks.clear();
    if (!bad_.empty()) SY_RETURN_IF_ERROR(check_not_deleted(context_, record_));
    record_bad_objects(context_, record_, manifest_, bad_, stop_);
    record_bad_in_memory(context_, record_, bad_in_memory_, stop_);
    SY_RETURN_IF_ERROR(stop_.status("materialize"));
    if (files_written_ == 0 && !missing_.empty()) return missing_.front().why;
    SY_RETURN_IF_ERROR(target_.publish(folders()));
    progress_.finish();
    return {};
  }

 private:
  /// Every folder that a file lies in, and those above it.
  std::set<std::string> folders() const {
    std::set<std::string> folders;
    for (const formats::FileEntry& file : manifest_.files) {
      for (auto slash = file.path.rfind('/'); slash != std::string::npos; slash = file.path.rfind('/', slash - 1)) {
        if (!folders.insert(file.path.substr(0, slash)).second) break;
      }
    }
    return folders;
  }

  Status check_space() const {
    struct statvfs info {};
    if (fstatvfs(target_.staging_fd(), &info) != 0) return {};
    const std::uint64_t available = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
    if (bytes_ <= available) return {};
    const auto size = format_sizes_apart({bytes_, available});
    return {Code::kNoSpace,
            fmt::format("{} needs {} and its filesystem has {}: {} are missing", target_.path(), size[0], size[1],
                        format_size(bytes_ - available)),
            "free space or name a folder on a larger filesystem"};
  }

  Status write(const formats::FileEntry& file, ReadBuffers& buffers, ByteSpan staging) {
    const auto slash = file.path.rfind('/');
    const std::string folder_path = slash == std::string::npos ? "" : file.path.substr(0, slash);
    const std::string name = slash == std::string::npos ? file.path : file.path.substr(slash + 1);
    SY_ASSIGN_OR_RETURN(const UniqueFd folder, open_or_make_folder(target_.staging_fd(), folder_path));
    SY_ASSIGN_OR_RETURN(PlainFileWriter writer,
                        PlainFileWriter::create(context_.runtime, folder.get(), name, file.bytes, staging));
    VerifiedReader reader(context_.cold, attempt_, manifest_.objects, segments_of(manifest_, file), buffers, &hot_);
    VerifiedReader::Piece piece;
    for (;;) {
      if (stop_.stopped()) return {};
      SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
      if (!more) break;
      if (piece.bad) {
        note(*piece.bad);
        note(reader.bad_in_memory());
        Status bad = to_status(*piece.bad, record_.identity);
        if (!allow_degraded_) return bad;
        return leave_out(file, folder.get(), name, std::move(bad).annotate("materialising", printable(file.path)));
      }
      for (ByteView rest = piece.bytes; !rest.empty();) {
        const ByteView block = rest.first(std::min<std::size_t>(rest.size(), limits::kBlockBytes));
        rest = rest.subspan(block.size());
        SY_RETURN_IF_ERROR(writer.append(block));
        progress_.add_bytes(block.size());
      }
    }
    note(reader.bad_in_memory());
    SY_RETURN_IF_ERROR(writer.finish());
    progress_.add_file();
    ++files_written_;
    bytes_written_ += file.bytes;
    return {};
  }

  void note(const BadObject& bad) {
    const std::lock_guard lock(mutex_);
    bad_.push_back(bad);
  }

  void note(const BadInMemory& bad) {
    const std::lock_guard lock(mutex_);
    bad_in_memory_.insert(bad.begin(), bad.end());
  }

  /// Nothing of a damaged file stays: a part of it might pass for the whole.
  Status leave_out(const formats::FileEntry& file, int folder, const std::string& name, Status why) {
    if (unlinkat(folder, name.c_str(), 0) != 0) return errno_status(errno, "remove", file.path);
    const std::lock_guard lock(mutex_);
    missing_.push_back({file.path, std::move(why)});
    return {};
  }

  Context& context_;
  const metadata::RevisionRecord& record_;
  const formats::StoredManifest& manifest_;
  const tiers::AttemptName attempt_;
  const HotReplicas hot_;
  TargetFolder& target_;
  const bool allow_degraded_;
  StopSignal& stop_;
  std::vector<std::size_t> queue_;  ///< files, largest first
  std::uint64_t bytes_;
  ProgressMeter progress_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> files_written_{0};
  std::atomic<std::uint64_t> bytes_written_{0};
  std::mutex mutex_;
  std::vector<MaterializeResult::Missing> missing_;
  std::vector<BadObject> bad_;
  BadInMemory bad_in_memory_;
};

}  // namespace

Result<MaterializeResult> run_materialize(Context& context, const MaterializeRequest& request, Observer& observer,
                                          const CancelFlag& cancel) {
  const Purpose purpose = request.allow_degraded ? Purpose::kReadDegraded : Purpose::kRead;
  MaterializeResult result;
  SY_RETURN_IF_ERROR(check_target_apart(context.options, request.target));
  SY_ASSIGN_OR_RETURN(result.record, resolve(context.catalog, request.source, purpose));
  StopSignal stop(cancel);
  SY_ASSIGN_OR_RETURN(const auto lease,
                      LeaseGuard::acquire(context, result.record, {.allow_degraded = request.allow_degraded}, stop));
  auto loaded = load_manifest(context.cold, result.record);
  if (loaded.code() == Code::kCorrupt) {
    SY_RETURN_IF_ERROR(check_not_deleted(context, result.record));
    record_bad_manifest(context, result.record, stop);
  }
  SY_ASSIGN_OR_RETURN(const formats::StoredManifest manifest, std::move(loaded));
  SY_ASSIGN_OR_RETURN(const auto target,
                      TargetFolder::prepare(context.runtime, request.target, request.force, request.home));
  Materialization materialization(context, result.record, manifest, *target, request.allow_degraded, observer, stop);
  SY_RETURN_IF_ERROR(materialization.run());
  result.path = target->path();
  result.files = materialization.files();
  result.bytes = materialization.bytes();
  result.notes = target->notes();
  result.missing = materialization.missing();
  return result;
}

}  // namespace steelyard::store
