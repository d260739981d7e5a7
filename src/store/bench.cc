#include "store/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "store/context.h"
#include "store/open_store.h"
#include "store/progress_meter.h"
#include "store/scratch_folder.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;

using tiers::AlignedBuffer;

constexpr std::uint64_t kBytes = 128 * limits::kMiB;
constexpr std::uint64_t kObjectBytes = 16 * limits::kMiB;
constexpr std::uint64_t kObjects = kBytes / kObjectBytes;
/// Objects, the source, the import, what is materialised of it.
constexpr std::uint64_t kRoomWanted = 4 * kBytes + 64 * limits::kMiB;
constexpr std::uint64_t kRevisionBytesMax = limits::kGiB;
constexpr int kMemoryRounds = 8;

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};

class Bench {
 public:
  Bench(Runtime& runtime, const StoreOptions& options, const CancelFlag& cancel)
      : runtime_(runtime),
        options_(options),
        cancel_(cancel),
        paths_(paths_of(options)),
        in_store_(runtime, paths_.store, "bench-"),
        in_cold_(runtime, paths_.cold, "bench-") {}

  Result<BenchReport> run(const std::optional<Selector>& revision) {
    SY_RETURN_IF_ERROR(prepare());
    for (const auto step : {&Bench::memory, &Bench::disk, &Bench::verbs}) {
      if (cancel_) return cancelled("the measurement");
      SY_RETURN_IF_ERROR((this->*step)());
    }
    if (revision) SY_RETURN_IF_ERROR(read_revision(*revision));
    return std::move(report_);
  }

 private:
  Status prepare() {
    SY_ASSIGN_OR_RETURN(const auto parts, open_parts(runtime_, options_, OpenMode::kWrite));
    SY_ASSIGN_OR_RETURN(const std::uint64_t room, parts.cold->available_bytes());
    if (room < kRoomWanted) {
      const auto size = format_sizes_apart({kRoomWanted, room});
      return {Code::kNoSpace, fmt::format("measuring wants {} in {}, {} may be written", size[0], paths_.cold, size[1]),
              "free some space, or lower cold.reserve_free"};
    }
    SY_RETURN_IF_ERROR(in_store_.make());
    SY_RETURN_IF_ERROR(in_cold_.make());
    SY_ASSIGN_OR_RETURN(data_, AlignedBuffer::allocate(kObjectBytes));
    SY_ASSIGN_OR_RETURN(other_, AlignedBuffer::allocate(kObjectBytes));
    runtime_.fill_random(data_.span());
    return {};
  }

  template <typename Body>
  Status time(std::string name, std::uint64_t bytes, std::string of, Body body) {
    const std::int64_t begun = runtime_.mono_ns();
    SY_RETURN_IF_ERROR(body());
    const auto took = static_cast<double>(std::max<std::int64_t>(runtime_.mono_ns() - begun, 1));
    report_.rows.push_back({std::move(name), bytes, took / 1e9, std::move(of)});
    return {};
  }

  Status memory() {
    constexpr std::uint64_t kMoved = kMemoryRounds * kObjectBytes;
    SY_RETURN_IF_ERROR(time("memory copy", kMoved, "one thread", [&]() -> Status {
      for (int i = 0; i < kMemoryRounds; ++i) std::memcpy(other_.data(), data_.data(), kObjectBytes);
      return {};
    }));
    return time("checksums", kMoved, "SHA-256 of file and object and XXH3, one thread", [&]() -> Status {
      hash::Sha256 file;
      hash::Sha256 object;
      for (int i = 0; i < kMemoryRounds; ++i) {
        for (std::uint64_t at = 0; at < kObjectBytes; at += limits::kBlockBytes) {
          const ByteView block = ByteView(data_.span()).subspan(at, limits::kBlockBytes);
          hash::Sha256::update_two(file, block, object, block);
          blocks_ ^= hash::xxh3(block);
        }
      }
      return {};
    });
  }

  std::string tier_path() const { return (fs::path(in_cold_.path()) / "objects").native(); }

  Status disk() {
    tiers::DirectoryOptions directory;
    directory.path = tier_path();
    directory.store_id = runtime_.random_hex(16);
    directory.create = true;
    directory.medium = options_.cold_medium;
    directory.reserve_free_bytes = options_.cold_reserve_free;
    SY_ASSIGN_OR_RETURN(const auto tier, tiers::open_directory(runtime_, directory));
    const tiers::AttemptName attempt{runtime_.random_hex(32), 1};
    const std::string of = fmt::format("{} objects of {}, one after the other", kObjects, format_size(kObjectBytes));
    const auto write = [&]() -> Status {
      for (std::uint32_t i = 0; i < kObjects; ++i) {
        // Another object each time: equal ones would be shared.
        std::memcpy(data_.data(), &i, sizeof i);
        SY_ASSIGN_OR_RETURN(const auto put,
                            tier->start_put(payload_of(attempt, i), data_.span(), hash::sha256(data_.span())));
        SY_RETURN_IF_ERROR(put->finish().status());
      }
      return tier->flush(attempt);
    };
    const auto read = [&]() -> Status {
      for (std::uint32_t i = 0; i < kObjects; ++i) {
        SY_RETURN_IF_ERROR(tier->read(payload_of(attempt, i), {{0, other_.span()}}));
      }
      return {};
    };
    SY_RETURN_IF_ERROR(time("disk write", kBytes, of, write));
    SY_RETURN_IF_ERROR(time("disk read", kBytes, of, read));
    std::error_code error;
    fs::remove_all(tier_path(), error);
    return {};
  }

  /// One weight file with one tensor.
  Status write_source(const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return errno_status(error.value(), "mkdir", folder);
    const std::string path = folder + "/model.safetensors";
    std::string header = fmt::format(R"({{"w":{{"dtype":"U8","shape":[{0}],"data_offsets":[0,{0}]}}}})", kBytes);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::unique_ptr<FILE, CloseFile> file(std::fopen(path.c_str(), "wbe"));
    if (!file) return errno_status(errno, "create", path);
    std::string size(8, '\0');
    for (std::size_t i = 0; i < size.size(); ++i) size[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
    bool written = std::fwrite(size.data(), size.size(), 1, file.get()) == 1 &&
                   std::fwrite(header.data(), header.size(), 1, file.get()) == 1;
    for (std::uint32_t i = 0; written && i < kObjects; ++i) {
      std::memcpy(data_.data(), &i, sizeof i);
      written = std::fwrite(data_.data(), kObjectBytes, 1, file.get()) == 1;
    }
    if (!written || std::fflush(file.get()) != 0) return errno_status(errno, "write", path);
    return {};
  }

  Status verbs() {
    const std::string source = (fs::path(in_cold_.path()) / "source").native();
    SY_RETURN_IF_ERROR(write_source(source));
    StoreOptions options = options_;
    options.path = (fs::path(in_store_.path()) / "store").native();
    options.cold_path = (fs::path(in_cold_.path()) / "cold").native();
    SY_ASSIGN_OR_RETURN(const auto store, Store::open(runtime_, options, OpenMode::kCreate));
    const std::string of = fmt::format("one file of {}", format_size(kBytes));
    NoObserver observer;
    ImportRequest request;
    request.source = source;
    request.target.ref = {"bench", "main", std::nullopt};
    SY_RETURN_IF_ERROR(time("import", kBytes, of + ", from the page cache",
                            [&] { return store->import(request, observer, cancel_).status(); }));
    SY_RETURN_IF_ERROR(
        time("verify", kBytes, of, [&] { return store->verify(request.target, observer, cancel_).status(); }));
    MaterializeRequest materialize;
    materialize.source = request.target;
    materialize.target = (fs::path(in_cold_.path()) / "out").native();
    return time("materialize", kBytes, of, [&] { return store->materialize(materialize, observer, cancel_).status(); });
  }

  /// The first files of the revision, as `cat` gives them.
  Status read_revision(const Selector& selector) {
    SY_ASSIGN_OR_RETURN(const auto store, Store::open(runtime_, options_, OpenMode::kRead));
    SY_ASSIGN_OR_RETURN(const Inspection inspection, store->inspect(selector));
    if (!inspection.manifest) return {Code::kNotReady, "there is no manifest to read", "name a READY revision"};
    std::uint64_t bytes = 0;
    const std::int64_t begun = runtime_.mono_ns();
    for (const formats::FileEntry& file : inspection.manifest->files) {
      if (bytes >= kRevisionBytesMax) break;
      if (file.bytes == 0) continue;
      CatRequest request;
      request.source = selector;
      request.path = file.path;
      request.first = 0;
      request.last = std::min(file.bytes, kRevisionBytesMax - bytes) - 1;
      const auto count = [&bytes](ByteView piece) -> Status {
        bytes += piece.size();
        return {};
      };
      SY_RETURN_IF_ERROR(store->cat(request, count, cancel_));
    }
    const auto took = static_cast<double>(std::max<std::int64_t>(runtime_.mono_ns() - begun, 1));
    report_.rows.push_back(
        {"load", bytes, took / 1e9, "the revision's files, every block verified, one after the other"});
    return {};
  }

  Runtime& runtime_;
  const StoreOptions& options_;
  const CancelFlag& cancel_;
  const StorePaths paths_;
  ScratchFolder in_store_;
  ScratchFolder in_cold_;
  AlignedBuffer data_;
  AlignedBuffer other_;
  std::uint64_t blocks_ = 0;  ///< keeps the compiler from leaving checksums out
  BenchReport report_;
};

}  // namespace

Result<BenchReport> measure_store(Runtime& runtime, const StoreOptions& options,
                                  const std::optional<Selector>& revision, const CancelFlag& cancel) {
  return Bench(runtime, options, cancel).run(revision);
}

}  // namespace steelyard::store
