#include "store/replica_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "base/workers.h"
#include "hash/sha256.h"

namespace steelyard::store {

Result<std::optional<BadObject>> check_replica(tiers::Tier& tier, const tiers::AttemptName& attempt,
                                               const formats::StoredManifest& manifest, std::uint32_t object,
                                               ReadBuffers& buffers) {
  const formats::ObjectEntry& entry = manifest.objects[object];
  VerifiedReader reader(tier, attempt, manifest.objects, {{object, 0, entry.bytes}}, buffers);
  VerifiedReader::Piece piece;
  hash::Sha256 sha;
  for (;;) {
    SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
    if (!more) break;
    if (piece.bad) return std::move(piece.bad);
    sha.update(piece.bytes);
  }
  const auto stat = tier.stat(payload_of(attempt, object));
  if (stat.ok() && stat->bytes != entry.bytes) {
    return std::optional(BadObject{ProblemKind::kObjectSize,
                                   object,
                                   std::nullopt,
                                   fmt::format("{} bytes", entry.bytes),
                                   fmt::format("{} bytes", stat->bytes),
                                   {}});
  }
  const Digest found = sha.finish();
  if (found == entry.sha256) return std::optional<BadObject>();
  return std::optional(BadObject{
      ProblemKind::kObjectChecksum, object, std::nullopt, "sha256 " + entry.sha256.hex(), "sha256 " + found.hex(), {}});
}

Result<std::vector<BadObject>> check_replicas(Context& context, tiers::Tier& tier,
                                              const formats::StoredManifest& manifest,
                                              const std::vector<tiers::ObjectName>& replicas, StopSignal& stop,
                                              ProgressMeter& progress) {
  const unsigned workers =
      std::min<unsigned>(context.options.jobs, static_cast<unsigned>(std::max<std::size_t>(replicas.size(), 1)));
  const std::uint64_t piece_bytes = read_piece_bytes(context.io_budget, workers);
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::vector<BadObject> bad;
  const auto work = [&] {
    auto buffers = ReadBuffers::allocate(piece_bytes);
    if (!buffers.ok()) return stop.fail(std::move(buffers).status());
    while (!stop.stopped()) {
      const std::size_t turn = next.fetch_add(1);
      if (turn >= replicas.size()) return;
      const tiers::ObjectName& replica = replicas[turn];
      auto found = check_replica(tier, replica.in, manifest, replica.index, *buffers);
      if (!found.ok()) return stop.fail(std::move(found).status());
      progress.add_bytes(manifest.objects[replica.index].bytes);
      if (!*found) continue;
      const std::lock_guard lock(mutex);
      bad.push_back(std::move(**found));
    }
  };
  auto tasks = spawn_workers(context.runtime, "replica-check", workers - 1, work);
  work();
  tasks.clear();
  SY_RETURN_IF_ERROR(stop.status("reading the replicas"));
  std::ranges::sort(bad, {}, &BadObject::object);
  return bad;
}

}  // namespace steelyard::store
