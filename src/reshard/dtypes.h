// The public table of dtype spellings: a checkpoint, a trainer and an inference framework write one type in different
// ways. Thread-safe: constants.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace steelyard::reshard {

/// One spelling of one type.
struct DtypeSpelling {
  std::string_view spelling;
  std::string_view name;   ///< the type's own name, as safetensors writes it: "BF16"
  std::uint32_t bits = 0;  ///< of one element
};

/// Every known spelling, those of one type together, the type's own name first.
std::span<const DtypeSpelling> dtype_spellings();

/// The row of a spelling; null for one that is not in the table.
const DtypeSpelling* find_dtype(std::string_view spelling);

/// The spellings are equal, or both are in the table and mean one type. A spelling outside of the table is equal to
/// itself only.
bool same_dtype(std::string_view a, std::string_view b);

}  // namespace steelyard::reshard
