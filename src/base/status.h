// Status and Result: how every room says that something went wrong.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace steelyard {

/// The closed set of error codes. A code exists only because some caller acts on it differently; everything else is
/// detail in the message. The numbers are not stored anywhere.
enum class Code : unsigned char {
  kOk,
  kInvalidArgument,
  kNotFound,
  kConflict,
  kStaleGeneration,
  kNotReady,
  kBusy,
  kLeaseExpired,
  kGenerationExhausted,
  kDurabilityFailed,
  kUnknownOutcome,
  kPolicyUnsatisfiable,
  kCorrupt,
  kNoSpace,
  kUnavailable,
  kUnauthorized,
  kInternal,
};

/// The symbolic name of a code as scripts see it: "INVALID_ARGUMENT".
std::string_view code_name(Code code);

/// Outcome of an operation that yields no value. OK costs one null pointer. Thread-compatible.
///
/// An error has a message, which names the thing, the value found and the value wanted, and may have a hint: the next
/// step for the person who reads it.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string message, std::string hint = {});

  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const noexcept { return rep_ == nullptr; }
  Code code() const noexcept { return rep_ ? rep_->code : Code::kOk; }
  /// Empty for OK.
  const std::string& message() const noexcept;
  /// Empty where there is nothing to advise.
  const std::string& hint() const noexcept;

  /// Puts "<doing> <what>: " before the message; used once per layer. No effect on OK.
  Status annotate(std::string_view doing, std::string_view what) &&;
  /// Replaces the hint. No effect on OK.
  Status with_hint(std::string hint) &&;

  /// "CORRUPT: message (hint)", for logs and tests.
  std::string to_string() const;

  /// Says in the code that an error here is deliberately of no consequence, and why.
  void ignore(std::string_view /*reason*/) const noexcept {}

 private:
  struct Rep {
    Code code;
    std::string message;
    std::string hint;
  };
  std::unique_ptr<Rep> rep_;
};

/// The error for a failed system call: the code that fits `error_number`, and a message that names the call, the path
/// and the system's words. ENOSPC and EDQUOT give kNoSpace; EACCES, EPERM and EROFS kUnauthorized; ENOENT kNotFound;
/// EIO kUnavailable; others kUnavailable.
Status errno_status(int error_number, std::string_view call, std::string_view path);

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT(google-explicit-constructor)
    SY_CHECK(!std::get<0>(state_).ok(), "a Result made of an OK status has no value");
  }

  bool ok() const noexcept { return state_.index() == 1; }
  /// OK when there is a value.
  Status status() const& { return ok() ? Status() : std::get<0>(state_); }
  Status status() && { return ok() ? Status() : std::move(std::get<0>(state_)); }
  Code code() const noexcept { return ok() ? Code::kOk : std::get<0>(state_).code(); }

  /// The value; calling it without one is a programmer's error.
  T& value() & {
    check_value();
    return std::get<1>(state_);
  }
  const T& value() const& {
    check_value();
    return std::get<1>(state_);
  }
  T&& value() && {
    check_value();
    return std::move(std::get<1>(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check_value() const {
    if (!ok()) check_failed(__FILE__, __LINE__, "Result::ok()", std::get<0>(state_).to_string());
  }
  std::variant<Status, T> state_;
};

}  // namespace steelyard

#define SY_CONCAT_INNER(a, b) a##b
#define SY_CONCAT(a, b) SY_CONCAT_INNER(a, b)

/// Leaves the function with the status of `expr` if it is an error.
#define SY_RETURN_IF_ERROR(expr)                         \
  do {                                                   \
    if (auto sy_status_ = (expr); !sy_status_.ok()) {    \
      return ::steelyard::Status(std::move(sy_status_)); \
    }                                                    \
  } while (false)

/// `SY_ASSIGN_OR_RETURN(auto x, f())`: x is the value of f(), or the function ends with f()'s status.
#define SY_ASSIGN_OR_RETURN(lhs, expr) SY_ASSIGN_OR_RETURN_IMPL(SY_CONCAT(sy_result_, __LINE__), lhs, expr)
#define SY_ASSIGN_OR_RETURN_IMPL(result, lhs, expr)    \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = std::move(result).value()
