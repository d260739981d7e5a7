// For tests: a store with a memory tier and one imported revision `m@main#1`, whose parts a test holds in its hands.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/limits.h"
#include "store/cat.h"
#include "store/import.h"
#include "store/open_store.h"
#include "store/reconcile.h"
#include "store/residency.h"
#include "tiers/directory/test_folder.h"
#include "tiers/memory/test_instance.h"

namespace steelyard::store {

namespace fs = std::filesystem;
using limits::kMiB;
using metadata::Residency;

constexpr std::uint32_t kObjects = 4;  ///< of 1 MiB each

class Silent final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

class HotStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!memory_.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
    parts_ = open_parts(runtime_, options(), OpenMode::kCreate).value();
    observer_.emplace(*parts_.cold);
    catalog_.emplace(runtime_, *parts_.log, *observer_, catalog::CatalogOptions{});
    hot_.emplace(parts_.open_hot);
    context_.emplace(
        Context{runtime_, options_, *parts_.cold, *catalog_, *observer_, options_.io_memory, false, {}, &*hot_});
    fs::create_directories(root_.path() + "/src");
    data_.resize(kObjects * kMiB);
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<char>(i / 1000 * 7 + i / kMiB);
    std::ofstream(root_.path() + "/src/w.bin", std::ios::binary) << data_;
    ImportRequest request;
    request.source = root_.path() + "/src";
    request.target.ref = {"m", "main", std::nullopt};
    request.chunk_bytes = kMiB;
    const auto source = open_source(request.source, false);
    ASSERT_TRUE(source.ok());
    const auto imported = run_import(*context_, request, **source, silent_, cancel_);
    ASSERT_TRUE(imported.ok()) << imported.status().to_string();
    request_.target.ref = {"m", "main", 1};
    identity_ = imported->record.identity;
  }

  const StoreOptions& options() {
    options_.path = root_.path() + "/store";
    options_.cold_reserve_free = 0;
    options_.hot_path = memory_.path();
    options_.hot_capacity = 64 * kMiB;
    options_.jobs = 1;
    return options_;
  }
  Result<ResidencyResult> evict() { return run_evict(*context_, request_, silent_, cancel_); }
  Result<ResidencyResult> rehydrate() { return run_rehydrate(*context_, request_, silent_, cancel_); }
  void set_policy(const metadata::Identity& identity, metadata::PolicyMode mode, Residency prefer) {
    metadata::UpdateWeightPolicy command;
    command.identity = identity;
    command.expected_metadata_generation = catalog_->get_weight_revision(identity).value().metadata_generation;
    command.policy.mode = mode;
    command.policy.prefer = prefer;
    ASSERT_TRUE(catalog_->update_weight_policy(command).ok());
  }
  metadata::RevisionRecord record() { return catalog_->get_weight_revision(identity_).value(); }
  ReconcileReport reconcile() { return run_reconcile(*context_, std::nullopt, silent_, cancel_).value(); }
  std::string cat() {
    std::string text;
    CatRequest request;
    request.source = request_.target;
    request.path = "w.bin";
    const Status status = run_cat(
        *context_, request,
        [&](ByteView bytes) {
          text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return Status();
        },
        cancel_);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return text;
  }
  std::uint64_t hot_bytes() { return hot_->make().value()->usage()->bytes; }
  fs::path cold_object(std::uint32_t index) {
    const tiers::AttemptName attempt = attempt_of(record());
    return root_.path() + "/store/cold/groups/" + attempt.group.substr(0, 2) + "/" + attempt.group + "/1/p/0000000" +
           std::to_string(index);
  }
  void damage_cold(std::uint32_t index) {
    const fs::path path = cold_object(index);
    fs::permissions(path, fs::perms::owner_all);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('!');
  }
  /// As an operator who empties /dev/shm.
  void wipe_memory() { fs::remove_all(memory_.path() + "/steelyard-" + parts_.store_id); }
  void damage_hot(std::uint32_t index) {
    for (const auto& file : fs::recursive_directory_iterator(memory_.path())) {
      if (file.path().filename() != "0000000" + std::to_string(index)) continue;
      fs::permissions(file.path(), fs::perms::owner_all);
      std::fstream bad(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      bad.seekp(5000);
      bad.put('!');
    }
  }
  void use_capacity(std::uint64_t bytes) {
    tiers::MemoryOptions small;
    small.path = memory_.path();
    small.store_id = parts_.store_id;
    small.capacity = bytes;
    hot_.emplace([this, small](bool create) {
      tiers::MemoryOptions now = small;
      now.create = create;
      return tiers::open_memory(runtime_, now);
    });
  }

  tiers::TestFolder root_;
  tiers::TestTmpfs memory_;
  tiers::FaultRuntime runtime_;
  StoreOptions options_;
  StoreParts parts_;
  std::optional<TierObserver> observer_;
  std::optional<catalog::Catalog> catalog_;
  std::optional<HotTier> hot_;
  std::optional<Context> context_;
  ResidencyRequest request_;
  metadata::Identity identity_;
  std::string data_;
  Silent silent_;
  CancelFlag cancel_{false};
};

}  // namespace steelyard::store
