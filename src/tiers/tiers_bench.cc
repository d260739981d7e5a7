// tiers_bench DIR [BYTES_MIB] [ROUNDS]: the directory tier against dd on the same filesystem, interleaved, medians.
//
// Writes: objects of 64 MiB from one thread, each started while the one before is under way, then flush; against
// `dd oflag=direct conv=fsync bs=16M`. Reads: 16 MiB ranges, two under way; against `dd iflag=direct bs=16M`.
// Also: cost of flush by number of small files, and of a ring.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "tiers/bench_support.h"
#include "tiers/directory/io_queue.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kObjectBytes = 64 * kMiB;
constexpr std::uint64_t kReadBytes = 16 * kMiB;

struct Sample {
  std::vector<double> seconds;
  void add(double value) { seconds.push_back(value); }
  void print(const char* name, std::uint64_t bytes) const {
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    const double middle = median(seconds);
    std::printf("%-28s %7.3f s  (%.3f..%.3f)  %7.0f MB/s\n", name, middle, *least, *most,
                static_cast<double>(bytes) / 1e6 / middle);
  }
};

Digest unique_digest() {
  Digest digest;
  real_runtime().fill_random(digest.bytes);
  return digest;
}

AttemptName new_attempt(std::uint32_t attempt) { return {std::string(64, 'b'), attempt}; }

void write_objects(Tier& tier, const AttemptName& attempt, const std::vector<AlignedBuffer>& buffers,
                   std::uint32_t objects) {
  std::unique_ptr<PendingPut> before;
  for (std::uint32_t i = 0; i < objects; ++i) {
    auto put = require(tier.start_put({attempt, ObjectKind::kPayload, i}, buffers[i % 2].span(), unique_digest()));
    if (before) require(before->finish().status());
    before = std::move(put);
  }
  require(before->finish().status());
  require(tier.flush(attempt));
}

void read_objects(Tier& tier, const AttemptName& attempt, const std::vector<AlignedBuffer>& buffers,
                  std::uint32_t begin, std::uint32_t end) {
  std::unique_ptr<PendingRead> before;
  for (std::uint32_t i = begin; i < end; ++i) {
    for (std::uint64_t at = 0; at < kObjectBytes; at += kReadBytes) {
      const auto into = buffers[(at / kReadBytes) % 2].span().first(kReadBytes);
      auto read = require(tier.start_read({attempt, ObjectKind::kPayload, i}, {{at, into}}));
      if (before) require(before->finish());
      before = std::move(read);
    }
  }
  require(before->finish());
}

void drop_content(Tier& tier) {
  for (const auto& entry : require(tier.list_content())) require(tier.remove_content(entry.sha256));
}

void bench_flush(Tier& tier, std::uint32_t attempt_base) {
  const std::vector<std::byte> small(10'000, std::byte{7});
  for (const std::uint32_t files : {0U, 1U, 10U, 100U, 1000U}) {
    Sample flush;
    for (std::uint32_t round = 0; round < 5; ++round) {
      const AttemptName attempt = new_attempt(attempt_base++);
      for (std::uint32_t i = 0; i < files; ++i) {
        auto put = require(tier.start_put({attempt, ObjectKind::kPayload, i}, small, unique_digest()));
        require(put->finish().status());
      }
      flush.add(seconds_of([&] { require(tier.flush(attempt)); }));
      require(tier.remove_attempt(attempt));
      drop_content(tier);
    }
    flush.print(("flush, small files: " + std::to_string(files)).c_str(), files * small.size());
  }
}

void bench_syncfs(const std::string& folder) {
  for (const int files : {0, 1, 10, 100, 1000}) {
    Sample sync;
    for (int round = 0; round < 5; ++round) {
      const std::string data(10'000, 'x');
      for (int i = 0; i < files; ++i) {
        const int fd = ::open((folder + "/s" + std::to_string(i)).c_str(), O_WRONLY | O_CREAT, 0644);
        if (::write(fd, data.data(), data.size()) < 0) std::exit(1);
        ::close(fd);
      }
      const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
      sync.add(seconds_of([&] { ::syncfs(fd); }));
      ::close(fd);
      for (int i = 0; i < files; ++i) ::unlink((folder + "/s" + std::to_string(i)).c_str());
    }
    sync.print(("syncfs, small files: " + std::to_string(files)).c_str(), static_cast<std::uint64_t>(files) * 10'000);
  }
}

void bench_ring() {
  directory::IoEngine engine(real_runtime());
  constexpr int kRounds = 200;
  std::vector<std::unique_ptr<directory::IoQueue>> queues;
  const double made = seconds_of([&] {
    for (int i = 0; i < kRounds; ++i) queues.push_back(engine.acquire());
  });
  std::printf("a new ring: %.1f us\n", made / kRounds * 1e6);
}

int bench(const std::string& folder, std::uint64_t bytes, int rounds) {
  DirectoryOptions options;
  options.path = folder + "/tier";
  options.store_id = std::string(32, 'e');
  options.create = true;
  auto tier = require(open_directory(real_runtime(), options));
  const auto objects = static_cast<std::uint32_t>(bytes / kObjectBytes);
  std::vector<AlignedBuffer> buffers;
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(require(AlignedBuffer::allocate(kObjectBytes)));
    real_runtime().fill_random(buffers.back().span());
  }
  const std::string dd_file = folder + "/dd";
  const std::string source = folder + "/source";
  run("head -c " + std::to_string(kObjectBytes) + " /dev/urandom > " + source);
  const std::string dd_write = "dd if=/dev/zero of=" + dd_file + " bs=16M count=" + std::to_string(bytes / kReadBytes) +
                               " oflag=direct conv=fsync 2>/dev/null";
  const std::string dd_read = "dd if=" + dd_file + " of=/dev/null bs=16M iflag=direct 2>/dev/null";
  Sample write, write_dd, read, read_two, read_dd;
  for (int round = 0; round < rounds; ++round) {
    const AttemptName attempt = new_attempt(static_cast<std::uint32_t>(round + 1));
    run("rm -f " + dd_file + "; sync");
    write_dd.add(seconds_of([&] { run(dd_write); }));
    run("sync");
    write.add(seconds_of([&] { write_objects(*tier, attempt, buffers, objects); }));
    run("sync");
    read_dd.add(seconds_of([&] { run(dd_read); }));
    read.add(seconds_of([&] { read_objects(*tier, attempt, buffers, 0, objects); }));
    read_two.add(seconds_of([&] {
      const std::vector<AlignedBuffer> other = [] {
        std::vector<AlignedBuffer> two;
        for (int i = 0; i < 2; ++i) two.push_back(require(AlignedBuffer::allocate(kReadBytes)));
        return two;
      }();
      auto task = real_runtime().spawn("read", [&] { read_objects(*tier, attempt, other, 0, objects / 2); });
      read_objects(*tier, attempt, buffers, objects / 2, objects);
      task->join();
    }));
    require(tier->remove_attempt(attempt));
    drop_content(*tier);
  }
  write_dd.print("dd oflag=direct conv=fsync", bytes);
  write.print("tier write and flush", bytes);
  std::printf("write: tier / dd = %.3f\n", median(write.seconds) / median(write_dd.seconds));
  read_dd.print("dd iflag=direct", bytes);
  read.print("tier read, one thread", bytes);
  read_two.print("tier read, two threads", bytes);
  std::printf("read: tier / dd = %.3f, two threads %.3f\n", median(read.seconds) / median(read_dd.seconds),
              median(read_two.seconds) / median(read_dd.seconds));
  bench_flush(*tier, 1000);
  bench_syncfs(folder);
  bench_ring();
  run("rm -rf " + folder + "/tier " + dd_file + " " + source);
  return 0;
}

}  // namespace
}  // namespace steelyard::tiers

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tiers_bench DIR [MIB] [ROUNDS]\n");
    return 2;
  }
  const std::uint64_t mib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1024;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  return steelyard::tiers::bench(argv[1], mib * 1024 * 1024, rounds);
}
