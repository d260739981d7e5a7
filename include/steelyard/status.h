// Status and Result: how every call says that something went wrong. No exception leaves the library.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace steelyard {

/// Prints where and what to stderr and aborts: the end of a program that broke a rule of this library.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

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

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::in_place_index<0>, std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (std::get<0>(state_).ok()) [[unlikely]] {
      check_failed(__FILE__, __LINE__, "!status.ok()", "a Result made of an OK status has no value");
    }
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
