#include "formats/checkpoint_files.h"

#include <gtest/gtest.h>

namespace steelyard::formats {
namespace {

TEST(CheckpointFiles, WeightsBySuffix) {
  for (const char* path :
       {"a.safetensors", "x/y.bin", "a.pt", "a.pth", "a.ckpt", "a.gguf", "onnx/a.onnx", "a.h5", "a.msgpack"}) {
    EXPECT_TRUE(is_weight_file(path)) << path;
  }
  for (const char* path : {"a.json", "a.safetensors.index.json", ".bin", "dir.bin/readme", "a.binary", "safetensors"}) {
    EXPECT_FALSE(is_weight_file(path)) << path;
  }
  EXPECT_TRUE(is_safetensors_index("x/consolidated.safetensors.index.json"));
  EXPECT_TRUE(is_safetensors_index("model.safetensors.index.fp16.json"));
  EXPECT_TRUE(is_safetensors_index("model.fp16.safetensors.index.json"));
  for (const char* path :
       {"pytorch_model.bin.index.json", ".safetensors.index.json", "a.safetensors.index..json",
        "a.safetensors.index.a.b.json", "a.safetensors.index.xjson", "a.safetensors.index.json.bak"}) {
    EXPECT_FALSE(is_safetensors_index(path)) << path;
  }
}

TEST(CheckpointFiles, TrainingState) {
  for (const char* path : {"optimizer.pt", "x/rng_state_3.pth", "scheduler.bin", "scaler.pt", "training_args.bin",
                           "random_states_0.pkl", "global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"}) {
    EXPECT_TRUE(is_training_state(path)) << path;
  }
  for (const char* path : {"pytorch_model.bin", "model.safetensors", "optimizer/model.bin", "onnx/model.onnx"}) {
    EXPECT_FALSE(is_training_state(path)) << path;
  }
}

TEST(CheckpointFiles, TheFlagThatLeavesOutOneFile) {
  EXPECT_EQ(exclude_flag("a b.bin"), "--exclude 'a b.bin'");
  EXPECT_EQ(exclude_flag("it's.bin"), "--exclude 'it'\\''s.bin'");
  EXPECT_EQ(exclude_flag("model[1]*?.bin"), "--exclude 'model[[]1][*][?].bin'");
  EXPECT_TRUE(glob_match("model[[]1][*][?].bin", "model[1]*?.bin"));
  EXPECT_FALSE(glob_match("model[[]1][*][?].bin", "model1xy.bin"));
}

TEST(CheckpointFiles, NeverImported) {
  for (const char* path : {".git", ".git/config", "sub/.git/HEAD", ".cache/huggingface/x", "sub/.cache/huggingface"}) {
    EXPECT_TRUE(is_never_imported(path)) << path;
  }
  for (const char* path : {".gitattributes", ".cache/other", "huggingface/x", ".github/x", "a.git/x", ".hidden"}) {
    EXPECT_FALSE(is_never_imported(path)) << path;
  }
}

TEST(CheckpointFiles, PathFaults) {
  EXPECT_EQ(path_fault("a/b c/é.bin"), "");
  EXPECT_EQ(path_fault(""), "is empty");
  EXPECT_EQ(path_fault("/a"), "is absolute");
  EXPECT_EQ(path_fault("../../x"), "has the part \"..\"");
  EXPECT_EQ(path_fault("a/.."), "has the part \"..\"");
  EXPECT_EQ(path_fault("./a"), "has the part \".\"");
  EXPECT_EQ(path_fault("a//b"), "has an empty part");
  EXPECT_EQ(path_fault("a/"), "has an empty part");
  EXPECT_EQ(path_fault(std::string_view("a\0b", 3)), "has a NUL byte");
  EXPECT_EQ(path_fault("a\xff"), "is not UTF-8");
  EXPECT_EQ(path_fault("..."), "");
}

TEST(Glob, MatchesAsInAShellButCrossesFolders) {
  EXPECT_TRUE(glob_match("*.bin", "a/b/c.bin"));
  EXPECT_TRUE(glob_match("original/*", "original/x/y.pth"));
  EXPECT_TRUE(glob_match("original/", "original/x/y.pth"));
  EXPECT_TRUE(glob_match("./a.txt", "a.txt"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(glob_match("a*b*c", "aXbYbZ"));
  EXPECT_FALSE(glob_match("a.bin", "x/a.bin"));
  EXPECT_FALSE(glob_match("", "a"));
}

TEST(Glob, CharactersAndClasses) {
  EXPECT_TRUE(glob_match("a?c", "aéc"));
  EXPECT_FALSE(glob_match("??", "é"));
  EXPECT_FALSE(glob_match("*??", "é"));
  EXPECT_TRUE(glob_match("model-0000[1-3]*", "model-00002-of-9.bin"));
  EXPECT_FALSE(glob_match("model-0000[!1-3]*", "model-00002-of-9.bin"));
  EXPECT_TRUE(glob_match("[à-ü]", "é"));
  EXPECT_TRUE(glob_match("[]]", "]"));
  EXPECT_TRUE(glob_match("a[b", "a[b"));
}

TEST(Glob, ManyStarsStayFast) { EXPECT_FALSE(glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*b", std::string(4000, 'a'))); }

TEST(ShardName, ParsesAndNamesTheOthers) {
  const auto shard = parse_shard_name("model.fp16-00002-of-00015.safetensors");
  ASSERT_TRUE(shard.has_value());
  EXPECT_EQ(shard->number, 2U);
  EXPECT_EQ(shard->count, 15U);
  EXPECT_EQ(shard_name(*shard, 13), "model.fp16-00013-of-00015.safetensors");
  EXPECT_FALSE(parse_shard_name("model.safetensors").has_value());
  EXPECT_FALSE(parse_shard_name("one-of-many.bin").has_value());
  EXPECT_FALSE(parse_shard_name("model-00004-of-00003.bin").has_value());
  EXPECT_FALSE(parse_shard_name("model-1-of-999999999.bin").has_value());
}

TEST(ShardName, AVariantMayStandBehindTheNumbers) {
  const auto shard = parse_shard_name("model-00001-of-00002.fp16.safetensors");
  ASSERT_TRUE(shard.has_value());
  EXPECT_EQ(shard_name(*shard, 2), "model-00002-of-00002.fp16.safetensors");
}

TEST(SafetensorsSet, OneNameForFilesShardsAndIndexes) {
  for (const char* base : {"model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
    EXPECT_EQ(safetensors_set_of(base), "model") << base;
  }
  for (const char* base :
       {"model.fp16.safetensors", "model.fp16-00001-of-00002.safetensors", "model-00001-of-00002.fp16.safetensors",
        "model.safetensors.index.fp16.json", "model.fp16.safetensors.index.json"}) {
    EXPECT_EQ(safetensors_set_of(base), "model.fp16") << base;
  }
  EXPECT_EQ(safetensors_set_of("00001-of-00002.safetensors"), "");
  EXPECT_TRUE(is_variant_of("model.fp16", "model"));
  EXPECT_TRUE(is_variant_of("model.non_ema.fp16", "model"));
  for (const auto& [set, plain] :
       {std::pair("model", "model"), std::pair("model.", "model"), std::pair("model2", "model"), std::pair(".fp16", ""),
        std::pair("model", "model.fp16")}) {
    EXPECT_FALSE(is_variant_of(set, plain)) << set;
  }
}

}  // namespace
}  // namespace steelyard::formats
