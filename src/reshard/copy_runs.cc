#include "reshard/copy_runs.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
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
/// Shorter runs have too few whole cache lines to be worth it.
constexpr std::uint64_t kStreamBytesMin = 512;
/// Sources are strided, so the hardware's own prefetcher stops at the end of every run.
constexpr std::uint64_t kPrefetchBytes = 1024;

__attribute__((target("avx2"))) void stream_run(const std::byte* from, std::byte* to, std::uint64_t bytes) {
  const std::uint64_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  if (head != 0) {
    std::memcpy(to, from, head);
    from += head, to += head, bytes -= head;
  }
  const std::uint64_t whole = bytes / kLine * kLine;
  for (std::uint64_t at = 0; at < whole; at += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(from + at + kPrefetchBytes), _MM_HINT_NTA);
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at + 32), high);
  }
  if (whole < bytes) std::memcpy(to + whole, from + whole, bytes - whole);
}

void copy_past_cache(const CopyRuns& runs) {
  const std::byte* from = runs.source;
  std::byte* to = runs.target;
  for (std::uint64_t i = 0; i < runs.count; ++i, from += runs.source_stride, to += runs.target_stride) {
    stream_run(from, to, runs.bytes);
  }
}

bool can_stream() {
  static const bool can = __builtin_cpu_supports("avx2") != 0;
  return can;
}

#endif

}  // namespace

void copy_runs(const CopyRuns& runs, bool past_cache) {
#if defined(__x86_64__)
  if (past_cache && runs.bytes >= kStreamBytesMin && can_stream()) return copy_past_cache(runs);
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
