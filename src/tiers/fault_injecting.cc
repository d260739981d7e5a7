#include "tiers/fault_injecting.h"

#include <mutex>
#include <optional>
#include <utility>

namespace steelyard::tiers {

struct FaultCounts::Counts {
  mutable std::mutex mutex;
  std::map<std::string, std::uint64_t> by_name;
};

FaultCounts::FaultCounts() : counts_(std::make_unique<Counts>()) {}
FaultCounts::~FaultCounts() = default;

std::uint64_t FaultCounts::of(const std::string& fault) const {
  const std::lock_guard lock(counts_->mutex);
  const auto found = counts_->by_name.find(fault);
  return found == counts_->by_name.end() ? 0 : found->second;
}

void FaultCounts::count(const std::string& fault) {
  const std::lock_guard lock(counts_->mutex);
  ++counts_->by_name[fault];
}

namespace {

/// The dice of one tier.
class Faults {
 public:
  Faults(Runtime& runtime, const FaultPlan& plan, std::shared_ptr<FaultCounts> counts)
      : runtime_(runtime), plan_(plan), counts_(std::move(counts)), random_state_(plan.seed) {}

  Status before(const char* call, bool writes) {
    if (plan_.latency_ms_max > 0) {
      runtime_.sleep_ms(static_cast<std::int64_t>(next() % (static_cast<std::uint64_t>(plan_.latency_ms_max) + 1)));
    }
    if (hit("error", plan_.error)) return {Code::kUnavailable, std::string("injected error in ") + call};
    if (writes && hit("no_space", plan_.no_space)) {
      return {Code::kNoSpace, std::string("injected lack of space in ") + call};
    }
    return {};
  }
  bool loses_answer() { return hit("lost_answer", plan_.lost_answer); }
  Status lost_answer(const char* call) const {
    return {Code::kUnavailable, std::string("injected loss of the answer of ") + call};
  }
  bool short_write() { return hit("short_write", plan_.short_write); }
  /// Which of `bits` bits rots, if one does.
  std::optional<std::uint64_t> rotten_bit(std::uint64_t bits) {
    if (bits == 0 || !hit("bit_rot", plan_.bit_rot)) return std::nullopt;
    return next() % bits;
  }

 private:
  bool hit(const char* name, std::uint32_t chance) {
    if (chance == 0 || next() % 1'000'000 >= chance) return false;
    if (counts_) counts_->count(name);
    return true;
  }
  /// splitmix64
  std::uint64_t next() {
    const std::lock_guard lock(mutex_);
    random_state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t value = random_state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
  }

  Runtime& runtime_;
  FaultPlan plan_;
  std::shared_ptr<FaultCounts> counts_;
  std::mutex mutex_;
  std::uint64_t random_state_;
};

Status short_write_status() { return {Code::kUnavailable, "injected short write"}; }

class FaultyPut final : public PendingPut {
 public:
  FaultyPut(Faults& faults, std::unique_ptr<PendingPut> inner) : faults_(faults), inner_(std::move(inner)) {}
  Result<PutOutcome> finish() override {
    SY_RETURN_IF_ERROR(faults_.before("finish of a put", true));
    if (faults_.short_write()) {
      inner_.reset();
      return short_write_status();
    }
    auto outcome = inner_->finish();
    if (outcome.ok() && faults_.loses_answer()) return faults_.lost_answer("finish of a put");
    return outcome;
  }

 private:
  Faults& faults_;
  std::unique_ptr<PendingPut> inner_;
};

class FaultyStream final : public PutStream {
 public:
  FaultyStream(Faults& faults, std::unique_ptr<PutStream> inner) : faults_(faults), inner_(std::move(inner)) {}
  Status append(ByteView bytes) override {
    SY_RETURN_IF_ERROR(failed_);
    failed_ = faults_.before("append", true);
    if (failed_.ok() && faults_.short_write()) {
      inner_->append(bytes.first(bytes.size() / 2)).ignore("the stream fails whatever it says");
      failed_ = short_write_status();
    }
    SY_RETURN_IF_ERROR(failed_);
    return inner_->append(bytes);
  }
  Result<PutOutcome> finish() override {
    SY_RETURN_IF_ERROR(failed_);
    SY_RETURN_IF_ERROR(faults_.before("finish of a stream", true));
    auto outcome = inner_->finish();
    if (outcome.ok() && faults_.loses_answer()) return faults_.lost_answer("finish of a stream");
    return outcome;
  }

 private:
  Faults& faults_;
  std::unique_ptr<PutStream> inner_;
  Status failed_;
};

class FaultyRead final : public PendingRead {
 public:
  FaultyRead(Faults& faults, std::unique_ptr<PendingRead> inner, std::vector<ReadRange> ranges)
      : faults_(faults), inner_(std::move(inner)), ranges_(std::move(ranges)) {}
  Status finish() override {
    SY_RETURN_IF_ERROR(faults_.before("finish of a read", false));
    SY_RETURN_IF_ERROR(inner_->finish());
    std::uint64_t bits = 0;
    for (const ReadRange& range : ranges_) bits += range.into.size() * 8;
    auto rotten = faults_.rotten_bit(bits);
    for (const ReadRange& range : ranges_) {
      if (!rotten.has_value()) break;
      const std::uint64_t here = range.into.size() * 8;
      if (*rotten < here) {
        range.into[*rotten / 8] ^= std::byte{1} << (*rotten % 8);
        break;
      }
      *rotten -= here;
    }
    return {};
  }

 private:
  Faults& faults_;
  std::unique_ptr<PendingRead> inner_;
  std::vector<ReadRange> ranges_;
};

class FaultInjectingTier final : public Tier {
 public:
  FaultInjectingTier(Runtime& runtime, std::unique_ptr<Tier> inner, const FaultPlan& plan,
                     std::shared_ptr<FaultCounts> counts)
      : inner_(std::move(inner)), faults_(runtime, plan, std::move(counts)) {}

  const Traits& traits() const override { return inner_->traits(); }

  Result<std::string> instance() override {
    SY_RETURN_IF_ERROR(faults_.before("instance", false));
    return inner_->instance();
  }
  Result<bool> link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) override {
    return changing<Result<bool>>("link", [&] { return inner_->link(name, sha256, bytes); });
  }
  Result<std::unique_ptr<PendingPut>> start_put(const ObjectName& name, ByteView data, const Digest& sha256) override {
    SY_RETURN_IF_ERROR(faults_.before("start_put", true));
    SY_ASSIGN_OR_RETURN(auto put, inner_->start_put(name, data, sha256));
    return std::unique_ptr<PendingPut>(std::make_unique<FaultyPut>(faults_, std::move(put)));
  }
  Result<std::unique_ptr<PutStream>> open_put(const ObjectName& name, std::uint64_t bytes,
                                              const Digest& sha256) override {
    SY_RETURN_IF_ERROR(faults_.before("open_put", true));
    SY_ASSIGN_OR_RETURN(auto stream, inner_->open_put(name, bytes, sha256));
    return std::unique_ptr<PutStream>(std::make_unique<FaultyStream>(faults_, std::move(stream)));
  }
  Status flush(const AttemptName& attempt) override {
    return changing<Status>("flush", [&] { return inner_->flush(attempt); });
  }
  Result<ObjectStat> stat(const ObjectName& name) override {
    SY_RETURN_IF_ERROR(faults_.before("stat", false));
    return inner_->stat(name);
  }
  Result<std::unique_ptr<PendingRead>> start_read(const ObjectName& name, std::vector<ReadRange> ranges) override {
    SY_RETURN_IF_ERROR(faults_.before("start_read", false));
    SY_ASSIGN_OR_RETURN(auto read, inner_->start_read(name, ranges));
    return std::unique_ptr<PendingRead>(std::make_unique<FaultyRead>(faults_, std::move(read), std::move(ranges)));
  }
  Status map(const ObjectName& name, std::uint64_t bytes, const AddressRange& range, std::size_t offset) override {
    SY_RETURN_IF_ERROR(faults_.before("map", false));
    return inner_->map(name, bytes, range, offset);
  }
  Result<std::vector<ObjectStat>> list_attempt(const AttemptName& attempt, std::vector<std::string>* foreign) override {
    SY_RETURN_IF_ERROR(faults_.before("list_attempt", false));
    return inner_->list_attempt(attempt, foreign);
  }
  Result<GroupListing> list_group(const std::string& group) override {
    SY_RETURN_IF_ERROR(faults_.before("list_group", false));
    return inner_->list_group(group);
  }
  Status remove(const ObjectName& name) override {
    return changing<Status>(
        "remove", [&] { return inner_->remove(name); }, false);
  }
  Result<std::unique_ptr<HeldAttempt>> hold_attempt(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(faults_.before("hold_attempt", false));
    return inner_->hold_attempt(attempt);
  }
  Status remove_held(const HeldAttempt& attempt) override {
    return changing<Status>(
        "remove_held", [&] { return inner_->remove_held(attempt); }, false);
  }
  Status remove_temporaries(const AttemptName& attempt, std::int64_t idle_ms) override {
    return changing<Status>(
        "remove_temporaries", [&] { return inner_->remove_temporaries(attempt, idle_ms); }, false);
  }
  Status put_committed(const AttemptName& attempt, std::string_view bytes) override {
    return changing<Status>("put_committed", [&] { return inner_->put_committed(attempt, bytes); });
  }
  Result<std::string> read_committed(const AttemptName& attempt) override {
    SY_RETURN_IF_ERROR(faults_.before("read_committed", false));
    return inner_->read_committed(attempt);
  }
  Status replace_committed(const AttemptName& attempt, std::string_view bytes) override {
    return changing<Status>("replace_committed", [&] { return inner_->replace_committed(attempt, bytes); });
  }
  Status remove_deleting(const std::string& group) override {
    return changing<Status>(
        "remove_deleting", [&] { return inner_->remove_deleting(group); }, false);
  }
  Status check_removable(const std::string& group) override {
    SY_RETURN_IF_ERROR(faults_.before("check_removable", false));
    return inner_->check_removable(group);
  }
  Status put_deleting(const std::string& group, std::string_view bytes) override {
    return changing<Status>("put_deleting", [&] { return inner_->put_deleting(group, bytes); });
  }
  Result<std::string> read_deleting(const std::string& group) override {
    SY_RETURN_IF_ERROR(faults_.before("read_deleting", false));
    return inner_->read_deleting(group);
  }
  Status put_catalog_copy(std::uint64_t sequence, std::string_view bytes) override {
    return changing<Status>("put_catalog_copy", [&] { return inner_->put_catalog_copy(sequence, bytes); });
  }
  Result<std::vector<std::uint64_t>> list_catalog_copies() override {
    SY_RETURN_IF_ERROR(faults_.before("list_catalog_copies", false));
    return inner_->list_catalog_copies();
  }
  Result<CatalogCopyHead> read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) override {
    SY_RETURN_IF_ERROR(faults_.before("read_catalog_copy", false));
    return inner_->read_catalog_copy_head(sequence, bytes_max);
  }
  Result<std::string> read_catalog_copy(std::uint64_t sequence) override {
    SY_RETURN_IF_ERROR(faults_.before("read_catalog_copy", false));
    return inner_->read_catalog_copy(sequence);
  }
  Status remove_catalog_copy(std::uint64_t sequence) override {
    return changing<Status>(
        "remove_catalog_copy", [&] { return inner_->remove_catalog_copy(sequence); }, false);
  }
  Status remove_catalog_temporaries(std::int64_t changed_before_ms) override {
    return changing<Status>(
        "remove_catalog_temporaries", [&] { return inner_->remove_catalog_temporaries(changed_before_ms); }, false);
  }
  Result<std::vector<std::string>> list_groups() override {
    SY_RETURN_IF_ERROR(faults_.before("list_groups", false));
    return inner_->list_groups();
  }
  Status remove_group(const std::string& group) override {
    return changing<Status>(
        "remove_group", [&] { return inner_->remove_group(group); }, false);
  }
  Status remove_empty_group(const std::string& group) override {
    return changing<Status>(
        "remove_empty_group", [&] { return inner_->remove_empty_group(group); }, false);
  }
  Result<std::vector<ContentEntry>> list_content(std::uint8_t first_byte) override {
    SY_RETURN_IF_ERROR(faults_.before("list_content", false));
    return inner_->list_content(first_byte);
  }
  Status remove_content(const Digest& sha256) override {
    return changing<Status>(
        "remove_content", [&] { return inner_->remove_content(sha256); }, false);
  }
  Result<ContentEntry> stat_content(const Digest& sha256) override {
    SY_RETURN_IF_ERROR(faults_.before("stat_content", false));
    return inner_->stat_content(sha256);
  }
  Result<std::unique_ptr<PendingRead>> start_read_content(const Digest& sha256,
                                                          std::vector<ReadRange> ranges) override {
    SY_RETURN_IF_ERROR(faults_.before("start_read_content", false));
    SY_ASSIGN_OR_RETURN(auto read, inner_->start_read_content(sha256, ranges));
    return std::unique_ptr<PendingRead>(std::make_unique<FaultyRead>(faults_, std::move(read), std::move(ranges)));
  }
  Result<bool> relink(const std::vector<ObjectName>& names, const Digest& sha256, std::uint64_t bytes) override {
    return changing<Result<bool>>("relink", [&] { return inner_->relink(names, sha256, bytes); });
  }
  Result<std::unique_ptr<PutStream>> open_replacement(std::vector<ObjectName> names, std::uint64_t bytes,
                                                      const Digest& sha256) override {
    SY_RETURN_IF_ERROR(faults_.before("open_replacement", true));
    SY_ASSIGN_OR_RETURN(auto stream, inner_->open_replacement(std::move(names), bytes, sha256));
    return std::unique_ptr<PutStream>(std::make_unique<FaultyStream>(faults_, std::move(stream)));
  }
  Result<TierUsage> usage(const std::function<void(const ObjectStat&)>& each) override {
    SY_RETURN_IF_ERROR(faults_.before("usage", false));
    return inner_->usage(each);
  }
  Result<Room> room() override {
    SY_RETURN_IF_ERROR(faults_.before("room", false));
    return inner_->room();
  }
  Result<std::unique_ptr<Reservation>> reserve(const std::string& operation, std::uint64_t bytes) override {
    SY_RETURN_IF_ERROR(faults_.before("reserve", true));
    return inner_->reserve(operation, bytes);
  }
  std::uint64_t charged_bytes(std::uint64_t bytes) const override { return inner_->charged_bytes(bytes); }
  Result<std::unique_ptr<GroupLock>> try_lock_group(const std::string& group, bool exclusive) override {
    SY_RETURN_IF_ERROR(faults_.before("try_lock_group", false));
    return inner_->try_lock_group(group, exclusive);
  }
  std::vector<std::string> lock_holders(const std::string& group) override { return inner_->lock_holders(group); }
  std::vector<std::string> facts() override { return inner_->facts(); }

 private:
  template <typename Answer, typename Call>
  Answer changing(const char* name, Call call, bool takes_space = true) {
    if (Status status = faults_.before(name, takes_space); !status.ok()) return status;
    Answer answer = call();
    if (answer.code() == Code::kOk && faults_.loses_answer()) return faults_.lost_answer(name);
    return answer;
  }

  std::unique_ptr<Tier> inner_;
  Faults faults_;
};

}  // namespace

std::unique_ptr<Tier> make_fault_injecting(Runtime& runtime, std::unique_ptr<Tier> inner, const FaultPlan& plan,
                                           std::shared_ptr<FaultCounts> counts) {
  return std::make_unique<FaultInjectingTier>(runtime, std::move(inner), plan, std::move(counts));
}

}  // namespace steelyard::tiers
