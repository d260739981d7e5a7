#include "store/import_layout.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace steelyard::store {
namespace {

using formats::FileKind;
using formats::Piece;
using limits::kMiB;

formats::PlannedFile plain_file(const std::string& path, std::uint64_t bytes) {
  return {path, bytes, FileKind::kMetadata, "", std::nullopt};
}

formats::PlannedFile weight_file(const std::string& path, const std::string& component, std::uint64_t header_bytes,
                                 std::uint64_t data_bytes) {
  formats::SafetensorsHeader header;
  header.header_bytes = header_bytes;
  header.data_bytes = data_bytes;
  const std::int64_t shape[] = {static_cast<std::int64_t>(data_bytes)};
  header.tensors.add({"w", "U8", shape, "row-major", formats::TensorPlace{0, 0, data_bytes}, {}, {}, {}});
  return {path, header_bytes + data_bytes, FileKind::kWeight, component, std::move(header)};
}

formats::CheckpointPlan plan_of(std::vector<formats::PlannedFile> files) {
  formats::CheckpointPlan plan;
  plan.files = std::move(files);
  return plan;
}

TEST(ImportLayout, WeightFileIsAHeaderRunAndADataRun) {
  std::vector<formats::PlannedFile> files;
  files.push_back(weight_file("model.safetensors", "", 72, 2 * kMiB + 5));
  formats::CheckpointPlan plan = plan_of(std::move(files));
  const ImportLayout layout = lay_out(plan, kMiB).value();

  EXPECT_EQ(layout.runs, (std::vector<formats::Run>{{72, kMiB, 0, 1}, {2 * kMiB + 5, kMiB, 1, 3}}));
  EXPECT_EQ(layout.pieces[0], (std::vector<Piece>{{0, 0, 72}, {1, 0, 2 * kMiB + 5}}));
  ASSERT_EQ(layout.objects.size(), 4U);
  EXPECT_EQ(layout.objects[3].file_offset, 72 + 2 * kMiB);
  EXPECT_EQ(layout.objects[3].bytes, 5U);
  EXPECT_EQ(layout.object_bytes_max, kMiB);
  ASSERT_EQ(layout.tensors.size(), 1U);
  EXPECT_EQ(layout.tensors.row(0).place, (formats::TensorPlace{1, 0, 2 * kMiB + 5}));
}

TEST(ImportLayout, EmptyFileHasNoRunAndKeepsItsPlace) {
  formats::CheckpointPlan plan = plan_of({plain_file("a.json", 3), plain_file("b.json", 0), plain_file("c.json", 4)});
  const ImportLayout layout = lay_out(plan, kMiB).value();
  EXPECT_EQ(layout.runs.size(), 2U);
  EXPECT_TRUE(layout.pieces[1].empty());
  EXPECT_EQ(layout.files[1].objects, 0U);
  EXPECT_EQ(layout.pieces[2], (std::vector<Piece>{{1, 0, 4}}));
}

TEST(ImportLayout, WeightFileWithoutDataPutsItsEmptyTensorsAtTheEndOfTheHeader) {
  std::vector<formats::PlannedFile> files;
  files.push_back(weight_file("empty.safetensors", "", 80, 0));
  formats::CheckpointPlan plan = plan_of(std::move(files));
  const ImportLayout layout = lay_out(plan, kMiB).value();
  EXPECT_EQ(layout.runs.size(), 1U);
  EXPECT_EQ(layout.tensors.row(0).place, (formats::TensorPlace{0, 80, 0}));
}

TEST(ImportLayout, TensorsOfAComponentCarryItsFolder) {
  std::vector<formats::PlannedFile> files;
  files.push_back(weight_file("model.safetensors", "", 8, 16));
  files.push_back(weight_file("unet/model.safetensors", "unet/", 8, 16));
  formats::CheckpointPlan plan = plan_of(std::move(files));
  const ImportLayout layout = lay_out(plan, kMiB).value();
  EXPECT_EQ(layout.tensors.row(0).tensor_id, "unet/w");
  EXPECT_EQ(layout.tensors.row(1).tensor_id, "w");
}

TEST(ImportLayout, TooManyObjectsNameTheNextStep) {
  formats::CheckpointPlan plan = plan_of({plain_file("big.bin", (limits::kManifestObjectsMax + 1) * kMiB)});
  const auto layout = lay_out(plan, kMiB);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.code(), Code::kInvalidArgument);
  EXPECT_NE(layout.status().hint().find("--chunk-size"), std::string::npos);
}

}  // namespace
}  // namespace steelyard::store
