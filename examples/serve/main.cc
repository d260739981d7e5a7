// serve_example STORE REF [THREADS]: what an engine does when it starts. It leases a revision, reads every tensor into
// one piece of memory with several threads, and lets go.
//
// Prints for each tensor its name, dtype, shape, bytes and Adler-32, so that another reader can be compared with it.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "steelyard/store.h"

namespace {

/// The value, or the reason and the next step on stderr and the end of the program.
template <typename T>
T must(steelyard::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "error: %s\nhint: %s\n", result.status().message().c_str(), result.status().hint().c_str());
  std::exit(1);
}

/// A part of a tensor, and where it goes.
struct Part {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  std::span<std::byte> into;
};

std::uint32_t adler32(std::span<const std::byte> bytes) {
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (const std::byte byte : bytes) {
    low = (low + std::to_integer<std::uint32_t>(byte)) % 65521;
    high = (high + low) % 65521;
  }
  return high << 16 | low;
}

/// Reads the parts with several threads. Large parts: the store checks whole blocks of 1 MiB, and reads ahead in a
/// call.
steelyard::Status read_all(const steelyard::OpenRevision& revision, const std::vector<Part>& parts, unsigned threads) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  steelyard::Status first;
  const auto work = [&] {
    for (std::size_t i = next++; i < parts.size(); i = next++) {
      steelyard::Status read = revision.read_tensor(parts[i].tensor, parts[i].offset, parts[i].into);
      if (read.ok()) continue;
      const std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(read);
      next = parts.size();
    }
  };
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(work);
  for (std::thread& worker : workers) worker.join();
  return first;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: serve_example STORE REF [THREADS]\n");
    return 2;
  }
  const auto threads = static_cast<unsigned>(argc == 4 ? std::max(std::atoi(argv[3]), 1) : 2);
  steelyard::StoreOptions options;
  options.path = argv[1];
  const steelyard::Store store = must(steelyard::Store::open(options, steelyard::OpenMode::kRead));
  const steelyard::Ref ref = must(steelyard::parse_ref(argv[2]));

  std::vector<std::byte> memory;
  {
    // The lease lives as long as this does: nobody can delete what is read.
    const steelyard::OpenRevision revision = must(store.open_revision(ref, {.holder = "serve_example"}));
    std::printf("serving %s\n", format_ref(revision.revision().identity).c_str());

    constexpr std::uint64_t kAlignment = 64;
    constexpr std::uint64_t kPartBytes = std::uint64_t{16} << 20;
    std::vector<std::uint64_t> begin;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < revision.tensor_count(); ++i) {
      begin.push_back(total);
      total += (revision.tensor(i).bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    memory.resize(total);
    std::vector<Part> parts;
    for (std::size_t i = 0; i < revision.tensor_count(); ++i) {
      const std::uint64_t bytes = revision.tensor(i).bytes;
      for (std::uint64_t done = 0; done < bytes; done += kPartBytes) {
        parts.push_back({i, done, std::span(memory).subspan(begin[i] + done, std::min(kPartBytes, bytes - done))});
      }
    }
    const steelyard::Status read = read_all(revision, parts, threads);
    if (!read.ok()) must(steelyard::Result<int>(read));

    for (std::size_t i = 0; i < revision.tensor_count(); ++i) {
      const steelyard::TensorInfo tensor = revision.tensor(i);
      std::string shape;
      for (const std::int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
      std::printf("%s %s [%s] %llu %08x\n", tensor.tensor_id.c_str(), tensor.dtype.c_str(), shape.c_str(),
                  static_cast<unsigned long long>(tensor.bytes),
                  adler32(std::span(memory).subspan(begin[i], tensor.bytes)));
    }
  }
  std::printf("read %zu bytes with %u threads, leases left: %zu\n", memory.size(), threads,
              must(store.leases(ref)).size());
  return 0;
}
