// rehydrate_bench COLD HOT [MIB] [ROUNDS]: objects of a directory tier filled into a memory tier, every block checked,
// against `dd iflag=direct` of as many bytes and against allocating and writing them in the same tmpfs. Interleaved;
// medians.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/runtime.h"
#include "base/unique_fd.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "tiers/bench_support.h"
#include "tiers/fill.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

using limits::kMiB;

constexpr std::uint64_t kObjectBytes = 64 * kMiB;
constexpr std::uint64_t kWriteBytes = 4 * kMiB;

/// The bytes that a memory tier cannot do without writing: the floor of what memory costs.
void fill_tmpfs(const std::string& folder, ByteView data, std::uint32_t objects) {
  std::vector<UniqueFd> files;
  for (std::uint32_t i = 0; i < objects; ++i) {
    UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR, 0600));
    if (!fd.valid() || ::fallocate(fd.get(), 0, 0, static_cast<off_t>(kObjectBytes)) != 0) std::abort();
    for (std::uint64_t at = 0; at < kObjectBytes; at += kWriteBytes) {
      if (::pwrite(fd.get(), data.data(), kWriteBytes, static_cast<off_t>(at)) < 0) std::abort();
    }
    files.push_back(std::move(fd));
  }
}

int bench(const std::string& cold_path, const std::string& hot_path, std::uint64_t bytes, int rounds) {
  const std::string store_id(32, 'e');
  const AttemptName in_cold{std::string(64, 'b'), 1};
  const AttemptName in_hot{in_cold.group, 1, std::string(32, 'd')};
  DirectoryOptions cold_options;
  cold_options.path = cold_path + "/tier";
  cold_options.store_id = store_id;
  cold_options.create = true;
  auto cold = require(open_directory(real_runtime(), cold_options));
  MemoryOptions hot_options;
  hot_options.path = hot_path;
  hot_options.store_id = store_id;
  hot_options.create = true;
  auto hot = require(open_memory(real_runtime(), hot_options));

  const auto objects = static_cast<std::uint32_t>(bytes / kObjectBytes);
  const AlignedBuffer data = require(AlignedBuffer::allocate(kObjectBytes));
  std::vector<Digest> digests(objects);
  std::vector<std::vector<std::uint64_t>> sums(objects);
  real_runtime().fill_random(data.span());
  for (std::uint32_t i = 0; i < objects; ++i) {
    real_runtime().fill_random(data.span().first(4096));
    digests[i] = hash::sha256(data.span());
    hash::append_block_sums(data.span(), limits::kBlockBytes, sums[i]);
    auto put = require(cold->start_put({in_cold, ObjectKind::kPayload, i}, data.span(), digests[i]));
    require(put->finish().status());
  }
  require(cold->flush(in_cold));
  const std::string dd_file = cold_path + "/dd";
  const std::string mib = std::to_string(bytes / kMiB / 16);
  run("dd if=/dev/zero of=" + dd_file + " bs=16M count=" + mib + " oflag=direct conv=fsync 2>/dev/null");

  const auto rehydrate = [&](unsigned workers) {
    const auto reservation = require(hot->reserve(in_hot.operation, bytes));
    std::atomic<std::uint32_t> next{0};
    std::vector<std::unique_ptr<Task>> tasks;
    for (unsigned w = 0; w < workers; ++w) {
      tasks.push_back(real_runtime().spawn("fill", [&] {
        const AlignedBuffer memory = require(AlignedBuffer::allocate(kFillBytes / workers));
        for (std::uint32_t i = next++; i < objects; i = next++) {
          const FillRequest request{
              {in_cold, ObjectKind::kPayload, i}, {in_hot, ObjectKind::kPayload, i}, kObjectBytes, digests[i], sums[i]};
          require(fill(*cold, *hot, request, memory.span()).status());
        }
      }));
    }
    tasks.clear();
  };
  std::vector<double> dd, memory, one, two;
  for (int round = 0; round < rounds; ++round) {
    dd.push_back(seconds_of([&] { run("dd if=" + dd_file + " of=/dev/null bs=16M iflag=direct 2>/dev/null"); }));
    memory.push_back(seconds_of([&] { fill_tmpfs(hot_path, data.span(), objects); }));
    one.push_back(seconds_of([&] { rehydrate(1); }));
    require(hot->remove_attempt(in_hot));
    two.push_back(seconds_of([&] { rehydrate(2); }));
    require(hot->remove_attempt(in_hot));
  }
  const double floor = std::max(median(dd), median(memory));
  std::printf("dd iflag=direct        %.3f s\nfallocate and write    %.3f s\n", median(dd), median(memory));
  std::printf("rehydrate, one worker  %.3f s  %.3f x the larger\n", median(one), median(one) / floor);
  std::printf("rehydrate, two workers %.3f s  %.3f x the larger\n", median(two), median(two) / floor);
  run("rm -rf " + cold_path + "/tier " + dd_file + " " + hot_path + "/steelyard-" + store_id);
  return 0;
}

}  // namespace
}  // namespace steelyard::tiers

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: rehydrate_bench COLD HOT [MIB] [ROUNDS]\n");
    return 2;
  }
  const std::uint64_t mib = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 2048;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 5;
  return steelyard::tiers::bench(argv[1], argv[2], mib * 1024 * 1024, rounds);
}
