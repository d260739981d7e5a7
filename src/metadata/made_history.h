// A state of many published revisions, made by the rules alone: for benchmarks, and for tests of large stores.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/runtime.h"
#include "metadata/memory_state.h"
#include "metadata/rules.h"

namespace steelyard::metadata {

/// What a store of many published revisions went through: begin and commit of each, an append each. Thread-compatible.
struct MadeHistory {
  MemoryState state;
  std::vector<std::vector<Entry>> appends;  ///< the first begins an epoch

  MadeHistory() { run(BeginEpoch{}); }

  /// A thousand resources share them.
  static Identity identity_of(std::uint64_t number) {
    return {{"default", "production", "org/model-" + std::to_string(number % 1000), "step-" + std::to_string(number)},
            1};
  }

  void publish(std::uint64_t number) {
    BeginWeightImport begin;
    begin.lineage = identity_of(number).lineage;
    char token[33];
    std::snprintf(token, sizeof token, "%032llx", static_cast<unsigned long long>(number));
    begin.token = token;
    begin.holder = "bench (pid 1)";
    begin.process = real_runtime().self();
    begin.ttl_ms = limits::kWriterTtlMs;
    begin.labels = {{"model_id", "llama"}};
    const RevisionRecord record = *run(begin).record;
    CommitWeightImport commit;
    commit.identity = record.identity;
    commit.token = begin.token;
    commit.import_attempt = record.import_attempt;
    commit.expected_metadata_generation = record.metadata_generation;
    commit.summary = {40, 2'000'000'000, std::string(64, 'a'), std::string(64, 'b')};
    run(commit);
  }

 private:
  Answer run(const Command& command) {
    const Now now{"bench", 1'000 + static_cast<std::int64_t>(appends.size()), 1'700'000'000'000};
    auto prepared = WeightMetadataStore::prepare(state, command, now);
    SY_CHECK(prepared.ok(), prepared.status().to_string());
    SY_CHECK(state.apply(appends.size() + 1, prepared->entries).ok(), "a prepared append applies");
    appends.push_back(std::move(prepared->entries));
    return std::move(prepared->answer);
  }
};

}  // namespace steelyard::metadata
