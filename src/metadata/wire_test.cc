#include "metadata/wire.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <string>

#include "base/bytes.h"
#include "base/limits.h"
#include "metadata/codec.h"
#include "metadata/codec_messages.h"
#include "metadata/proto/records.pb.h"
#include "metadata/test_bench.h"

namespace steelyard::metadata {
namespace {

/// A record in which every field is set with a chance of its own; its values need not be legal.
class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}

  bool coin() { return random_() % 2 == 0; }
  std::uint64_t number() { return coin() ? 0 : random_() >> (random_() % 64); }
  template <typename E>
  E one_of(std::uint64_t last) {
    return static_cast<E>(1 + random_() % last);
  }
  std::string text() {
    return coin() ? std::string() : std::string(random_() % 200, static_cast<char>('a' + random_() % 26));
  }
  std::string digest() { return coin() ? std::string() : std::string(64, "0123456789abcdef"[random_() % 16]); }
  Identity identity() { return {{text(), text(), text(), text()}, static_cast<std::int64_t>(number())}; }
  AppliedRequest request() { return {one_of<RequestKind>(5), number(), text()}; }
  Operation operation() {
    Operation out;
    out.operation_id = text();
    out.kind = one_of<OperationKind>(3);
    out.state = one_of<OperationState>(4);
    out.target = one_of<Residency>(5);
    if (coin()) out.ratio_millionths = static_cast<std::uint32_t>(number());
    out.plan_digest = digest();
    out.total_members = number();
    out.total_bytes = number();
    out.processed_members = number();
    out.processed_bytes = number();
    out.message = text();
    out.request = request();
    out.started_at_ms = static_cast<std::int64_t>(number());
    out.ended_at_ms = -static_cast<std::int64_t>(number() / 2);
    out.hot_instance = text();
    out.hot_boot_id = text();
    out.ended_epoch_ordinal = number();
    out.ended_mono_ms = static_cast<std::int64_t>(number());
    out.ended_by = text();
    out.failed_with = text();
    return out;
  }
  RevisionRecord record() {
    RevisionRecord out;
    out.identity = identity();
    out.availability = one_of<Availability>(5);
    out.residency = one_of<Residency>(5);
    if (coin()) out.hot_millionths = static_cast<std::uint32_t>(number());
    out.metadata_generation = number();
    out.import_attempt = static_cast<std::uint32_t>(number());
    out.manifest_key = text();
    out.payload_group_id = "weight:" + std::string(64, 'e');
    out.summary = {number(), number(), digest(), digest()};
    out.begin_seq = number();
    out.committed_seq = number();
    out.created_at_ms = static_cast<std::int64_t>(number());
    out.updated_at_ms = static_cast<std::int64_t>(number());
    for (std::uint64_t i = random_() % 3; i > 0; --i) out.labels.emplace_back(text(), text());
    out.policy = {one_of<Residency>(5), std::nullopt, one_of<PolicyMode>(3)};
    if (coin()) out.policy.ratio_millionths = static_cast<std::uint32_t>(number());
    if (coin()) out.operation = operation();
    for (std::uint64_t i = random_() % 3; i > 0; --i) out.finished_operations.push_back(operation());
    for (std::uint64_t i = random_() % 3; i > 0; --i) out.applied.push_back(request());
    for (std::uint64_t i = random_() % 3; i > 0; --i) out.damage.objects.push_back(text());
    out.damage.count = number();
    out.hot_instance = text();
    out.hot_members = number();
    out.drain = coin();
    out.availability_since_ms = static_cast<std::int64_t>(number());
    out.deleted_seq = number();
    out.hot_boot_id = text();
    return out;
  }
  Writer writer() {
    return {identity(),
            static_cast<std::uint32_t>(number()),
            text(),
            text(),
            {text(), text(), number(), -static_cast<std::int64_t>(number() / 2), number()},
            static_cast<std::int64_t>(number()),
            text(),
            static_cast<std::int64_t>(number()),
            static_cast<std::int64_t>(number()),
            static_cast<std::int64_t>(number())};
  }
  Lease lease() {
    return {text(),
            identity(),
            text(),
            text(),
            static_cast<std::int64_t>(number()),
            text(),
            static_cast<std::int64_t>(number()),
            static_cast<std::int64_t>(number()),
            {text(), text(), number(), -static_cast<std::int64_t>(number() / 2), number()}};
  }
  Runner runner() {
    return {identity(),
            text(),
            static_cast<std::uint32_t>(number()),
            text(),
            text(),
            {text(), text(), number(), 1, number()},
            static_cast<std::int64_t>(number()),
            text(),
            static_cast<std::int64_t>(number()),
            number(),
            number(),
            text(),
            number(),
            text()};
  }
  Access access() {
    return {identity(), text(), static_cast<std::int64_t>(number()), static_cast<std::int64_t>(number()), number()};
  }
  /// One byte changed, taken out or put in.
  std::string damaged(std::string bytes) {
    const std::size_t at = random_() % bytes.size();
    switch (random_() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random_());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random_() % 8));
        break;
      case 2:
        bytes.erase(at, 1);
        break;
      default:
        bytes.insert(at, 1, static_cast<char>(random_()));
    }
    return bytes;
  }

 private:
  std::mt19937_64 random_;
};

TEST(WireTest, WhatTheCodecWritesIsReadAsItWas) {
  Random random(1);
  for (int i = 0; i < 2'000; ++i) {
    const RevisionRecord record = random.record();
    EXPECT_EQ(wire::find_record(encode_record(record)), record) << i;
    const Writer writer = random.writer();
    EXPECT_EQ(wire::find_writer(encode_writer(writer)), writer) << i;
    const Lease lease = random.lease();
    EXPECT_EQ(wire::find_lease(encode_lease(lease)), lease) << i;
    const Access access = random.access();
    EXPECT_EQ(wire::find_access(encode_access(access)), access) << i;
    const Entry removed = encode_entry({LeaseRemoved{lease.identity, lease.lease_id}, std::nullopt});
    const auto name = wire::find_removed_lease(wire::find_entry(removed.bytes)->body);
    ASSERT_TRUE(name.has_value()) << i;
    EXPECT_EQ(name->identity, lease.identity) << i;
    EXPECT_EQ(name->lease_id, lease.lease_id) << i;
  }
}

TEST(WireTest, WhatIsWrittenIsTheFormOfProtobuf) {
  Random random(4);
  const auto check = [](const auto& value, auto message, int number) {
    const std::string bytes = wire::encode(value);
    ASSERT_TRUE(message.ParseFromString(bytes)) << number;
    EXPECT_EQ(message.SerializeAsString(), bytes) << number;
    Problem problem;
    EXPECT_EQ(take(message, problem), value) << number;
    EXPECT_TRUE(problem.none()) << problem.status().to_string();
  };
  for (int i = 0; i < 500; ++i) {
    check(random.record(), pb::RevisionRecord(), i);
    check(random.writer(), pb::Writer(), i);
    check(random.lease(), pb::Lease(), i);
    check(random.access(), pb::Access(), i);
    check(random.runner(), pb::Runner(), i);
    check(Watermark{random.identity().lineage, 1 + static_cast<std::int64_t>(random.number() / 2)}, pb::Watermark(), i);
    check(EpochState{"boot", 5, random.number(), 0}, pb::EpochState(), i);
  }
}

TEST(WireTest, GoldenBytesOfARecordWithAnEndedOperation) {
  RevisionRecord record;
  record.identity = {{"t", "n", "r", "v"}, 7};
  record.availability = Availability::kDegraded;
  record.residency = Residency::kMixed;
  record.hot_millionths = 500'000;
  record.metadata_generation = 300;
  record.import_attempt = 2;
  record.manifest_key = "weights/n/r/v/7/manifest";
  record.payload_group_id = "weight:" + std::string(64, 'a');
  record.summary = {3, 1U << 31, std::string(64, 'b'), std::string(64, 'c')};
  record.begin_seq = 1;
  record.committed_seq = 2;
  record.created_at_ms = 1'700'000'000'000;
  record.updated_at_ms = 1'700'000'000'001;
  record.labels = {{"key", "value"}};
  Operation ended;
  ended.operation_id = std::string(32, '1');
  ended.kind = OperationKind::kEvicting;
  ended.state = OperationState::kFailed;
  ended.target = Residency::kMixed;
  ended.ratio_millionths = 500'000;
  ended.plan_digest = std::string(64, 'd');
  ended.total_members = 3;
  ended.total_bytes = 1U << 31;
  ended.message = "m";
  ended.request = {RequestKind::kStart, 4, std::string(32, 'q')};
  ended.started_at_ms = 5;
  ended.ended_at_ms = 6;
  ended.hot_instance = "i";
  ended.hot_boot_id = "b";
  ended.ended_epoch_ordinal = 1;
  ended.ended_mono_ms = 9;
  ended.ended_by = std::string(32, '2');
  ended.failed_with = "CORRUPT";
  record.finished_operations = {ended};
  record.damage = {{"o"}, 1};
  record.hot_instance = "i";
  record.hot_boot_id = "b";
  record.hot_members = 1;
  record.drain = true;
  record.availability_since_ms = 8;
  const std::string golden =
      "0a100a0c0a017412016e1a017222017610071003180420a0c21e28ac0230023a18776569676874732f6e2f722f762f372f6d"
      "616e69666573744220aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa4a4c08031080808080"
      "081a20bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2220cccccccccccccccccccccccccc"
      "cccccccccccccccccccccccccccccccccccccc500158026080d095ffbc316881d095ffbc31720c0a036b6579120576616c75"
      "657a04080318028a01bf010a2031313131313131313131313131313131313131313131313131313131313131311001180420"
      "0428a0c21e3220dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd38034080808080085a016d"
      "6226080510041a207171717171717171717171717171717171717171717171717171717171717171680570067a0169820101"
      "628801019001099a01203232323232323232323232323232323232323232323232323232323232323232a20107434f525255"
      "50549a01050a016f1001a2010169a80101b00101b80108ca010162";
  EXPECT_EQ(to_hex(as_bytes(encode_record(record))), golden);
  // The last two fields of the operation are 19 and 20.
  EXPECT_NE(golden.find("9a0120" + to_hex(as_bytes(ended.ended_by)) + "a20107" + to_hex(as_bytes("CORRUPT"))),
            std::string::npos);
  EXPECT_EQ(decode_record(encode_record(record)).value(), record);
}

/// The messages of records.proto, by name: of each field, by number, its type.
using Messages = std::map<std::string, std::map<std::uint64_t, std::string>>;

Messages read_messages() {
  std::ifstream file(SY_PROTO_FILE);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  Messages messages;
  const std::regex message(R"(\nmessage (\w+) \{\n([^}]*)\})");
  const std::regex field(R"((?:optional |repeated )?(\w+) \w+ = (\d+);)");
  for (std::sregex_iterator at(text.begin(), text.end(), message), end; at != end; ++at) {
    const std::string body = (*at)[2];
    for (std::sregex_iterator one(body.begin(), body.end(), field); one != end; ++one) {
      messages[(*at)[1]][std::stoull((*one)[2])] = (*one)[1];
    }
  }
  return messages;
}

/// A message in which every field is set, in the form that protobuf writes.
std::string whole(const Messages& messages, const std::string& name) {
  const auto varint = [](std::uint64_t value) {
    std::string bytes;
    for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
    bytes.push_back(static_cast<char>(value));
    return bytes;
  };
  std::string out;
  for (const auto& [number, type] : messages.at(name)) {
    const bool nested = messages.contains(type);
    if (!nested && type != "bytes") {
      out += varint(number << 3) + varint(1);
      continue;
    }
    // Digests have 32 bytes; whatever has another length may have this one too.
    const std::string body = nested ? whole(messages, type) : std::string(32, 'x');
    out += varint(number << 3 | 2) + varint(body.size()) + body;
  }
  return out;
}

/// A field that stands in a message, and not in wire.cc, would make each read of it take the slow way.
TEST(WireTest, EveryFieldTakesTheFastWay) {
  const Messages messages = read_messages();
  ASSERT_GT(messages.size(), 10U);
  const auto check = [&](const char* name, auto find, auto decode, auto encode) {
    const std::string bytes = whole(messages, name);
    EXPECT_TRUE(find(bytes).has_value()) << name;
    const auto value = decode(bytes);
    ASSERT_TRUE(value.ok()) << name;
    EXPECT_EQ(encode(*value), bytes) << "the codec leaves a field out of " << name;
  };
  check("RevisionRecord", wire::find_record, decode_record, encode_record);
  check("Writer", wire::find_writer, decode_writer, encode_writer);
  check("Lease", wire::find_lease, decode_lease, encode_lease);
  check("Access", wire::find_access, decode_access, encode_access);
}

TEST(WireTest, WhatIsReadHasNoOtherForm) {
  Random random(2);
  int read = 0;
  const auto check = [&](const std::string& bytes, auto find, auto encode) {
    const auto found = find(bytes);
    if (!found) return;
    ++read;
    EXPECT_EQ(encode(*found), bytes);
  };
  for (int i = 0; i < 20'000; ++i) {
    check(random.damaged(encode_record(random.record())), wire::find_record, encode_record);
    check(random.damaged(encode_writer(random.writer())), wire::find_writer, encode_writer);
    check(random.damaged(encode_lease(random.lease())), wire::find_lease, encode_lease);
    check(random.damaged(encode_access(random.access())), wire::find_access, encode_access);
  }
  EXPECT_GT(read, 100) << "some changes only change values";
}

TEST(WireTest, EntriesAreTakenApart) {
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const RevisionRecord record = random.record();
    std::optional<std::int64_t> instant;
    if (random.coin()) instant = static_cast<std::int64_t>(random.number());
    const Entry entry = encode_entry({RevisionPut{record}, instant});
    const auto parts = wire::find_entry(entry.bytes);
    ASSERT_TRUE(parts.has_value()) << i;
    EXPECT_EQ(parts->mono_ms, instant);
    EXPECT_EQ(parts->field, 10U);
    EXPECT_EQ(parts->body, encode_record(record));
  }
  EXPECT_FALSE(wire::find_entry("").has_value());
  EXPECT_EQ(wire::find_entry(encode_entry({WatermarkPut{}, std::nullopt}).bytes)->field, 17U);
}

}  // namespace
}  // namespace steelyard::metadata
