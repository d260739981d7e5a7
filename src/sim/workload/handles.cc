#include "sim/workload/handles.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace steelyard::sim {
namespace {

constexpr std::uint64_t kLostAppendsPerMille = 50;

Status dead() { return {Code::kUnavailable, "the process is dead"}; }

class ProcessPut final : public tiers::PendingPut {
 public:
  ProcessPut(Process& process, Graveyard& graveyard, BuriedPut put)
      : process_(process), graveyard_(graveyard), put_(std::move(put)) {}
  ProcessPut(const ProcessPut&) = delete;
  ProcessPut& operator=(const ProcessPut&) = delete;
  ~ProcessPut() override {
    if (put_.put && !process_.alive()) graveyard_.bury(std::move(put_));
  }
  Result<tiers::PutOutcome> finish() override {
    if (!process_.alive()) return dead();
    auto outcome = put_.put->finish();
    put_.put.reset();
    return outcome;
  }

 private:
  Process& process_;
  Graveyard& graveyard_;
  BuriedPut put_;
};

class ProcessStream final : public tiers::PutStream {
 public:
  /// `spoils`: its first byte becomes another one.
  ProcessStream(Process& process, Graveyard& graveyard, BuriedPut put, bool spoils)
      : process_(process), graveyard_(graveyard), put_(std::move(put)), spoils_(spoils) {}
  ProcessStream(const ProcessStream&) = delete;
  ProcessStream& operator=(const ProcessStream&) = delete;
  ~ProcessStream() override {
    if (put_.stream && !process_.alive()) graveyard_.bury(std::move(put_));
  }
  Status append(ByteView bytes) override {
    if (!process_.alive()) return dead();
    if (!spoils_ || bytes.empty()) return put_.stream->append(bytes);
    spoils_ = false;
    std::vector<std::byte> other(bytes.begin(), bytes.end());
    other.front() ^= std::byte{1};
    return put_.stream->append(other);
  }
  Result<tiers::PutOutcome> finish() override {
    // The kernel has all of it by now.
    SY_POINT(process_.runtime(), "stream.given");
    if (!process_.alive()) return dead();
    auto outcome = put_.stream->finish();
    put_.stream.reset();
    return outcome;
  }

 private:
  Process& process_;
  Graveyard& graveyard_;
  BuriedPut put_;
  bool spoils_;
};

/// What is put is listed from then on, and not there.
class LostPut final : public tiers::PendingPut, public tiers::PutStream {
 public:
  LostPut(std::shared_ptr<std::vector<tiers::ObjectStat>> listed, tiers::ObjectName name, std::uint64_t bytes)
      : listed_(std::move(listed)), stat_{std::move(name), bytes, 0, 1} {}
  Status append(ByteView /*bytes*/) override { return {}; }
  Result<tiers::PutOutcome> finish() override {
    listed_->push_back(stat_);
    return tiers::PutOutcome::kWritten;
  }

 private:
  std::shared_ptr<std::vector<tiers::ObjectStat>> listed_;
  tiers::ObjectStat stat_;
};

class ProcessTier final : public tiers::Tier {
 public:
  ProcessTier(Process& process, std::shared_ptr<tiers::Tier> inner, Graveyard& graveyard, Canary canary,
              RemovalWitness witness)
      : process_(process),
        inner_(std::move(inner)),
        graveyard_(graveyard),
        canary_(canary),
        witness_(std::move(witness)) {}

  const tiers::Traits& traits() const override { return inner_->traits(); }
  Result<std::string> instance() override {
    if (!process_.alive()) return dead();
    return inner_->instance();
  }
  Status map(const tiers::ObjectName& name, std::uint64_t bytes, const tiers::AddressRange& range,
             std::size_t offset) override {
    return process_.alive() ? inner_->map(name, bytes, range, offset) : dead();
  }
  Result<std::unique_ptr<tiers::Reservation>> reserve(const std::string& operation, std::uint64_t bytes) override {
    if (!process_.alive()) return dead();
    if (canary_ != Canary::kReservationLies) return inner_->reserve(operation, bytes);
    SY_ASSIGN_OR_RETURN(auto reservation, inner_->reserve(operation, bytes + 1));
    graveyard_.keep(std::move(reservation));
    return std::unique_ptr<tiers::Reservation>(std::make_unique<tiers::Reservation>());
  }
  Result<std::unique_ptr<tiers::GroupLock>> try_lock_group(const std::string& group, bool exclusive) override {
    if (!process_.alive()) return dead();
    return inner_->try_lock_group(group, exclusive);
  }
  std::uint64_t charged_bytes(std::uint64_t bytes) const override { return inner_->charged_bytes(bytes); }
  Result<bool> link(const tiers::ObjectName& name, const Digest& sha256, std::uint64_t bytes) override {
    if (!process_.alive()) return dead();
    return inner_->link(name, sha256, bytes);
  }
  Result<std::unique_ptr<tiers::PendingPut>> start_put(const tiers::ObjectName& name, ByteView data,
                                                       const Digest& sha256) override {
    if (!process_.alive()) return dead();
    if (loses(name)) return std::unique_ptr<tiers::PendingPut>(std::make_unique<LostPut>(listed_, name, data.size()));
    BuriedPut put{inner_, {data.begin(), data.end()}, nullptr, nullptr};
    SY_ASSIGN_OR_RETURN(put.put, inner_->start_put(name, put.bytes, sha256));
    return std::unique_ptr<tiers::PendingPut>(std::make_unique<ProcessPut>(process_, graveyard_, std::move(put)));
  }
  Result<std::unique_ptr<tiers::PutStream>> open_put(const tiers::ObjectName& name, std::uint64_t bytes,
                                                     const Digest& sha256) override {
    if (!process_.alive()) return dead();
    if (loses(name)) return std::unique_ptr<tiers::PutStream>(std::make_unique<LostPut>(listed_, name, bytes));
    BuriedPut put{inner_, {}, nullptr, nullptr};
    SY_ASSIGN_OR_RETURN(put.stream, inner_->open_put(name, bytes, sha256));
    return std::unique_ptr<tiers::PutStream>(std::make_unique<ProcessStream>(
        process_, graveyard_, std::move(put), is(Canary::kHotPutLies, tiers::Medium::kMemory)));
  }
  Status flush(const tiers::AttemptName& attempt) override {
    if (!process_.alive()) return dead();
    return canary_ == Canary::kFlushLies ? Status() : inner_->flush(attempt);
  }
  Result<tiers::ObjectStat> stat(const tiers::ObjectName& name) override {
    if (!process_.alive()) return dead();
    return inner_->stat(name);
  }
  Result<std::unique_ptr<tiers::PendingRead>> start_read(const tiers::ObjectName& name,
                                                         std::vector<tiers::ReadRange> ranges) override {
    if (!process_.alive()) return dead();
    return inner_->start_read(name, std::move(ranges));
  }
  Result<std::vector<tiers::ObjectStat>> list_attempt(const tiers::AttemptName& attempt,
                                                      std::vector<std::string>* foreign) override {
    if (!process_.alive()) return dead();
    SY_ASSIGN_OR_RETURN(auto objects, inner_->list_attempt(attempt, foreign));
    std::ranges::copy_if(*listed_, std::back_inserter(objects),
                         [&](const tiers::ObjectStat& lost) { return lost.name.in == attempt; });
    std::ranges::sort(objects, {}, &tiers::ObjectStat::name);
    return objects;
  }
  Result<tiers::GroupListing> list_group(const std::string& group) override {
    if (!process_.alive()) return dead();
    return inner_->list_group(group);
  }
  Status remove(const tiers::ObjectName& name) override {
    if (!process_.alive()) return dead();
    if (is(Canary::kHotRemoveLies, tiers::Medium::kMemory)) return {};
    return witnessed(name.in, [&] { return inner_->remove(name); });
  }
  Result<std::unique_ptr<tiers::HeldAttempt>> hold_attempt(const tiers::AttemptName& attempt) override {
    if (!process_.alive()) return dead();
    return inner_->hold_attempt(attempt);
  }
  Status remove_held(const tiers::HeldAttempt& attempt) override {
    if (!process_.alive()) return dead();
    if (is(Canary::kRemoveLies, tiers::Medium::kDisk) || is(Canary::kHotRemoveLies, tiers::Medium::kMemory)) return {};
    return witnessed(attempt.name(), [&] { return inner_->remove_held(attempt); });
  }
  Status remove_temporaries(const tiers::AttemptName& attempt, std::int64_t idle_ms) override {
    return process_.alive() ? inner_->remove_temporaries(attempt, idle_ms) : dead();
  }
  Status put_committed(const tiers::AttemptName& attempt, std::string_view bytes) override {
    if (!process_.alive()) return dead();
    return canary_ == Canary::kMarkerLies ? Status() : inner_->put_committed(attempt, bytes);
  }
  Result<std::string> read_committed(const tiers::AttemptName& attempt) override {
    if (!process_.alive()) return dead();
    return inner_->read_committed(attempt);
  }
  Status replace_committed(const tiers::AttemptName& attempt, std::string_view bytes) override {
    return process_.alive() ? inner_->replace_committed(attempt, bytes) : dead();
  }
  Status remove_deleting(const std::string& group) override {
    return process_.alive() ? inner_->remove_deleting(group) : dead();
  }
  Status check_removable(const std::string& group) override {
    return process_.alive() ? inner_->check_removable(group) : dead();
  }
  Status put_deleting(const std::string& group, std::string_view bytes) override {
    return process_.alive() ? inner_->put_deleting(group, bytes) : dead();
  }
  Result<std::string> read_deleting(const std::string& group) override {
    if (!process_.alive()) return dead();
    return inner_->read_deleting(group);
  }
  Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) override {
    if (!process_.alive()) return dead();
    return canary_ == Canary::kMarkerLies ? Status() : inner_->put_catalog_copy(sequence, bytes);
  }
  Result<std::vector<std::uint64_t>> list_catalog_copies() override {
    if (!process_.alive()) return dead();
    return inner_->list_catalog_copies();
  }
  Result<tiers::CatalogCopyHead> read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) override {
    if (!process_.alive()) return dead();
    return inner_->read_catalog_copy_head(sequence, bytes_max);
  }
  Result<std::string> read_catalog_copy(std::uint64_t sequence) override {
    if (!process_.alive()) return dead();
    return inner_->read_catalog_copy(sequence);
  }
  Status remove_catalog_copy(std::uint64_t sequence) override {
    return process_.alive() ? inner_->remove_catalog_copy(sequence) : dead();
  }
  Status remove_catalog_temporaries(std::int64_t changed_before_ms) override {
    return process_.alive() ? inner_->remove_catalog_temporaries(changed_before_ms) : dead();
  }
  Result<std::vector<std::string>> list_groups() override {
    if (!process_.alive()) return dead();
    return inner_->list_groups();
  }
  Status remove_group(const std::string& group) override {
    return process_.alive() ? inner_->remove_group(group) : dead();
  }
  Status remove_empty_group(const std::string& group) override {
    return process_.alive() ? inner_->remove_empty_group(group) : dead();
  }
  Result<std::vector<tiers::ContentEntry>> list_content(std::uint8_t first_byte) override {
    if (!process_.alive()) return dead();
    return inner_->list_content(first_byte);
  }
  Status remove_content(const Digest& sha256) override {
    if (!process_.alive()) return dead();
    return canary_ == Canary::kGcLies ? Status() : inner_->remove_content(sha256);
  }
  Result<tiers::ContentEntry> stat_content(const Digest& sha256) override {
    if (!process_.alive()) return dead();
    return inner_->stat_content(sha256);
  }
  Result<std::unique_ptr<tiers::PendingRead>> start_read_content(const Digest& sha256,
                                                                 std::vector<tiers::ReadRange> ranges) override {
    if (!process_.alive()) return dead();
    return inner_->start_read_content(sha256, std::move(ranges));
  }
  Result<bool> relink(const std::vector<tiers::ObjectName>& names, const Digest& sha256, std::uint64_t bytes) override {
    if (!process_.alive()) return dead();
    if (canary_ == Canary::kRepairLies) return true;
    return inner_->relink(names, sha256, bytes);
  }
  Result<std::unique_ptr<tiers::PutStream>> open_replacement(std::vector<tiers::ObjectName> names, std::uint64_t bytes,
                                                             const Digest& sha256) override {
    if (!process_.alive()) return dead();
    BuriedPut put{inner_, {}, nullptr, nullptr};
    SY_ASSIGN_OR_RETURN(put.stream, inner_->open_replacement(std::move(names), bytes, sha256));
    return std::unique_ptr<tiers::PutStream>(
        std::make_unique<ProcessStream>(process_, graveyard_, std::move(put), false));
  }
  Result<tiers::TierUsage> usage(const std::function<void(const tiers::ObjectStat&)>& each) override {
    if (!process_.alive()) return dead();
    return inner_->usage(each);
  }
  Result<tiers::Room> room() override {
    if (!process_.alive()) return dead();
    return inner_->room();
  }

 private:
  bool is(Canary canary, tiers::Medium medium) const { return canary_ == canary && traits().medium == medium; }
  /// The first object is put, so that there is an attempt.
  bool loses(const tiers::ObjectName& name) const {
    return canary_ == Canary::kListLies && name.kind == tiers::ObjectKind::kPayload && name.index > 0;
  }

  /// Failed or not, what is gone is gone.
  template <typename Remove>
  Status witnessed(const tiers::AttemptName& attempt, const Remove& remove) {
    if (!witness_) return remove();
    const auto before = inner_->list_attempt(attempt, nullptr);
    Status status = remove();
    if (!before.ok()) return status;
    std::vector<tiers::ObjectStat> gone;
    for (const tiers::ObjectStat& object : *before) {
      if (inner_->stat(object.name).code() == Code::kNotFound) gone.push_back(object);
    }
    if (!gone.empty()) witness_(process_, gone);
    return status;
  }

  Process& process_;
  std::shared_ptr<tiers::Tier> inner_;
  Graveyard& graveyard_;
  Canary canary_;
  RemovalWitness witness_;
  std::shared_ptr<std::vector<tiers::ObjectStat>> listed_ = std::make_shared<std::vector<tiers::ObjectStat>>();
};

class ProcessLog final : public oplog::OpLog {
 public:
  ProcessLog(Process& process, oplog::OpLog& inner, AppendWitness witness, std::function<void()> before_snapshot,
             Canary canary, std::uint64_t seed)
      : process_(process),
        inner_(inner),
        witness_(std::move(witness)),
        before_snapshot_(std::move(before_snapshot)),
        canary_(canary),
        random_(seed) {}

  Result<std::uint64_t> write(const Prepare& prepare) override {
    if (!process_.alive()) return dead();
    if (canary_ == Canary::kAppendLies && random_.per_mille(kLostAppendsPerMille)) return acknowledge_only(prepare);
    bool appends = false;
    SY_ASSIGN_OR_RETURN(const std::uint64_t sequence, inner_.write([&](const oplog::StateView& view,
                                                                       const oplog::Now& now) {
      return note(canary_ == Canary::kNone ? prepare(view, now) : prepare_broken(canary_, prepare, view, now), appends);
    }));
    if (appends) {
      const auto append = inner_.read(sequence - 1, 1);
      SY_CHECK(append.ok() && append->size() == 1, "the memory log has what it just appended");
      witness_(process_, append->front());
    }
    return sequence;
  }
  Status view(const std::function<Status(const oplog::StateView& view)>& read) override {
    if (!process_.alive()) return dead();
    if (canary_ == Canary::kNone) return inner_.view(read);
    return inner_.view([&](const oplog::StateView& view) { return view_broken(canary_, read, view); });
  }
  Result<std::vector<oplog::Append>> read(std::uint64_t after, std::size_t limit) override {
    if (!process_.alive()) return dead();
    return inner_.read(after, limit);
  }
  Result<bool> watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) override {
    if (!process_.alive()) return dead();
    return inner_.watch(after, deadline_mono_ms, cancel);
  }
  Result<std::uint64_t> save_snapshot() override {
    if (!process_.alive()) return dead();
    before_snapshot_();
    return inner_.save_snapshot();
  }
  Result<std::string> newest_snapshot() override {
    if (!process_.alive()) return dead();
    return inner_.newest_snapshot();
  }
  Status trim(std::uint64_t sequence) override { return process_.alive() ? inner_.trim(sequence) : dead(); }
  Result<std::uint64_t> length() override {
    if (!process_.alive()) return dead();
    return inner_.length();
  }
  Status restore(const oplog::Snapshot& snapshot) override {
    return process_.alive() ? inner_.restore(snapshot) : dead();
  }
  oplog::Capabilities capabilities() const override { return inner_.capabilities(); }

 private:
  static Result<std::vector<oplog::Entry>> note(Result<std::vector<oplog::Entry>> entries, bool& appends) {
    appends = entries.ok() && !entries->empty();
    return entries;
  }

  Result<std::uint64_t> acknowledge_only(const Prepare& prepare) {
    std::uint64_t sequence = 0;
    SY_RETURN_IF_ERROR(inner_.view([&](const oplog::StateView& view) -> Status {
      Runtime& clock = process_.runtime();
      SY_ASSIGN_OR_RETURN(const auto entries, prepare(view, {clock.epoch(), clock.mono_ms(), clock.wall_ms()}));
      sequence = view.sequence() + (entries.empty() ? 0 : 1);
      return {};
    }));
    return sequence;
  }

  Process& process_;
  oplog::OpLog& inner_;
  AppendWitness witness_;
  std::function<void()> before_snapshot_;
  Canary canary_;
  Random random_;
};

}  // namespace

std::optional<Graveyard::LateStep> Graveyard::complete_one(Random& random) {
  if (puts_.empty()) return std::nullopt;
  const auto chosen = std::next(puts_.begin(), static_cast<std::ptrdiff_t>(random.below(puts_.size())));
  LateStep step{chosen->stream != nullptr,
                (chosen->stream ? chosen->stream->finish() : chosen->put->finish()).status()};
  puts_.erase(chosen);
  return step;
}

std::unique_ptr<tiers::Tier> make_process_tier(Process& process, std::shared_ptr<tiers::Tier> inner,
                                               Graveyard& graveyard, Canary canary, RemovalWitness witness) {
  return std::make_unique<ProcessTier>(process, std::move(inner), graveyard, canary, std::move(witness));
}

std::unique_ptr<oplog::OpLog> make_process_log(Process& process, oplog::OpLog& inner, AppendWitness witness,
                                               std::function<void()> before_snapshot, Canary canary,
                                               std::uint64_t seed) {
  return std::make_unique<ProcessLog>(process, inner, std::move(witness), std::move(before_snapshot), canary, seed);
}

}  // namespace steelyard::sim
