#include "cli/verbs.h"

namespace steelyard::cli {

std::span<const VerbSpec* const> all_verbs() {
  // clang-format off
  static constexpr const VerbSpec* kAll[] = {
      &kImportVerb, &kListVerb, &kInspectVerb, &kVerifyVerb, &kMaterializeVerb, &kCatVerb,
      &kLeaseAcquireVerb, &kLeaseRenewVerb, &kLeaseReleaseVerb, &kLeaseListVerb,
      &kDeleteVerb, &kAbortVerb, &kReconcileVerb, &kGcVerb, &kRepairVerb,
      &kOperationShowVerb, &kOperationCancelVerb,
      &kRecoverVerb, &kDoctorVerb, &kBenchVerb, &kUsageVerb, &kConfigShowVerb, &kCompletionVerb,
      &kEvictVerb, &kRehydrateVerb, &kPolicyShowVerb, &kPolicySetVerb,
      &kWatchVerb,
  };
  // clang-format on
  return kAll;
}

}  // namespace steelyard::cli
