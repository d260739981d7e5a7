// For tests of the public store: a folder, a checkpoint in it, and a store of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "base/test_files.h"
#include "formats/safetensors_test_support.h"
#include "steelyard/store.h"
#include "tiers/directory/test_folder.h"

namespace steelyard {

namespace fs = std::filesystem;

inline constexpr std::uint64_t kMiB = 1 << 20;

using test_files::pattern;
using test_files::read;
using test_files::tree;
using test_files::write;

class ApiStoreTest : public testing::Test {
 protected:
  ApiStoreTest() {
    options_.path = at("store");
    options_.cold_reserve_free = 0;
    options_.io_memory = 16 * kMiB;
    options_.jobs = 2;
  }

  std::string at(const std::string& name) const { return root_.path() + "/" + name; }

  /// Two weight files, one of them safetensors with two tensors, and a configuration.
  void make_source() {
    const std::string header = R"({"a":{"dtype":"U8","shape":[3145745],"data_offsets":[0,3145745]},)"
                               R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[3145745,3145769]}})";
    tensors_ = pattern(3145769, 1);
    write(at("src/model.safetensors"), formats::with_header(header, tensors_));
    write(at("src/old.bin"), pattern(5 * kMiB, 2));
    write(at("src/config.json"), "{}");
  }
  Store open(OpenMode mode = OpenMode::kCreate) {
    auto store = Store::open(options_, mode);
    EXPECT_TRUE(store.ok()) << store.status().to_string();
    return *store;
  }
  ImportRequest request() const {
    ImportRequest request;
    request.source = at("src");
    request.target = ref_;
    request.include = {"*"};
    request.chunk_bytes = kMiB;
    return request;
  }
  Revision imported(const Store& store) {
    make_source();
    const auto report = store.import(request());
    EXPECT_TRUE(report.ok()) << report.status().to_string();
    return report->revision;
  }
  static std::string read_all(const File& file) {
    std::string out(file.size(), '\0');
    const Status status = file.read(0, std::as_writable_bytes(std::span(out)));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return out;
  }
  /// Damages the payload object that holds `bytes` at its beginning.
  void damage(std::string_view bytes) const {
    for (const auto& entry : fs::recursive_directory_iterator(at("store/cold/groups"))) {
      if (!entry.is_regular_file() || !read(entry.path().native()).starts_with(bytes)) continue;
      ASSERT_EQ(chmod(entry.path().c_str(), 0644), 0);
      std::fstream(entry.path(), std::ios::binary | std::ios::in | std::ios::out).put(static_cast<char>(bytes[0] ^ 1));
      return;
    }
    FAIL() << "no such object";
  }

  tiers::TestFolder root_;
  StoreOptions options_;
  Ref ref_{"m", "main", std::nullopt};
  std::string tensors_;
};

}  // namespace steelyard
