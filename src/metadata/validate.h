// Which values a record may have: one validator for every path (commands, replay, snapshots, recovery).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "metadata/types.h"

namespace steelyard::metadata {

/// Range of a writer's time to live.
inline constexpr std::int64_t kWriterTtlMsMin = 1'000;
inline constexpr std::int64_t kWriterTtlMsMax = 3'600'000;
/// Largest stored instant or duration: adding a time to live to it cannot overflow.
inline constexpr std::int64_t kInstantMsMax = INT64_C(1) << 61;
inline constexpr std::size_t kNonceBytesMax = 1024;
inline constexpr std::size_t kEpochBytesMax = 128;
inline constexpr std::size_t kMessageBytesMax = 4096;
inline constexpr std::size_t kErrorNameBytesMax = 64;
inline constexpr std::size_t kSourceBytesMax = 4096;  ///< PATH_MAX
inline constexpr std::size_t kObjectKeyBytesMax = 4096;

/// Each names the field, the value found and the value wanted. INVALID_ARGUMENT; callers that read stored bytes turn it
/// into CORRUPT.
Status validate_state(const RevisionRecord& record);  ///< the table of legal combinations (docs/lifecycle.md)
Status validate(const RevisionRecord& record);
Status validate(const Writer& writer);
Status validate(const Lease& lease);
Status validate(const Watermark& watermark);
Status validate(const Runner& runner);
Status validate(const Access& access);
Status validate(const EpochState& epoch);

/// What a runner may say of its operation.
Status check_runner(const Runner& runner, const Operation& operation);

Status validate_labels(const Labels& labels);
Status validate_policy(const Policy& policy);
Status validate_damage(const DamageReport& damage);
/// `complete`: every field is there, as Commit needs it; otherwise digests may be missing.
Status validate_summary(const GroupSummary& summary, bool complete);
Status validate_holder(std::string_view holder);
Status validate_nonce(std::string_view nonce);
/// A path, in whatever bytes the filesystem has it.
Status validate_source(const std::string& source);
Status validate_process(const ProcessIdentity& process);
/// 32 lower-case hex digits.
Status validate_id(std::string_view what, std::string_view id);
Status validate_ttl(std::string_view what, std::int64_t ttl_ms, std::int64_t min_ms, std::int64_t max_ms);

/// 32 lower-case hex digits: the id of the lease that (group, holder, nonce) gets.
std::string lease_id_of(const Identity& identity, std::string_view holder, std::string_view nonce);

}  // namespace steelyard::metadata
