#include "store/payload_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/checked.h"
#include "base/limits.h"
#include "hash/fused.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "store/verified_reader.h"

namespace steelyard::store {
namespace {

/// Read and digested at a time: whole blocks, small enough to stay in the second-level cache.
constexpr std::uint64_t kDigestPieceBytes = limits::kBlockBytes;
constexpr std::uint64_t kReadBackPieceBytes = 4 * limits::kMiB;

std::uint64_t round_up_to_block(std::uint64_t bytes) {
  return div_ceil(bytes, limits::kBlockBytes) * limits::kBlockBytes;
}

}  // namespace

/// One worker: its buffers, and the puts under way in them.
class PayloadPipeline::Worker {
 public:
  Worker(PayloadPipeline& pipeline, std::uint64_t buffer_bytes) : pipeline_(pipeline) {
    for (Slot& slot : slots_) slot.buffer = tiers::AlignedBuffer(buffer_bytes);
  }

  Status run() {
    for (;;) {
      if (pipeline_.stop_.stopped()) return {};
      const std::size_t turn = pipeline_.next_file_.fetch_add(1);
      if (turn >= pipeline_.queue_.size()) break;
      const std::uint32_t file = pipeline_.queue_[turn];
      SY_RETURN_IF_ERROR(take_file(file).annotate("importing", pipeline_.plan_.files[file].path));
    }
    for (Slot& slot : slots_) SY_RETURN_IF_ERROR(finish_put(slot));
    return join_read_back();
  }

 private:
  struct Slot {
    tiers::AlignedBuffer buffer;
    std::unique_ptr<tiers::PendingPut> put;
    std::uint32_t object = 0;
  };

  Status take_file(std::uint32_t file) {
    const formats::PlannedFile& planned = pipeline_.plan_.files[file];
    const FileSpan span = pipeline_.layout_.files[file];
    SY_ASSIGN_OR_RETURN(const auto source, pipeline_.source_.open(planned.path));
    hash::Sha256 file_sha;
    // Where a file is one object its two digests are the same.
    hash::Sha256* const whole = span.objects == 1 ? nullptr : &file_sha;
    for (std::uint32_t object = span.first_object; object < span.first_object + span.objects; ++object) {
      turn_ ^= 1;
      SY_RETURN_IF_ERROR(take_object(*source, object, whole, slots_[turn_]));
      if (pipeline_.stop_.stopped()) return {};
    }
    SY_RETURN_IF_ERROR(source->check_unchanged());
    pipeline_.file_digests_[file] =
        span.objects == 1 ? pipeline_.objects_[span.first_object].sha256 : file_sha.finish();
    pipeline_.progress_.add_file();
    return {};
  }

  Status take_object(OpenSource& source, std::uint32_t index, hash::Sha256* file_sha, Slot& slot) {
    SY_RETURN_IF_ERROR(finish_put(slot));
    const ObjectSpan& span = pipeline_.layout_.objects[index];
    slot.object = index;
    const bool fits = span.bytes <= slot.buffer.size();
    SY_RETURN_IF_ERROR(digest(source, span, file_sha, slot.buffer.span(), fits, pipeline_.objects_[index]));
    if (pipeline_.stop_.stopped()) return {};

    const tiers::ObjectName name = payload_of(pipeline_.attempt_, index);
    const Digest& sha256 = pipeline_.objects_[index].sha256;
    if (pipeline_.mode_.link_only || !fits) {
      SY_ASSIGN_OR_RETURN(const bool linked, pipeline_.context_.cold.link(name, sha256, span.bytes));
      if (linked) return account(index, tiers::PutOutcome::kLinked);
      if (pipeline_.mode_.link_only) {
        pipeline_.absent_bytes_ += span.bytes;
        return {};
      }
      return write_large(source, index, slot.buffer.span());
    }
    SY_ASSIGN_OR_RETURN(slot.put,
                        pipeline_.context_.cold.start_put(name, slot.buffer.span().first(span.bytes), sha256));
    return {};
  }

  /// Reads the object's bytes once and digests them; into consecutive memory when it fits, else over and over into the
  /// same piece.
  Status digest(OpenSource& source, const ObjectSpan& span, hash::Sha256* file_sha, ByteSpan memory, bool fits,
                formats::ObjectEntry& entry) {
    entry.bytes = span.bytes;
    entry.blocks.clear();
    entry.blocks.reserve(div_ceil(span.bytes, limits::kBlockBytes));
    hash::Sha256 object_sha;
    for (std::uint64_t done = 0; done < span.bytes;) {
      if (pipeline_.stop_.stopped()) return {};
      const std::uint64_t size = std::min(kDigestPieceBytes, span.bytes - done);
      const ByteSpan piece = fits ? memory.subspan(done, size) : memory.first(size);
      SY_RETURN_IF_ERROR(source.read(span.file_offset + done, piece));
      if (file_sha != nullptr) {
        hash::hash_pass(*file_sha, object_sha, piece, entry.blocks);
      } else {
        hash::hash_pass(object_sha, piece, entry.blocks);
      }
      done += size;
      pipeline_.progress_.add_bytes(size);
    }
    entry.sha256 = object_sha.finish();
    return {};
  }

  /// The second read of an object that does not fit into a buffer: it must give the sums of the first.
  Status write_large(OpenSource& source, std::uint32_t index, ByteSpan memory) {
    const ObjectSpan& span = pipeline_.layout_.objects[index];
    const formats::ObjectEntry& entry = pipeline_.objects_[index];
    SY_ASSIGN_OR_RETURN(const auto stream, pipeline_.context_.cold.open_put(payload_of(pipeline_.attempt_, index),
                                                                            span.bytes, entry.sha256));
    const std::uint64_t piece_bytes = memory.size() - memory.size() % limits::kBlockBytes;
    std::vector<std::uint64_t> sums;
    for (std::uint64_t done = 0; done < span.bytes;) {
      if (pipeline_.stop_.stopped()) return {};
      const ByteSpan piece = memory.first(std::min(piece_bytes, span.bytes - done));
      SY_RETURN_IF_ERROR(source.read(span.file_offset + done, piece));
      sums.clear();
      hash::append_block_sums(piece, limits::kBlockBytes, sums);
      const auto first = entry.blocks.begin() + static_cast<std::ptrdiff_t>(done / limits::kBlockBytes);
      if (!std::equal(sums.begin(), sums.end(), first)) {
        return {Code::kCorrupt,
                fmt::format("the file changed while it was read: bytes {} to {} differ between two reads",
                            span.file_offset + done, span.file_offset + done + piece.size()),
                "import again once nobody writes to the source"};
      }
      SY_RETURN_IF_ERROR(stream->append(piece));
      done += piece.size();
    }
    SY_ASSIGN_OR_RETURN(const tiers::PutOutcome outcome, stream->finish());
    SY_RETURN_IF_ERROR(account(index, outcome));
    return read_back(index);
  }

  Status finish_put(Slot& slot) {
    if (!slot.put) return {};
    const auto put = std::move(slot.put);
    SY_ASSIGN_OR_RETURN(const tiers::PutOutcome outcome, put->finish());
    SY_RETURN_IF_ERROR(account(slot.object, outcome));
    return read_back(slot.object);
  }

  Status account(std::uint32_t index, tiers::PutOutcome outcome) {
    SY_POINT(pipeline_.context_.runtime, "import.after_object_put");
    auto& counter = outcome == tiers::PutOutcome::kWritten ? pipeline_.written_bytes_ : pipeline_.reused_bytes_;
    counter += pipeline_.layout_.objects[index].bytes;
    return {};
  }

  /// --verify-after-write: reads an object back beside the work on the next ones.
  Status read_back(std::uint32_t index) {
    if (!pipeline_.mode_.verify_after_write) return {};
    SY_RETURN_IF_ERROR(join_read_back());
    if (!read_back_buffers_) read_back_buffers_.emplace(kReadBackPieceBytes);
    read_back_task_ = pipeline_.context_.runtime.spawn("read-back", [this, index] {
      VerifiedReader reader(pipeline_.context_.cold, pipeline_.attempt_, pipeline_.objects_,
                            {{index, 0, pipeline_.objects_[index].bytes}}, *read_back_buffers_);
      VerifiedReader::Piece piece;
      for (;;) {
        auto more = reader.next(piece);
        if (!more.ok()) {
          read_back_status_ = std::move(more).status();
          return;
        }
        if (!*more) return;
        if (piece.bad) {
          // Perhaps it was linked and its bytes rotted long ago: the next import must write it.
          pipeline_.context_.cold.remove_content(pipeline_.objects_[index].sha256)
              .ignore("the import fails in any case");
          read_back_status_ =
              Status(Code::kCorrupt,
                     fmt::format("payload object {} read back differs from what was written: expected {}, found {}",
                                 index, piece.bad->expected, piece.bad->actual),
                     "nothing was published; check the disk, then import again");
          return;
        }
      }
    });
    return {};
  }

  Status join_read_back() {
    if (!read_back_task_) return {};
    read_back_task_->join();
    read_back_task_.reset();
    return std::move(read_back_status_);
  }

  PayloadPipeline& pipeline_;
  Slot slots_[2];
  int turn_ = 0;
  std::optional<ReadBuffers> read_back_buffers_;
  Status read_back_status_;
  std::unique_ptr<Task> read_back_task_;  ///< last: joined before what it uses goes
};

PayloadPipeline::PayloadPipeline(Context& context, Source& source, const formats::CheckpointPlan& plan,
                                 const ImportLayout& layout, tiers::AttemptName attempt, Mode mode, StopSignal& stop,
                                 ProgressMeter& progress)
    : context_(context),
      source_(source),
      plan_(plan),
      layout_(layout),
      attempt_(std::move(attempt)),
      mode_(mode),
      stop_(stop),
      progress_(progress),
      queue_(plan.files.size()),
      objects_(layout.objects.size()),
      file_digests_(plan.files.size()) {
  std::iota(queue_.begin(), queue_.end(), 0U);
  std::stable_sort(queue_.begin(), queue_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return plan_.files[a].bytes > plan_.files[b].bytes; });
}

PayloadPipeline::~PayloadPipeline() = default;

Status PayloadPipeline::run() {
  const std::uint64_t wanted = std::max(round_up_to_block(layout_.object_bytes_max), limits::kBlockBytes);
  const bool two_fit = 2 * wanted <= context_.io_budget;
  const std::uint64_t half = context_.io_budget / 2;
  const std::uint64_t buffer_bytes = two_fit ? wanted : half - half % limits::kBlockBytes;
  const unsigned workers = std::min<unsigned>(worker_count(context_, 2 * buffer_bytes),
                                              static_cast<unsigned>(std::max<std::size_t>(queue_.size(), 1)));
  const auto work = [&] {
    Worker worker(*this, buffer_bytes);
    if (Status status = worker.run(); !status.ok()) stop_.fail(std::move(status));
  };
  std::vector<std::unique_ptr<Task>> tasks;
  for (unsigned i = 1; i < workers; ++i) tasks.push_back(context_.runtime.spawn("import-worker", work));
  work();
  tasks.clear();
  return stop_.status("the import");
}

}  // namespace steelyard::store
