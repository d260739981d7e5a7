#include "reshard/copy_runs.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace steelyard::reshard {
namespace {

/// Runs of a size that is known when this is compiled: one or two moves each.
template <std::size_t kBytes>
void copy_fixed(const CopyRuns& runs) {
  const std::byte* from = runs.source;
  std::byte* to = runs.target;
  for (std::uint64_t i = 0; i < runs.count; ++i, from += runs.source_stride, to += runs.target_stride) {
    std::memcpy(to, from, kBytes);
  }
}

void copy_plain(const CopyRuns& runs) {
  switch (runs.bytes) {
    case 1:
      return copy_fixed<1>(runs);
    case 2:
      return copy_fixed<2>(runs);
    case 4:
      return copy_fixed<4>(runs);
    case 8:
      return copy_fixed<8>(runs);
    case 16:
      return copy_fixed<16>(runs);
    case 32:
      return copy_fixed<32>(runs);
    case 64:
      return copy_fixed<64>(runs);
    case 128:
      return copy_fixed<128>(runs);
    default:
      break;
  }
  const std::byte* from = runs.source;
  std::byte* to = runs.target;
  for (std::uint64_t i = 0; i < runs.count; ++i, from += runs.source_stride, to += runs.target_stride) {
    std::memcpy(to, from, runs.bytes);
  }
}

#if defined(__x86_64__)

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kStore = 16;
/// Shorter runs have too few whole cache lines to be worth it.
constexpr std::uint64_t kStreamBytesMin = 512;
/// Sources are strided, so the hardware's own prefetcher stops at the end of every run.
constexpr std::uint64_t kPrefetchBytes = 1024;

void stream_store(const std::byte* from, std::byte* to) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

/// `to` is aligned to kStore and `bytes` a multiple of it.
void stream_aligned(const std::byte* from, std::byte* to, std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (; at + kLine <= bytes; at += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kPrefetchBytes), _MM_HINT_NTA);
    for (std::uint64_t store = 0; store < kLine; store += kStore) stream_store(from + at + store, to + at + store);
  }
  for (; at < bytes; at += kStore) stream_store(from + at, to + at);
}

/// A line must not be written both ways, which costs more than either: where the ends of runs share lines, they are
/// streamed if all of them can be, and otherwise go through the caches.
void stream_run(const std::byte* from, std::byte* to, std::uint64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  if (address % kStore == 0 && bytes % kStore == 0) return stream_aligned(from, to, bytes);
  const std::uint64_t head = (kLine - address % kLine) % kLine;
  std::memcpy(to, from, head);
  const std::uint64_t whole = (bytes - head) / kLine * kLine;
  stream_aligned(from + head, to + head, whole);
  std::memcpy(to + head + whole, from + head + whole, bytes - head - whole);
}

void copy_past_cache(const CopyRuns& runs) {
  const std::byte* from = runs.source;
  std::byte* to = runs.target;
  for (std::uint64_t i = 0; i < runs.count; ++i, from += runs.source_stride, to += runs.target_stride) {
    stream_run(from, to, runs.bytes);
  }
}

#endif

}  // namespace

void copy_runs(const CopyRuns& runs, bool past_cache) {
#if defined(__x86_64__)
  if (past_cache && runs.bytes >= kStreamBytesMin) return copy_past_cache(runs);
#else
  static_cast<void>(past_cache);
#endif
  copy_plain(runs);
}

void finish_copies() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace steelyard::reshard
