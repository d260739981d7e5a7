// For tests of the rules: a state, a clock, and commands applied as a log would.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "metadata/codec.h"
#include "metadata/memory_state.h"
#include "metadata/rules.h"

namespace steelyard::metadata {

inline std::string token_of(char digit) { return std::string(32, digit); }

inline Identity identity_of(std::string resource, std::int64_t generation) {
  return {{"default", "production", std::move(resource), "main"}, generation};
}

inline GroupSummary summary_of(const Identity& identity) {
  return {2, 100, formats::payload_keys_sha256(identity, 2), std::string(64, 'a')};
}

struct TestBench {
  MemoryState state;
  Now now{"boot-a", 1'000, 1'700'000'000'000};
  std::vector<std::pair<std::uint64_t, std::vector<Entry>>> log;
  std::vector<Entry> last;  ///< of the last command

  /// Judges twice (equal), checks as replay would, applies.
  Result<Answer> run(const Command& command) {
    last.clear();
    Result<Prepared> prepared = WeightMetadataStore::prepare(state, command, now);
    const Result<Prepared> again = WeightMetadataStore::prepare(state, command, now);
    EXPECT_EQ(prepared.code(), again.code());
    if (!prepared.ok()) {
      EXPECT_EQ(prepared.status().to_string(), again.status().to_string());
      return std::move(prepared).status();
    }
    EXPECT_EQ(prepared->entries, again->entries);
    append(prepared->entries);
    return std::move(prepared->answer);
  }

  void append(const std::vector<Entry>& entries) {
    if (entries.empty()) return;
    const Status legal = check_entries(state, state.sequence() + 1, entries).status();
    EXPECT_TRUE(legal.ok()) << legal.to_string();
    last = entries;
    log.emplace_back(state.sequence() + 1, entries);
    EXPECT_TRUE(state.apply(state.sequence() + 1, entries).ok());
  }

  void advance(std::int64_t duration_ms) {
    now.mono_ms += duration_ms;
    now.wall_ms += duration_ms;
  }

  RevisionRecord record(const Identity& identity) const {
    return find_revision(state, identity).value().value_or(RevisionRecord{});
  }

  static BeginWeightImport begin(const Identity& identity, char token) {
    BeginWeightImport command;
    command.lineage = identity.lineage;
    command.weight_generation = identity.weight_generation;
    command.token = token_of(token);
    command.holder = std::string("writer ") + token;
    command.process.pid = token;
    command.ttl_ms = limits::kWriterTtlMs;
    return command;
  }

  static CommitWeightImport commit(const Identity& identity, char token, std::uint32_t attempt,
                                   std::uint64_t expected) {
    return {identity, token_of(token), attempt, expected, summary_of(identity)};
  }

  static Observation damaged() {
    Observation seen;
    seen.damage = {{"object"}, 1};
    return seen;
  }

  /// `members` of the two that every revision here has, 50 bytes each.
  static Observation hot(std::uint64_t members, const std::string& instance, const std::string& boot_id) {
    Observation seen;
    seen.boot_id = boot_id;
    seen.hot_instance = instance;
    seen.hot_members = members;
    seen.hot_bytes = members * 50;
    return seen;
  }

  static RunnerGrant grant(char token) {
    RunnerGrant out;
    out.token = token_of(token);
    out.holder = std::string("runner ") + token;
    out.process.pid = token;
    out.ttl_ms = limits::kWriterTtlMs;
    return out;
  }

  /// An operation over all members, run by `a` in the memory instance `1`.
  static StartOperation start(const Identity& identity, std::uint64_t expected, OperationKind kind, Residency target) {
    StartOperation command;
    command.identity = identity;
    command.expected_metadata_generation = expected;
    command.operation_id = token_of('f');
    command.kind = kind;
    command.target = target;
    if (target == Residency::kMixed) {
      command.ratio_millionths = 500'000;
      command.plan_digest = std::string(64, 'd');
    }
    command.total_members = 2;
    command.total_bytes = 100;
    command.runner = grant('a');
    if (moves_replicas(kind)) {
      command.hot_instance = token_of('1');
      command.hot_boot_id = "boot-a";
    }
    return command;
  }

  static AcquireLease acquire(const Identity& identity, std::string holder, std::int64_t ttl_ms = 30'000) {
    AcquireLease command;
    command.identity = identity;
    command.holder = std::move(holder);
    command.nonce = "n";
    command.ttl_ms = ttl_ms;
    return command;
  }

  void must(const Command& command) {
    const Result<Answer> answer = run(command);
    EXPECT_TRUE(answer.ok()) << answer.status().to_string();
  }

  void publish(const Identity& identity, char token = 'a') {
    must(begin(identity, token));
    must(commit(identity, token, record(identity).import_attempt, record(identity).metadata_generation));
  }
};

}  // namespace steelyard::metadata
