// What is accepted: golden bytes, round trips, mutations. Refusals: manifest_refusals_test.cc.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "formats/manifest_fields.h"
#include "formats/manifest_test_samples.h"
#include "formats/stored_manifest.h"
#include "hash/sha256.h"

namespace steelyard::formats {
namespace {

std::string golden() {
  std::ifstream in(SY_SOURCE_DIR "/tests/golden/manifest-v1.json", std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Manifest, GoldenBytesOfVersionOneStayForEver) {
  const auto written = write_manifest(samples::everything());
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  EXPECT_EQ(*written, golden());
  EXPECT_EQ(hash::sha256_hex(*written), "03ed18c12eec74551b394c5c5ea15ac0391920b8d939b5e6904d7edb202e2249");
}

TEST(Manifest, GoldenReadsBack) {
  const auto manifest = read_manifest(golden());
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_TRUE(*manifest == samples::everything());
}

TEST(Manifest, AnotherParserSeesTheSameValues) {
  const auto written = write_manifest(samples::everything());
  ASSERT_TRUE(written.ok());
  const auto json = nlohmann::json::parse(*written);
  EXPECT_EQ(json.dump(),
            *written);  // nlohmann sorts keys, writes no spaces and keeps UTF-8; the sample has its escapes
  EXPECT_EQ(json["tensors"][2]["layer_id"], 3);
  EXPECT_EQ(json["tensors"][2]["expert_id"], -1);
  EXPECT_EQ(json["source"]["origin"], samples::everything().source[1].second);
  EXPECT_EQ(json["group_id"], payload_group_id(samples::everything().identity));
  EXPECT_EQ(json["objects"][2]["blocks"], "0123456789abce0f");
}

TEST(Manifest, SmallestRoundTrips) {
  const auto written = write_manifest(samples::smallest());
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  const auto read = read_manifest(*written);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_TRUE(*read == samples::smallest());
}

TEST(Manifest, ARevisionWithoutAnyByteIsLegal) {
  StoredManifest manifest;
  manifest.identity = {{"default", "default", "m", "main"}, 1};
  manifest.files = {samples::file("a", FileKind::kMetadata, {})};
  const auto written = write_manifest(manifest);
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  EXPECT_TRUE(*read_manifest(*written) == manifest);
  EXPECT_EQ(manifest.logical_bytes(), 0U);
}

TEST(Manifest, SlackIsLegalAndCounted) {
  StoredManifest manifest = samples::smallest();
  samples::add_run(manifest, 5 * limits::kMiB + 1, 2 * limits::kMiB);
  const auto written = write_manifest(manifest);
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  EXPECT_TRUE(read_manifest(*written).ok());
  EXPECT_EQ(manifest.logical_bytes(), 5 * limits::kMiB + 4);
}

TEST(Manifest, IdentityIsComparedByTheCaller) {
  const StoredManifest manifest = samples::smallest();
  EXPECT_TRUE(check_manifest_identity(manifest, manifest.identity).ok());
  Identity other = manifest.identity;
  other.weight_generation = 2;
  const Status status = check_manifest_identity(manifest, other);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("found tenant \"default\", namespace \"default\", m@main#1"), std::string::npos);
  EXPECT_NE(status.message().find("m@main#2"), std::string::npos);
}

TEST(Manifest, TimesAtTheEdges) {
  StoredManifest manifest = samples::smallest();
  for (const auto& [ms, text] : {std::pair<std::int64_t, std::string>(0, "1970-01-01T00:00:00.000Z"),
                                 {951'782'400'001, "2000-02-29T00:00:00.001Z"},
                                 {manifest_fields::kCreatedAtMsMax, "9999-12-31T23:59:59.999Z"}}) {
    manifest.created_at_ms = ms;
    const std::string json = write_manifest(manifest).value();
    EXPECT_NE(json.find(text), std::string::npos) << text;
    EXPECT_EQ(read_manifest(json)->created_at_ms, ms);
  }
}

TEST(RangesOf, CutsAtObjects) {
  const formats::Run run{25, 10, 4, 3};
  EXPECT_TRUE(ranges_of(run, 3, 0).empty());
  EXPECT_TRUE(ranges_of(run, 25, 0).empty());
  EXPECT_EQ(ranges_of(run, 0, 10), (std::vector<ObjectRange>{{4, 0, 10}}));
  EXPECT_EQ(ranges_of(run, 9, 2), (std::vector<ObjectRange>{{4, 9, 1}, {5, 0, 1}}));
  EXPECT_EQ(ranges_of(run, 0, 25), (std::vector<ObjectRange>{{4, 0, 10}, {5, 0, 10}, {6, 0, 5}}));
  EXPECT_EQ(ranges_of(run, 20, 5), (std::vector<ObjectRange>{{6, 0, 5}}));
}

TEST(RangesOfDeathTest, BeyondTheRunIsAProgrammersError) {
  const formats::Run run{25, 10, 4, 3};
  EXPECT_DEATH(ranges_of(run, 20, 6), "inside its run");
  EXPECT_DEATH(ranges_of(run, 1, UINT64_MAX), "inside its run");
}

/// Every number of the range is as likely: the generators of rapidcheck prefer small ones while a test is young.
template <typename T>
T pick(T first, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, end));
}

/// A random manifest that satisfies the format.
StoredManifest arbitrary_manifest() {
  const auto count = [](int most) { return pick(0, most + 1); };
  const auto name = [] {
    return *rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(std::vector<std::string>{
                             "a", "b", "\"", "\\", "\n", "\x01", "\x7F", " ", "\xC3\xA9", "\xF0\x9F\x98\x80", "z"})),
                         [](const std::vector<std::string>& parts) {
                           std::string out;
                           for (const std::string& part : parts) out += part;
                           return out;
                         });
  };
  StoredManifest manifest;
  manifest.identity = {{"t", "n", "r", "v"}, pick<std::int64_t>(1, INT64_MAX)};
  manifest.created_at_ms = pick<std::int64_t>(0, manifest_fields::kCreatedAtMsMax + 1);
  manifest.chunk_bytes = limits::kMiB * static_cast<std::uint64_t>(pick(1, 4097));
  std::map<std::string, std::string> source;
  for (int i = count(4); i-- > 0;) source[name()] = name();
  manifest.source.assign(source.begin(), source.end());
  for (int i = count(4); i-- > 0;) {
    samples::add_run(manifest, pick<std::uint64_t>(0, 6 * limits::kMiB),
                     limits::kMiB * static_cast<std::uint64_t>(pick(1, 4)));
  }
  const auto place = [&]() -> Piece {
    const auto run = static_cast<std::uint32_t>(count(static_cast<int>(manifest.runs.size()) - 1));
    const std::uint64_t end = pick<std::uint64_t>(0, manifest.runs[run].bytes + 1);
    const std::uint64_t begin = pick<std::uint64_t>(0, end + 1);
    return {run, begin, end - begin};
  };
  for (int i = 0, n = count(4); i < n; ++i) {
    std::vector<Piece> pieces;
    for (int k = manifest.runs.empty() ? 0 : count(2); k-- > 0;) pieces.push_back(place());
    std::erase_if(pieces, [](const Piece& piece) { return piece.bytes == 0; });
    manifest.files.push_back(
        samples::file("f" + std::to_string(i), count(1) ? FileKind::kWeight : FileKind::kMetadata, std::move(pieces)));
  }
  for (int i = 0, n = manifest.runs.empty() ? 0 : count(5); i < n; ++i) {
    const std::string id = std::to_string(i) + name();
    const Piece piece = place();
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(piece.bytes), 1};
    TensorRow row;
    row.tensor_id = id;
    row.dtype = count(1) ? "U8" : "UNKNOWN_8";
    row.layout_fingerprint = "row-major";
    row.shape = shape;
    row.place = TensorPlace{piece.run, piece.offset, piece.bytes};
    if (count(1)) row.layer_id = *rc::gen::arbitrary<std::int64_t>();
    if (count(1)) row.expert_id = *rc::gen::arbitrary<std::int64_t>();
    if (count(1)) row.aliases = {"x", "y"};
    manifest.tensors.add(row);
  }
  return manifest;
}

RC_GTEST_PROP(Manifest, WriteThenReadGivesTheValue, ()) {
  const StoredManifest manifest = arbitrary_manifest();
  const auto written = write_manifest(manifest);
  if (!written.ok()) RC_FAIL(written.status().to_string());
  const auto read = read_manifest(*written);
  if (!read.ok()) RC_FAIL(read.status().to_string());
  RC_ASSERT(*read == manifest);
  RC_ASSERT(*write_manifest(*read) == *written);
}

/// Whatever the reader takes must be the one spelling of what it read, and a changed text must be a changed value.
void expect_refused_or_canonical(const std::string& text, const StoredManifest& original, const std::string& what) {
  const auto read = read_manifest(text);
  if (!read.ok()) {
    EXPECT_EQ(read.code(), Code::kCorrupt) << what;
    return;
  }
  const auto again = write_manifest(*read);
  ASSERT_TRUE(again.ok()) << what;
  EXPECT_EQ(*again, text) << what;
  EXPECT_FALSE(*read == original) << what;
}

TEST(Manifest, NoChangedByteIsTakenForAnotherSpelling) {
  const std::string text = golden();
  const StoredManifest original = samples::everything();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int flip : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      expect_refused_or_canonical(changed, original, "byte " + std::to_string(i) + " flip " + std::to_string(flip));
    }
  }
}

TEST(Manifest, NoInsertedOrRemovedByteIsTakenForAnotherSpelling) {
  const std::string text = golden();
  const StoredManifest original = samples::everything();
  for (std::size_t i = 0; i <= text.size(); ++i) {
    for (const char c : {' ', '\n', '0', '1', '-', '.', 'e', ',', '"', '\\', '\0', '{', ']', 'a'}) {
      std::string changed = text;
      changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(i), c);
      expect_refused_or_canonical(changed, original, "inserted at " + std::to_string(i));
    }
    if (i == text.size()) continue;
    std::string shorter = text;
    shorter.erase(i, 1);
    expect_refused_or_canonical(shorter, original, "removed at " + std::to_string(i));
    EXPECT_FALSE(read_manifest(std::string_view(text).substr(0, i)).ok()) << "cut at " << i;
  }
}

}  // namespace
}  // namespace steelyard::formats
