// GB/s (10^9 bytes) of the digests on one core, over pieces of 1 MiB that were just read from the page cache.
//
// `*_read` rows include that read; `read` is the read alone, `*_warm` rows digest the same cached 1 MiB again and
// again.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "hash/fused.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"

namespace steelyard::hash {
namespace {

constexpr std::size_t kPiece = limits::kMiB;
constexpr std::size_t kFileBytes = 256 * limits::kMiB;

/// A file in the page cache.
int source_file() {
  static const int file = [] {
    const int made = memfd_create("hash_bench", MFD_CLOEXEC);
    SY_CHECK(made >= 0, "memfd_create");
    std::vector<std::uint64_t> noise(kPiece / 8);
    std::uint64_t seed = 1;
    for (std::size_t at = 0; at < kFileBytes; at += kPiece) {
      for (auto& word : noise) word = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      SY_CHECK(write(made, noise.data(), kPiece) == static_cast<ssize_t>(kPiece), "write");
    }
    return made;
  }();
  return file;
}

void run(benchmark::State& state, bool read_each, const std::function<void(ByteView)>& digest) {
  const std::unique_ptr<std::byte, decltype(&std::free)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(4096, kPiece)), std::free);
  const int file = source_file();
  std::size_t at = 0;
  SY_CHECK(pread(file, buffer.get(), kPiece, 0) == static_cast<ssize_t>(kPiece), "pread");
  for (auto _ : state) {
    if (read_each) {
      SY_CHECK(pread(file, buffer.get(), kPiece, static_cast<off_t>(at)) == static_cast<ssize_t>(kPiece), "pread");
      at = (at + kPiece) % kFileBytes;
    }
    digest({buffer.get(), kPiece});
  }
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(kPiece) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void add(const char* name, const std::function<void(ByteView)>& digest) {
  benchmark::RegisterBenchmark((std::string(name) + "_warm").c_str(),
                               [digest](benchmark::State& state) { run(state, false, digest); });
  benchmark::RegisterBenchmark((std::string(name) + "_read").c_str(),
                               [digest](benchmark::State& state) { run(state, true, digest); });
}

}  // namespace
}  // namespace steelyard::hash

int main(int argc, char** argv) {
  using namespace steelyard;
  using namespace steelyard::hash;
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  EVP_DigestInit_ex(evp, EVP_sha256(), nullptr);
  Sha256 a;
  Sha256 aligned;
  Sha256 shifted;
  shifted.update(as_bytes("8 bytes."));
  std::vector<std::uint64_t> sums;

  benchmark::RegisterBenchmark("read", [](benchmark::State& state) { run(state, true, [](ByteView) {}); });
  add("openssl_one", [&](ByteView bytes) { EVP_DigestUpdate(evp, bytes.data(), bytes.size()); });
  add("ours_one", [&](ByteView bytes) { a.update(bytes); });
  add("ours_two_same_phase", [&](ByteView bytes) { Sha256::update_two(a, bytes, aligned, bytes); });
  add("ours_two_other_phase", [&](ByteView bytes) { Sha256::update_two(a, bytes, shifted, bytes); });
  add("xxh3", [&](ByteView bytes) { benchmark::DoNotOptimize(xxh3(bytes)); });
  const auto fused = [&](Sha256& object, ByteView bytes) {
    sums.clear();
    hash_pass(a, object, bytes, sums);
  };
  add("fused_same_phase", [&](ByteView bytes) { fused(aligned, bytes); });
  add("fused_other_phase", [&](ByteView bytes) { fused(shifted, bytes); });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  EVP_MD_CTX_free(evp);
}
