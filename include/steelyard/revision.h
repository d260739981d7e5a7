// What the store knows of revisions: names, records, files, tensors. Plain structs; store.h has what makes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "steelyard/status.h"

namespace steelyard {

/// How a call names a revision within the tenant and namespace of its store.
struct Ref {
  std::string resource_id = {};
  std::optional<std::string> revision = {};  ///< absent: "main"
  /// Absent: the newest READY one. (import: goes on with the newest if it is unfinished, else 1 + the highest ever
  /// used. delete_revision: the newest that was ever published, a deleted one too, so that a repeat takes no other;
  /// abort_import: the newest that never was published.)
  std::optional<std::int64_t> weight_generation = {};
  bool operator==(const Ref&) const = default;
};
/// `resource[@revision][#generation]` as on the command line, where `%` and two hex digits stand for a byte.
Result<Ref> parse_ref(std::string_view text);

/// The exact name of one immutable revision. Bytes are exact.
struct Identity {
  std::string tenant_id = {};
  std::string namespace_id = {};
  std::string resource_id = {};
  std::string revision = {};
  std::int64_t weight_generation = 0;

  Ref ref() const { return {resource_id, revision, weight_generation}; }
  bool operator==(const Identity&) const = default;
};
/// The complete, escaped spelling without tenant and namespace; parse_ref gives identity.ref() back.
std::string format_ref(const Identity& identity);

enum class Availability : unsigned char { kImporting, kReady, kDegraded, kDeleting, kDeleted };
/// What was observed over all objects of a revision.
enum class Residency : unsigned char { kUnknown, kHot, kCold, kMixed, kAbsent };
/// "READY", "COLD", ...
std::string_view name_of(Availability value);
std::string_view name_of(Residency value);

/// Who may move a revision between the tiers: nothing but its policy (kPinned), requests alone (kManual), or its use,
/// where memory allows (kAuto).
enum class PolicyMode : unsigned char { kPinned, kManual, kAuto };
enum class OperationKind : unsigned char { kEvicting, kRehydrating, kRepairing };
enum class OperationState : unsigned char { kRunning, kDone, kCancelled, kFailed };
/// "pinned", "EVICTING", "RUNNING", ...
std::string_view name_of(PolicyMode value);
std::string_view name_of(OperationKind value);
std::string_view name_of(OperationState value);

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Where a revision should be, and who may move it there. A ratio, the hot share of its bytes in millionths (1 to
/// 999,999), goes with kMixed and with nothing else.
struct Policy {
  Residency prefer = Residency::kCold;  ///< kHot, kCold or kMixed
  std::optional<std::uint32_t> ratio_millionths = {};
  PolicyMode mode = PolicyMode::kManual;
  bool operator==(const Policy&) const = default;
};

/// A move between the tiers or a repair, running or ended. A revision has one running at most, and keeps its last 16.
struct Operation {
  std::string operation_id = {};  ///< 32 hex digits
  OperationKind kind = OperationKind::kRehydrating;
  OperationState state = OperationState::kRunning;
  Residency target = Residency::kHot;
  std::optional<std::uint32_t> ratio_millionths = {};  ///< with the target kMixed
  std::uint64_t processed_objects = 0;                 ///< never goes back; Store::operation has the newest
  std::uint64_t processed_bytes = 0;
  std::uint64_t total_objects = 0;
  std::uint64_t total_bytes = 0;
  std::string message = {};  ///< for people: why it failed, or what it waits for
  std::int64_t started_at_ms = 0;
  std::int64_t ended_at_ms = 0;  ///< 0 while it runs
};

/// The record of a revision. Times are milliseconds since 1970, UTC.
struct Revision {
  Identity identity = {};
  Availability availability = Availability::kImporting;
  Residency residency = Residency::kUnknown;
  std::optional<std::uint32_t> hot_millionths = {};  ///< while kMixed: the share of its bytes that is in memory
  std::optional<Operation> operation = {};           ///< the one that runs; its progress is Store::operation's
  Policy policy = {};
  std::uint64_t metadata_generation = 0;  ///< +1 for every change of the record: the fence of all that changes it
  std::uint64_t payload_objects = 0;
  std::uint64_t logical_bytes = 0;
  std::string manifest_sha256 = {};  ///< 64 hex digits; empty before it is published
  std::string payload_group_id = {};
  std::int64_t created_at_ms = 0;
  std::int64_t updated_at_ms = 0;
  Labels labels = {};                             ///< by key
  std::vector<std::string> damaged_objects = {};  ///< keys, at most 64 of them
  std::uint64_t damaged_count = 0;                ///< of all
};

struct FileInfo {
  std::string path = {};  ///< relative, with `/`
  bool weights = false;   ///< a weight file; the others are configuration, tokenizers, ...
  std::uint64_t bytes = 0;
  std::string sha256 = {};  ///< 64 hex digits
};

struct TensorInfo {
  std::string tensor_id = {};
  std::string dtype = {};  ///< as in safetensors: "BF16"
  std::vector<std::int64_t> shape = {};
  std::uint64_t bytes = 0;  ///< 0 too for a tensor that is stored in fragments
  bool whole = false;       ///< stored in one piece, which OpenRevision::read_tensor reads
  /// Where it lies in a file of the revision; absent where no file has it.
  std::optional<std::size_t> file = {};  ///< for OpenRevision::file
  std::uint64_t file_offset = 0;
};

/// A protection of one revision against removal.
struct LeaseInfo {
  std::string lease_id = {};
  Identity identity = {};
  std::string holder = {};
  std::int64_t ttl_ms = 0;
  std::int64_t left_ms = 0;  ///< when it was looked at
};

enum class ProblemKind : unsigned char { kMissingObject, kObjectSize, kObjectChecksum, kFileSha256, kManifest };
/// "missing_object", ... as on the command line.
std::string_view name_of(ProblemKind value);

/// Something that is wrong with the stored bytes of a revision.
struct Problem {
  ProblemKind kind = ProblemKind::kMissingObject;
  std::string file = {};                     ///< empty: of no file
  std::vector<std::string> tensors = {};     ///< all whose bytes touch the bad block
  std::string object = {};                   ///< key; empty where nobody knows which one it was
  std::string tier = {};                     ///< whose replica it is: "cold" or "hot"
  std::optional<std::uint64_t> offset = {};  ///< of the first bad block in the object
  std::string expected = {};
  std::string actual = {};
  bool unread = false;  ///< it could not be read now, which proves nothing about its bytes
};

}  // namespace steelyard
