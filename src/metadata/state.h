// The state as an ordered map of rows, and the entries that change it.
//
// State = the entries applied in order. Every view (memory, SQLite rows, a restored snapshot, later etcd) is the same
// map, so all views are equal byte for byte: export_canonical() of one equals that of another. memory_state.h has the
// view in memory, overlay.h the view of changes that are not applied yet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "metadata/sorted_rows.h"
#include "metadata/types.h"

namespace steelyard::metadata {

/// Read access to one consistent state. Not thread-safe; valid as the provider says. Keys are ordered by bytes.
class StateView {
 public:
  virtual ~StateView() = default;
  /// Sequence number of the last append applied; 0 for an empty log.
  virtual std::uint64_t sequence() const = 0;
  virtual Result<std::optional<std::string>> get(std::string_view key) const = 0;
  /// Rows with from <= key < to (an empty `to`: to the end), ascending or descending, until `visit` returns false.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;
  virtual Status scan(std::string_view from, std::string_view to, bool descending, const Visitor& visit) const = 0;
};

/// One row written or, without a value, removed.
struct RowChange {
  std::string key;
  std::optional<std::string> value;
  bool operator==(const RowChange&) const = default;
};

/// An entry is a complete post-state, as serialized protobuf (metadata/proto/entry.proto). Opaque outside this room.
struct Entry {
  std::string bytes;
  bool operator==(const Entry&) const = default;
};

/// The row changes that an entry stands for. They depend on the entry alone, never on earlier state, and contain the
/// index rows. CORRUPT for a malformed entry, UNAVAILABLE "newer" for an unknown type (refused, never skipped).
Result<std::vector<RowChange>> changes_of(const Entry& entry);

/// Checks the entries of the append `sequence` against the state before it: generation steps by one, immutability,
/// legal edges, sequence references. Gives the changes that they come to, each row once. CORRUPT naming the entry. For
/// replay, recovery and tests; Prepare's results always pass.
Result<std::vector<RowChange>> check_entries(const StateView& before, std::uint64_t sequence,
                                             const std::vector<Entry>& entries);

/// Every row, in key order, in one deterministic encoding: proves that two views are equal.
Result<std::string> export_canonical(const StateView& view);

/// Snapshot section `weight_metadata` (docs/formats/op-log.md). Load validates every row like replay does and gives all
/// rows, or an error that changes nothing.
inline constexpr std::string_view kSnapshotSection = "weight_metadata";
Result<std::string> save_section(const StateView& view);
/// `sequence` is the snapshot's: no record may name a later append. CORRUPT for a damaged or illegal section,
/// UNAVAILABLE for one of a newer version.
Result<std::shared_ptr<const SortedRows>> load_section(std::string_view section, std::uint64_t sequence);

}  // namespace steelyard::metadata
