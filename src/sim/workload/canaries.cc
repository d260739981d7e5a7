#include "sim/workload/canaries.h"

#include <utility>
#include <variant>

#include "base/check.h"
#include "metadata/codec.h"
#include "metadata/keys.h"

namespace steelyard::sim {
namespace {

void falsify(Canary canary, metadata::RevisionRecord& record) {
  if (canary == Canary::kHistoryLies && record.finished_operations.size() > 1) record.finished_operations.pop_back();
  if (canary == Canary::kClaimLies && record.hot_millionths) {
    record.residency = metadata::Residency::kHot;
    record.hot_millionths.reset();
    record.hot_members = record.summary.payload_count;
  }
  if (canary == Canary::kReadyLies && record.availability == metadata::Availability::kDegraded &&
      record.residency != metadata::Residency::kAbsent && record.metadata_generation % 2 == 0) {
    record.availability = metadata::Availability::kReady;
    record.damage = {};
  }
  if (canary == Canary::kShareLies && record.hot_millionths) {
    *record.hot_millionths = *record.hot_millionths == 1 ? 2 : *record.hot_millionths - 1;
  }
  if (canary == Canary::kRunnerLies && !record.finished_operations.empty() &&
      record.finished_operations.back().state == metadata::OperationState::kCancelled) {
    record.finished_operations.back().state = metadata::OperationState::kFailed;
  }
  if (canary == Canary::kGenerationLies && record.metadata_generation % 3 == 0) record.metadata_generation -= 1;
  if (canary == Canary::kRequestLies) record.applied.clear();
}

/// Leases are found by their ids, and not by what they protect.
class Leaseless final : public oplog::StateView {
 public:
  explicit Leaseless(const oplog::StateView& view) : view_(view) {}
  std::uint64_t sequence() const override { return view_.sequence(); }
  Result<std::optional<std::string>> get(std::string_view key) const override { return view_.get(key); }
  Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const override {
    return from.starts_with(metadata::keys::kLease) ? Status() : view_.scan(from, to, descending, visit);
  }

 private:
  const oplog::StateView& view_;
};

}  // namespace

Status view_broken(Canary canary, const std::function<Status(const oplog::StateView& view)>& read,
                   const oplog::StateView& view) {
  return canary == Canary::kLeaseLies ? read(Leaseless(view)) : read(view);
}

Result<std::vector<oplog::Entry>> prepare_broken(Canary canary, const oplog::OpLog::Prepare& prepare,
                                                 const oplog::StateView& view, const oplog::Now& now) {
  if (canary == Canary::kLeaseLies) return prepare(Leaseless(view), now);
  SY_ASSIGN_OR_RETURN(std::vector<oplog::Entry> entries, prepare(view, now));
  for (oplog::Entry& entry : entries) {
    auto decoded = metadata::decode_entry(entry);
    SY_CHECK(decoded.ok(), "the rules make entries that can be read");
    // Its own bytes would be appended as they are.
    decoded->encoded = {};
    auto* const put = std::get_if<metadata::RevisionPut>(&decoded->body);
    auto* const lease = std::get_if<metadata::LeasePut>(&decoded->body);
    if (lease != nullptr && canary == Canary::kBoundLies && lease->lease.renewable_until_mono_ms != 0) {
      lease->lease.renewable_until_mono_ms += 1'000;
    }
    auto* const runner = std::get_if<metadata::RunnerPut>(&decoded->body);
    if (put != nullptr) falsify(canary, put->record);
    if (runner != nullptr && canary == Canary::kProgressLies && runner->runner.processed_members > 0) {
      runner->runner.processed_members -= 1;
    }
    if (runner != nullptr && canary == Canary::kPermitLies) runner->runner.permitted_members = 0;
    entry = metadata::encode_entry(*decoded);
  }
  return entries;
}

}  // namespace steelyard::sim
