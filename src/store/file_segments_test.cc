#include "store/file_segments.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/damage_map.h"

namespace steelyard::store {
namespace {

using formats::ObjectRange;
using limits::kMiB;

/// Header run of 100 bytes (object 0), data run of 2.5 MiB in objects 1..3, and a metadata file in object 4.
formats::StoredManifest sample() {
  formats::StoredManifest manifest;
  manifest.identity = {{"default", "default", "m", "main"}, 1};
  manifest.chunk_bytes = kMiB;
  manifest.runs = {{100, kMiB, 0, 1}, {2 * kMiB + kMiB / 2, kMiB, 1, 3}, {10, kMiB, 4, 1}};
  manifest.objects.resize(5);
  const std::uint64_t sizes[] = {100, kMiB, kMiB, kMiB / 2, 10};
  for (std::size_t i = 0; i < 5; ++i) manifest.objects[i].bytes = sizes[i];
  manifest.files.push_back({"model.safetensors",
                            formats::FileKind::kWeight,
                            100 + 2 * kMiB + kMiB / 2,
                            {},
                            {{0, 0, 100}, {1, 0, 2 * kMiB + kMiB / 2}}});
  manifest.files.push_back({"z.json", formats::FileKind::kMetadata, 10, {}, {{2, 0, 10}}});
  const std::int64_t shape[] = {1};
  const auto add = [&](std::string_view id, std::uint64_t offset, std::uint64_t bytes) {
    manifest.tensors.add({id, "U8", shape, "row-major", formats::TensorPlace{1, offset, bytes}, {}, {}, {}});
  };
  add("a", 0, kMiB - 1);
  add("b", kMiB - 1, 2);
  add("c", kMiB + 1, 100);
  add("d", 2 * kMiB, 100);
  add("none", kMiB, 0);
  return manifest;
}

TEST(FileSegments, WholeFileIsItsObjectsInOrder) {
  const auto manifest = sample();
  EXPECT_EQ(segments_of(manifest, manifest.files[0]),
            (std::vector<ObjectRange>{{0, 0, 100}, {1, 0, kMiB}, {2, 0, kMiB}, {3, 0, kMiB / 2}}));
}

TEST(FileSegments, RangeCrossesPiecesAndObjects) {
  const auto manifest = sample();
  EXPECT_EQ(segments_of(manifest, manifest.files[0], 90, 20 + kMiB),
            (std::vector<ObjectRange>{{0, 90, 10}, {1, 0, kMiB}, {2, 0, 10}}));
  EXPECT_TRUE(segments_of(manifest, manifest.files[0], 90, 0).empty());
}

TEST(FileSegments, FindsFilesByPath) {
  const auto manifest = sample();
  EXPECT_EQ(find_file(manifest, "z.json"), &manifest.files[1]);
  EXPECT_EQ(find_file(manifest, "zz"), nullptr);
}

TEST(DamageMap, NamesEveryTensorThatTouchesTheBadBlock) {
  const auto manifest = sample();
  const Problem problem = describe(manifest, {ProblemKind::kObjectChecksum, 2, 0, "x", "y"});
  EXPECT_EQ(problem.file, "model.safetensors");
  EXPECT_EQ(problem.object, "weights/default/m/main/1/payload/00000002");
  EXPECT_EQ(problem.tensors, (std::vector<std::string>{"b", "c"}));
}

TEST(DamageMap, MissingObjectTouchesAllItHolds) {
  const auto manifest = sample();
  const Problem problem = describe(manifest, {ProblemKind::kMissingObject, 3, std::nullopt, "x", "y"});
  EXPECT_EQ(problem.tensors, (std::vector<std::string>{"d"}));
  EXPECT_EQ(problem.offset, std::nullopt);
  EXPECT_EQ(describe(manifest, {ProblemKind::kMissingObject, 4, std::nullopt, "x", "y"}).file, "z.json");
}

}  // namespace
}  // namespace steelyard::store
