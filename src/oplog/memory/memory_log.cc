// The log in memory, for tests and simulation. Deterministic: no threads, no clock but the runtime's.
//
// The turn is a mutex that is held while a write prepares; Prepare neither waits nor writes. Views share the state and
// are copied on write only while somebody still reads an older one, so no mutex is held during a reader's call.
#include <algorithm>
#include <mutex>

#include "oplog/log_row.h"
#include "oplog/open.h"
#include "oplog/replay.h"

namespace steelyard::oplog {
namespace {

constexpr std::int64_t kCancelHeardMs = 250;

class MemoryLog final : public OpLog {
 public:
  MemoryLog(Runtime& runtime, bool standbys, const StateCodec& codec)
      : runtime_(runtime), standbys_(standbys), codec_(codec), state_(std::make_shared<metadata::MemoryState>()) {}

  Result<std::uint64_t> write(const Prepare& prepare) override {
    std::vector<std::shared_ptr<Event>> woken;
    std::uint64_t sequence = 0;
    {
      const std::lock_guard turn(turn_mutex_);
      std::shared_ptr<metadata::MemoryState> before = current();
      Append append;
      append.at = Now{runtime_.epoch(), runtime_.mono_ms(), runtime_.wall_ms()};
      SY_ASSIGN_OR_RETURN(append.entries, prepare(*before, append.at));
      if (append.entries.empty()) return before->sequence();
      std::vector<metadata::RowChange> changes;
      for (const Entry& entry : append.entries) {
        SY_ASSIGN_OR_RETURN(auto some, codec_.changes_of(entry));
        changes.insert(changes.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
      }
      SY_RETURN_IF_ERROR(encode_batch(append).status());
      append.request_id.resize(kRequestIdBytes);
      runtime_.fill_random({reinterpret_cast<std::byte*>(append.request_id.data()), kRequestIdBytes});
      sequence = append.sequence = before->sequence() + 1;
      const std::lock_guard lock(mutex_);
      before.reset();
      if (state_.use_count() > 1) state_ = std::make_shared<metadata::MemoryState>(*state_);
      state_->apply_changes(sequence, std::move(changes));
      appends_.push_back(std::move(append));
      woken = std::move(watchers_);
      watchers_.clear();
    }
    for (const auto& event : woken) event->set();
    return sequence;
  }

  Status view(const std::function<Status(const StateView&)>& read) override { return read(*current()); }

  Result<std::vector<Append>> read(std::uint64_t after, std::size_t limit) override {
    const std::lock_guard lock(mutex_);
    if (after < base_) {
      return Status(Code::kNotFound, "resnapshot: appends up to " + std::to_string(base_) + " were trimmed");
    }
    std::vector<Append> out;
    // They are in the order of the log, without gaps.
    for (std::uint64_t at = after - base_; at < appends_.size() && out.size() < limit; ++at)
      out.push_back(appends_[at]);
    return out;
  }

  Result<bool> watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) override {
    while (true) {
      std::shared_ptr<Event> event = runtime_.make_event();
      {
        const std::lock_guard lock(mutex_);
        if (state_->sequence() > after) return true;
        watchers_.push_back(event);
      }
      const std::int64_t hears_cancel_ms = runtime_.mono_ms() + kCancelHeardMs;
      if (event->wait_until(cancel == nullptr ? deadline_mono_ms : std::min(deadline_mono_ms, hears_cancel_ms))) {
        continue;
      }
      const std::lock_guard lock(mutex_);
      std::erase(watchers_, event);
      const bool ended = runtime_.mono_ms() >= deadline_mono_ms || (cancel != nullptr && cancel->load());
      if (ended) return state_->sequence() > after;
    }
  }

  Result<std::uint64_t> save_snapshot() override {
    const std::shared_ptr<const metadata::MemoryState> state = current();
    Snapshot snapshot{state->sequence(), foreign_sections()};
    SY_ASSIGN_OR_RETURN(snapshot.sections[codec_.section_name()], codec_.save_section(*state));
    std::string encoded = encode_snapshot(snapshot);
    SY_ASSIGN_OR_RETURN(const Snapshot again, decode_snapshot(encoded));
    SY_RETURN_IF_ERROR(state_of(again, codec_).status());
    const std::lock_guard lock(mutex_);
    if (!has_snapshot_ || snapshot.sequence >= snapshot_sequence_) {
      has_snapshot_ = true;
      snapshot_sequence_ = snapshot.sequence;
      snapshot_ = std::move(encoded);
    }
    return snapshot.sequence;
  }

  Result<std::string> newest_snapshot() override {
    const std::lock_guard lock(mutex_);
    if (!has_snapshot_) return Status(Code::kNotFound, "the log has no snapshot");
    return snapshot_;
  }

  Status trim(std::uint64_t sequence) override {
    const std::lock_guard lock(mutex_);
    if (!has_snapshot_ || sequence > snapshot_sequence_) {
      return Status(
          Code::kInvalidArgument,
          "trim to " + std::to_string(sequence) + ": the newest snapshot is at " + std::to_string(snapshot_sequence_),
          "save a snapshot first");
    }
    std::erase_if(appends_, [&](const Append& append) { return append.sequence <= sequence; });
    base_ = std::max(base_, sequence);
    return Status();
  }

  Result<std::uint64_t> length() override {
    const std::lock_guard lock(mutex_);
    return state_->sequence() - snapshot_sequence_;
  }

  Status restore(const Snapshot& snapshot) override {
    if (snapshot.sequence > kSequenceMax) return Status(Code::kCorrupt, "snapshot: its sequence is out of range");
    SY_ASSIGN_OR_RETURN(metadata::MemoryState state, state_of(snapshot, codec_));
    std::vector<std::shared_ptr<Event>> woken;
    {
      const std::lock_guard turn(turn_mutex_);
      const std::lock_guard lock(mutex_);
      if (state_->sequence() != 0) {
        return Status(Code::kConflict, "restore: the log is at sequence " + std::to_string(state_->sequence()) +
                                           ", wanted an empty one");
      }
      base_ = snapshot_sequence_ = snapshot.sequence;
      has_snapshot_ = true;
      snapshot_ = encode_snapshot(snapshot);
      state_ = std::make_shared<metadata::MemoryState>(std::move(state));
      woken = std::move(watchers_);
      watchers_.clear();
    }
    for (const auto& event : woken) event->set();
    return Status();
  }

  Capabilities capabilities() const override { return Capabilities{false, standbys_, false, "memory"}; }

 private:
  std::shared_ptr<metadata::MemoryState> current() {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  /// Sections of the newest snapshot that are not ours.
  std::map<std::string, std::string> foreign_sections() {
    std::string encoded;
    {
      const std::lock_guard lock(mutex_);
      if (!has_snapshot_) return {};
      encoded = snapshot_;
    }
    auto snapshot = decode_snapshot(encoded);
    SY_CHECK(snapshot.ok(), "a snapshot that was read back when it was saved");
    snapshot->sections.erase(codec_.section_name());
    return std::move(snapshot->sections);
  }

  Runtime& runtime_;
  const bool standbys_;
  const StateCodec& codec_;
  std::mutex turn_mutex_;
  std::mutex mutex_;  ///< guards what follows; never held across a call
  std::shared_ptr<metadata::MemoryState> state_;
  std::vector<Append> appends_;
  std::uint64_t base_ = 0;  ///< appends up to here were trimmed, or came with a restore
  bool has_snapshot_ = false;
  std::uint64_t snapshot_sequence_ = 0;
  std::string snapshot_;
  std::vector<std::shared_ptr<Event>> watchers_;
};

}  // namespace

std::unique_ptr<OpLog> open_memory(Runtime& runtime, bool standbys_must_understand_entries, const StateCodec& codec) {
  return std::make_unique<MemoryLog>(runtime, standbys_must_understand_entries, codec);
}

}  // namespace steelyard::oplog
