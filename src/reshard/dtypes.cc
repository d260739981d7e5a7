#include "reshard/dtypes.h"

#include <algorithm>
#include <array>

namespace steelyard::reshard {
namespace {

// `float8_e4m3` and `float8_e8m0` without a suffix are other types than safetensors' F8_E4M3 and F8_E8M0, so they are
// not here; `torch.float4_e2m1fn_x2` is a byte that holds two elements, not an element.
constexpr auto kSpellings = std::to_array<DtypeSpelling>({
    {"BOOL", "BOOL", 8},
    {"bool", "BOOL", 8},
    {"torch.bool", "BOOL", 8},
    {"F4", "F4", 4},
    {"f4", "F4", 4},
    {"float4_e2m1fn", "F4", 4},
    {"F6_E2M3", "F6_E2M3", 6},
    {"f6_e2m3", "F6_E2M3", 6},
    {"float6_e2m3fn", "F6_E2M3", 6},
    {"F6_E3M2", "F6_E3M2", 6},
    {"f6_e3m2", "F6_E3M2", 6},
    {"float6_e3m2fn", "F6_E3M2", 6},
    {"U8", "U8", 8},
    {"u8", "U8", 8},
    {"uint8", "U8", 8},
    {"torch.uint8", "U8", 8},
    {"I8", "I8", 8},
    {"i8", "I8", 8},
    {"int8", "I8", 8},
    {"torch.int8", "I8", 8},
    {"F8_E5M2", "F8_E5M2", 8},
    {"f8_e5m2", "F8_E5M2", 8},
    {"float8_e5m2", "F8_E5M2", 8},
    {"torch.float8_e5m2", "F8_E5M2", 8},
    {"F8_E4M3", "F8_E4M3", 8},
    {"f8_e4m3", "F8_E4M3", 8},
    {"float8_e4m3fn", "F8_E4M3", 8},
    {"torch.float8_e4m3fn", "F8_E4M3", 8},
    {"F8_E8M0", "F8_E8M0", 8},
    {"f8_e8m0", "F8_E8M0", 8},
    {"float8_e8m0fnu", "F8_E8M0", 8},
    {"torch.float8_e8m0fnu", "F8_E8M0", 8},
    {"F8_E4M3FNUZ", "F8_E4M3FNUZ", 8},
    {"f8_e4m3fnuz", "F8_E4M3FNUZ", 8},
    {"float8_e4m3fnuz", "F8_E4M3FNUZ", 8},
    {"torch.float8_e4m3fnuz", "F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", "F8_E5M2FNUZ", 8},
    {"f8_e5m2fnuz", "F8_E5M2FNUZ", 8},
    {"float8_e5m2fnuz", "F8_E5M2FNUZ", 8},
    {"torch.float8_e5m2fnuz", "F8_E5M2FNUZ", 8},
    {"I16", "I16", 16},
    {"i16", "I16", 16},
    {"int16", "I16", 16},
    {"torch.int16", "I16", 16},
    {"torch.short", "I16", 16},
    {"U16", "U16", 16},
    {"u16", "U16", 16},
    {"uint16", "U16", 16},
    {"torch.uint16", "U16", 16},
    {"F16", "F16", 16},
    {"f16", "F16", 16},
    {"fp16", "F16", 16},
    {"half", "F16", 16},
    {"float16", "F16", 16},
    {"torch.float16", "F16", 16},
    {"torch.half", "F16", 16},
    {"BF16", "BF16", 16},
    {"bf16", "BF16", 16},
    {"bfloat16", "BF16", 16},
    {"torch.bfloat16", "BF16", 16},
    {"I32", "I32", 32},
    {"i32", "I32", 32},
    {"int32", "I32", 32},
    {"torch.int32", "I32", 32},
    {"torch.int", "I32", 32},
    {"U32", "U32", 32},
    {"u32", "U32", 32},
    {"uint32", "U32", 32},
    {"torch.uint32", "U32", 32},
    {"F32", "F32", 32},
    {"f32", "F32", 32},
    {"fp32", "F32", 32},
    {"float32", "F32", 32},
    {"torch.float32", "F32", 32},
    {"torch.float", "F32", 32},
    {"I64", "I64", 64},
    {"i64", "I64", 64},
    {"int64", "I64", 64},
    {"torch.int64", "I64", 64},
    {"torch.long", "I64", 64},
    {"U64", "U64", 64},
    {"u64", "U64", 64},
    {"uint64", "U64", 64},
    {"torch.uint64", "U64", 64},
    {"F64", "F64", 64},
    {"f64", "F64", 64},
    {"fp64", "F64", 64},
    {"double", "F64", 64},
    {"float64", "F64", 64},
    {"torch.float64", "F64", 64},
    {"torch.double", "F64", 64},
    {"C64", "C64", 64},
    {"c64", "C64", 64},
    {"complex64", "C64", 64},
    {"torch.complex64", "C64", 64},
    {"torch.cfloat", "C64", 64},
});

}  // namespace

std::span<const DtypeSpelling> dtype_spellings() { return kSpellings; }

const DtypeSpelling* find_dtype(std::string_view spelling) {
  const auto* found = std::ranges::find(kSpellings, spelling, &DtypeSpelling::spelling);
  return found == kSpellings.end() ? nullptr : found;
}

bool same_dtype(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const DtypeSpelling* first = find_dtype(a);
  const DtypeSpelling* second = find_dtype(b);
  return first != nullptr && second != nullptr && first->name == second->name;
}

}  // namespace steelyard::reshard
