// For tests: a runtime of one thread whose tasks wait once, and a revision for it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/runtime.h"
#include "catalog/catalog.h"
#include "formats/identity.h"
#include "oplog/op_log.h"

namespace steelyard::store {

/// Tasks run where they are spawned; the first wait ends at its deadline, after `while_waiting`, the next are set.
class OneWait final : public Runtime {
 public:
  std::function<void()> while_waiting;

  std::int64_t mono_ms() override { return now_ms; }
  std::int64_t mono_ns() override { return now_ms * 1'000'000; }
  std::int64_t wall_ms() override { return now_ms; }
  const std::string& epoch() override { return epoch_; }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { now_ms += duration_ms; }
  std::unique_ptr<Event> make_event() override { return std::make_unique<Wait>(*this); }
  std::unique_ptr<Task> spawn(std::string_view /*name*/, std::function<void()> body) override {
    body();
    return std::make_unique<Done>();
  }
  const ProcessIdentity& self() override { return self_; }
  bool provably_gone(const ProcessIdentity& /*process*/) override { return false; }
  std::int64_t now_ms = 1000;

 protected:
  int point_armed(const char* /*name*/) override { return 0; }

 private:
  class Wait final : public Event {
   public:
    explicit Wait(OneWait& runtime) : runtime_(runtime) {}
    void set() override {}
    bool wait_until(std::int64_t deadline_mono_ms) override {
      if (waited_) return true;
      waited_ = true;
      runtime_.now_ms = deadline_mono_ms;
      runtime_.while_waiting();
      return false;
    }

   private:
    OneWait& runtime_;
    bool waited_ = false;
  };
  class Done final : public Task {
   public:
    void join() override {}
  };
  std::string epoch_ = "boot";
  ProcessIdentity self_{"host", "boot", 1, 7, 1};
};

/// A published revision without members: leases and operations ask the catalog alone.
inline metadata::RevisionRecord publish_without_members(catalog::Catalog& catalog, oplog::OpLog& log) {
  metadata::BeginWeightImport begin;
  begin.lineage = {"default", "default", "model", "main"};
  begin.token = std::string(32, 'a');
  begin.ttl_ms = 60'000;
  begin.holder = "test";
  metadata::RevisionRecord record = *catalog.begin_weight_import(begin)->record;
  const auto committed =
      log.write([&](const oplog::StateView& view, const oplog::Now& now) -> Result<std::vector<oplog::Entry>> {
        metadata::CommitWeightImport commit;
        commit.identity = record.identity;
        commit.token = begin.token;
        commit.import_attempt = 1;
        commit.expected_metadata_generation = 1;
        commit.summary = {1, 1, formats::payload_keys_sha256(record.identity, 1), std::string(64, 'b')};
        SY_ASSIGN_OR_RETURN(auto prepared, metadata::WeightMetadataStore::prepare(view, commit, now));
        record = *prepared.answer.record;
        return std::move(prepared.entries);
      });
  EXPECT_TRUE(committed.ok()) << committed.status().to_string();
  return record;
}

}  // namespace steelyard::store
