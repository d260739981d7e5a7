#include "cli/verbs.h"

namespace steelyard::cli {

std::span<const VerbSpec* const> all_verbs() {
  // clang-format off
  static constexpr const VerbSpec* kAll[] = {
      &kImportVerb, &kListVerb, &kInspectVerb, &kVerifyVerb, &kMaterializeVerb, &kCatVerb,
      &kLeaseAcquireVerb, &kLeaseRenewVerb, &kLeaseReleaseVerb, &kLeaseListVerb,
      &kConfigShowVerb, &kCompletionVerb,
      &kDeleteVerb, &kAbortVerb, &kEvictVerb, &kRehydrateVerb, &kRepairVerb, &kPolicyShowVerb, &kPolicySetVerb,
      &kWatchVerb, &kOperationShowVerb, &kOperationCancelVerb, &kReconcileVerb, &kGcVerb, &kRecoverVerb, &kUsageVerb,
      &kDoctorVerb, &kBenchVerb,
  };
  // clang-format on
  return kAll;
}

}  // namespace steelyard::cli
