#include "store/verified_reader.h"

#include <gtest/gtest.h>

#include <random>

#include "base/limits.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "tiers/simulated.h"

namespace steelyard::store {
namespace {

using formats::ObjectRange;
using limits::kMiB;

class VerifiedReaderTest : public testing::Test {
 protected:
  VerifiedReaderTest() : tier_(std::move(tiers::open_simulated(real_runtime(), disk_)).value()) {
    add(3 * kMiB + 5);
    add(100);
    add(2 * kMiB);
  }

  void add(std::uint64_t bytes) {
    std::string data(bytes, '\0');
    for (char& c : data) c = static_cast<char>(random_());
    formats::ObjectEntry entry;
    entry.bytes = bytes;
    entry.sha256 = hash::sha256(as_bytes(data));
    hash::append_block_sums(as_bytes(data), limits::kBlockBytes, entry.blocks);
    auto put = tier_->start_put(name(static_cast<std::uint32_t>(objects_.size())), as_bytes(data), entry.sha256);
    ASSERT_TRUE(put.ok() && (*put)->finish().ok());
    objects_.push_back(std::move(entry));
    data_.push_back(std::move(data));
  }
  tiers::ObjectName name(std::uint32_t index) const { return {attempt_, tiers::ObjectKind::kPayload, index}; }

  struct Seen {
    std::string bytes;           ///< of the segment, as far as it is good
    std::vector<BadObject> bad;  ///< at most one
    bool ended = false;          ///< its last piece said so
  };
  /// By segment.
  std::vector<Seen> read(const std::vector<ObjectRange>& segments, std::uint64_t piece_bytes = kMiB) {
    ReadBuffers buffers = ReadBuffers::allocate(piece_bytes).value();
    VerifiedReader reader(*tier_, attempt_, objects_, segments, buffers);
    std::vector<Seen> seen(segments.size());
    VerifiedReader::Piece piece;
    std::size_t at = 0;
    for (;;) {
      const auto more = reader.next(piece);
      EXPECT_TRUE(more.ok()) << more.status().to_string();
      if (!more.ok() || !*more) break;
      EXPECT_GE(piece.segment, at) << "in order";
      at = piece.segment;
      Seen& here = seen[at];
      EXPECT_FALSE(here.ended) << "nothing comes after the last piece of a segment";
      here.ended = piece.last_of_segment;
      if (piece.bad) {
        here.bad.push_back(*piece.bad);
        continue;
      }
      EXPECT_EQ(piece.offset, segments[at].offset + here.bytes.size());
      here.bytes += as_text(piece.bytes);
    }
    const auto again = reader.next(piece);
    EXPECT_TRUE(again.ok() && !*again) << "the end stays the end";
    return seen;
  }
  std::string wanted(const ObjectRange& range) const { return data_[range.object].substr(range.offset, range.bytes); }

  std::mt19937_64 random_{1};
  std::shared_ptr<tiers::SimulatedDisk> disk_ = std::make_shared<tiers::SimulatedDisk>(1);
  std::unique_ptr<tiers::Tier> tier_;
  const tiers::AttemptName attempt_{std::string(64, 'a'), 1};
  std::vector<formats::ObjectEntry> objects_;
  std::vector<std::string> data_;
};

TEST_F(VerifiedReaderTest, NoSegmentsAndEmptyOnesGiveNothing) {
  EXPECT_TRUE(read({}).empty());
  const auto seen = read({{0, 7, 0}, {1, 0, 0}});
  EXPECT_FALSE(seen[0].ended || seen[1].ended);
}

TEST_F(VerifiedReaderTest, WholeObjectsInOrder) {
  const std::vector<ObjectRange> segments = {{0, 0, 3 * kMiB + 5}, {1, 0, 100}, {2, 0, 2 * kMiB}};
  for (const std::uint64_t piece : {kMiB, 2 * kMiB, 16 * kMiB}) {
    const auto seen = read(segments, piece);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      EXPECT_EQ(seen[i].bytes, wanted(segments[i])) << i << " in pieces of " << piece;
      EXPECT_TRUE(seen[i].ended);
    }
  }
}

TEST_F(VerifiedReaderTest, AnyRangesAsAPlainModel) {
  for (int round = 0; round < 200; ++round) {
    std::vector<ObjectRange> segments;
    const std::size_t count = 1 + random_() % 5;
    for (std::size_t i = 0; i < count; ++i) {
      const auto object = static_cast<std::uint32_t>(random_() % objects_.size());
      // Near block edges more often than not.
      const auto pick = [&](std::uint64_t most) {
        const std::uint64_t any = random_() % (most + 1);
        return random_() % 2 == 0 ? any : std::min(most, any - any % kMiB + random_() % 3);
      };
      const std::uint64_t offset = pick(objects_[object].bytes);
      segments.push_back({object, offset, pick(objects_[object].bytes - offset)});
    }
    const auto seen = read(segments, (1 + random_() % 3) * kMiB);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      ASSERT_EQ(seen[i].bytes, wanted(segments[i])) << "round " << round << ", segment " << i;
      ASSERT_EQ(seen[i].ended, segments[i].bytes > 0);
    }
  }
}

TEST_F(VerifiedReaderTest, ABadBlockEndsItsSegmentAndTheNextOnesAreRead) {
  ASSERT_TRUE(disk_->rot(name(0), kMiB + 17));
  const std::vector<ObjectRange> segments = {{0, 0, 3 * kMiB + 5}, {1, 0, 100}, {0, 2 * kMiB, 10}, {2, 5, kMiB}};
  for (const std::uint64_t piece : {kMiB, 2 * kMiB, 16 * kMiB}) {
    const auto seen = read(segments, piece);
    ASSERT_EQ(seen[0].bad.size(), 1U);
    EXPECT_EQ(seen[0].bad[0].kind, ProblemKind::kObjectChecksum);
    EXPECT_EQ(seen[0].bad[0].object, 0U);
    EXPECT_EQ(seen[0].bad[0].offset, kMiB);
    EXPECT_NE(seen[0].bad[0].expected, seen[0].bad[0].actual);
    EXPECT_TRUE(seen[0].ended);
    EXPECT_EQ(seen[0].bytes, piece == kMiB ? wanted({0, 0, kMiB}) : "");
    for (std::size_t i = 1; i < segments.size(); ++i) {
      EXPECT_TRUE(seen[i].bad.empty());
      EXPECT_EQ(seen[i].bytes, wanted(segments[i])) << i;
    }
  }
}

TEST_F(VerifiedReaderTest, BytesBesideTheRangeInItsBlockCountToo) {
  ASSERT_TRUE(disk_->rot(name(2), 1));
  EXPECT_EQ(read({{2, 100, 10}})[0].bad.size(), 1U);
  EXPECT_TRUE(read({{2, kMiB, 10}})[0].bad.empty());
}

TEST_F(VerifiedReaderTest, AMissingObjectIsNamed) {
  ASSERT_TRUE(tier_->remove(name(1)).ok());
  const auto seen = read({{0, 0, 1}, {1, 0, 100}, {2, 0, 1}});
  ASSERT_EQ(seen[1].bad.size(), 1U);
  EXPECT_EQ(seen[1].bad[0].kind, ProblemKind::kMissingObject);
  EXPECT_EQ(seen[1].bad[0].object, 1U);
  EXPECT_FALSE(seen[1].bad[0].offset);
  EXPECT_EQ(seen[2].bytes, wanted({2, 0, 1}));
}

TEST_F(VerifiedReaderTest, AnObjectThatWasCutIsNamedWithItsSize) {
  ASSERT_TRUE(disk_->truncate(name(0), kMiB + 1));
  const auto seen = read({{0, 0, kMiB}, {0, 2 * kMiB, 1}});
  EXPECT_TRUE(seen[0].bad.empty());
  ASSERT_EQ(seen[1].bad.size(), 1U);
  EXPECT_EQ(seen[1].bad[0].kind, ProblemKind::kObjectSize);
  EXPECT_EQ(seen[1].bad[0].actual, "1048577 bytes");
  const Status status = to_status(seen[1].bad[0], {{"default", "default", "m", "main"}, 1});
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("weights/default/m/main/1/payload/00000000"), std::string::npos) << status.message();
}

TEST(ReadPieceBytes, SharesTheBudgetInWholeBlocks) {
  EXPECT_EQ(read_piece_bytes(256 * kMiB, 2), 16 * kMiB);
  EXPECT_EQ(read_piece_bytes(16 * kMiB, 2), 4 * kMiB);
  EXPECT_EQ(read_piece_bytes(16 * kMiB, 3), 2 * kMiB);
  EXPECT_EQ(read_piece_bytes(16 * kMiB, 256), kMiB);
}

}  // namespace
}  // namespace steelyard::store
