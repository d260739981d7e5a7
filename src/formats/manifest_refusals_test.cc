// Every way in which a manifest is refused, with the path that the message must name.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <vector>

#include "formats/manifest_test_samples.h"
#include "formats/stored_manifest.h"

namespace steelyard::formats {
namespace {

/// An edit of the text of samples::everything().
struct TextEdit {
  std::string name;
  std::string from;
  std::string to;
  std::string message;  ///< the beginning, after "manifest: "
};

std::string text_of_everything() {
  const auto text = write_manifest(samples::everything());
  EXPECT_TRUE(text.ok()) << text.status().to_string();
  return text.ok() ? *text : std::string();
}

class ManifestTextRefusal : public testing::TestWithParam<TextEdit> {};

TEST_P(ManifestTextRefusal, IsCorruptAndNamesThePath) {
  const TextEdit& edit = GetParam();
  std::string text = text_of_everything();
  const std::size_t at = text.find(edit.from);
  ASSERT_NE(at, std::string::npos) << "the sample does not hold " << edit.from;
  text.replace(at, edit.from.size(), edit.to);
  const auto read = read_manifest(text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.code(), Code::kCorrupt);
  EXPECT_EQ(read.status().message().rfind("manifest: " + edit.message, 0), 0U) << read.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Spelling, ManifestTextRefusal,
    testing::ValuesIn(std::vector<TextEdit>{
        {"WhiteSpaceFirst", "{\"chunk", " {\"chunk", "the document: found white space"},
        {"WhiteSpaceInside", "\"schema_version\":1", "\"schema_version\": 1", "schema_version: found white space"},
        {"TrailingNewline", "\"tensor_id\":\"scalar\"}]}", "\"tensor_id\":\"scalar\"}]}\n",
         "the document: found 1 bytes after the end"},
        {"TrailingDocument", "\"tensor_id\":\"scalar\"}]}", "\"tensor_id\":\"scalar\"}]}{}",
         "the document: found 2 bytes after the end"},
        {"UnknownTopField", "{\"chunk_bytes\"", "{\"aaa\":1,\"chunk_bytes\"",
         "the document: the field \"aaa\" is unknown"},
        {"UnknownLastField", "\"tensor_id\":\"scalar\"}]}", "\"tensor_id\":\"scalar\"}],\"zzz\":1}",
         "the document: the field \"zzz\" is unknown"},
        {"UnknownFieldInPiece", "\"run\":0}],\"sha", "\"run\":0,\"sum\":1}],\"sha",
         "files[0].pieces[0]: the field \"sum\" is unknown"},
        {"EscapedFieldName", "\"schema_version\"", "\"schem\\u0061_version\"",
         "the document: the field \"schem\\u0061_version\" is unknown"},
        {"MissingTopField", "\"schema_version\":1,", "", "schema_version: the field is missing"},
        {"MissingFirstField", "\"chunk_bytes\":1048576,\"created_at\"", "\"created_at\"",
         "chunk_bytes: the field is missing"},
        {"MissingLastField", ",\"tensor_id\":\"scalar\"", "", "tensors[4].tensor_id: the field is missing"},
        {"MissingRunOfPiece", ",\"run\":0}],\"sha", "}],\"sha", "files[0].pieces[0].run: the field is missing"},
        {"DuplicateField", "{\"bytes\":11,\"kind\"", "{\"bytes\":11,\"bytes\":11,\"kind\"",
         "files[0].bytes: the field stands there twice"},
        {"DuplicateOfOptional", "\"layer_id\":3,", "\"layer_id\":3,\"layer_id\":3,",
         "tensors[2].layer_id: the field stands there twice"},
        {"DuplicateSource", "\"hub_ref\":\"main\"", "\"hub_ref\":\"main\",\"hub_ref\":\"main\"",
         "source[\"hub_ref\"]: the name stands there twice"},
        {"SourceOutOfOrder", "\"hub_ref\":\"main\",", "\"z\":\"main\",", "source[\"z\"]: \"origin\" follows it"},
        {"FieldsOutOfOrder", "\"offset\":0,\"run\":0}],\"sha", "\"run\":0,\"offset\":0}],\"sha",
         "files[0].pieces[0].offset: the field is missing: \"run\" stands in its place"},
        {"NotANumber", "\"bytes\":11,\"kind\"", "\"bytes\":NaN,\"kind\"", "files[0].bytes: found NaN"},
        {"Infinity", "\"bytes\":11,\"kind\"", "\"bytes\":Infinity,\"kind\"", "files[0].bytes: found Infinity"},
        {"Fraction", "\"bytes\":11,\"kind\"", "\"bytes\":11.0,\"kind\"", "files[0].bytes: found a number with \".\""},
        {"Exponent", "\"bytes\":11,\"kind\"", "\"bytes\":11e0,\"kind\"", "files[0].bytes: found a number with \"e\""},
        {"LeadingZero", "\"bytes\":11,\"kind\"", "\"bytes\":011,\"kind\"", "files[0].bytes: found \"011\""},
        {"Plus", "\"bytes\":11,\"kind\"", "\"bytes\":+11,\"kind\"", "files[0].bytes: found byte \"+\""},
        {"Negative", "\"bytes\":11,\"kind\"", "\"bytes\":-11,\"kind\"", "files[0].bytes: found -11"},
        {"MinusZero", "\"shape\":[4,4]", "\"shape\":[-0,4]", "tensors[0].shape[0]: found \"-0\""},
        {"TooWide", "\"bytes\":11,\"kind\"", "\"bytes\":18446744073709551616,\"kind\"",
         "files[0].bytes: found \"18446744073709551616\""},
        {"TooWideForARun", "\"run\":0}],\"sha", "\"run\":4294967296}],\"sha",
         "files[0].pieces[0].run: found 4294967296"},
        {"TooWideForAShape", "\"shape\":[4,4]", "\"shape\":[9223372036854775808,4]",
         "tensors[0].shape[0]: found 9223372036854775808"},
        {"NumberAsString", "\"bytes\":11,\"kind\"", "\"bytes\":\"11\",\"kind\"", "files[0].bytes: found a string"},
        {"NumberIsTrue", "\"bytes\":11,\"kind\"", "\"bytes\":true,\"kind\"", "files[0].bytes: found true"},
        {"NumberIsNull", "\"layer_id\":3", "\"layer_id\":null", "tensors[2].layer_id: found null"},
        {"StringIsNumber", "\"path\":\"config.json\"", "\"path\":1", "files[0].path: found a number"},
        {"ArrayIsObject", "\"pieces\":[]", "\"pieces\":{}", "files[1].pieces: found an object"},
        {"ObjectIsArray", "\"source\":{", "\"source\":[", "source: found an array"},
        {"DocumentIsArray", "{\"chunk", "[{\"chunk", "the document: found an array"},
        {"TrailingComma", "\"shape\":[4,4]", "\"shape\":[4,4,]", "tensors[0].shape[1]: found byte \"]\""},
        {"MissingComma", "\"shape\":[4,4]", "\"shape\":[4 4]", "tensors[0].shape[0]: found white space"},
        {"NeedlessEscape", "config.json", "config\\u002ejson", "files[0].path: found the escape \"\\u002e\""},
        {"EscapedSlash", "unet/model", "unet\\/model", "files[2].path: found the escape \"\\/\""},
        {"LongEscapeOfShortOne", "\\n", "\\u000a", "source[\"origin\"]: found the escape \"\\u000a\""},
        {"UpperCaseEscape", "\\u0001", "\\u001F", "source[\"origin\"]: found the escape"},
        {"RawControl", "config.json", "config\n.json", "files[0].path: found white space"},
        {"BadUtf8", "config.json", "config\xFF.json", "files[0].path: found \"config\\xff.json\"; wanted valid UTF-8"},
        {"Surrogate", "config.json", "config\xED\xA0\x80.json", "files[0].path: found"},
        {"OverlongUtf8", "config.json", "config\xC0\xAF.json", "files[0].path: found"},
    }),
    [](const testing::TestParamInfo<TextEdit>& edit) { return edit.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Values, ManifestTextRefusal,
    testing::ValuesIn(std::vector<TextEdit>{
        {"NewerSchema", "\"schema_version\":1", "\"schema_version\":2", "schema_version: found 2; wanted 1"},
        {"TimeWithoutDecimals", "04:05.678Z", "04:05Z", "created_at: wanted a time"},
        {"TimeOf1969", "2026-01-02", "1969-12-31", "created_at: wanted a time"},
        {"TimeWithALeapSecond", "04:05.678Z", "04:60.678Z", "created_at: wanted a time"},
        {"TimeThatIsNone", "2026-01-02", "2026-02-30", "created_at: wanted a time"},
        {"UpperCaseSha", "587cb980", "587CB980", "files[0].sha256: found no SHA-256"},
        {"ShortSha", "587cb980", "587cb98", "files[0].sha256: found no SHA-256"},
        {"UnknownKind", "\"kind\":\"metadata\"", "\"kind\":\"Metadata\"", "files[0].kind: wanted"},
        {"BlocksNotWhole", "0123456789abcdef", "0123456789abcde", "objects[0].blocks: found 15 digits"},
        {"BlocksUpperCase", "0123456789abcdef", "0123456789ABCDEF", "objects[0].blocks: wanted only"},
        {"BlocksTooMany", "0123456789abcdef", "0123456789abcdef0123456789abcdef",
         "objects[0].blocks: found 2; wanted 1"},
        {"BlocksNone", "0123456789abcdef", "", "objects[0].blocks: found 0; wanted 1"},
        {"GroupOfAnother", "weight:5", "weight:6", "identity: its group_id is weight:5"},
        {"IdentityOfAnother", "\"weight_generation\":7", "\"weight_generation\":8", "identity: its group_id is"},
        {"IdentityBreaksRules", "\"tenant_id\":\"default\"", "\"tenant_id\":\"_default\"", "identity: tenant_id"},
        {"GenerationZero", "\"weight_generation\":7", "\"weight_generation\":0", "identity: weight_generation is 0"},
        {"EmptyAliases", "\"aliases\":[\"alias/a\",\"alias/b\"]", "\"aliases\":[]",
         "tensors[2].aliases: found no alias"},
        {"PlaceWithoutBytes", "{\"bytes\":17,\"dtype\"", "{\"dtype\"", "tensors[3].offset: found a place without"},
        {"PlaceWithoutRun", "\"offset\":1048576,\"run\":2,\"shape\":[3]", "\"offset\":1048576,\"shape\":[3]",
         "tensors[3].run: the field is missing"},
    }),
    [](const testing::TestParamInfo<TextEdit>& edit) { return edit.param.name; });

/// An edit of the value: the writer refuses it, and the reader refuses the same text for the same reason because both
/// ask the same validator.
struct ValueEdit {
  std::string name;
  std::function<void(StoredManifest&)> edit;
  std::string message;
};

class ManifestValueRefusal : public testing::TestWithParam<ValueEdit> {};

TEST_P(ManifestValueRefusal, IsInvalidAndNamesThePath) {
  StoredManifest manifest = samples::everything();
  GetParam().edit(manifest);
  const auto written = write_manifest(manifest);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.code(), Code::kInvalidArgument);
  EXPECT_EQ(written.status().message().rfind("manifest: " + GetParam().message, 0), 0U) << written.status().message();
}

std::function<void(StoredManifest&)> path_of_first_file(std::string path) {
  return [path = std::move(path)](StoredManifest& m) { m.files[0].path = path; };
}

/// Replaces the row of one tensor.
std::function<void(StoredManifest&)> tensor(std::size_t index, std::function<void(TensorRow&)> edit) {
  return [index, edit = std::move(edit)](StoredManifest& m) {
    TensorTable table;
    for (std::size_t i = 0; i < m.tensors.size(); ++i) {
      TensorRow row = m.tensors.row(i);
      if (i == index) edit(row);
      table.add(row);
    }
    m.tensors = table;
  };
}

const std::vector<std::int64_t> kNegativeShape = {-1};
const std::vector<std::int64_t> kHugeShape = {INT64_MAX, INT64_MAX};
const std::vector<std::int64_t> kManyBits = {INT64_MAX};
const std::vector<std::int64_t> kThree = {3};
const std::vector<std::int64_t> kSquare = {4, 4};

INSTANTIATE_TEST_SUITE_P(
    Head, ManifestValueRefusal,
    testing::ValuesIn(std::vector<ValueEdit>{
        {"Identity", [](StoredManifest& m) { m.identity.lineage.revision = ".."; }, "identity: revision is \"..\""},
        {"TimeBefore1970", [](StoredManifest& m) { m.created_at_ms = -1; }, "created_at: found -1"},
        {"TimeAfter9999", [](StoredManifest& m) { m.created_at_ms = INT64_MAX; }, "created_at: found"},
        {"ChunkNotMiB", [](StoredManifest& m) { m.chunk_bytes = limits::kMiB + 1; }, "chunk_bytes: found 1048577"},
        {"ChunkZero", [](StoredManifest& m) { m.chunk_bytes = 0; }, "chunk_bytes: found 0"},
        {"ChunkTooLarge", [](StoredManifest& m) { m.chunk_bytes = 5 * limits::kGiB; }, "chunk_bytes: found 5368709120"},
        {"SourceTooMany",
         [](StoredManifest& m) {
           m.source.clear();
           for (int i = 100; i < 165; ++i) m.source.emplace_back(std::to_string(i), "");
         },
         "source: found 65 facts"},
        {"SourceUnsorted", [](StoredManifest& m) { std::swap(m.source[0], m.source[1]); }, "source[\"hub_ref\"]"},
        {"SourceTwice", [](StoredManifest& m) { m.source[1] = m.source[0]; }, "source[\"hub_ref\"]"},
        {"SourceNotUtf8", [](StoredManifest& m) { m.source[0].second = "\xFF"; }, "source[\"hub_ref\"]: found"},
    }),
    [](const testing::TestParamInfo<ValueEdit>& edit) { return edit.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Runs, ManifestValueRefusal,
    testing::ValuesIn(std::vector<ValueEdit>{
        {"ChunkNotMiB", [](StoredManifest& m) { m.runs[1].chunk_bytes = 4096; }, "runs[1].chunk_bytes: found 4096"},
        {"ObjectsSkipped", [](StoredManifest& m) { m.runs[1].first_object = 2; },
         "runs[1].first_object: found 2; wanted 1"},
        {"ObjectsShared", [](StoredManifest& m) { m.runs[1].first_object = 0; },
         "runs[1].first_object: found 0; wanted 1"},
        {"CountWrong", [](StoredManifest& m) { m.runs[2].objects = 2; }, "runs[2].objects: found 2; wanted 3"},
        {"BytesHuge", [](StoredManifest& m) { m.runs[0].bytes = UINT64_MAX; }, "runs[0].objects: found 1"},
        {"ObjectMissing", [](StoredManifest& m) { m.objects.pop_back(); }, "runs[3]: takes objects up to 6"},
        {"ObjectLeftOver", [](StoredManifest& m) { m.objects.push_back(m.objects[0]); }, "objects: found 7; wanted 6"},
        {"ObjectShort", [](StoredManifest& m) { m.objects[3].bytes = 9; }, "objects[3].bytes: found 9; wanted 1048576"},
        {"LastObjectLong", [](StoredManifest& m) { m.objects[4].bytes = 4097; },
         "objects[4].bytes: found 4097; wanted 4096"},
        {"BlockMissing", [](StoredManifest& m) { m.objects[2].blocks.clear(); },
         "objects[2].blocks: found 0; wanted 1"},
        {"BlockLeftOver", [](StoredManifest& m) { m.objects[5].blocks.push_back(1); },
         "objects[5].blocks: found 2; wanted 1"},
    }),
    [](const testing::TestParamInfo<ValueEdit>& edit) { return edit.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Files, ManifestValueRefusal,
    testing::ValuesIn(std::vector<ValueEdit>{
        {"Absolute", path_of_first_file("/etc/passwd"), "files[0].path: \"/etc/passwd\" is absolute"},
        {"Escapes", path_of_first_file("../../x"), "files[0].path: \"../../x\" has the part"},
        {"EscapesInside", path_of_first_file("a/../x"), "files[0].path: \"a/../x\" has the part"},
        {"EndsInDotDot", path_of_first_file("a/.."), "files[0].path: \"a/..\" has the part"},
        {"Dot", path_of_first_file("./x"), "files[0].path: \"./x\" has the part"},
        {"OnlyDot", path_of_first_file("."), "files[0].path: \".\" has the part"},
        {"EmptyPart", path_of_first_file("a//b"), "files[0].path: \"a//b\" has an empty part"},
        {"TrailingSlash", path_of_first_file("a/"), "files[0].path: \"a/\" has an empty part"},
        {"Empty", path_of_first_file(""), "files[0].path: \"\" is empty"},
        {"Nul", path_of_first_file(std::string("a\0b", 3)), "files[0].path: \"a\\x00b\" has a NUL"},
        {"NotUtf8", path_of_first_file("a\xFF"), "files[0].path: \"a\\xff\" is not UTF-8"},
        {"Twice", path_of_first_file("empty.txt"), "files[1].path: \"empty.txt\" follows \"empty.txt\""},
        {"Unsorted", path_of_first_file("zzz"), "files[1].path: \"empty.txt\" follows \"zzz\""},
        {"FileIsAlsoAFolder", [](StoredManifest& m) { m.files[1].path = "config.json/x"; },
         "files[1].path: \"config.json/x\" lies in a folder"},
        {"BytesDoNotAddUp", [](StoredManifest& m) { m.files[0].bytes = 12; }, "files[0].bytes: found 12; wanted 11"},
        {"PieceOfNoRun", [](StoredManifest& m) { m.files[0].pieces[0].run = 4; },
         "files[0].pieces[0].run: found 4; wanted less than 4"},
        {"PieceBeyondRun", [](StoredManifest& m) { m.files[2].pieces[1].offset = 8192; },
         "files[2].pieces[1].offset: found 8192"},
        {"PieceOverflows", [](StoredManifest& m) { m.files[0].pieces[0].offset = UINT64_MAX; },
         "files[0].pieces[0].offset: found 1844"},
        {"PieceEmpty", [](StoredManifest& m) { m.files[1].pieces.push_back({}); }, "files[1].pieces[0].bytes: found 0"},
    }),
    [](const testing::TestParamInfo<ValueEdit>& edit) { return edit.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tensors, ManifestValueRefusal,
    testing::ValuesIn(std::vector<ValueEdit>{
        {"Twice", tensor(4, [](TensorRow& r) { r.tensor_id = "opaque"; }), "tensors[4].tensor_id: \"opaque\" follows"},
        {"Unsorted", tensor(4, [](TensorRow& r) { r.tensor_id = "a"; }), "tensors[4].tensor_id: \"a\" follows"},
        {"IdNotUtf8", tensor(4, [](TensorRow& r) { r.tensor_id = "s\xFF"; }), "tensors[4].tensor_id: found"},
        {"DtypeEmpty", tensor(3, [](TensorRow& r) { r.dtype = ""; }), "tensors[3].dtype: is empty"},
        {"LayoutEmpty", tensor(3, [](TensorRow& r) { r.layout_fingerprint = ""; }),
         "tensors[3].layout_fingerprint: is empty"},
        {"AliasEmpty", tensor(2, [](TensorRow& r) { r.aliases = {""}; }), "tensors[2].aliases[0]: is empty"},
        {"AliasTwice",
         tensor(2,
                [](TensorRow& r) {
                  r.aliases = {"a", "a"};
                }),
         "tensors[2].aliases[1]"},
        {"AliasUnsorted",
         tensor(2,
                [](TensorRow& r) {
                  r.aliases = {"b", "a"};
                }),
         "tensors[2].aliases[1]"},
        {"ShapeNegative", tensor(3, [](TensorRow& r) { r.shape = kNegativeShape; }), "tensors[3].shape[0]: found -1"},
        {"ShapeOverflows", tensor(3, [](TensorRow& r) { r.shape = kHugeShape; }), "tensors[3].shape: size"},
        {"BitsOverflow", tensor(2, [](TensorRow& r) { r.shape = kManyBits; }), "tensors[2]: its size in bits"},
        {"BitsNoBytes", tensor(2, [](TensorRow& r) { r.dtype = "F4", r.shape = kThree; }),
         "tensors[2]: 12 bits of \"F4\""},
        {"BytesDisagree", tensor(4, [](TensorRow& r) { r.place->bytes = 4; }), "tensors[4].bytes: found 4; wanted 8"},
        {"RunUnknown", tensor(4, [](TensorRow& r) { r.place->run = 9; }),
         "tensors[4].run: found 9; wanted less than 4"},
        {"BeyondRun", tensor(4, [](TensorRow& r) { r.place->offset = 2 * limits::kMiB + 4089; }),
         "tensors[4].offset: found 2101241"},
        {"EmptyBeyondRun", tensor(1, [](TensorRow& r) { r.place->offset = 3 * limits::kMiB; }), "tensors[1].offset"},
        {"NoPlace", tensor(4, [](TensorRow& r) { r.place.reset(); }), "tensors[4]: has no place"},
    }),
    [](const testing::TestParamInfo<ValueEdit>& edit) { return edit.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Fragments, ManifestValueRefusal,
    testing::ValuesIn(std::vector<ValueEdit>{
        {"UnknownTensor", [](StoredManifest& m) { m.fragments[2].tensor_id = "cuu"; },
         "fragments[2].tensor_id: no tensor"},
        {"TensorIsWhole", [](StoredManifest& m) { m.fragments[2].tensor_id = "scalar"; },
         "fragments[2].tensor_id: the tensor \"scalar\" is stored whole"},
        {"TensorsUnsorted",
         [](StoredManifest& m) {
           m.fragments[0].tensor_id = "d";
           m.tensors.add({"d", "F32", kSquare, "x", {}, {}, {}, {}});
           m.tensors.sort();
         },
         "fragments[1].tensor_id: \"cut\" follows \"d\""},
        {"OffsetsUnsorted", [](StoredManifest& m) { std::swap(m.fragments[1], m.fragments[2]); },
         "fragments[2].global_offset"},
        {"SameTwice", [](StoredManifest& m) { m.fragments[2] = m.fragments[1]; }, "fragments[2].global_offset"},
        {"Overlap",
         [](StoredManifest& m) {
           m.fragments[1].local_shape = {2, 3};
           m.fragments[1].place.bytes = 24;
         },
         "fragments[2]: overlaps fragments[1] of the tensor \"cut\""},
        {"RankOfOffset", [](StoredManifest& m) { m.fragments[0].global_offset = {0}; },
         "fragments[0].global_offset: found 1; wanted 2"},
        {"RankOfShape",
         [](StoredManifest& m) {
           m.fragments[0].local_shape = {2, 4, 1};
         },
         "fragments[0].local_shape: found 3; wanted 2"},
        {"OffsetNegative", [](StoredManifest& m) { m.fragments[0].global_offset[1] = -1; },
         "fragments[0].global_offset[1]: found -1"},
        {"ExtentZero", [](StoredManifest& m) { m.fragments[0].local_shape[0] = 0; },
         "fragments[0].local_shape[0]: found 0"},
        {"OutsideTensor", [](StoredManifest& m) { m.fragments[1].local_shape[0] = 3; },
         "fragments[1].local_shape[0]: found 3 from 2"},
        {"ExtentOverflows", [](StoredManifest& m) { m.fragments[1].local_shape[0] = INT64_MAX; },
         "fragments[1].local_shape[0]"},
        {"BytesDisagree", [](StoredManifest& m) { m.fragments[1].place.bytes = 15; },
         "fragments[1].bytes: found 15; wanted 16"},
        {"BeyondRun", [](StoredManifest& m) { m.fragments[2].place.offset = 49; }, "fragments[2].offset: found 49"},
        {"RunUnknown", [](StoredManifest& m) { m.fragments[0].place.run = 4; }, "fragments[0].run: found 4"},
    }),
    [](const testing::TestParamInfo<ValueEdit>& edit) { return edit.param.name; });

TEST(ManifestLimits, ATextOverTheLimitIsRefusedUnread) {
  // A page that may not be touched stands for the text.
  constexpr std::size_t kBytes = limits::kManifestBytesMax + 1;
  void* const memory = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto read = read_manifest({static_cast<const char*>(memory), kBytes});
  munmap(memory, kBytes);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.code(), Code::kCorrupt);
  EXPECT_NE(read.status().message().find("1073741825 bytes; wanted at most 1073741824"), std::string::npos);
}

TEST(ManifestLimits, TooManyTensors) {
  StoredManifest manifest = samples::smallest();
  TensorRow row{"", "U8", kThree, "row-major", TensorPlace{0, 0, 3}, {}, {}, {}};
  std::string id(8, '0');
  for (std::uint64_t i = 0; i <= limits::kManifestTensorsMax; ++i) {
    for (std::uint64_t k = 8, rest = i; k-- > 0; rest /= 10) id[k] = static_cast<char>('0' + rest % 10);
    row.tensor_id = id;
    manifest.tensors.add(row);
  }
  const auto written = write_manifest(manifest);
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.status().message().find("tensors: found 2097153; wanted at most 2097152"), std::string::npos);
}

TEST(ManifestLimits, TooManyObjects) {
  StoredManifest manifest = samples::smallest();
  manifest.files.clear();
  manifest.runs = {{(limits::kManifestObjectsMax + 1) * limits::kMiB, limits::kMiB, 0,
                    static_cast<std::uint32_t>(limits::kManifestObjectsMax + 1)}};
  ObjectEntry object;
  object.bytes = limits::kMiB;
  object.blocks = {1};
  manifest.objects.assign(limits::kManifestObjectsMax + 1, object);
  const auto written = write_manifest(manifest);
  ASSERT_FALSE(written.ok());
  EXPECT_NE(written.status().message().find("objects: found 1048577; wanted at most 1048576"), std::string::npos);
}

}  // namespace
}  // namespace steelyard::formats
