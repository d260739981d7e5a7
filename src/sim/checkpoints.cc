#include "sim/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "hash/sha256.h"
#include "sim/random.h"

namespace steelyard::sim {
namespace {

struct Tensor {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t seed = 0;
};

std::string random_bytes(std::uint64_t bytes, std::uint64_t seed) {
  Random random(seed);
  std::string out(bytes, '\0');
  for (char& byte : out) byte = static_cast<char>(random.next() >> 56);
  return out;
}

/// A safetensors file of F32 vectors.
std::string safetensors(const std::vector<Tensor>& tensors) {
  std::string header = "{";
  std::string data;
  for (const Tensor& tensor : tensors) {
    header +=
        fmt::format(R"({}"{}":{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", header.size() > 1 ? "," : "",
                    tensor.name, tensor.bytes / 4, data.size(), data.size() + tensor.bytes);
    data += random_bytes(tensor.bytes, tensor.seed);
  }
  header += "}";
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xff));
  return file + header + data;
}

std::vector<Checkpoint> make_checkpoints() {
  const std::string config = R"({"hidden_size": 8, "layers": 2})";
  constexpr std::uint64_t kMiB = 1024 * 1024;
  std::vector<Checkpoint> all;
  all.push_back({"/checkpoints/a",
                 {{"config.json", config}, {"model.safetensors", safetensors({{"w", 4096, 1}, {"b", 64, 2}})}}});
  // The next step of training: another weight, the same configuration.
  all.push_back({"/checkpoints/b",
                 {{"config.json", config}, {"model.safetensors", safetensors({{"w", 4096, 3}, {"b", 64, 2}})}}});
  all.push_back({"/checkpoints/pipeline",
                 {{"model_index.json", R"({"_class_name": "Pipeline"})"},
                  {"empty.txt", ""},
                  {"text/model.safetensors", safetensors({{"w", 4096, 1}, {"b", 64, 2}})},
                  {"vae/model.safetensors", safetensors({{"conv", 8192, 4}})},
                  {"vae/notes.txt", random_bytes(3000, 5)}}});
  // Objects of 1 MiB, durable as soon as they are put.
  all.push_back(
      {"/checkpoints/large",
       {{"config.json", config}, {"model.safetensors", safetensors({{"w", 2 * kMiB, 6}, {"tail", 20'000, 7}})}}});
  all.push_back({"/checkpoints/note", {{"note.txt", "by hand"}}});
  for (Checkpoint& checkpoint : all) {
    for (const auto& [path, bytes] : checkpoint.files) checkpoint.sha256[path] = hash::sha256_hex(bytes);
  }
  return all;
}

class CheckpointFile final : public store::OpenSource {
 public:
  CheckpointFile(Runtime& runtime, const std::string& bytes, std::string name, bool changes,
                 std::int64_t latency_ms_max)
      : runtime_(runtime), bytes_(bytes), name_(std::move(name)), changes_(changes), latency_ms_max_(latency_ms_max) {}

  Status read(std::uint64_t offset, ByteSpan into) override {
    if (latency_ms_max_ > 0) {
      std::byte die[2];
      runtime_.fill_random(die);
      const auto drawn = std::to_integer<std::int64_t>(die[0]) * 256 + std::to_integer<std::int64_t>(die[1]);
      runtime_.sleep_ms(drawn % (latency_ms_max_ + 1));
    }
    if (offset > bytes_.size() || into.size() > bytes_.size() - offset) {
      return {Code::kCorrupt, name_ + " ends early", "import again once nobody writes to the source"};
    }
    if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
    return {};
  }
  Status check_unchanged() override {
    if (!changes_) return {};
    return {Code::kCorrupt, name_ + " changed while it was read", "import again once nobody writes to the source"};
  }

 private:
  Runtime& runtime_;
  const std::string& bytes_;
  std::string name_;
  bool changes_;
  std::int64_t latency_ms_max_;
};

class CheckpointSource final : public store::Source {
 public:
  CheckpointSource(Runtime& runtime, const Checkpoint& checkpoint, bool changes, std::int64_t latency_ms_max)
      : runtime_(runtime), checkpoint_(checkpoint), changes_(changes), latency_ms_max_(latency_ms_max) {
    for (const auto& [path, bytes] : checkpoint.files) files_.push_back({path, bytes.size()});
  }
  const std::vector<formats::SourceFile>& files() const override { return files_; }
  Result<std::unique_ptr<store::OpenSource>> open(const std::string& path) override {
    return std::unique_ptr<store::OpenSource>(
        std::make_unique<CheckpointFile>(runtime_, checkpoint_.files.at(path), path, changes_, latency_ms_max_));
  }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    return {{"kind", "folder"}, {"path", checkpoint_.path}};
  }

 private:
  Runtime& runtime_;
  const Checkpoint& checkpoint_;
  bool changes_;
  std::int64_t latency_ms_max_;
  std::vector<formats::SourceFile> files_;
};

}  // namespace

const std::vector<Checkpoint>& checkpoints() {
  static const std::vector<Checkpoint> all = make_checkpoints();
  return all;
}

std::unique_ptr<store::Source> open_checkpoint(Runtime& runtime, const Checkpoint& checkpoint, bool changes,
                                               std::int64_t latency_ms_max) {
  return std::make_unique<CheckpointSource>(runtime, checkpoint, changes, latency_ms_max);
}

}  // namespace steelyard::sim
