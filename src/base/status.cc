#include "base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace steelyard {
namespace {

const std::string& empty_string() {
  static const std::string empty;
  return empty;
}

Code code_of_errno(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::kNoSpace;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kUnauthorized;
    case ENOENT:
      return Code::kNotFound;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\n", file, line, condition, static_cast<int>(message.size()),
               message.data());
  std::abort();
}

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kConflict:
      return "CONFLICT";
    case Code::kStaleGeneration:
      return "STALE_GENERATION";
    case Code::kNotReady:
      return "NOT_READY";
    case Code::kBusy:
      return "BUSY";
    case Code::kLeaseExpired:
      return "LEASE_EXPIRED";
    case Code::kGenerationExhausted:
      return "GENERATION_EXHAUSTED";
    case Code::kDurabilityFailed:
      return "DURABILITY_FAILED";
    case Code::kUnknownOutcome:
      return "UNKNOWN_OUTCOME";
    case Code::kPolicyUnsatisfiable:
      return "POLICY_UNSATISFIABLE";
    case Code::kCorrupt:
      return "CORRUPT";
    case Code::kNoSpace:
      return "NO_SPACE";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kUnauthorized:
      return "UNAUTHORIZED";
    case Code::kInternal:
      return "INTERNAL";
  }
  check_failed(__FILE__, __LINE__, "code", "unknown status code");
}

Status::Status(Code code, std::string message, std::string hint)
    : rep_(code == Code::kOk ? nullptr : std::make_unique<Rep>(Rep{code, std::move(message), std::move(hint)})) {}

Status::Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
  return *this;
}

const std::string& Status::message() const noexcept { return rep_ ? rep_->message : empty_string(); }
const std::string& Status::hint() const noexcept { return rep_ ? rep_->hint : empty_string(); }

Status Status::annotate(std::string_view doing, std::string_view what) && {
  if (rep_) {
    std::string prefix(doing);
    prefix.append(" ").append(what).append(": ");
    rep_->message.insert(0, prefix);
  }
  return std::move(*this);
}

Status Status::with_hint(std::string hint) && {
  if (rep_) rep_->hint = std::move(hint);
  return std::move(*this);
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  std::string text(code_name(rep_->code));
  text.append(": ").append(rep_->message);
  if (!rep_->hint.empty()) text.append(" (").append(rep_->hint).append(")");
  return text;
}

namespace {

/// What is the same whatever the call was for.
const char* hint_of_errno(int error_number) {
  switch (error_number) {
    case EMFILE:
      return "raise the limit of open files of a process (ulimit -n), then run the same command again";
    case ENFILE:
      return "the whole system has no more open files to give; end what holds them, then run the same command again";
    case EPERM:
      return "the file, or its filesystem, allows it to nobody: look at its attributes (lsattr)";
    case EROFS:
      return "the filesystem is mounted read-only";
    default:
      return "";
  }
}

}  // namespace

Status errno_status(int error_number, std::string_view call, std::string_view path) {
  std::string message(call);
  message.append(" ").append(path).append(": ").append(std::generic_category().message(error_number));
  return {code_of_errno(error_number), std::move(message), hint_of_errno(error_number)};
}

}  // namespace steelyard
