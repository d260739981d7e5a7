// A store of many tiny revisions, and what a process that reads its records waits for while others work in it.
//
//   store_bench make STORE REVISIONS
//   store_bench gets STORE REVISIONS
//
// The second reads one record after the other until stdin ends, and says how long a get took.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/runtime.h"
#include "store/store.h"

namespace steelyard::store {
namespace {

class NoObserver final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

std::unique_ptr<Store> open_store(const std::string& path, OpenMode mode) {
  StoreOptions options;
  options.path = path;
  options.cold_reserve_free = 0;
  auto store = Store::open(real_runtime(), options, mode);
  SY_CHECK(store.ok(), store.status().to_string());
  return *std::move(store);
}

Selector selector_of(std::uint64_t number) {
  Selector selector;
  selector.ref.resource_id = "model-" + std::to_string(number);
  selector.ref.revision = "main";
  selector.ref.weight_generation = 1;
  return selector;
}

int make(const std::string& path, std::uint64_t revisions) {
  const auto store = open_store(path, OpenMode::kCreate);
  const std::string source = path + "-tiny.safetensors";
  std::ofstream(source, std::ios::binary) << std::string("\x02\0\0\0\0\0\0\0{}", 10);
  NoObserver observer;
  const CancelFlag cancel{false};
  for (std::uint64_t i = 0; i < revisions; ++i) {
    ImportRequest request;
    request.source = source;
    request.target = selector_of(i);
    const auto imported = store->import(request, observer, cancel);
    SY_CHECK(imported.ok(), imported.status().to_string());
  }
  return 0;
}

bool stdin_ended() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  return ::poll(&in, 1, 0) != 0;
}

int gets(const std::string& path, std::uint64_t revisions) {
  const auto store = open_store(path, OpenMode::kRead);
  std::vector<std::uint32_t> took_ns;
  for (std::uint64_t number = 0; !stdin_ended(); number = (number + 7919) % revisions) {
    const std::int64_t begun = real_runtime().mono_ns();
    const auto record = store->find(selector_of(number));
    const std::int64_t took = real_runtime().mono_ns() - begun;
    SY_CHECK(record.ok(), record.status().to_string());
    took_ns.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>(took, UINT32_MAX)));
  }
  SY_CHECK(!took_ns.empty(), "stdin is open when this begins");
  std::ranges::sort(took_ns);
  const auto ms = [&](std::size_t index) { return took_ns[index] / 1e6; };
  std::printf("%zu gets: median %.4f ms, p99 %.4f ms, longest %.3f ms\n", took_ns.size(), ms(took_ns.size() / 2),
              ms(took_ns.size() * 99 / 100), ms(took_ns.size() - 1));
  return 0;
}

}  // namespace
}  // namespace steelyard::store

int main(int argc, char** argv) {
  const std::string_view verb = argc == 4 ? argv[1] : "";
  if (verb != "make" && verb != "gets") {
    std::fprintf(stderr, "usage: store_bench make|gets STORE REVISIONS\n");
    return 2;
  }
  const std::uint64_t revisions = std::strtoull(argv[3], nullptr, 10);
  return verb == "make" ? steelyard::store::make(argv[2], revisions) : steelyard::store::gets(argv[2], revisions);
}
