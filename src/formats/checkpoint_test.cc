#include "formats/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "formats/safetensors_test_support.h"

namespace steelyard::formats {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9904129368\n";

/// A source in memory.
class Checkpoint : public ::testing::Test {
 protected:
  void put(const std::string& path, std::string content = "x") { files_[path] = std::move(content); }
  void put_shard(const std::string& path, const std::vector<std::string>& tensors) {
    std::vector<TestTensor> rows;
    for (const std::string& name : tensors) rows.push_back({name, "U8", {2}, 2});
    put(path, test_file(rows));
  }
  void put_index(const std::string& path, const std::vector<std::pair<std::string, std::string>>& weight_map) {
    std::string map;
    for (const auto& [tensor, shard] : weight_map) {
      map.append(fmt::format("{}{}:{}", map.empty() ? "" : ",", json_text(tensor), json_text(shard)));
    }
    put(path, fmt::format(R"({{"metadata":{{"total_size":4}},"weight_map":{{{}}}}})", map));
  }
  void put_three_shards() {
    put_shard("model-00001-of-00003.safetensors", {"a"});
    put_shard("model-00002-of-00003.safetensors", {"b"});
    put_shard("model-00003-of-00003.safetensors", {"c"});
    put_index("model.safetensors.index.json", {{"a", "model-00001-of-00003.safetensors"},
                                               {"b", "model-00002-of-00003.safetensors"},
                                               {"c", "model-00003-of-00003.safetensors"}});
  }

  Result<CheckpointPlan> plan() {
    std::vector<SourceFile> listing;
    for (const auto& [path, content] : files_) listing.push_back({path, content.size()});
    return plan_checkpoint(
        listing,
        [this](const std::string& path, std::uint64_t offset, std::uint64_t bytes) -> Result<std::string> {
          read_.push_back(path);
          return files_.at(path).substr(offset, bytes);
        },
        options_);
  }
  CheckpointPlan good_plan() {
    auto planned = plan();
    EXPECT_TRUE(planned.ok()) << planned.status().to_string();
    return planned.ok() ? std::move(*planned) : CheckpointPlan();
  }
  Status refusal() {
    const auto planned = plan();
    EXPECT_FALSE(planned.ok());
    return planned.status();
  }

  static std::vector<std::string> paths(const CheckpointPlan& plan) {
    std::vector<std::string> paths;
    for (const PlannedFile& file : plan.files) paths.push_back(file.path);
    return paths;
  }
  static std::vector<std::string> skipped(const CheckpointPlan& plan) {
    std::vector<std::string> paths;
    for (const SkippedFile& file : plan.skipped) paths.push_back(file.path);
    return paths;
  }
  static std::vector<std::string> tensors(const CheckpointPlan& plan) {
    std::vector<std::string> ids;
    for (const PlannedFile& file : plan.files) {
      for (std::size_t i = 0; file.header && i < file.header->tensors.size(); ++i) {
        ids.push_back(file.component + std::string(file.header->tensors.tensor_id(i)));
      }
    }
    return ids;
  }

  std::map<std::string, std::string> files_;
  std::vector<std::string> read_;
  CheckpointOptions options_;
};

TEST_F(Checkpoint, PlainFolder) {
  put_shard("model.safetensors", {"a", "b"});
  put("config.json", "{}");
  put(".gitattributes");
  put("deep/er/notes.txt", "");
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre(".gitattributes", "config.json", "deep/er/notes.txt", "model.safetensors"));
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b"));
  EXPECT_EQ(plan.files[1].kind, FileKind::kMetadata);
  EXPECT_EQ(plan.files[3].kind, FileKind::kWeight);
  EXPECT_EQ(plan.logical_bytes, 1 + 2 + files_["model.safetensors"].size());
  EXPECT_THAT(plan.warnings, IsEmpty());
  EXPECT_THAT(plan.skipped, IsEmpty());
}

TEST_F(Checkpoint, GitAndHubCacheAreNeitherTakenNorListed) {
  put_shard("model.safetensors", {"a"});
  put(".git/config");
  put(".cache/huggingface/download/x.lock");
  put(".cache/other");
  options_.include = {"*"};
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre(".cache/other", "model.safetensors"));
  EXPECT_THAT(plan.skipped, IsEmpty());
}

TEST_F(Checkpoint, ShardsAndIndex) {
  put_three_shards();
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST_F(Checkpoint, MissingShardsAreListedByBaseName) {
  put_three_shards();
  files_.erase("model-00002-of-00003.safetensors");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors.index.json: 1 of the 3 shards that it names is missing: "
                                          "model-00002-of-00003.safetensors"));
  EXPECT_THAT(status.hint(), HasSubstr("--ignore-index"));
}

TEST_F(Checkpoint, MissingShardIsFoundByNumberWithoutAnIndex) {
  put_three_shards();
  files_.erase("model-00002-of-00003.safetensors");
  files_.erase("model.safetensors.index.json");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("1 of the 3 files model-*-of-00003.safetensors are not there: "
                                          "model-00002-of-00003.safetensors"));
}

TEST_F(Checkpoint, MissingShardIsFoundByNumberInOtherFormats) {
  put("pytorch_model-00001-of-00002.bin");
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  put("pytorch_model-00002-of-00002.bin");
  EXPECT_TRUE(plan().ok());
}

TEST_F(Checkpoint, IgnoreIndexDoesNotForgiveAMissingNumber) {
  put_three_shards();
  files_.erase("model-00003-of-00003.safetensors");
  options_.ignore_index = true;
  EXPECT_THAT(refusal().message(), HasSubstr("model-00003-of-00003.safetensors"));
}

TEST_F(Checkpoint, ShardLeftOutByAGlobIsRefusedAndNamed) {
  put_three_shards();
  options_.exclude = {"*00002*"};
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("left out by --include or --exclude: model-00002-of-00003.safetensors"));
  options_.ignore_index = true;
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "c"));
  EXPECT_THAT(plan.warnings, Contains(HasSubstr("model-00002-of-00003.safetensors (left out")));
}

TEST_F(Checkpoint, ShardThatLacksATensorOfTheIndex) {
  put_three_shards();
  put_shard("model-00002-of-00003.safetensors", {"other"});
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors.index.json places tensor b in "
                                          "model-00002-of-00003.safetensors, which lacks it"));
  EXPECT_THAT(status.hint(), HasSubstr("--ignore-index"));
}

TEST_F(Checkpoint, TensorsThatTheIndexDoesNotKnowAreKept) {
  put_three_shards();
  put_shard("model-00002-of-00003.safetensors", {"b", "extra"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "extra", "c"));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("1 tensor that the index does not name (first extra); kept")));
}

TEST_F(Checkpoint, ACopyOfATensorInAnotherShardGivesWayToTheIndex) {
  put_three_shards();
  put_shard("model-00002-of-00003.safetensors", {"a", "b"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("takes from another shard (first a)")));
}

TEST_F(Checkpoint, ATensorUnknownToTheIndexInTwoShardsIsRefused) {
  put_three_shards();
  put_shard("model-00002-of-00003.safetensors", {"b", "x"});
  put_shard("model-00003-of-00003.safetensors", {"c", "x"});
  EXPECT_THAT(refusal().message(), HasSubstr("tensor x is in two files"));
}

TEST_F(Checkpoint, StaleIndexThatNamesNothing) {
  put_shard("model.safetensors", {"a"});
  put_index("model.safetensors.index.json", {{"a", "old-00001-of-00001.safetensors"}});
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("so none is there: old-00001-of-00001.safetensors"));
  EXPECT_THAT(status.hint(), HasSubstr("--ignore-index"));
  options_.ignore_index = true;
  EXPECT_THAT(paths(good_plan()), ElementsAre("model.safetensors", "model.safetensors.index.json"));
}

TEST_F(Checkpoint, AnIndexThatNamesNoTensorIsNoAuthority) {
  put_shard("model.safetensors", {"a", "b"});
  put_index("model.safetensors.index.json", {});
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("model.safetensors.index.json: weight_map names no tensor, but "
                                          "model.safetensors holds 2"));
  EXPECT_THAT(status.hint(), HasSubstr("--ignore-index"));
  put_shard("model.safetensors", {});
  EXPECT_TRUE(plan().ok());
}

TEST_F(Checkpoint, AnyIndexNameCounts) {
  put_shard("consolidated-1.safetensors", {"a"});
  put_shard("stray.safetensors", {"q"});
  put_index("consolidated.safetensors.index.json", {{"a", "consolidated-1.safetensors"}});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a"));
}

TEST_F(Checkpoint, StrayFileIsKeptWithoutTensors) {
  put_three_shards();
  put_shard("adapter.safetensors", {"lora"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), Contains("adapter.safetensors"));
  EXPECT_EQ(plan.files[0].path, "adapter.safetensors");
  EXPECT_EQ(plan.files[0].kind, FileKind::kWeight);
  EXPECT_FALSE(plan.files[0].header.has_value());
  EXPECT_THAT(plan.warnings,
              ElementsAre("adapter.safetensors: model.safetensors.index.json does not name it; kept as a "
                          "weight file without tensors"));
}

TEST_F(Checkpoint, ConsolidatedDoubleBesideAnIndexIsSkipped) {
  put_three_shards();
  put_shard("consolidated.safetensors", {"a", "b", "c"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  ASSERT_THAT(skipped(plan), ElementsAre("consolidated.safetensors"));
  EXPECT_EQ(plan.skipped[0].bytes, files_["consolidated.safetensors"].size());
  EXPECT_THAT(plan.skipped[0].reason, HasSubstr("--include '*' takes everything"));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("consolidated.safetensors: it holds tensors that "
                                                   "model.safetensors.index.json takes from")));
}

TEST_F(Checkpoint, ADoubleAskedForByNameIsKeptWithoutTensors) {
  put_three_shards();
  put_shard("consolidated.safetensors", {"a", "b", "c"});
  options_.include = {"*"};
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), Contains("consolidated.safetensors"));
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  EXPECT_THAT(plan.warnings, Contains(HasSubstr("kept as a weight file without tensors")));
}

TEST_F(Checkpoint, ConsolidatedDoubleWithoutAnIndexIsSkipped) {
  put_three_shards();
  files_.erase("model.safetensors.index.json");
  put_shard("consolidated-00001-of-00002.safetensors", {"a", "b"});
  put_shard("consolidated-00002-of-00002.safetensors", {"c"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  EXPECT_THAT(skipped(plan),
              ElementsAre("consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"));
  EXPECT_THAT(plan.warnings, Contains(HasSubstr("it is a double of the tensors in model-00001-of-00003.safetensors")));
}

TEST_F(Checkpoint, ConsolidatedWithOtherNamesIsNoDouble) {
  put_shard("model.safetensors", {"a"});
  put_shard("consolidated.safetensors", {"layers.0.a"});
  EXPECT_THAT(tensors(good_plan()), ElementsAre("layers.0.a", "a"));
}

TEST_F(Checkpoint, TheSameTensorInTwoFilesIsRefusedNamingBoth) {
  put_shard("model.safetensors", {"a", "b"});
  put_shard("other.safetensors", {"z", "b"});
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("tensor b is in two files of the root folder: model.safetensors and "
                                          "other.safetensors"));
  EXPECT_THAT(status.hint(), HasSubstr("--exclude 'other.safetensors'"));
}

TEST_F(Checkpoint, AVariantBesideThePlainFileKeepsItsBytesOnly) {
  put_shard("model.safetensors", {"a", "b"});
  put_shard("model.fp16.safetensors", {"a", "b"});
  put_shard("model.non_ema.fp16.safetensors", {"b"});
  put_shard("unet/diffusion_pytorch_model.safetensors", {"c"});
  put_shard("unet/diffusion_pytorch_model.bf16.safetensors", {"c"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan),
              ElementsAre("model.fp16.safetensors", "model.non_ema.fp16.safetensors", "model.safetensors",
                          "unet/diffusion_pytorch_model.bf16.safetensors", "unet/diffusion_pytorch_model.safetensors"));
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "unet/c"));
  EXPECT_FALSE(plan.files[0].header.has_value());
  EXPECT_EQ(plan.files[0].kind, FileKind::kWeight);
  EXPECT_THAT(plan.skipped, IsEmpty());
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("the tensors are taken from model.safetensors; the same ones are in "
                                                   "model.fp16.safetensors, model.non_ema.fp16.safetensors, kept"),
                                         HasSubstr("unet/diffusion_pytorch_model.bf16.safetensors")));
}

TEST_F(Checkpoint, ThePlainFileMayBeLeftOutForAVariant) {
  put_shard("model.safetensors", {"a"});
  put_shard("model.fp16.safetensors", {"a"});
  options_.exclude = {"model.safetensors"};
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre("model.fp16.safetensors"));
  EXPECT_THAT(tensors(plan), ElementsAre("a"));
}

TEST_F(Checkpoint, AVariantAloneIsTheWeights) {
  put_shard("model.fp16-00001-of-00002.safetensors", {"a"});
  put_shard("model.fp16-00002-of-00002.safetensors", {"b"});
  put_index("model.safetensors.index.fp16.json",
            {{"a", "model.fp16-00001-of-00002.safetensors"}, {"b", "model.fp16-00002-of-00002.safetensors"}});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b"));
  EXPECT_THAT(plan.warnings, IsEmpty());
  files_.erase("model.fp16-00002-of-00002.safetensors");
  EXPECT_THAT(refusal().message(), HasSubstr("model.safetensors.index.fp16.json: 1 of the 2 shards"));
}

TEST_F(Checkpoint, ShardedVariantsOfAShardedSet) {
  put_three_shards();
  // The three spellings of shards, and the two of indexes, that are in use.
  put_shard("model.fp16-00001-of-00002.safetensors", {"a", "b"});
  put_shard("model.fp16-00002-of-00002.safetensors", {"c"});
  put_index("model.safetensors.index.fp16.json", {{"a", "model.fp16-00001-of-00002.safetensors"},
                                                  {"b", "model.fp16-00001-of-00002.safetensors"},
                                                  {"c", "model.fp16-00002-of-00002.safetensors"}});
  put_shard("model-00001-of-00001.bf16.safetensors", {"a", "b", "c"});
  put_index("model.bf16.safetensors.index.json", {{"a", "model-00001-of-00001.bf16.safetensors"},
                                                  {"b", "model-00001-of-00001.bf16.safetensors"},
                                                  {"c", "model-00001-of-00001.bf16.safetensors"}});
  put_shard("model.int8.safetensors", {"a", "b", "c"});
  const CheckpointPlan plan = good_plan();
  EXPECT_EQ(plan.files.size(), files_.size());
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  for (const PlannedFile& file : plan.files) {
    EXPECT_EQ(file.header.has_value(), file.path.ends_with("-of-00003.safetensors")) << file.path;
  }
  EXPECT_THAT(plan.warnings,
              ElementsAre(HasSubstr("the tensors are taken from model.safetensors.index.json; the same ones are in "
                                    "model.bf16.safetensors.index.json, model.safetensors.index.fp16.json, "
                                    "model.int8.safetensors, kept")));
}

TEST_F(Checkpoint, AShardedVariantOfOneFile) {
  put_shard("model.safetensors", {"a", "b"});
  put_shard("model-00001-of-00002.fp32.safetensors", {"a"});
  put_shard("model-00002-of-00002.fp32.safetensors", {"b"});
  EXPECT_THAT(tensors(good_plan()), ElementsAre("a", "b"));
  EXPECT_TRUE(good_plan().files[2].header.has_value());
  put_index("model.fp32.safetensors.index.json",
            {{"a", "model-00001-of-00002.fp32.safetensors"}, {"b", "model-00002-of-00002.fp32.safetensors"}});
  CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b"));
  EXPECT_EQ(plan.files.size(), files_.size());
  files_.erase("model-00001-of-00002.fp32.safetensors");
  EXPECT_THAT(refusal().message(), HasSubstr("missing: model-00001-of-00002.fp32.safetensors"));
  // Of a variant that was not fetched only the index may be there.
  files_.erase("model-00002-of-00002.fp32.safetensors");
  plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b"));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("(none of its shards is there)")));
}

TEST_F(Checkpoint, AMissingShardOfAVariantIsFoundByNumber) {
  put_shard("model.safetensors", {"a", "b"});
  put_shard("model-00001-of-00002.fp16.safetensors", {"a"});
  EXPECT_THAT(refusal().message(), HasSubstr("are not there: model-00002-of-00002.fp16.safetensors"));
}

TEST_F(Checkpoint, AVariantByNameWithOtherTensorsIsNoDouble) {
  put_shard("model.safetensors", {"a"});
  put_shard("model.extra.safetensors", {"b"});
  EXPECT_THAT(tensors(good_plan()), ElementsAre("b", "a"));
}

TEST_F(Checkpoint, TwoVariantsWithoutAPlainSetAreRefused) {
  put_shard("model.bf16.safetensors", {"a"});
  put_shard("model.fp16.safetensors", {"a"});
  const Status status = refusal();
  EXPECT_THAT(status.message(), HasSubstr("model.bf16.safetensors and model.fp16.safetensors"));
  EXPECT_THAT(status.hint(), HasSubstr("--exclude"));
}

TEST_F(Checkpoint, AConsolidatedDoubleBesideAVariant) {
  put_shard("model.safetensors", {"a"});
  put_shard("model.fp16.safetensors", {"a"});
  put_shard("consolidated.safetensors", {"a"});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre("model.fp16.safetensors", "model.safetensors"));
  EXPECT_THAT(tensors(plan), ElementsAre("a"));
  EXPECT_THAT(skipped(plan), ElementsAre("consolidated.safetensors"));
}

TEST_F(Checkpoint, OfTwoIndexesOfTheSameTensorsOneIsChosen) {
  put_three_shards();
  put_shard("consolidated-1.safetensors", {"a", "b", "c"});
  put_index(
      "consolidated.safetensors.index.json",
      {{"a", "consolidated-1.safetensors"}, {"b", "consolidated-1.safetensors"}, {"c", "consolidated-1.safetensors"}});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  EXPECT_THAT(skipped(plan), ElementsAre("consolidated-1.safetensors", "consolidated.safetensors.index.json"));
  EXPECT_EQ(plan.skipped[1].bytes, files_["consolidated.safetensors.index.json"].size());
  EXPECT_THAT(plan.warnings, Contains(HasSubstr("model.safetensors.index.json is chosen")));
  options_.exclude = {"model.safetensors.index.json"};
  EXPECT_THAT(skipped(good_plan()), Contains("model-00001-of-00003.safetensors"));
}

TEST_F(Checkpoint, IndexThatNamesNothingGivesWayToOneThatDoes) {
  put_three_shards();
  put_index("consolidated.safetensors.index.json", {{"a", "consolidated-1.safetensors"}});
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("none of the 1 shards that it names is there")));
}

TEST_F(Checkpoint, OtherFormatsAreSkippedBesideACompleteSet) {
  put_shard("model.safetensors", {"a"});
  put("pytorch_model.bin", std::string(10, 'x'));
  put("onnx/model.onnx", std::string(20, 'x'));
  put("original/consolidated.00.pth", std::string(30, 'x'));
  put("original/params.json", std::string(3, 'x'));
  put("metal/model.bin", std::string(40, 'x'));
  put("tokenizer.json");
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre("model.safetensors", "tokenizer.json"));
  ASSERT_THAT(skipped(plan), ElementsAre("metal", "onnx/model.onnx", "original", "pytorch_model.bin"));
  EXPECT_EQ(plan.skipped[2].bytes, 33U);
  EXPECT_THAT(plan.skipped[2].reason, HasSubstr("--include '*'"));
  EXPECT_EQ(plan.skipped[3].bytes, 10U);
  EXPECT_THAT(plan.skipped[3].reason, HasSubstr("--include '*'"));
  EXPECT_THAT(plan.skipped[1].reason, HasSubstr("the folder onnx itself has none"));
  EXPECT_THAT(plan.skipped[3].reason, Not(HasSubstr("itself has none")));
  EXPECT_THAT(plan.warnings, IsEmpty());
}

TEST_F(Checkpoint, SkippedTrainingStateIsNamedInOneWarning) {
  put_shard("model.safetensors", {"a"});
  put("optimizer.pt", std::string(1000, 'x'));
  put("rng_state_0.pth", std::string(10, 'x'));
  put("global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", std::string(13, 'x'));
  put("global_step5/zero_pp_rank_0_mp_rank_00_model_states.pt", "x");
  put("trainer_state.json", "{}");
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre("model.safetensors", "trainer_state.json"));
  ASSERT_EQ(plan.skipped.size(), 4U);
  for (const SkippedFile& file : plan.skipped) EXPECT_THAT(file.reason, HasSubstr("state of a training run"));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("optimizer.pt and 1 more (1KiB); --include '*' takes everything")));
  options_.include = {"*"};
  EXPECT_THAT(skipped(good_plan()), IsEmpty());
  EXPECT_THAT(good_plan().warnings, IsEmpty());
}

/// What the reason of a skipped double promises.
TEST_F(Checkpoint, IncludingEverythingTakesDoublesToo) {
  put_three_shards();
  put_shard("consolidated-1.safetensors", {"a", "b", "c"});
  put_index(
      "consolidated.safetensors.index.json",
      {{"a", "consolidated-1.safetensors"}, {"b", "consolidated-1.safetensors"}, {"c", "consolidated-1.safetensors"}});
  for (const SkippedFile& file : good_plan().skipped) {
    EXPECT_THAT(file.reason, HasSubstr("--include '*' takes everything")) << file.path;
  }
  options_.include = {"*"};
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(skipped(plan), IsEmpty());
  EXPECT_EQ(plan.files.size(), files_.size());
  EXPECT_THAT(tensors(plan), ElementsAre("a", "b", "c"));
}

TEST_F(Checkpoint, OtherFormatsAreTakenWithoutASafetensorsSetInTheRoot) {
  put("pytorch_model.bin");
  put("original/x.pth");
  put_shard("sub/model.safetensors", {"a"});
  EXPECT_THAT(paths(good_plan()), ElementsAre("original/x.pth", "pytorch_model.bin", "sub/model.safetensors"));
}

TEST_F(Checkpoint, IncludeTakesWhatItNamesAndNothingElse) {
  put_shard("model.safetensors", {"a"});
  put("pytorch_model.bin");
  put("original/x.pth");
  put("config.json");
  options_.include = {"*.bin", "original/*", "config.json"};
  options_.exclude = {"config*"};
  const CheckpointPlan plan = good_plan();
  EXPECT_THAT(paths(plan), ElementsAre("original/x.pth", "pytorch_model.bin"));
  ASSERT_THAT(skipped(plan), ElementsAre("config.json", "model.safetensors"));
  EXPECT_EQ(plan.skipped[0].reason, "left out by --exclude");
  EXPECT_EQ(plan.skipped[1].reason, "not named by --include");
}

TEST_F(Checkpoint, APatternThatMatchesNothingIsWarnedOf) {
  put("a.bin");
  options_.exclude = {"*.bni"};
  EXPECT_THAT(good_plan().warnings, ElementsAre("--exclude '*.bni' matches no file of the source"));
}

TEST_F(Checkpoint, ComponentsNameTheirTensorsByFolder) {
  put_shard("model.safetensors", {"w"});
  put_shard("1_Pooling/model.safetensors", {"w"});
  put_shard("unet/deep/part-00001-of-00001.safetensors", {"w"});
  put_index("unet/deep/part.safetensors.index.json", {{"w", "part-00001-of-00001.safetensors"}});
  EXPECT_THAT(tensors(good_plan()), ElementsAre("1_Pooling/w", "w", "unet/deep/w"));
}

TEST_F(Checkpoint, ARootTensorNamedLikeAComponentsIsRefused) {
  put_shard("model.safetensors", {"sub/w"});
  put_shard("sub/model.safetensors", {"w"});
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(),
              HasSubstr("duplicate tensor name sub/w: in model.safetensors and in sub/model.safetensors"));
}

TEST_F(Checkpoint, EveryPointerFileIsNamedWithItsSize) {
  for (int i = 1; i <= 15; ++i) put_shard(fmt::format("model-{:05}-of-00015.safetensors", i), {fmt::format("t{}", i)});
  put("model-00004-of-00015.safetensors", kPointer);
  put("model-00007-of-00015.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 77\n");
  put("tokenizer.json", kPointer);
  put("NOTES.md", "version https://git-lfs is how pointer files begin\n");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("3 git-lfs pointer files"));
  EXPECT_THAT(status.message(), HasSubstr("model-00004-of-00015.safetensors (75 bytes, stands for 9904129368)"));
  EXPECT_THAT(status.message(), HasSubstr("model-00007-of-00015.safetensors (65 bytes, stands for 77)"));
  EXPECT_THAT(status.message(), HasSubstr("tokenizer.json"));
  EXPECT_THAT(status.message(), Not(HasSubstr("NOTES.md")));
  EXPECT_THAT(status.hint(), HasSubstr("git lfs pull"));
}

TEST_F(Checkpoint, APointerInTheIndexsPlaceIsNamedToo) {
  put_shard("model.safetensors", {"a"});
  put("model.safetensors.index.json", kPointer);
  EXPECT_THAT(refusal().hint(), HasSubstr("git lfs pull"));
}

TEST_F(Checkpoint, ASkippedPointerIsNoObstacle) {
  put_shard("model.safetensors", {"a"});
  put("pytorch_model.bin", kPointer);
  EXPECT_THAT(skipped(good_plan()), ElementsAre("pytorch_model.bin"));
}

TEST_F(Checkpoint, TruncatedShardNamesFileAndSizes) {
  put_three_shards();
  std::string& shard = files_["model-00002-of-00003.safetensors"];
  const std::size_t whole = shard.size();
  shard.pop_back();
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr(fmt::format("model-00002-of-00003.safetensors: the file has {} bytes; its "
                                                      "header promises {}",
                                                      whole - 1, whole)));
  for (const std::size_t bytes : {whole / 2, std::size_t{7}, std::size_t{0}}) {
    shard.resize(bytes);
    EXPECT_THAT(refusal().message(), HasSubstr("model-00002-of-00003.safetensors"));
  }
}

TEST_F(Checkpoint, HeaderAndIndexOverTheLimit) {
  put_three_shards();
  options_.header_limit = 50;
  const Status index = refusal();
  EXPECT_EQ(index.code(), Code::kCorrupt);
  EXPECT_THAT(index.message(), HasSubstr("the limit is 50"));
  EXPECT_THAT(index.hint(), HasSubstr("--header-limit"));
  options_.ignore_index = true;
  EXPECT_THAT(refusal().message(), HasSubstr("model-00001-of-00003.safetensors: its header has "));
}

TEST_F(Checkpoint, IndexValuesThatLeaveTheFolder) {
  const std::vector<std::pair<std::string, std::string>> attacks = {
      {"../../x.safetensors", "has the part \"..\""},
      {"/etc/x.safetensors", "is absolute"},
      {"", "is empty"},
      {"a//b.safetensors", "has an empty part"},
      {"./a.safetensors", "has the part \".\""},
      {std::string("a\0.safetensors", 14), "has a NUL byte"},
      {"sub/a.safetensors", "lies in another folder"},
      {"pytorch_model.bin", "is no .safetensors file"}};
  put_shard("model.safetensors", {"a"});
  for (const auto& [shard, fault] : attacks) {
    put_index("model.safetensors.index.json", {{"a", shard}});
    const Status status = refusal();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr(fault)) << shard;
    EXPECT_THAT(status.message(), HasSubstr("places tensor a"));
  }
}

TEST_F(Checkpoint, IndexesThatAreNone) {
  put_shard("model.safetensors", {"a"});
  const std::vector<std::pair<std::string, std::string>> attacks = {
      {"", "bad JSON at byte 0"},
      {"[]", "bad JSON at byte 0"},
      {"{}", "it has no weight_map"},
      {R"({"weight_map":[]})", "weight_map begins with '['"},
      {R"({"weight_map":{"a":1}})", "gives tensor a a value beginning with '1'"},
      {R"({"weight_map":{},"weight_map":{}})", "it has weight_map twice"},
      {R"({"weight_map":{"a":"model.safetensors","a":"model.safetensors"}})", "names the tensor a twice"},
      {R"({"weight_map":{}} x)", "wanted nothing more, found 'x'"},
      {R"({"metadata":{"x":01},"weight_map":{}})", "leading zero"},
      {R"({"metadata":)" + std::string(5000, '['), "more than 128 levels"},
      {"{\"\xff\":1}", "bad UTF-8"}};
  for (const auto& [text, expected] : attacks) {
    put("model.safetensors.index.json", text);
    const Status status = refusal();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr(expected)) << text;
    EXPECT_THAT(status.message(), HasSubstr("model.safetensors.index.json: "));
  }
}

TEST_F(Checkpoint, NoWeightFileAndNoFile) {
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  options_.allow_empty = true;
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  put("config.json");
  EXPECT_THAT(paths(good_plan()), ElementsAre("config.json"));
  options_.allow_empty = false;
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.hint(), HasSubstr("--allow-empty"));
}

TEST_F(Checkpoint, PathsThatAFolderCannotHold) {
  put("a.bin");
  put("a.bin/b");
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  EXPECT_THAT(refusal().message(), HasSubstr("a.bin is a file and, by a.bin/b, a folder"));
  files_.clear();
  put("../a.bin");
  EXPECT_THAT(refusal().message(), HasSubstr("has the part \"..\""));
}

TEST_F(Checkpoint, SingleFile) {
  put_shard("x.safetensors", {"a"});
  EXPECT_THAT(tensors(good_plan()), ElementsAre("a"));
}

TEST_F(Checkpoint, AReadersErrorComesThrough) {
  options_ = {};
  const auto planned = plan_checkpoint(
      {{"a.safetensors", 100}},
      [](const std::string& path, std::uint64_t, std::uint64_t) -> Result<std::string> {
        return Status(Code::kUnavailable, "read " + path + ": broken disk");
      },
      options_);
  EXPECT_EQ(planned.status().to_string(), "UNAVAILABLE: read a.safetensors: broken disk");
}

}  // namespace
}  // namespace steelyard::formats
