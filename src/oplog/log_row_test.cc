#include "oplog/log_row.h"

#include <gtest/gtest.h>

#include "hash/xxh3.h"

namespace steelyard::oplog {
namespace {

const std::string kId = "0123456789abcdef";

Append sample() { return Append{7, kId, Now{"boot", 1500, 1700000000000}, {Entry{"one"}, Entry{"two"}}}; }

std::string hex(std::string_view bytes) { return to_hex(as_bytes(bytes)); }

TEST(LogRow, GoldenBytes) {
  const std::string batch = encode_batch(sample()).value();
  EXPECT_EQ(hex(batch), "08011204626f6f7418dc0b2080d095ffbc312a036f6e652a0374776f");
}

TEST(LogRow, RoundTrips) {
  const std::string batch = encode_batch(sample()).value();
  const auto decoded = decode_row(7, kId, batch, row_sum(7, kId, batch));
  ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded->sequence, 7U);
  EXPECT_EQ(decoded->request_id, kId);
  EXPECT_EQ(decoded->entries, sample().entries);
  EXPECT_EQ(decoded->at.wall_ms, 1700000000000);
}

TEST(LogRow, TheSumCoversSequenceRequestIdAndBatch) {
  const std::string batch = encode_batch(sample()).value();
  const std::uint64_t sum = row_sum(7, kId, batch);
  EXPECT_EQ(decode_row(8, kId, batch, sum).code(), Code::kCorrupt);
  EXPECT_EQ(decode_row(7, "0123456789abcdeF", batch, sum).code(), Code::kCorrupt);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::string bad = batch;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_EQ(decode_row(7, kId, bad, sum).code(), Code::kCorrupt) << i;
  }
  EXPECT_NE(decode_row(7, kId, batch, sum + 1).status().message().find("log row 7"), std::string::npos);
}

TEST(LogRow, WhatSumsRightMayStillBeRefused) {
  const auto code_of = [](const std::string& batch) {
    return decode_row(7, kId, batch, row_sum(7, kId, batch)).code();
  };
  const std::string batch = encode_batch(sample()).value();
  std::string newer = batch;
  newer[1] = 2;
  EXPECT_EQ(code_of(newer), Code::kUnavailable);
  EXPECT_EQ(code_of(batch + std::string("\x32\x01x", 3)), Code::kCorrupt);  // an unknown field
  EXPECT_EQ(code_of(batch.substr(2)), Code::kCorrupt);                      // no format
  EXPECT_EQ(code_of(batch.substr(0, 2) + batch), Code::kCorrupt);           // a field twice
  EXPECT_EQ(code_of(""), Code::kCorrupt);
  EXPECT_EQ(decode_row(0, kId, batch, row_sum(0, kId, batch)).code(), Code::kCorrupt);
  EXPECT_EQ(decode_row(7, "short", batch, row_sum(7, "short", batch)).code(), Code::kCorrupt);
}

TEST(SnapshotCodec, RoundTripsAndKeepsItsForm) {
  const Snapshot snapshot{9, {{"a", ""}, {"weight_metadata", "rows"}}};
  const std::string bytes = encode_snapshot(snapshot);
  EXPECT_EQ(hex(bytes.substr(0, 24)),
            "5359534e41500d0a"
            "01000000"
            "02000000"
            "0900000000000000");
  const auto again = decode_snapshot(bytes);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->sequence, 9U);
  EXPECT_EQ(again->sections, snapshot.sections);
  EXPECT_EQ(encode_snapshot(*again), bytes);
}

TEST(SnapshotCodec, ItsSequenceStandsInItsHead) {
  const std::string bytes = encode_snapshot(Snapshot{0x1122334455, {{"a", "x"}}});
  EXPECT_EQ(snapshot_sequence(bytes).value(), 0x1122334455U);
  EXPECT_EQ(snapshot_sequence(bytes.substr(0, 23)).code(), Code::kCorrupt);
  EXPECT_EQ(snapshot_sequence("x" + bytes).code(), Code::kCorrupt);
}

TEST(SnapshotCodec, EveryCutAndEveryFlippedBitIsFound) {
  const std::string bytes = encode_snapshot(Snapshot{9, {{"a", "x"}, {"b", "yz"}}});
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_EQ(decode_snapshot(bytes.substr(0, cut)).code(), Code::kCorrupt) << cut;
  }
  EXPECT_EQ(decode_snapshot(bytes + "x").code(), Code::kCorrupt);
  EXPECT_TRUE(check_snapshot_head(bytes, bytes.size()).ok());
  EXPECT_EQ(check_snapshot_head(bytes, bytes.size() + 1).code(), Code::kCorrupt);
  EXPECT_EQ(check_snapshot_head(bytes.substr(0, 20), bytes.size()).code(), Code::kCorrupt);
  EXPECT_EQ(check_snapshot_head(std::string(100, '\0'), 1ULL << 40).code(), Code::kCorrupt);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    EXPECT_FALSE(decode_snapshot(bad).ok()) << i;
  }
  std::string newer = bytes;
  newer[8] = 2;
  EXPECT_EQ(decode_snapshot(newer).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace steelyard::oplog
