// SY_CHECK: a programmer's error ends the process, in release builds too. Never used for input.
#pragma once

#include "steelyard/status.h"

#define SY_CHECK(condition, message)                                      \
  do {                                                                    \
    if (!(condition)) [[unlikely]] {                                      \
      ::steelyard::check_failed(__FILE__, __LINE__, #condition, message); \
    }                                                                     \
  } while (false)
