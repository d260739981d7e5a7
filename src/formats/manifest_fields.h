// The field names of a stored manifest, as its writer and its reader share them. Each list is sorted, which is the
// order in the text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace steelyard::formats::manifest_fields {

inline constexpr std::uint64_t kSchemaVersion = 1;

inline constexpr std::array<std::string_view, 11> kTop = {"chunk_bytes",    "created_at", "files",   "fragments",
                                                          "group_id",       "identity",   "objects", "runs",
                                                          "schema_version", "source",     "tensors"};
inline constexpr std::array<std::string_view, 5> kIdentity = {"namespace", "resource_id", "revision", "tenant_id",
                                                              "weight_generation"};
inline constexpr std::array<std::string_view, 4> kRun = {"bytes", "chunk_bytes", "first_object", "objects"};
inline constexpr std::array<std::string_view, 3> kObject = {"blocks", "bytes", "sha256"};
inline constexpr std::array<std::string_view, 5> kFile = {"bytes", "kind", "path", "pieces", "sha256"};
inline constexpr std::array<std::string_view, 3> kPiece = {"bytes", "offset", "run"};
inline constexpr std::array<std::string_view, 10> kTensor = {
    "aliases", "bytes", "dtype", "expert_id", "layer_id", "layout_fingerprint", "offset", "run", "shape", "tensor_id"};
inline constexpr std::array<std::string_view, 6> kFragment = {"bytes",  "global_offset", "local_shape",
                                                              "offset", "run",           "tensor_id"};

inline constexpr std::string_view kKindWeight = "weight";
inline constexpr std::string_view kKindMetadata = "metadata";

/// Milliseconds since 1970 of the last instant that RFC 3339 can write.
inline constexpr std::int64_t kCreatedAtMsMax = 253'402'300'799'999;

}  // namespace steelyard::formats::manifest_fields
