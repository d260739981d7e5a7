// The verbs, each in a file of its own.
#pragma once

#include "cli/verb.h"

namespace steelyard::cli {

extern const VerbSpec kImportVerb, kListVerb, kInspectVerb, kVerifyVerb, kMaterializeVerb, kCatVerb;
extern const VerbSpec kLeaseAcquireVerb, kLeaseRenewVerb, kLeaseReleaseVerb, kLeaseListVerb;
extern const VerbSpec kDeleteVerb, kAbortVerb, kReconcileVerb, kGcVerb;
extern const VerbSpec kEvictVerb, kRehydrateVerb, kPolicyShowVerb, kPolicySetVerb, kWatchVerb;
extern const VerbSpec kRepairVerb, kOperationShowVerb, kOperationCancelVerb;
extern const VerbSpec kRecoverVerb, kDoctorVerb, kBenchVerb, kUsageVerb, kConfigShowVerb, kCompletionVerb;

}  // namespace steelyard::cli
