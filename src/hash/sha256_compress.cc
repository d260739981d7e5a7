#include "hash/sha256_compress.h"

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#endif

namespace steelyard::hash::compress {
namespace {

void openssl_one(State& state, const std::byte* blocks, std::size_t count) {
  // Whole blocks on a fresh context only compress, so its `h` is the state.
  SHA256_CTX context{};
  SHA256_Init(&context);
  for (std::size_t i = 0; i < state.size(); ++i) context.h[i] = state[i];
  SHA256_Update(&context, blocks, count * 64);
  for (std::size_t i = 0; i < state.size(); ++i) state[i] = context.h[i];
}

void openssl_two(State& a, const std::byte* a_blocks, State& b, const std::byte* b_blocks, std::size_t count) {
  openssl_one(a, a_blocks, count);
  openssl_one(b, b_blocks, count);
}

#if defined(__x86_64__)

#define SY_SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))
#define SY_SHA_INLINE __attribute__((target("sha,sse4.1,ssse3"), always_inline)) static inline

alignas(16) constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// The eight words in the order that the instructions want.
struct Lanes {
  __m128i abef;
  __m128i cdgh;
};

SY_SHA_INLINE Lanes load(const State& state) {
  const auto* words = reinterpret_cast<const __m128i*>(state.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  return {_mm_alignr_epi8(badc, hgfe, 8), _mm_blend_epi16(hgfe, badc, 0xF0)};
}

SY_SHA_INLINE void store(const Lanes& lanes, State& state) {
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i feba = _mm_shuffle_epi32(lanes.abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(lanes.cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

/// The sixteen message words that the schedule holds at a time, as four vectors in a ring.
struct Schedule {
  __m128i w[4];
};

SY_SHA_INLINE void load(Schedule& schedule, const std::byte* block) {
  const __m128i big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  const auto* words = reinterpret_cast<const __m128i*>(block);
  schedule.w[0] = _mm_shuffle_epi8(_mm_loadu_si128(words), big_endian);
  schedule.w[1] = _mm_shuffle_epi8(_mm_loadu_si128(words + 1), big_endian);
  schedule.w[2] = _mm_shuffle_epi8(_mm_loadu_si128(words + 2), big_endian);
  schedule.w[3] = _mm_shuffle_epi8(_mm_loadu_si128(words + 3), big_endian);
}

/// The constants and words of rounds 4G .. 4G+3, and the words of 4G+16 .. 4G+19 in the place of those used up.
template <int G>
SY_SHA_INLINE __m128i next_words(Schedule& schedule) {
  const __m128i words =
      _mm_add_epi32(schedule.w[G % 4], _mm_load_si128(reinterpret_cast<const __m128i*>(kRound + 4 * G)));
  if constexpr (G < 12) {
    const __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(schedule.w[G % 4], schedule.w[(G + 1) % 4]),
                                          _mm_alignr_epi8(schedule.w[(G + 3) % 4], schedule.w[(G + 2) % 4], 4));
    schedule.w[G % 4] = _mm_sha256msg2_epu32(partial, schedule.w[(G + 3) % 4]);
  }
  return words;
}

SY_SHA_INLINE void four_rounds(Lanes& lanes, __m128i words) {
  lanes.cdgh = _mm_sha256rnds2_epu32(lanes.cdgh, lanes.abef, words);
  lanes.abef = _mm_sha256rnds2_epu32(lanes.abef, lanes.cdgh, _mm_shuffle_epi32(words, 0x0E));
}

SY_SHA_INLINE void add(Lanes& lanes, const Lanes& before) {
  lanes.abef = _mm_add_epi32(lanes.abef, before.abef);
  lanes.cdgh = _mm_add_epi32(lanes.cdgh, before.cdgh);
}

template <int G>
SY_SHA_INLINE void step_one(Schedule& schedule, Lanes& lanes) {
  four_rounds(lanes, next_words<G>(schedule));
  if constexpr (G < 15) step_one<G + 1>(schedule, lanes);
}

SY_SHA_TARGET void sha_one(State& state, const std::byte* blocks, std::size_t count) {
  Lanes lanes = load(state);
  for (; count > 0; --count, blocks += 64) {
    const Lanes before = lanes;
    Schedule schedule;
    load(schedule, blocks);
    step_one<0>(schedule, lanes);
    add(lanes, before);
  }
  store(lanes, state);
}

template <int G>
SY_SHA_INLINE void step_shared(Schedule& schedule, Lanes& a, Lanes& b) {
  const __m128i words = next_words<G>(schedule);
  four_rounds(a, words);
  four_rounds(b, words);
  if constexpr (G < 15) step_shared<G + 1>(schedule, a, b);
}

/// Two states over the same blocks: one message schedule serves both.
SY_SHA_TARGET void sha_shared(State& a_state, State& b_state, const std::byte* blocks, std::size_t count) {
  Lanes a = load(a_state);
  Lanes b = load(b_state);
  for (; count > 0; --count, blocks += 64) {
    const Lanes a_before = a;
    const Lanes b_before = b;
    Schedule schedule;
    load(schedule, blocks);
    step_shared<0>(schedule, a, b);
    add(a, a_before);
    add(b, b_before);
  }
  store(a, a_state);
  store(b, b_state);
}

template <int G>
SY_SHA_INLINE void step_two(Schedule& a_schedule, Lanes& a, Schedule& b_schedule, Lanes& b) {
  four_rounds(a, next_words<G>(a_schedule));
  four_rounds(b, next_words<G>(b_schedule));
  if constexpr (G < 15) step_two<G + 1>(a_schedule, a, b_schedule, b);
}

SY_SHA_TARGET void sha_two(State& a_state, const std::byte* a_blocks, State& b_state, const std::byte* b_blocks,
                           std::size_t count) {
  if (a_blocks == b_blocks) return sha_shared(a_state, b_state, a_blocks, count);
  Lanes a = load(a_state);
  Lanes b = load(b_state);
  for (; count > 0; --count, a_blocks += 64, b_blocks += 64) {
    const Lanes a_before = a;
    const Lanes b_before = b;
    Schedule a_schedule;
    Schedule b_schedule;
    load(a_schedule, a_blocks);
    load(b_schedule, b_blocks);
    step_two<0>(a_schedule, a, b_schedule, b);
    add(a, a_before);
    add(b, b_before);
  }
  store(a, a_state);
  store(b, b_state);
}

bool cpu_has_sha() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_SSSE3) == 0 || (c & bit_SSE4_1) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 29)) != 0;
}

#endif

}  // namespace

const Functions& openssl() {
  static constexpr Functions kFunctions = {openssl_one, openssl_two};
  return kFunctions;
}

const Functions* sha_instructions() {
#if defined(__x86_64__)
  static constexpr Functions kFunctions = {sha_one, sha_two};
  static const bool has_sha = cpu_has_sha();
  return has_sha ? &kFunctions : nullptr;
#else
  return nullptr;
#endif
}

const Functions& best() {
  static const Functions& functions = sha_instructions() != nullptr ? *sha_instructions() : openssl();
  return functions;
}

}  // namespace steelyard::hash::compress
