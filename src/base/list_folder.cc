#include "base/list_folder.h"

namespace steelyard {

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder, std::error_code& error) {
  std::vector<std::filesystem::path> entries;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) entries.push_back(at->path());
  return entries;
}

}  // namespace steelyard
