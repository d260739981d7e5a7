// The import's data path: source -> hashes -> tier, with parallel workers inside the buffer budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "formats/checkpoint.h"
#include "formats/stored_manifest.h"
#include "store/context.h"
#include "store/import_layout.h"
#include "store/progress_meter.h"
#include "store/source.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// Reads every file once, digests every byte (SHA-256 of file and object, XXH3-64 of each block) and puts every object
/// that the tier does not hold yet.
///
/// Each worker takes whole files and owns two buffers of one object each: while one object is being written, the next
/// is read and digested. An object larger than a buffer is digested piece by piece and looked up; only if its content
/// is absent it is read again and written, and the second read must give the same block sums. Of equal objects under
/// way at the same time one is written: the others wait for it, then link.
class PayloadPipeline {
 public:
  struct Mode {
    bool digest_only = false;         ///< the tier is left alone
    bool link_only = false;           ///< write nothing: link what is there and count the rest
    bool verify_after_write = false;  ///< read every object back and compare its block sums
  };

  /// What one worker takes of the budget, in bytes.
  struct Memory {
    std::uint64_t buffer_bytes = 0;     ///< of each of its two buffers
    std::uint64_t read_back_bytes = 0;  ///< of each of the two buffers to read back into; 0: nothing is read back
    std::uint64_t stream_bytes = 0;     ///< what the tier holds of an object that does not fit
    std::uint64_t total() const { return 2 * buffer_bytes + 2 * read_back_bytes + stream_bytes; }
  };
  /// Buffers of `object_bytes_max` (whole blocks) where two of them fit. `budget` is at least limits::kIoMemoryMin;
  /// then the total is never more than it.
  static Memory memory_of_worker(std::uint64_t budget, std::uint64_t object_bytes_max, bool read_back);

  PayloadPipeline(Context& context, Source& source, const formats::CheckpointPlan& plan, const ImportLayout& layout,
                  tiers::AttemptName attempt, Mode mode, StopSignal& stop, ProgressMeter& progress);
  ~PayloadPipeline();

  /// The first error of any worker. On success every object is put (not yet flushed).
  Status run();

  std::vector<formats::ObjectEntry>& objects() { return objects_; }
  const std::vector<Digest>& file_digests() const { return file_digests_; }
  std::uint64_t written_bytes() const { return written_bytes_; }
  std::uint64_t reused_bytes() const { return reused_bytes_; }
  /// link_only: bytes that the tier does not hold.
  std::uint64_t absent_bytes() const { return absent_bytes_; }

 private:
  class Worker;
  class Claim;

  Context& context_;
  Source& source_;
  const formats::CheckpointPlan& plan_;
  const ImportLayout& layout_;
  const tiers::AttemptName attempt_;
  const Mode mode_;
  StopSignal& stop_;
  ProgressMeter& progress_;

  std::vector<std::uint32_t> queue_;  ///< files, largest first
  std::atomic<std::size_t> next_file_{0};
  std::vector<formats::ObjectEntry> objects_;
  std::vector<Digest> file_digests_;
  std::atomic<std::uint64_t> written_bytes_{0};
  std::atomic<std::uint64_t> reused_bytes_{0};
  std::atomic<std::uint64_t> absent_bytes_{0};
  std::mutex mutex_;
  std::map<Digest, std::shared_ptr<Event>> under_way_;  ///< content that is being put; the event: it no longer is
  std::set<Digest> absent_;
};

}  // namespace steelyard::store
