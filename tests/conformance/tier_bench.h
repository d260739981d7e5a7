// What the cases of the tier conformance suite work with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hash/sha256.h"
#include "tests/conformance/tier_conformance.h"

namespace steelyard::conformance {

using tiers::AlignedBuffer;
using tiers::AttemptName;
using tiers::ObjectKind;
using tiers::ObjectName;
using tiers::PutOutcome;
using tiers::ReadRange;
using tiers::Tier;

inline constexpr std::uint64_t kMiB = 1024 * 1024;

struct Skipped {
  std::string why;
};
struct Failed {
  std::string why;
};

/// One case's view: a tier, groups of its own, and checks that end the case.
class Bench {
 public:
  Bench(Runtime& runtime, const TierUnderTest& subject) : runtime_(runtime), subject_(subject) {
    tier_ = reopen();
    group_ = runtime_.random_hex(32);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    for (std::uint32_t attempt = 1; attempt <= 4; ++attempt) {
      tier_->remove_attempt({group_, attempt}).ignore("cleaning up");
    }
    if (const auto listing = tier_->list_group(group_); listing.ok()) {
      for (const AttemptName& made : listing->by_operation) tier_->remove_attempt(made).ignore("cleaning up");
    }
    tier_->remove_group(group_).ignore("cleaning up");
    for (const Digest& digest : digests_) tier_->remove_content(digest).ignore("cleaning up");
  }

  Runtime& runtime() { return runtime_; }
  const TierUnderTest& subject() const { return subject_; }
  Tier& tier() { return *tier_; }
  const std::string& group() const { return group_; }
  AttemptName attempt(std::uint32_t number = 1) const { return {group_, number}; }
  ObjectName payload(std::uint32_t index, std::uint32_t number = 1) const {
    return {attempt(number), ObjectKind::kPayload, index};
  }
  ObjectName manifest(std::uint32_t number = 1) const { return {attempt(number), ObjectKind::kManifest, 0}; }

  std::unique_ptr<Tier> reopen() {
    auto opened = subject_.open();
    check(opened.status());
    return std::move(opened).value();
  }

  AlignedBuffer random_bytes(std::uint64_t bytes) {
    AlignedBuffer buffer = AlignedBuffer::allocate(bytes).value();
    runtime_.fill_random(buffer.span());
    return buffer;
  }
  Digest digest(ByteView bytes) {
    const Digest value = hash::sha256(bytes);
    digests_.push_back(value);
    return value;
  }

  Result<PutOutcome> try_put(const ObjectName& name, ByteView bytes) { return try_put(tier(), name, bytes); }
  Result<PutOutcome> try_put(Tier& tier, const ObjectName& name, ByteView bytes) {
    SY_ASSIGN_OR_RETURN(auto put, tier.start_put(name, bytes, digest(bytes)));
    return put->finish();
  }
  void put(const ObjectName& name, ByteView bytes, PutOutcome expected = PutOutcome::kWritten) {
    const auto outcome = try_put(name, bytes);
    check(outcome.status());
    equal(static_cast<int>(*outcome), static_cast<int>(expected), "outcome of a put");
  }
  void holds(Tier& tier, const ObjectName& name, ByteView bytes) {
    const auto stat = tier.stat(name);
    check(stat.status());
    equal(stat->bytes, static_cast<std::uint64_t>(bytes.size()), "size of an object");
    std::vector<std::byte> found(bytes.size());
    check(tier.read(name, {{0, found}}));
    that(std::equal(found.begin(), found.end(), bytes.begin()), "an object reads back with other bytes");
  }
  void holds(const ObjectName& name, ByteView bytes) { holds(tier(), name, bytes); }
  void absent(const ObjectName& name) {
    equal(code_name(tier().stat(name).code()), code_name(Code::kNotFound), "stat of an absent object");
  }

  [[noreturn]] static void skip(std::string why) { throw Skipped{std::move(why)}; }
  static void that(bool condition, const std::string& why) {
    if (!condition) throw Failed{why};
  }
  static void check(const Status& status) {
    if (!status.ok()) throw Failed{status.to_string()};
  }
  static void code(const Status& status, Code expected, const std::string& what) {
    if (status.code() != expected) {
      throw Failed{what + ": expected " + std::string(code_name(expected)) + ", found " + status.to_string()};
    }
  }
  template <typename A, typename B>
  static void equal(const A& found, const B& expected, const std::string& what) {
    if (found != expected) throw Failed{what + ": found " + text(found) + ", expected " + text(expected)};
  }

 private:
  template <typename T>
  static std::string text(const T& value) {
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      return std::string(value);
    } else {
      return std::to_string(value);
    }
  }

  Runtime& runtime_;
  const TierUnderTest& subject_;
  std::unique_ptr<Tier> tier_;
  std::string group_;
  std::vector<Digest> digests_;
};

struct Case {
  const char* name;
  void (*run)(Bench&);
};

/// What memory tiers do and others refuse: mappings, replicas by operation, reservations (tier_memory_cases.cc).
std::vector<Case> memory_cases();

}  // namespace steelyard::conformance
