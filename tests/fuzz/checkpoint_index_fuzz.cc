// An index of any bytes: no crash, and every shard that it names stays in its folder.
//
// rooms: base hash formats
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/checkpoint_files.h"
#include "formats/checkpoint_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = steelyard::formats::CheckpointIndex::parse("x", text);
  if (!index.ok()) return 0;
  for (const std::string& shard : index->shards()) {
    SY_CHECK(steelyard::formats::path_fault(shard).empty() && shard.find('/') == std::string::npos,
             "a shard elsewhere");
  }
  return 0;
}
