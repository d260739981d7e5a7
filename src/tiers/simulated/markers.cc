// Markers of groups and attempts, and copies of the catalog.
#include "tiers/directory/layout.h"
#include "tiers/simulated/simulated_tier.h"

namespace steelyard::tiers {
namespace {

using directory::describe;

}  // namespace

Status SimulatedTier::put_committed(const AttemptName& attempt, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(check_durable("a `committed` marker"));
  SY_RETURN_IF_ERROR(fault("tier.marker"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end() || !found->second.is_there()) return not_found(describe(attempt));
  auto& committed = found->second.committed;
  if (committed.has_value() && *committed != bytes) {
    return {Code::kConflict, describe(attempt) + " has another `committed` marker"};
  }
  committed = bytes;
  return {};
}

Result<std::string> SimulatedTier::read_committed(const AttemptName& attempt) {
  SY_RETURN_IF_ERROR(check(attempt));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end() || !found->second.committed.has_value()) {
    return not_found("the `committed` marker of " + describe(attempt));
  }
  return *found->second.committed;
}

Status SimulatedTier::replace_committed(const AttemptName& attempt, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check(attempt));
  SY_RETURN_IF_ERROR(check_durable("a `committed` marker"));
  SY_RETURN_IF_ERROR(fault("tier.marker"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->attempts.find(attempt);
  if (found == state_->attempts.end() || !found->second.is_there()) return not_found(describe(attempt));
  found->second.committed = bytes;
  return {};
}

Status SimulatedTier::remove_deleting(const std::string& group) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  state_->deleting.erase(group);
  return {};
}

Status SimulatedTier::put_deleting(const std::string& group, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  SY_RETURN_IF_ERROR(check_durable("a `deleting` marker"));
  SY_RETURN_IF_ERROR(fault("tier.marker"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  std::string& marker = state_->deleting[group];
  if (marker.empty()) marker = bytes;
  return {};
}

Result<std::string> SimulatedTier::read_deleting(const std::string& group) {
  SY_RETURN_IF_ERROR(check(AttemptName{group, 0}));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->deleting.find(group);
  if (found == state_->deleting.end()) return not_found("the `deleting` marker of group " + group);
  return found->second;
}

Status SimulatedTier::put_catalog_copy(std::uint64_t sequence, std::string_view bytes) {
  SY_RETURN_IF_ERROR(check_durable("a catalog copy"));
  SY_RETURN_IF_ERROR(fault("tier.marker"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  state_->catalog[sequence] = bytes;
  return {};
}

Result<std::vector<std::uint64_t>> SimulatedTier::list_catalog_copies() {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, bytes] : state_->catalog) sequences.push_back(sequence);
  return sequences;
}

Result<CatalogCopyHead> SimulatedTier::read_catalog_copy_head(std::uint64_t sequence, std::size_t bytes_max) {
  SY_ASSIGN_OR_RETURN(const std::string bytes, read_catalog_copy(sequence));
  return CatalogCopyHead{bytes.substr(0, bytes_max), bytes.size()};
}

Result<std::string> SimulatedTier::read_catalog_copy(std::uint64_t sequence) {
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  const auto found = state_->catalog.find(sequence);
  if (found == state_->catalog.end()) return not_found("the catalog copy of sequence " + std::to_string(sequence));
  return found->second;
}

Status SimulatedTier::remove_catalog_copy(std::uint64_t sequence) {
  SY_RETURN_IF_ERROR(fault("tier.remove"));
  const std::lock_guard lock(state_->mutex);
  SY_RETURN_IF_ERROR(alive());
  state_->catalog.erase(sequence);
  return {};
}

Status SimulatedTier::remove_catalog_temporaries(std::int64_t /*changed_before_ms*/) {
  const std::lock_guard lock(state_->mutex);
  return alive();
}

Status SimulatedTier::check_durable(const std::string& what) const {
  if (traits_.durable) return {};
  return {Code::kInvalidArgument, what + " must outlive the machine's memory, and the hot tier does not"};
}

}  // namespace steelyard::tiers
