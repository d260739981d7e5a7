#include "oplog/replay.h"

namespace steelyard::oplog {
namespace {

constexpr std::size_t kReplayPage = 256;
/// Another process may save a snapshot and trim between a look at the state and the replay of what led to it.
constexpr int kTriesMax = 5;

}  // namespace

Result<metadata::MemoryState> state_of(const Snapshot& snapshot, const StateCodec& codec) {
  metadata::MemoryState state;
  std::shared_ptr<const metadata::SortedRows> rows;
  if (const auto section = snapshot.sections.find(codec.section_name()); section != snapshot.sections.end()) {
    SY_ASSIGN_OR_RETURN(rows, codec.load_section(section->second, snapshot.sequence));
  }
  state.reset(snapshot.sequence, std::move(rows));
  return state;
}

Status replay(const Append& append, const StateCodec& codec, metadata::MemoryState& state) {
  if (append.sequence != state.sequence() + 1) {
    return Status(Code::kCorrupt,
                  "the log goes from " + std::to_string(state.sequence()) + " to " + std::to_string(append.sequence),
                  "restore the catalog from its newest snapshot copy (steelyard recover)");
  }
  auto changes = codec.check_entries(state, append.sequence, append.entries);
  if (!changes.ok()) {
    return std::move(changes).status().annotate("replaying", "log row " + std::to_string(append.sequence));
  }
  state.apply_changes(append.sequence, *std::move(changes));
  return Status();
}

Result<metadata::MemoryState> replay_log(OpLog& log, std::uint64_t sequence, const StateCodec& codec) {
  metadata::MemoryState state;
  auto encoded = log.newest_snapshot();
  if (encoded.ok()) {
    SY_ASSIGN_OR_RETURN(const Snapshot snapshot, decode_snapshot(*encoded));
    // A snapshot newer than the wanted state can only come from another writer: the whole log may be there still.
    if (snapshot.sequence <= sequence) {
      SY_ASSIGN_OR_RETURN(state, state_of(snapshot, codec));
    }
  } else if (encoded.code() != Code::kNotFound) {
    return std::move(encoded).status();
  }
  while (state.sequence() < sequence) {
    SY_ASSIGN_OR_RETURN(const auto page, log.read(state.sequence(), kReplayPage));
    if (page.empty()) {
      return Status(Code::kCorrupt,
                    "the log ends at " + std::to_string(state.sequence()) + ", wanted " + std::to_string(sequence),
                    "restore the catalog from its newest snapshot copy (steelyard recover)");
    }
    for (const Append& append : page) {
      if (append.sequence > sequence) break;
      SY_RETURN_IF_ERROR(replay(append, codec, state));
    }
  }
  return state;
}

Status verify_state(OpLog& log, const StateCodec& codec) {
  std::string served;
  std::uint64_t sequence = 0;
  Result<metadata::MemoryState> replayed = Status(Code::kNotFound, "");
  for (int tries = 0; replayed.code() == Code::kNotFound && tries < kTriesMax; ++tries) {
    SY_RETURN_IF_ERROR(log.view([&](const StateView& view) -> Status {
      SY_ASSIGN_OR_RETURN(served, codec.export_canonical(view));
      sequence = view.sequence();
      return Status();
    }));
    replayed = replay_log(log, sequence, codec);
  }
  if (replayed.code() == Code::kNotFound) {
    return {Code::kBusy, "others append and trim the log faster than it can be replayed", "try again when they rest"};
  }
  SY_RETURN_IF_ERROR(replayed.status());
  SY_ASSIGN_OR_RETURN(const std::string implied, codec.export_canonical(*replayed));
  if (served != implied) {
    return Status(Code::kCorrupt,
                  "the state at sequence " + std::to_string(sequence) + " is not the one that the log implies",
                  "rebuild the state tables from the log, or restore a snapshot copy (steelyard recover)");
  }
  return Status();
}

}  // namespace steelyard::oplog
