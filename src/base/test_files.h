// For tests: files with reproducible content, and what lies in a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace steelyard::test_files {

/// Bytes without a period, the same for one seed.
inline std::string pattern(std::uint64_t bytes, std::uint64_t seed) {
  std::string data(bytes, '\0');
  std::uint64_t state = seed * 2654435761U + 1;
  for (char& c : data) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>(state >> 56);
  }
  return data;
}

/// Makes the folders above it, too.
inline void write(const std::string& path, const std::string& data) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << data;
}

inline std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Path to content of every file below a folder.
inline std::map<std::string, std::string> tree(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) out[entry.path().lexically_relative(folder).native()] = read(entry.path().native());
  }
  return out;
}

}  // namespace steelyard::test_files
