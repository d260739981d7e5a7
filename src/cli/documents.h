// The JSON parts that several verbs share (docs/cli.md has the keys).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"
#include "cli/json.h"
#include "formats/stored_manifest.h"
#include "metadata/types.h"
#include "store/store.h"

namespace steelyard::cli {

inline constexpr std::uint64_t kJsonSchemaVersion = 1;

/// `{"schema_version": 1, `; the caller writes the rest and ends the object.
Json& begin_document(Json& json);

/// REVISION.
void write_revision(Json& json, const metadata::RevisionRecord& record, std::uint64_t active_leases);
/// A share, or null.
void write_ratio(Json& json, std::optional<std::uint32_t> millionths);
/// `{prefer, ratio, mode}`.
void write_policy(Json& json, const metadata::Policy& policy);
/// The keys `runner` and `source` of an operation that runs: null where it has none, and of one that does not run.
void write_runner(Json& json, const std::optional<metadata::OperationView>& found);
/// How far the record's operation is now, and who carries it out; as the record has it where that cannot be read.
metadata::OperationView view_of_operation(store::Store& store, const metadata::RevisionRecord& record,
                                          const metadata::Operation& operation);
/// The active operation, or null.
void write_operation(Json& json, const std::optional<metadata::Operation>& operation);
/// The document of a verb that has to do with an operation: the caller adds what is its own, and ends with the
/// revision.
Json& begin_operation_document(Json& json, const std::optional<metadata::Operation>& operation);
/// `"revision"` as the last key of a document, and the whole of its text.
std::string end_with_revision(Json& json, const metadata::RevisionRecord& record, std::uint64_t active_leases);
/// Live time left of a lease that was just granted or renewed.
std::int64_t lease_left_ms(Runtime& runtime, const metadata::Lease& lease);
/// `instance`, `recorded_instance` and `recorded_is_mounted`: which memory is mounted here and which the record speaks
/// of. `known`: what is mounted here could be read.
void write_instances(Json& json, const std::string& mounted, const std::string& recorded, bool known);
/// `waiting`: why a revision is not where its policy wants it, as Store::why_it_waits says; null where it is OK.
void write_waiting(Json& json, const Status& why);
void write_lease(Json& json, const metadata::Lease& lease, std::int64_t left_ms, bool with_ref);

/// The document of delete and abort; a tombstone that was compacted has no record any more.
std::string removal_document(const store::RemovalResult& result);

std::string ref_of(const metadata::RevisionRecord& record);
/// The complete reference of a selector with a generation; no revision means main.
std::string ref_of(const store::Selector& selector);
std::string lower_case(std::string_view text);
/// "weight" or "metadata".
std::string kind_name(formats::FileKind kind);

/// `{"error": {"code", "message", "hint"}}`.
std::string error_document(const Status& status);

}  // namespace steelyard::cli
