// For tests: an instance of the hot tier in a folder of its own.
#pragma once

#include <string>

#include "tiers/directory/test_folder.h"
#include "tiers/open.h"

namespace steelyard::tiers {

/// A folder on the tmpfs that every machine has.
class TestTmpfs : public TestFolder {
 public:
  TestTmpfs() : TestFolder("/dev/shm") {}
};

inline MemoryOptions memory_test_options(const std::string& path) {
  MemoryOptions options;
  options.path = path;
  options.store_id = "0123456789abcdef0123456789abcdef";
  options.create = true;
  options.capacity = 64 * 1024 * 1024;
  options.process_reserve_bytes = 0;
  return options;
}

inline std::string instance_path(const std::string& path) {
  return path + "/steelyard-0123456789abcdef0123456789abcdef";
}

}  // namespace steelyard::tiers
