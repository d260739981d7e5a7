// OpLog: an ordered log of entries and the state it implies. The seam between the rules and what stores them.
//
// Thread-safety: an OpLog may be used from any thread; writes of one process are committed as groups.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "base/status.h"
#include "metadata/state.h"

namespace steelyard::oplog {

using metadata::Entry;
using metadata::Now;
using metadata::StateView;

/// One append: one sequence number, 1..n entries applied together.
struct Append {
  std::uint64_t sequence = 0;
  std::string request_id;  ///< 16 random bytes
  Now at;
  std::vector<Entry> entries;
  bool operator==(const Append&) const = default;
};

struct Capabilities {
  bool durable = false;
  /// Replication needs every standby to understand weight entries: mutations wait for the operator's confirmation.
  bool standbys_must_understand_entries = false;
  bool read_only = false;
  std::string backend;  ///< "memory", "sqlite"
};

/// A snapshot: named sections at one sequence.
struct Snapshot {
  std::uint64_t sequence = 0;
  std::map<std::string, std::string> sections;
};

class OpLog {
 public:
  virtual ~OpLog() = default;

  /// Prepares the entries of one append inside the writer's turn: called with the state after catching up and the
  /// instant of the turn. An empty vector appends nothing. May be called again if the turn has to be repeated, and may
  /// be called on another thread of this process, since a group of waiting writes is prepared by one of them. It must
  /// not write to the same log.
  using Prepare = std::function<Result<std::vector<Entry>>(const StateView& view, const Now& now)>;

  /// Waits for the turn, catches up, prepares, appends, makes durable. Returns the sequence of the append (the state's
  /// own when nothing was appended). The errors of `prepare` come back unchanged. After an uncertain commit the log is
  /// re-read, and the answer is the truth; UNKNOWN_OUTCOME only when it cannot be read. DURABILITY_FAILED: certainly
  /// not written. Never holds the turn while it returns.
  virtual Result<std::uint64_t> write(const Prepare& prepare) = 0;

  /// Calls `read` with the newest durable state. The view is valid during the call and consistent.
  virtual Status view(const std::function<Status(const StateView& view)>& read) = 0;

  /// Appends with sequence > after, at most `limit`. NOT_FOUND "resnapshot" when they were trimmed.
  virtual Result<std::vector<Append>> read(std::uint64_t after, std::size_t limit) = 0;

  /// True once a sequence > after is durable, false at the deadline (Runtime::mono_ms), or within a moment after
  /// `cancel`, if given, was set.
  virtual Result<bool> watch(std::uint64_t after, std::int64_t deadline_mono_ms, const std::atomic<bool>* cancel) = 0;

  /// Saves the state as a snapshot and reads it back. Returns its sequence.
  virtual Result<std::uint64_t> save_snapshot() = 0;
  /// The newest snapshot, in its encoded form (encode_snapshot), or NOT_FOUND.
  virtual Result<std::string> newest_snapshot() = 0;
  /// Removes appends <= sequence; never past the newest snapshot that was read back (INVALID_ARGUMENT).
  virtual Status trim(std::uint64_t sequence) = 0;
  /// Appends since the newest snapshot was begun, here or by another process, so that the owner can decide to save one.
  virtual Result<std::uint64_t> length() = 0;
  /// Replaces the whole state (recovery, restore): only on a log without appends (CONFLICT). The log goes on after the
  /// snapshot's sequence. A section that is absent gives an empty state of its kind; sections of other owners are kept
  /// and stand in every later snapshot. An error changes nothing.
  virtual Status restore(const Snapshot& snapshot) = 0;

  /// UNAVAILABLE, saying what was found, once the log does not lie where it was opened any more. write() and watch()
  /// look for themselves; it does not end by waiting.
  virtual Status check_place() const { return {}; }

  virtual Capabilities capabilities() const = 0;
};

/// Sections, each with its SHA-256, at a sequence. decode: CORRUPT for malformed, UNAVAILABLE for a newer format.
std::string encode_snapshot(const Snapshot& snapshot);
Result<Snapshot> decode_snapshot(std::string_view bytes);
/// The most that a head takes.
inline constexpr std::size_t kSnapshotHeadBytesMax = 512 * 1024;
/// Whether what begins with `first` (its head at least) and has so many bytes may be an encoded snapshot; as decode. So
/// nothing is read whole, and no memory taken for it, that is none.
Status check_snapshot_head(std::string_view first, std::uint64_t total_bytes);
/// The sequence in the head of an encoded snapshot that is known to be whole; CORRUPT for what is none.
Result<std::uint64_t> snapshot_sequence(std::string_view bytes);

}  // namespace steelyard::oplog
