#include "sim/checkers/memory_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/identity.h"
#include "hash/sha256.h"
#include "metadata/mixed_plan.h"
#include "metadata/shares.h"

namespace steelyard::sim {
namespace {

using metadata::Residency;
using metadata::RevisionRecord;

std::uint64_t claimed_bytes(const RevisionRecord& record) {
  if (record.residency == Residency::kHot) return record.summary.logical_bytes;
  return metadata::bytes_of_share(record.hot_millionths.value_or(0), record.summary.logical_bytes);
}

const std::shared_ptr<tiers::SimulatedDisk>* find_named(Runtime& machine, const Memories& memories,
                                                        const std::string& instance) {
  const auto found = std::ranges::find_if(
      memories, [&](const auto& memory) { return !instance.empty() && instance_of(machine, memory) == instance; });
  return found == memories.end() ? nullptr : &*found;
}

}  // namespace

std::string instance_of(Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& memory) {
  const auto tier = tiers::open_simulated(machine, memory, false);
  return tier.ok() ? (*tier)->instance().value() : std::string();
}

MemoryFindings look_into(const Model& model, Runtime& machine, const std::shared_ptr<tiers::SimulatedDisk>& memory,
                         const Revision& revision) {
  MemoryFindings found;
  const auto tier = tiers::open_simulated(machine, memory, false);
  if (!tier.ok() || revision.objects.empty()) return found;
  found.instance = (*tier)->instance().value();
  const std::size_t objects = revision.objects.size() - 1;
  found.there.resize(objects);
  found.whole.resize(objects);
  const RevisionRecord& record = revision.now();
  const auto listing = (*tier)->list_group(formats::payload_group_digest(record.identity).hex()).value();
  for (const tiers::AttemptName& made : listing.by_operation) {
    if (made.attempt != record.import_attempt) continue;
    const auto stats = (*tier)->list_attempt(made).value();
    for (const tiers::ObjectStat& stat : stats) {
      const std::uint32_t object = stat.name.index;
      if (stat.name.kind != tiers::ObjectKind::kPayload || object >= objects) continue;
      const Member& member = revision.objects[object + 1];
      if (stat.bytes != member.bytes) continue;
      std::vector<std::byte> bytes(stat.bytes);
      const bool read = bytes.empty() || (*tier)->read(stat.name, {{0, bytes}}).ok();
      const bool right = read && hash::sha256(bytes) == member.sha256;
      found.whole[object] = found.whole[object] || right || model.is_damaged_hot(found.instance, member.sha256);
      if (found.there[object]) continue;
      found.there[object] = true;
      ++found.members;
      found.bytes += stat.bytes;
    }
  }
  return found;
}

void check_claim(Model& model, Runtime& machine, const Memories& memories, const Revision& revision) {
  const RevisionRecord& record = revision.now();
  if (!revision.readable() || record.hot_instance.empty()) return;
  const auto* const memory = find_named(machine, memories, record.hot_instance);
  if (memory == nullptr) return;
  const MemoryFindings found = look_into(model, machine, *memory, revision);
  const std::string name = text_of(record.identity);
  if (found.members < record.hot_members || found.bytes < claimed_bytes(record)) {
    model.violated(fmt::format("{} is {} with {} members and {} bytes in memory, where {} with {} are", name,
                               metadata::name_of(record.residency), record.hot_members, claimed_bytes(record),
                               found.members, found.bytes));
  }
  for (std::size_t object = 0; object < found.there.size(); ++object) {
    if (found.there[object] && !found.whole[object]) {
      model.violated(
          fmt::format("{} is {} and object {} is other in memory", name, metadata::name_of(record.residency), object));
    }
  }
}

void check_set(Model& model, Runtime& machine, const Memories& memories, const Revision& revision,
               const metadata::Operation& ended, bool late) {
  const auto* const memory = find_named(machine, memories, ended.hot_instance);
  const bool done = ended.state == metadata::OperationState::kDone && ended.ratio_millionths;
  if (!done || memory == nullptr || revision.objects.empty()) return;
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 1; i < revision.objects.size(); ++i) sizes.push_back(revision.objects[i].bytes);
  const auto plan = metadata::plan_mixed(sizes, *ended.ratio_millionths);
  if (!plan.ok()) return model.violated("a ratio without a set: " + plan.status().to_string());
  const MemoryFindings found = look_into(model, machine, *memory, revision);
  const bool evicted = ended.kind == metadata::OperationKind::kEvicting;
  for (std::size_t object = 0; object < found.there.size(); ++object) {
    const bool misses = !evicted && plan->hot[object] && !found.there[object];
    const bool left = evicted && !plan->hot[object] && found.there[object] && !late;
    if (!misses && !left) continue;
    model.violated(fmt::format("operation {} of {} is DONE, and object {} is {}", ended.operation_id,
                               text_of(revision.now().identity), object, misses ? "not in memory" : "left there"));
  }
}

void check_exact(Model& model, Runtime& machine, const Memories& memories, std::size_t own, const Revision& revision) {
  const RevisionRecord& record = revision.now();
  if (!revision.readable() || revision.objects.empty()) return;
  const std::string name = text_of(record.identity);
  const MemoryFindings mine = look_into(model, machine, memories[own], revision);
  if (record.hot_instance.empty() || record.hot_instance == mine.instance) {
    const bool mixed = record.residency == Residency::kMixed;
    const bool share_fits =
        !mixed || record.hot_millionths == metadata::share_of(mine.bytes, record.summary.logical_bytes);
    if (record.hot_members != mine.members || !share_fits) {
      model.violated(
          fmt::format("{} is {} with {} members and {} millionths in memory, and {} members with {} of {} "
                      "bytes are there",
                      name, metadata::name_of(record.residency), record.hot_members, record.hot_millionths.value_or(0),
                      mine.members, mine.bytes, record.summary.logical_bytes));
    }
    return;
  }
  if (record.hot_boot_id != machine.epoch()) {
    model.violated(fmt::format("{} is {} in the memory of another boot", name, metadata::name_of(record.residency)));
    return;
  }
  const std::uint64_t here = mine.members == record.summary.payload_count
                                 ? metadata::kMillion
                                 : metadata::share_of(mine.bytes, record.summary.logical_bytes);
  const std::uint64_t there = record.hot_millionths.value_or(metadata::kMillion);
  if (mine.bytes > 0 && here > there) {
    model.violated(fmt::format("{} names another memory, although {} of {} bytes lie in this one", name, mine.bytes,
                               record.summary.logical_bytes));
  }
}

}  // namespace steelyard::sim
