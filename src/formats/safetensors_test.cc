#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "formats/safetensors_test_support.h"

namespace steelyard::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Reads a whole file as import does: length, then header.
Result<SafetensorsHeader> parse_file(std::string_view file, std::uint64_t limit = limits::kHeaderBytesDefault) {
  SY_ASSIGN_OR_RETURN(const std::uint64_t length,
                      safetensors_header_length("x.safetensors", as_bytes(file.substr(0, 8)), file.size(), limit));
  return parse_safetensors_header("x.safetensors", file.substr(8, length), file.size());
}

std::vector<std::int64_t> shape_of(const TensorRow& row) { return {row.shape.begin(), row.shape.end()}; }

TEST(SafetensorsAttacks, EachIsRefusedByItsName) {
  const std::filesystem::path folder = SY_SOURCE_DIR "/tests/golden/safetensors-attacks";
  std::ifstream table(folder / "expected.tsv");
  std::size_t attacks = 0;
  for (std::string line; std::getline(table, line); ++attacks) {
    const std::string name = line.substr(0, line.find('\t'));
    const std::string expected = line.substr(line.find('\t') + 1);
    SCOPED_TRACE(name);
    std::ifstream stream(folder / (name + ".safetensors"), std::ios::binary);
    ASSERT_TRUE(stream.good());
    const std::string file{std::istreambuf_iterator<char>(stream), {}};
    const auto header = parse_file(file);
    ASSERT_EQ(header.code(), Code::kCorrupt);
    EXPECT_THAT(header.status().message(), HasSubstr(expected));
    EXPECT_THAT(header.status().message(), HasSubstr("x.safetensors"));
    EXPECT_FALSE(header.status().hint().empty());
  }
  EXPECT_GE(attacks, 60U);
}

TEST(Safetensors, EveryDtypeByItsBits) {
  const std::map<std::string, std::uint32_t> dtypes = {
      {"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},   {"I8", 8},
      {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8}, {"I16", 16},    {"U16", 16}, {"F16", 16},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"BF16", 16},   {"I32", 32},    {"U32", 32}, {"F32", 32},
      {"C64", 64},        {"F64", 64},        {"I64", 64},    {"U64", 64}};
  EXPECT_EQ(dtypes.size(), 22U);
  for (const auto& [dtype, bits] : dtypes) {
    EXPECT_EQ(dtype_bits(dtype), bits) << dtype;
    const auto header = parse_file(test_file({{"t", dtype, {4, 2}, bits}}));  // 8 elements of b bits are b bytes
    ASSERT_TRUE(header.ok()) << header.status().to_string();
    const TensorRow row = header->tensors.row(0);
    EXPECT_EQ(row.dtype, dtype);
    EXPECT_EQ(row.place->bytes, bits);
    EXPECT_TRUE(header->warnings.empty());
  }
  EXPECT_EQ(dtype_bits("F8_XYZ"), std::nullopt);
  EXPECT_EQ(dtype_bits("f32"), std::nullopt);
  EXPECT_EQ(dtype_bits(""), std::nullopt);
}

TEST(Safetensors, UnknownDtypeIsKeptAsOpaqueBytesWithOneWarning) {
  const auto header = parse_file(test_file({{"a", "F8_XYZ", {3, 5}, 7}, {"b", "F8_XYZ", {1}, 2}, {"c", "U8", {1}, 1}}));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->tensors.row(0).dtype, "F8_XYZ");
  EXPECT_EQ(header->tensors.row(0).place->bytes, 7U);
  EXPECT_THAT(header->warnings,
              ElementsAre("x.safetensors: unknown dtype \"F8_XYZ\" of 2 tensors (first a); kept as opaque bytes"));
}

TEST(Safetensors, AnUnknownDtypeExcusesNoShapeThatOverflowsAndNoEmptyName) {
  // What the stored manifest cannot hold is refused here, before any byte of the checkpoint was stored.
  const std::int64_t large = std::int64_t{1} << 40;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{large, large}, {0, large, large}}) {
    const auto header = parse_file(test_file({{"a", "F8_XYZ", shape, 7}}));
    EXPECT_EQ(header.code(), Code::kCorrupt);
    EXPECT_THAT(header.status().message(), HasSubstr("tensor a: shape ["));
    EXPECT_THAT(header.status().message(), HasSubstr("more elements than 63 bits count"));
  }
  const auto header = parse_file(test_file({{"a", "", {1}, 1}}));
  EXPECT_EQ(header.code(), Code::kCorrupt);
  EXPECT_THAT(header.status().message(), HasSubstr("tensor a: dtype is empty"));
}

TEST(Safetensors, ManyUnknownDtypesGiveFewWarnings) {
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back({std::to_string(i), "NEW" + std::to_string(i), {1}, 1});
  const auto header = parse_file(test_file(tensors));
  ASSERT_TRUE(header.ok());
  ASSERT_EQ(header->warnings.size(), 17U);
  EXPECT_EQ(header->warnings.back(), "x.safetensors: 84 more unknown dtypes");
}

TEST(Safetensors, ZeroSizeAndScalarTensorsKeepShapeAndDtype) {
  const auto header = parse_file(test_file({{"e0", "F32", {0}, 0},
                                            {"s", "F32", {}, 4},
                                            {"e1", "BF16", {2, 0}, 0},
                                            {"e2", "I8", {0, 5}, 0},
                                            {"d", "U8", {3}, 3},
                                            {"e3", "F4", {0, 3}, 0}}));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  ASSERT_EQ(header->tensors.size(), 6U);
  EXPECT_EQ(header->data_bytes, 7U);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < 6; ++i) {
    const TensorRow row = header->tensors.row(i);
    shapes[std::string(row.tensor_id)] = shape_of(row);
    EXPECT_EQ(row.layout_fingerprint, "row-major");
  }
  EXPECT_THAT(shapes["e0"], ElementsAre(0));
  EXPECT_THAT(shapes["s"], ElementsAre());
  EXPECT_THAT(shapes["e1"], ElementsAre(2, 0));
  EXPECT_THAT(shapes["e3"], ElementsAre(0, 3));
}

TEST(Safetensors, OnlyEmptyTensorsOrNoneAtAll) {
  const auto empty = parse_file(test_file({{"a", "F32", {0}, 0}, {"b", "F32", {0, 2}, 0}}));
  ASSERT_TRUE(empty.ok()) << empty.status().to_string();
  EXPECT_EQ(empty->data_bytes, 0U);
  const auto none = parse_file(with_header("{}", ""));
  ASSERT_TRUE(none.ok()) << none.status().to_string();
  EXPECT_EQ(none->tensors.size(), 0U);
}

TEST(Safetensors, EmptyTensorListedAfterTheDataThatBeginsAtItsPlace) {
  const auto header = parse_file(with_header(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                             R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                             "xy"));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->tensors.tensor_id(0), "a");
}

TEST(Safetensors, MetadataAbsentEmptyAndFilled) {
  EXPECT_TRUE(parse_file(with_header("{}", ""))->metadata.empty());
  EXPECT_TRUE(parse_file(with_header(R"({"__metadata__":{}})", ""))->metadata.empty());
  const auto filled = parse_file(with_header(R"({"__metadata__":{"format":"pt","k\n":"\u00e9\ud83d\ude00"}})", ""));
  ASSERT_TRUE(filled.ok()) << filled.status().to_string();
  EXPECT_THAT(filled->metadata, ElementsAre(std::pair("format", "pt"), std::pair("k\n", "é😀")));
}

TEST(Safetensors, RowsStandInTheOrderOfTheData) {
  const auto header = parse_file(with_header(R"({"z":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                             R"("a":{"data_offsets":[1,2],"shape":[1],"dtype":"U8"},)"
                                             R"("m":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}} )",
                                             "xyz"));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->tensors.tensor_id(0), "m");
  EXPECT_EQ(header->tensors.tensor_id(1), "a");
  EXPECT_EQ(header->tensors.tensor_id(2), "z");
}

TEST(Safetensors, HeaderLimitIsInclusiveAndItsMessageHasBothNumbers) {
  constexpr std::uint64_t kLimit = limits::kHeaderBytesDefault;
  const auto length_bytes = [](std::uint64_t length) { return with_length(length, "").substr(0, 8); };
  const std::uint64_t file_bytes = 8 + kLimit + 1;
  const auto allowed = safetensors_header_length("x", as_bytes(length_bytes(kLimit)), file_bytes, kLimit);
  ASSERT_TRUE(allowed.ok());
  EXPECT_EQ(*allowed, 100'000'000U);
  const auto refused = safetensors_header_length("x", as_bytes(length_bytes(kLimit + 1)), file_bytes, kLimit);
  EXPECT_EQ(refused.code(), Code::kCorrupt);
  EXPECT_EQ(refused.status().message(), "x: its header has 100000001 bytes; the limit is 100000000");
  EXPECT_THAT(refused.status().hint(), HasSubstr("--header-limit 100000001"));
  EXPECT_TRUE(safetensors_header_length("x", as_bytes(length_bytes(kLimit + 1)), file_bytes, kLimit + 1).ok());
}

TEST(Safetensors, PaddingOfSpacesIsPartOfTheHeader) {
  const auto header = parse_file(with_header("{}" + std::string(1000, ' '), ""));
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->header_bytes, 1010U);
}

TEST(Safetensors, EveryCutOfAFileIsRefused) {
  const std::string file = test_file({{"a", "F32", {2}, 8}, {"b", "U8", {3}, 3}});
  ASSERT_TRUE(parse_file(file).ok());
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_EQ(parse_file(std::string_view(file).substr(0, bytes)).code(), Code::kCorrupt) << bytes;
  }
}

TEST(Safetensors, AMessageShowsControlCharactersAndCutsLongNames) {
  const auto control = parse_file(with_header(R"({"a\u0007b":{}})", ""));
  EXPECT_THAT(control.status().message(), HasSubstr("tensor a\\x07b:"));
  const auto endless = parse_file(with_header("{\"" + std::string(100'000, 'n') + "\":{}}", ""));
  EXPECT_LT(endless.status().message().size(), 500U);
  EXPECT_THAT(endless.status().message(), HasSubstr("(100000 bytes)"));
}

TEST(Safetensors, LfsPointer) {
  const auto pointer =
      parse_lfs_pointer("version https://git-lfs.github.com/spec/v1\noid sha256:00aa\nsize 9904129368\n");
  ASSERT_TRUE(pointer.has_value());
  EXPECT_EQ(pointer->bytes, 9904129368U);
  EXPECT_TRUE(pointer->complete);
  const auto cut = parse_lfs_pointer("version https://git-lfs.github.com/spec/v1\noid sha");
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(cut->bytes, std::nullopt);
  EXPECT_FALSE(cut->complete);
  EXPECT_FALSE(parse_lfs_pointer("version 2").has_value());
  EXPECT_FALSE(parse_lfs_pointer("").has_value());
}

/// A valid file from a plain model, with its entries and fields in any order.
TEST(SafetensorsProperty, ValidHeadersParseToTheirModel) {
  const bool holds = rc::check([] {
    struct Choice {
      std::string dtype;
      std::uint32_t bits;
    };
    static const std::vector<Choice> kChoices = {{"U8", 8},   {"BF16", 16}, {"F32", 32},
                                                 {"I64", 64}, {"F4", 4},    {"F6_E3M2", 6}};
    const auto names = *rc::gen::unique<std::vector<std::string>>(
        rc::gen::container<std::string>(rc::gen::oneOf(rc::gen::inRange('a', 'd'), rc::gen::inRange('\x01', '\x7f'))));
    std::vector<TestTensor> tensors;
    for (const std::string& name : names) {
      if (name == "__metadata__") continue;
      const Choice choice = *rc::gen::elementOf(kChoices);
      auto shape = *rc::gen::container<std::vector<std::int64_t>>(*rc::gen::inRange<std::size_t>(0, 4),
                                                                  rc::gen::inRange<std::int64_t>(0, 6));
      if (choice.bits < 8) shape.push_back(4);
      std::uint64_t bits = choice.bits;
      for (const std::int64_t dimension : shape) bits *= static_cast<std::uint64_t>(dimension);
      tensors.push_back({name, choice.dtype, shape, bits / 8});
    }
    const auto order =
        *rc::gen::container<std::vector<std::uint32_t>>(tensors.size(), rc::gen::arbitrary<std::uint32_t>());
    const auto header = parse_file(test_file(tensors, order, *rc::gen::inRange(0, 20)));
    RC_ASSERT(header.ok());
    RC_ASSERT(header->tensors.size() == tensors.size());
    std::map<std::string, std::pair<TestTensor, std::uint64_t>> model;
    std::uint64_t at = 0;
    for (const TestTensor& tensor : tensors) {
      model[tensor.name] = {tensor, at};
      at += tensor.bytes;
    }
    RC_ASSERT(header->data_bytes == at);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < header->tensors.size(); ++i) {
      const TensorRow row = header->tensors.row(i);
      const auto& [tensor, offset] = model.at(std::string(row.tensor_id));
      RC_ASSERT(row.dtype == tensor.dtype);
      RC_ASSERT(shape_of(row) == tensor.shape);
      RC_ASSERT(*row.place == (TensorPlace{0, offset, tensor.bytes}));
      RC_ASSERT(row.place->offset == end);
      end += row.place->bytes;
    }
  });
  EXPECT_TRUE(holds);
}

/// One byte of a valid header replaced: refused, or a header that still fills its file. Never a crash.
TEST(SafetensorsProperty, AChangedByteNeverPassesWithWrongGeometry) {
  const std::string file = test_file({{"a", "F32", {2}, 8}, {"b", "U8", {3}, 3}, {"c", "F4", {0, 2}, 0}});
  for (std::size_t at = 0; at < file.size() - 11; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = file;
      changed[at] = static_cast<char>(byte);
      const auto header = parse_file(changed);
      if (header.ok()) {
        EXPECT_EQ(header->header_bytes + header->data_bytes, file.size());
      } else {
        EXPECT_EQ(header.code(), Code::kCorrupt);
      }
    }
  }
}

}  // namespace
}  // namespace steelyard::formats
