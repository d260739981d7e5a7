// SY_CHECK: a programmer's error ends the process, in release builds too. Never used for input.
#pragma once

#include <string_view>

namespace steelyard {

/// Prints where and what to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace steelyard

#define SY_CHECK(condition, message)                                      \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      ::steelyard::check_failed(__FILE__, __LINE__, #condition, message); \
    }                                                                     \
  } while (false)
