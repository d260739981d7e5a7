#include "store/same_content.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/utf8.h"
#include "base/workers.h"
#include "hash/sha256.h"
#include "store/verified_reader.h"
#include "tiers/tier.h"

namespace steelyard::store {
namespace {

bool same_names(const formats::CheckpointPlan& plan, const formats::StoredManifest& manifest) {
  return std::ranges::equal(
      plan.files, manifest.files, [](const formats::PlannedFile& planned, const formats::FileEntry& stored) {
        return planned.path == stored.path && planned.kind == stored.kind && planned.bytes == stored.bytes;
      });
}

class Comparison {
 public:
  Comparison(Source& source, const formats::StoredManifest& manifest, StopSignal& stop, ProgressMeter& progress)
      : source_(source), files_(manifest.files), stop_(stop), progress_(progress) {}

  void work(std::uint64_t buffer_bytes) {
    const auto buffer = tiers::AlignedBuffer::allocate(buffer_bytes);
    if (!buffer.ok()) return stop_.fail(buffer.status());
    while (!stop_.stopped() && !differs_) {
      const std::size_t turn = next_.fetch_add(1);
      if (turn >= files_.size()) return;
      if (Status status = compare(files_[turn], buffer->span()); !status.ok()) {
        return stop_.fail(std::move(status).annotate("comparing", printable(files_[turn].path)));
      }
    }
  }

  bool differs() const { return differs_; }

 private:
  Status compare(const formats::FileEntry& file, ByteSpan buffer) {
    SY_ASSIGN_OR_RETURN(const auto open, source_.open(file.path));
    hash::Sha256 sha256;
    for (std::uint64_t at = 0; at < file.bytes;) {
      if (stop_.stopped() || differs_) return {};
      const ByteSpan piece = buffer.first(std::min<std::uint64_t>(buffer.size(), file.bytes - at));
      SY_RETURN_IF_ERROR(open->read(at, piece));
      sha256.update(piece);
      at += piece.size();
      progress_.add_bytes(piece.size());
    }
    SY_RETURN_IF_ERROR(open->check_unchanged());
    if (sha256.finish() != file.sha256) differs_ = true;
    progress_.add_file();
    return {};
  }

  Source& source_;
  const std::vector<formats::FileEntry>& files_;
  StopSignal& stop_;
  ProgressMeter& progress_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> differs_{false};
};

}  // namespace

Result<bool> has_content_of(Context& context, Source& source, const formats::CheckpointPlan& plan,
                            const formats::StoredManifest& manifest, StopSignal& stop, ProgressMeter& progress) {
  if (!same_names(plan, manifest)) return false;
  const unsigned workers =
      std::min<unsigned>(context.options.jobs, static_cast<unsigned>(std::max<std::size_t>(plan.files.size(), 1)));
  const std::uint64_t buffer_bytes = read_piece_bytes(context.io_budget, workers);
  Comparison comparison(source, manifest, stop, progress);
  auto tasks = spawn_workers(context.runtime, "compare-worker", workers - 1, [&] { comparison.work(buffer_bytes); });
  comparison.work(buffer_bytes);
  tasks.clear();
  SY_RETURN_IF_ERROR(stop.status("the comparison"));
  return !comparison.differs();
}

}  // namespace steelyard::store
