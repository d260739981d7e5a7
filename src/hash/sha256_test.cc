#include "hash/sha256.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/limits.h"
#include "hash/fused.h"
#include "hash/sha256_compress.h"
#include "hash/xxh3.h"

namespace steelyard::hash {
namespace {

Digest oracle(ByteView bytes) {
  Digest digest;
  unsigned size = 0;
  EXPECT_EQ(EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.bytes.data()), &size,
                       EVP_sha256(), nullptr),
            1);
  return digest;
}

std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

/// Ascending cuts of [0, bytes], both ends included.
std::vector<std::size_t> cuts_of(std::size_t bytes) {
  auto cuts = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, bytes + 1));
  cuts.push_back(0);
  cuts.push_back(bytes);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmn"
                 "opqrstnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, EveryLengthAroundTheBlocks) {
  const auto bytes = noise(300, 1);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const ByteView view(bytes.data(), size);
    EXPECT_EQ(sha256(view), oracle(view)) << size;
  }
}

TEST(Sha256, AnySplitGivesTheSame) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = noise(*rc::gen::inRange<std::size_t>(0, 5000), *rc::gen::arbitrary<std::uint64_t>());
    const auto cuts = cuts_of(bytes.size());
    Sha256 sha;
    for (std::size_t i = 1; i < cuts.size(); ++i)
      sha.update(ByteView(bytes).subspan(cuts[i - 1], cuts[i] - cuts[i - 1]));
    RC_ASSERT(sha.finish() == oracle(bytes));
  }));
}

TEST(Sha256, ACopyGoesOnByItself) {
  const auto bytes = noise(1000, 2);
  Sha256 first;
  first.update(ByteView(bytes).first(333));
  Sha256 second = first;
  first.update(ByteView(bytes).subspan(333));
  EXPECT_EQ(second.finish(), oracle(ByteView(bytes).first(333)));
  EXPECT_EQ(first.finish(), oracle(bytes));
}

TEST(Sha256, FinishMakesItNew) {
  Sha256 sha;
  sha.update(as_bytes("something"));
  static_cast<void>(sha.finish());
  sha.update(as_bytes("abc"));
  EXPECT_EQ(sha.finish().hex(), sha256_hex("abc"));
}

TEST(Sha256, LengthsBeyond32BitsOfBits) {
  const std::vector<std::byte> piece(64 << 20, std::byte{0x5a});
  Sha256 sha;
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  EVP_DigestInit_ex(evp, EVP_sha256(), nullptr);
  for (int i = 0; i < 9; ++i) {  // 576 MiB: more than 2^32 bits
    sha.update(piece);
    EVP_DigestUpdate(evp, piece.data(), piece.size());
  }
  Digest expected;
  EVP_DigestFinal_ex(evp, reinterpret_cast<unsigned char*>(expected.bytes.data()), nullptr);
  EVP_MD_CTX_free(evp);
  EXPECT_EQ(sha.finish(), expected);
}

TEST(UpdateTwo, IndependentBytesAndPhases) {
  EXPECT_TRUE(rc::check([] {
    const auto a_bytes = noise(*rc::gen::inRange<std::size_t>(0, 5000), 1);
    const auto b_bytes = noise(*rc::gen::inRange<std::size_t>(0, 5000), 2);
    const auto a_cuts = cuts_of(a_bytes.size());
    const auto b_cuts = cuts_of(b_bytes.size());
    Sha256 a;
    Sha256 b;
    const auto piece = [](const std::vector<std::byte>& bytes, const std::vector<std::size_t>& cuts, std::size_t i) {
      if (i >= cuts.size()) return ByteView();
      return ByteView(bytes).subspan(cuts[i - 1], cuts[i] - cuts[i - 1]);
    };
    for (std::size_t i = 1; i < std::max(a_cuts.size(), b_cuts.size()); ++i) {
      Sha256::update_two(a, piece(a_bytes, a_cuts, i), b, piece(b_bytes, b_cuts, i));
    }
    RC_ASSERT(a.finish() == oracle(a_bytes));
    RC_ASSERT(b.finish() == oracle(b_bytes));
  }));
}

TEST(UpdateTwo, SameBytesInEveryPairOfPhases) {
  const auto bytes = noise(64 + 64 + 777, 3);
  for (std::size_t a_head = 0; a_head < 64; ++a_head) {
    for (std::size_t b_head = 0; b_head < 64; ++b_head) {
      // Each digest has its own bytes before the common ones.
      const ByteView common = ByteView(bytes).subspan(64);
      const ByteView a_all = ByteView(bytes).subspan(64 - a_head);
      const ByteView b_all = ByteView(bytes).subspan(64 - b_head);
      Sha256 a;
      Sha256 b;
      a.update(a_all.first(a_head));
      b.update(b_all.first(b_head));
      Sha256::update_two(a, common.first(500), b, common.first(500));
      Sha256::update_two(a, common.subspan(500), b, common.subspan(500));
      ASSERT_EQ(a.finish(), oracle(a_all)) << a_head << " " << b_head;
      ASSERT_EQ(b.finish(), oracle(b_all)) << a_head << " " << b_head;
    }
  }
}

TEST(Compress, BothImplementationsAgree) {
  const compress::Functions* sha = compress::sha_instructions();
  if (sha == nullptr) GTEST_SKIP() << "the CPU has no SHA instructions";
  const compress::Functions& reference = compress::openssl();
  EXPECT_TRUE(rc::check([&] {
    const auto count = *rc::gen::inRange<std::size_t>(0, 20);
    const auto shift = *rc::gen::inRange<std::size_t>(0, 65);
    const auto bytes = noise(64 * 22, *rc::gen::arbitrary<std::uint64_t>());
    compress::State a = *rc::gen::container<compress::State>(rc::gen::arbitrary<std::uint32_t>());
    compress::State b = *rc::gen::container<compress::State>(rc::gen::arbitrary<std::uint32_t>());
    compress::State a_reference = a;
    compress::State b_reference = b;
    sha->two(a, bytes.data(), b, bytes.data() + shift, count);
    reference.two(a_reference, bytes.data(), b_reference, bytes.data() + shift, count);
    RC_ASSERT(a == a_reference);
    RC_ASSERT(b == b_reference);
    sha->one(a, bytes.data() + shift, count);
    reference.one(a_reference, bytes.data() + shift, count);
    RC_ASSERT(a == a_reference);
  }));
}

TEST(HashPass, SameAsTheThreeParts) {
  for (const std::size_t head : {0, 8, 63, 64, 1000}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, limits::kBlockBytes - 1, limits::kBlockBytes,
                                   limits::kBlockBytes + 1, 3 * limits::kBlockBytes + 70'001}) {
      const auto bytes = noise(head + size, head * 7 + size);
      const ByteView object_bytes = ByteView(bytes).subspan(head);
      Sha256 file;
      Sha256 object;
      file.update(ByteView(bytes).first(head));
      std::vector<std::uint64_t> sums = {17};
      // As a writer would: whole blocks first, then the end of the object.
      const std::size_t first = std::min<std::size_t>(object_bytes.size(), limits::kBlockBytes);
      hash_pass(file, object, object_bytes.first(first), sums);
      hash_pass(file, object, object_bytes.subspan(first), sums);
      std::vector<std::uint64_t> expected = {17};
      append_block_sums(object_bytes, limits::kBlockBytes, expected);
      EXPECT_EQ(sums, expected);
      EXPECT_EQ(file.finish(), oracle(bytes));
      EXPECT_EQ(object.finish(), oracle(object_bytes));
      sums = {17};
      hash_pass(object, object_bytes, sums);
      EXPECT_EQ(sums, expected);
      EXPECT_EQ(object.finish(), oracle(object_bytes));
    }
  }
}

}  // namespace
}  // namespace steelyard::hash
