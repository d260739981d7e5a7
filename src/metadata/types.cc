#include "metadata/types.h"

namespace steelyard::metadata {

std::string_view name_of(Availability value) {
  switch (value) {
    case Availability::kImporting:
      return "IMPORTING";
    case Availability::kReady:
      return "READY";
    case Availability::kDegraded:
      return "DEGRADED";
    case Availability::kDeleting:
      return "DELETING";
    case Availability::kDeleted:
      return "DELETED";
  }
  return "?";
}

std::string_view name_of(Residency value) {
  switch (value) {
    case Residency::kUnknown:
      return "UNKNOWN";
    case Residency::kHot:
      return "HOT";
    case Residency::kCold:
      return "COLD";
    case Residency::kMixed:
      return "MIXED";
    case Residency::kAbsent:
      return "ABSENT";
  }
  return "?";
}

std::string_view name_of(OperationKind value) {
  switch (value) {
    case OperationKind::kNone:
      return "NONE";
    case OperationKind::kEvicting:
      return "EVICTING";
    case OperationKind::kRehydrating:
      return "REHYDRATING";
    case OperationKind::kRepairing:
      return "REPAIRING";
  }
  return "?";
}

std::string_view name_of(OperationState value) {
  switch (value) {
    case OperationState::kRunning:
      return "RUNNING";
    case OperationState::kDone:
      return "DONE";
    case OperationState::kCancelled:
      return "CANCELLED";
    case OperationState::kFailed:
      return "FAILED";
  }
  return "?";
}

std::string_view name_of(PolicyMode value) {
  switch (value) {
    case PolicyMode::kPinned:
      return "pinned";
    case PolicyMode::kManual:
      return "manual";
    case PolicyMode::kAuto:
      return "auto";
  }
  return "?";
}

std::optional<Availability> availability_from_name(std::string_view name) {
  for (const Availability value : {Availability::kImporting, Availability::kReady, Availability::kDegraded,
                                   Availability::kDeleting, Availability::kDeleted}) {
    if (name_of(value) == name) return value;
  }
  return std::nullopt;
}

}  // namespace steelyard::metadata
