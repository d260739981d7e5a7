// A stored append and an encoded snapshot: whatever the bytes, a value or an error; and a value encodes to its bytes.
//
// rooms: base hash formats metadata oplog
#include <string_view>

#include "oplog/log_row.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace steelyard::oplog;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string_view id = "0123456789abcdef";
  const auto append = decode_row(7, id, bytes, row_sum(7, id, bytes));
  SY_CHECK(!append.ok() || encode_batch(*append).value() == bytes, "a batch has one form");
  const auto snapshot = decode_snapshot(bytes);
  SY_CHECK(!snapshot.ok() || encode_snapshot(*snapshot) == bytes, "a snapshot has one form");
  return 0;
}
