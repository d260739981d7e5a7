#include "cli/exit_code.h"

namespace steelyard::cli {

int exit_code_of(Code code) {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kInternal:
      return 1;
    case Code::kInvalidArgument:
      return 2;
    case Code::kNotFound:
      return 3;
    case Code::kConflict:
      return 4;
    case Code::kCorrupt:
      return 5;
    case Code::kBusy:
      return 6;
    case Code::kStaleGeneration:
    case Code::kGenerationExhausted:
      return 7;
    case Code::kNoSpace:
      return 8;
    case Code::kUnauthorized:
      return 9;
    case Code::kUnavailable:
    case Code::kDurabilityFailed:
    case Code::kUnknownOutcome:
      return 10;
    case Code::kNotReady:
      return 11;
    case Code::kLeaseExpired:
      return 12;
    case Code::kPolicyUnsatisfiable:
      return 13;
  }
  return 1;
}

}  // namespace steelyard::cli
