// Puts, in the steps of directory/put.cc.
#include <utility>

#include "hash/sha256.h"
#include "tiers/directory/layout.h"
#include "tiers/simulated/simulated_tier.h"

namespace steelyard::tiers {
namespace {

using directory::describe;
using State = SimulatedDisk::State;

constexpr std::uint64_t kSmallBytes = 1024 * 1024;

}  // namespace

/// A put under way, whole or in pieces: the bytes gathered, and the temporary file that stands for them.
class SimulatedPut final : public PendingPut, public PutStream {
 public:
  SimulatedPut(SimulatedTier& tier, ObjectName name, const Digest& sha256, std::uint64_t bytes, bool replace)
      : tier_(tier), name_(std::move(name)), sha256_(sha256), bytes_(bytes), replace_(replace) {}
  SimulatedPut(const SimulatedPut&) = delete;
  SimulatedPut& operator=(const SimulatedPut&) = delete;
  ~SimulatedPut() override;

  Status begin();
  void ended(PutOutcome outcome) { outcome_ = outcome; }
  /// The caller's memory, read at finish().
  void borrow(ByteView data) { borrowed_ = data; }
  Status append(ByteView bytes) override;
  Result<PutOutcome> finish() override;

 private:
  SimulatedTier& tier_;
  ObjectName name_;
  Digest sha256_;
  std::uint64_t bytes_;
  bool replace_;
  std::optional<PutOutcome> outcome_;
  ByteView borrowed_;
  std::vector<std::byte> gathered_;
  Status refused_;
  std::uint64_t temporary_ = 0;
};

Result<bool> SimulatedTier::link(const ObjectName& name, const Digest& sha256, std::uint64_t bytes) {
  SY_RETURN_IF_ERROR(check(name));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  SY_ASSIGN_OR_RETURN(const auto outcome, try_link(name, sha256, bytes));
  return outcome.has_value();
}

Result<std::unique_ptr<PendingPut>> SimulatedTier::start_put(const ObjectName& name, ByteView data,
                                                             const Digest& sha256) {
  SY_ASSIGN_OR_RETURN(auto put, make_put(name, data.size(), sha256));
  put->borrow(data);
  return std::unique_ptr<PendingPut>(std::move(put));
}

Result<std::unique_ptr<PutStream>> SimulatedTier::open_put(const ObjectName& name, std::uint64_t bytes,
                                                           const Digest& sha256) {
  SY_ASSIGN_OR_RETURN(auto put, make_put(name, bytes, sha256));
  return std::unique_ptr<PutStream>(std::move(put));
}

Status SimulatedTier::flush(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(fault("tier.flush"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end()) return {};
  found->second.removed.clear();
  for (auto& [name, object] : found->second.objects) object.durable = object.inode->durable = true;
  const auto waiting = waiting_content_.extract(attempt);
  if (waiting.empty()) return {};
  for (const auto& content : waiting.mapped()) {
    if (const auto inode = state_->find(content.name)) add_content(content.sha256, inode, content.replace);
  }
  return {};
}

Result<std::optional<PutOutcome>> SimulatedTier::try_link(const ObjectName& name, const Digest& sha256,
                                                          std::uint64_t bytes) {
  if (const auto inode = state_->find(name)) {
    if (inode->bytes.size() == bytes && hash::sha256(inode->bytes) == sha256) {
      return std::optional<PutOutcome>(PutOutcome::kExisted);
    }
    return Status(Code::kConflict, describe(name) + " is there with other bytes (" +
                                       std::to_string(inode->bytes.size()) + ", to put " + std::to_string(bytes) + ")");
  }
  const auto entry = state_->content.find(sha256);
  if (name.kind == ObjectKind::kManifest || entry == state_->content.end() ||
      entry->second.inode->bytes.size() != bytes) {
    return std::optional<PutOutcome>();
  }
  if (const int error = runtime_.point("tier.link_content"); error != 0) return std::optional<PutOutcome>();
  state_->make(name.in).objects[name] = {entry->second.inode, false};
  entry->second.changed_at_ms = runtime_.wall_ms();
  return std::optional<PutOutcome>(PutOutcome::kLinked);
}

Result<std::unique_ptr<SimulatedPut>> SimulatedTier::make_put(const ObjectName& name, std::uint64_t bytes,
                                                              const Digest& sha256) {
  SY_RETURN_IF_ERROR(check(name));
  std::unique_ptr<SimulatedPut> put;
  {
    const std::lock_guard lock(state_->mutex);
    SY_RETURN_IF_ERROR(alive());
    SY_ASSIGN_OR_RETURN(const auto outcome, try_link(name, sha256, bytes));
    const auto entry = state_->content.find(sha256);
    const bool replace = entry != state_->content.end();
    put = std::make_unique<SimulatedPut>(*this, name, sha256, bytes, replace);
    if (outcome.has_value()) put->ended(*outcome);
  }
  SY_RETURN_IF_ERROR(put->begin());
  return put;
}

Status SimulatedPut::begin() {
  if (outcome_.has_value()) return {};
  SY_RETURN_IF_ERROR(tier_.fault("tier.open_tmp"));
  State& state = *tier_.state_;
  const std::lock_guard lock(state.mutex);
  if (!state.in_memory()) {
    temporary_ = tier_.make_temporary(name_.in);
  } else {
    temporary_ = state.next_temporary++;
    state.unnamed.insert(temporary_);
  }
  return {};
}

SimulatedPut::~SimulatedPut() {
  if (temporary_ == 0) return;
  const std::lock_guard lock(tier_.state_->mutex);
  if (tier_.state_->unnamed.erase(temporary_) == 0) tier_.end_temporary(name_.in, temporary_);
}

Status SimulatedPut::append(ByteView bytes) {
  if (refused_.ok() && bytes.size() > bytes_ - gathered_.size()) {
    refused_ = Status(Code::kCorrupt, "more bytes were given than promised for " + describe(name_));
  }
  SY_RETURN_IF_ERROR(refused_);
  gathered_.insert(gathered_.end(), bytes.begin(), bytes.end());
  return {};
}

Result<PutOutcome> SimulatedPut::finish() {
  SY_RETURN_IF_ERROR(refused_);
  const ByteView data = borrowed_.empty() ? ByteView(gathered_) : borrowed_;
  if (data.size() != bytes_) {
    if (outcome_.has_value() && borrowed_.empty() && gathered_.empty()) return *outcome_;
    return Status(Code::kCorrupt, std::to_string(data.size()) + " bytes were given for " + describe(name_) + ", " +
                                      std::to_string(bytes_) + " were promised");
  }
  if (outcome_.has_value()) return *outcome_;
  for (const char* point : {"tier.write", "tier.sync", "tier.link"}) SY_RETURN_IF_ERROR(tier_.fault(point));
  State& state = *tier_.state_;
  const std::lock_guard lock(state.mutex);
  SY_RETURN_IF_ERROR(tier_.alive());
  State::Attempt& attempt = state.make(name_.in);
  if (!state.unnamed.contains(temporary_) && !attempt.temporaries.contains(temporary_)) {
    return Status(Code::kUnavailable, "the temporary file of " + describe(name_) + " was removed by another process");
  }
  SY_RETURN_IF_ERROR(tier_.check_room(bytes_, name_));
  if (state.find(name_)) {
    // Somebody put the name meanwhile.
    SY_ASSIGN_OR_RETURN(const auto outcome, tier_.try_link(name_, sha256_, bytes_));
    return *outcome;
  }
  auto inode = std::make_shared<State::Inode>();
  inode->bytes.assign(data.begin(), data.end());
  inode->durable = bytes_ >= kSmallBytes || state.in_memory();
  state.written_bytes += bytes_;
  attempt.objects[name_] = {inode, false};
  tier_.spend(bytes_, name_.in);
  if (name_.kind == ObjectKind::kPayload) {
    if (inode->durable) {
      tier_.add_content(sha256_, inode, replace_);
    } else {
      tier_.waiting_content_[name_.in].push_back({name_, sha256_, replace_});
    }
  }
  return PutOutcome::kWritten;
}

}  // namespace steelyard::tiers
