// Replay: the state that a snapshot and the appends after it imply, checked on the way.
#pragma once

#include "metadata/memory_state.h"
#include "oplog/codec.h"
#include "oplog/op_log.h"

namespace steelyard::oplog {

/// The state in a snapshot: an absent section gives an empty state. Any error leaves nothing behind.
Result<metadata::MemoryState> state_of(const Snapshot& snapshot, const StateCodec& codec);

/// Applies `append` to `state`, which must be at the sequence before it (CORRUPT "gap"); checks its entries first.
Status replay(const Append& append, const StateCodec& codec, metadata::MemoryState& state);

/// The state at `sequence`, from the log's newest snapshot and its appends.
Result<metadata::MemoryState> replay_log(OpLog& log, std::uint64_t sequence, const StateCodec& codec);

/// Proves that the state which the log serves is the one its snapshot and appends imply; CORRUPT otherwise. Reads
/// everything: for `doctor`, recovery and tests. Other writers may go on meanwhile.
Status verify_state(OpLog& log, const StateCodec& codec = metadata_codec());

}  // namespace steelyard::oplog
