// Named limits of the store, each with its reason. Command-line ranges live with the settings table.
#pragma once

#include <cstdint>

namespace steelyard::limits {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// Identity: what a percent-encoded key can still carry through file names, etcd keys and HTTP paths.
inline constexpr std::size_t kIdentityPartBytesMax = 1024;
inline constexpr std::size_t kTenantBytesMax = 255;
inline constexpr std::size_t kManifestKeyBytesMax = 3000;
inline constexpr std::int64_t kGenerationMax = INT64_MAX;

/// The unit of verification of every read. Small enough that a partial read wastes little, large enough that the
/// checksums of a terabyte fit in 8 MiB of manifest.
inline constexpr std::uint64_t kBlockBytes = kMiB;

/// Payload objects: a multiple of the block; two per worker must fit in the I/O budget.
inline constexpr std::uint64_t kChunkBytesDefault = 64 * kMiB;
inline constexpr std::uint64_t kChunkBytesMin = kMiB;
inline constexpr std::uint64_t kChunkBytesMax = 4 * kGiB;

/// safetensors' own limit for a header, kept so that both sides refuse the same files.
inline constexpr std::uint64_t kHeaderBytesDefault = 100'000'000;

/// Stored manifest: bounds what a reader may be made to allocate.
inline constexpr std::uint64_t kManifestBytesMax = kGiB;
inline constexpr std::uint64_t kManifestTensorsMax = 1ULL << 21;
inline constexpr std::uint64_t kManifestObjectsMax = 1ULL << 20;
inline constexpr std::size_t kSourceFactsMax = 64;

/// I/O buffers.
inline constexpr std::uint64_t kIoMemoryMin = 16 * kMiB;
inline constexpr std::uint64_t kIoMemoryMax = 1024 * kGiB;
inline constexpr std::uint64_t kIoMemoryDefault = 256 * kMiB;
/// What a process needs beside its I/O buffers; subtracted from a cgroup's limit before the budget is halved.
inline constexpr std::uint64_t kProcessReserveBytes = 96 * kMiB;

/// Writers and leases, in milliseconds.
inline constexpr std::int64_t kWriterTtlMs = 60'000;
inline constexpr std::int64_t kAbandonAfterMs = 24 * 3'600'000LL;
/// Long enough for the next checkpoint of a training run to find what it shares with a deleted one.
inline constexpr std::int64_t kGcGraceMs = 3'600'000;
inline constexpr std::int64_t kPolicyCooldownMs = 300'000;
inline constexpr std::int64_t kLeaseTtlMs = 30'000;
inline constexpr std::int64_t kLeaseTtlMsMin = 1'000;
inline constexpr std::int64_t kLeaseTtlMsMax = 24 * 3'600'000LL;
inline constexpr std::size_t kHolderBytesMax = 1024;
/// A verb that only reads waits this long for the catalog's other writers, then goes on without its lease. A commit
/// takes a millisecond, on a busy disk some hundreds: who is in the way for longer stands still, and every read would
/// pay for it.
inline constexpr std::int64_t kReadVerbWaitMs = 3'000;
/// A finding is worth as much patience as any other write.
inline constexpr std::int64_t kRecordWaitMs = 20'000;
/// A cap that only a leak reaches; it bounds the cost of Acquire.
inline constexpr std::size_t kLeasesPerRevisionMax = 10'000;

/// Tombstones of a lineage that gc keeps as records; older ones become its watermark.
inline constexpr std::size_t kTombstonesKept = 16;
/// Snapshot copies in the cold tier: the newest, and one in case it is damaged.
inline constexpr std::size_t kCatalogCopiesKept = 2;

/// Kept in a record.
inline constexpr std::size_t kOperationsRetained = 16;
inline constexpr std::size_t kDamagedNamedMax = 64;
inline constexpr std::size_t kLabelsMax = 64;
inline constexpr std::size_t kLabelKeyBytesMax = 256;
inline constexpr std::size_t kLabelValueBytesMax = 4096;

/// Lists.
inline constexpr std::size_t kListLimitDefault = 100;
inline constexpr std::size_t kListLimitMax = 1000;

}  // namespace steelyard::limits
