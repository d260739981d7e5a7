#include "store/payload_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "base/limits.h"
#include "base/workers.h"
#include "hash/fused.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "store/verified_reader.h"

namespace steelyard::store {
namespace {

/// Read and digested at a time: whole blocks, small enough to stay in the second-level cache.
constexpr std::uint64_t kDigestPieceBytes = limits::kBlockBytes;
constexpr std::uint64_t kReadBackPieceBytesMax = 4 * limits::kMiB;

std::uint64_t round_up_to_block(std::uint64_t bytes) {
  return div_ceil(bytes, limits::kBlockBytes) * limits::kBlockBytes;
}

std::uint64_t floor_to_block(std::uint64_t bytes) { return bytes - bytes % limits::kBlockBytes; }

}  // namespace

PayloadPipeline::Memory PayloadPipeline::memory_of_worker(std::uint64_t budget, std::uint64_t object_bytes_max,
                                                          bool read_back) {
  Memory memory;
  if (read_back)
    memory.read_back_bytes = std::clamp(floor_to_block(budget / 16), limits::kBlockBytes, kReadBackPieceBytesMax);
  const std::uint64_t left = budget - 2 * memory.read_back_bytes;
  memory.buffer_bytes = object_bytes_max;
  if (2 * object_bytes_max <= left) return memory;
  memory.stream_bytes = tiers::kPutStreamBytesMax;
  memory.buffer_bytes = std::max(floor_to_block((left - memory.stream_bytes) / 2), limits::kBlockBytes);
  return memory;
}

/// While it lives, nobody else puts equal content. Empty when default-made. Move-only.
class PayloadPipeline::Claim {
 public:
  Claim() = default;
  /// Empty, with `wait_for` set, when the content is claimed by another one.
  static Claim make(PayloadPipeline& pipeline, const Digest& sha256, std::shared_ptr<Event>& wait_for) {
    auto ended = std::shared_ptr<Event>(pipeline.context_.runtime.make_event());
    const std::lock_guard lock(pipeline.mutex_);
    const auto [at, made] = pipeline.under_way_.try_emplace(sha256, std::move(ended));
    if (made) return {pipeline, sha256};
    wait_for = at->second;
    return {};
  }
  Claim(Claim&& other) noexcept : pipeline_(std::exchange(other.pipeline_, nullptr)), sha256_(other.sha256_) {}
  Claim& operator=(Claim&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    pipeline_ = std::exchange(other.pipeline_, nullptr);
    sha256_ = other.sha256_;
    return *this;
  }
  ~Claim() { give_back(); }
  explicit operator bool() const { return pipeline_ != nullptr; }

 private:
  Claim(PayloadPipeline& pipeline, const Digest& sha256) : pipeline_(&pipeline), sha256_(sha256) {}
  void give_back() {
    PayloadPipeline* const pipeline = std::exchange(pipeline_, nullptr);
    if (pipeline == nullptr) return;
    std::shared_ptr<Event> ended;
    {
      const std::lock_guard lock(pipeline->mutex_);
      const auto at = pipeline->under_way_.find(sha256_);
      ended = std::move(at->second);
      pipeline->under_way_.erase(at);
    }
    ended->set();
  }

  PayloadPipeline* pipeline_ = nullptr;
  Digest sha256_;
};

/// One worker: its buffers, and the puts under way in them.
class PayloadPipeline::Worker {
 public:
  explicit Worker(PayloadPipeline& pipeline) : pipeline_(pipeline) {}

  Status run(const Memory& memory) {
    for (Slot& slot : slots_) {
      SY_ASSIGN_OR_RETURN(slot.buffer, tiers::AlignedBuffer::allocate(memory.buffer_bytes));
    }
    if (memory.read_back_bytes > 0) {
      SY_ASSIGN_OR_RETURN(read_back_buffers_, ReadBuffers::allocate(memory.read_back_bytes));
    }
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
    Claim claim;  ///< outlives the put
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
    if (pipeline_.stop_.stopped() || pipeline_.mode_.digest_only) return {};

    const tiers::ObjectName name = payload_of(pipeline_.attempt_, index);
    const Digest& sha256 = pipeline_.objects_[index].sha256;
    Claim claim;
    if (!pipeline_.mode_.link_only) {
      SY_ASSIGN_OR_RETURN(claim, claim_content(sha256));
      if (pipeline_.stop_.stopped()) return {};
    }
    if (pipeline_.mode_.link_only || !fits) {
      SY_ASSIGN_OR_RETURN(const bool linked, pipeline_.context_.cold.link(name, sha256, span.bytes));
      if (linked) return account(index, tiers::PutOutcome::kLinked);
      if (pipeline_.mode_.link_only) {
        count_absent(sha256, span.bytes);
        return {};
      }
      return write_large(source, index, slot.buffer.span());
    }
    SY_ASSIGN_OR_RETURN(slot.put,
                        pipeline_.context_.cold.start_put(name, slot.buffer.span().first(span.bytes), sha256));
    slot.claim = std::move(claim);
    return {};
  }

  /// Waits until nobody puts equal content. Whoever waits has no put of its own under way, so two never wait for each
  /// other.
  Result<Claim> claim_content(const Digest& sha256) {
    for (;;) {
      std::shared_ptr<Event> wait_for;
      Claim claim = Claim::make(pipeline_, sha256, wait_for);
      if (claim) return claim;
      for (Slot& slot : slots_) SY_RETURN_IF_ERROR(finish_put(slot));
      wait_for->wait_until(INT64_MAX);
    }
  }

  void count_absent(const Digest& sha256, std::uint64_t bytes) {
    {
      const std::lock_guard lock(pipeline_.mutex_);
      if (!pipeline_.absent_.insert(sha256).second) return;
    }
    pipeline_.absent_bytes_ += bytes;
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
    const Claim claim = std::move(slot.claim);
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
    const auto read = [this, index] {
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
        if (piece.bad && !piece.bad->read_error.ok()) {
          read_back_status_ = piece.bad->read_error;
          return;
        }
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
    };
    if (auto task = try_spawn(pipeline_.context_.runtime, "read-back", read); task.ok()) {
      read_back_task_ = std::move(task).value();
    } else {
      read();
    }
    return {};
  }

  Status join_read_back() {
    if (read_back_task_) read_back_task_->join();
    read_back_task_.reset();
    return std::exchange(read_back_status_, Status());
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
  const Memory memory =
      memory_of_worker(context_.io_budget, std::max(round_up_to_block(layout_.object_bytes_max), limits::kBlockBytes),
                       mode_.verify_after_write);
  const unsigned workers = std::min<unsigned>(worker_count(context_, memory.total()),
                                              static_cast<unsigned>(std::max<std::size_t>(queue_.size(), 1)));
  const auto work = [&] {
    Worker worker(*this);
    if (Status status = worker.run(memory); !status.ok()) stop_.fail(std::move(status));
  };
  auto tasks = spawn_workers(context_.runtime, "import-worker", workers - 1, work);
  work();
  tasks.clear();
  return stop_.status("the import");
}

}  // namespace steelyard::store
