// A file of any bytes: no header makes the validator crash, and what it accepts fits the file.
//
// rooms: base hash formats
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto bytes = steelyard::as_bytes(file.substr(0, 8));
  const auto length = steelyard::formats::safetensors_header_length("x", bytes, size, size);
  if (!length.ok()) return 0;
  const auto header = steelyard::formats::parse_safetensors_header("x", file.substr(8, *length), size);
  SY_CHECK(!header.ok() || header->header_bytes + header->data_bytes == size, "an accepted header fills its file");
  return 0;
}
