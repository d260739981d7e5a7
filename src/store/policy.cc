#include "store/policy.h"

#include <utility>

#include "store/resolve.h"

namespace steelyard::store {
namespace {

using metadata::Policy;
using metadata::Residency;

constexpr int kTriesMax = 5;

Result<Policy> changed(Policy policy, const PolicyRequest& request) {
  if (request.prefer) policy.prefer = *request.prefer;
  if (request.mode) policy.mode = *request.mode;
  if (request.ratio_millionths) policy.ratio_millionths = request.ratio_millionths;
  if (policy.prefer == Residency::kMixed) {
    if (policy.ratio_millionths) return policy;
    return Status(Code::kInvalidArgument, "a policy that prefers mixed needs a ratio: the hot share",
                  "for example: --prefer mixed --ratio 0.5");
  }
  if (request.ratio_millionths) {
    return Status(Code::kInvalidArgument, "a ratio goes with the preference mixed only", "add --prefer mixed");
  }
  policy.ratio_millionths.reset();
  return policy;
}

}  // namespace

Result<metadata::RevisionRecord> update_policy(catalog::Catalog& catalog, const PolicyRequest& request) {
  Selector target = request.target;
  for (int tries = 1;; ++tries) {
    SY_ASSIGN_OR_RETURN(metadata::RevisionRecord record, resolve(catalog, target, Purpose::kReadDegraded));
    metadata::UpdateWeightPolicy command;
    SY_ASSIGN_OR_RETURN(command.policy, changed(record.policy, request));
    if (!request.expected_generation && command.policy == record.policy) return record;
    command.identity = record.identity;
    command.expected_metadata_generation = request.expected_generation.value_or(record.metadata_generation);
    auto updated = catalog.update_weight_policy(command);
    const bool moved = updated.code() == Code::kStaleGeneration && !request.expected_generation;
    if (!moved || tries == kTriesMax) return updated;
    target = selector_of(record.identity);
  }
}

}  // namespace steelyard::store
