// Status and Result as the rooms use them: the public types, the error of a system call, two macros.
#pragma once

#include <string_view>
#include <utility>

#include "base/check.h"
#include "steelyard/status.h"

namespace steelyard {

/// The error for a failed system call: the code that fits `error_number`, and a message that names the call, the path
/// and the system's words. ENOSPC and EDQUOT give kNoSpace; EACCES, EPERM and EROFS kUnauthorized; ENOENT kNotFound;
/// EIO kUnavailable; others kUnavailable.
Status errno_status(int error_number, std::string_view call, std::string_view path);

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
