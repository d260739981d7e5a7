// The stored form of values, written, and read where it is what the log and the snapshots are full of.
//
// A value has one byte form (wire_form.h). A reader that wants exactly this next byte needs no message in between, and
// what it has read needs not be encoded again to prove its form. Anything else is absent here, whatever it is: the
// codec's general way says what is wrong with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "metadata/codec.h"
#include "metadata/types.h"

namespace steelyard::metadata::wire {

/// The value, if the bytes are its only form and every enumeration and digest is known. Values are not judged
/// (validate.h).
std::optional<RevisionRecord> find_record(std::string_view bytes);
std::optional<Writer> find_writer(std::string_view bytes);
std::optional<Lease> find_lease(std::string_view bytes);
std::optional<LeaseRemoved> find_removed_lease(std::string_view bytes);
std::optional<Access> find_access(std::string_view bytes);
std::optional<Identity> find_identity(std::string_view bytes);
std::optional<EpochState> find_epoch(std::string_view bytes);

/// The only form of a value. Its digests must be hex.
std::string encode(const RevisionRecord& record);
std::string encode(const Writer& writer);
std::string encode(const Lease& lease);
std::string encode(const Watermark& watermark);
std::string encode(const Runner& runner);
std::string encode(const Access& access);
std::string encode(const EpochState& epoch);
std::string encode(const DecodedEntry& entry);

/// A serialized entry taken apart: `mono_ms` and the body's field number and bytes. Absent as above.
struct EntryParts {
  std::optional<std::int64_t> mono_ms;
  unsigned field = 0;
  std::string_view body;
};
std::optional<EntryParts> find_entry(std::string_view bytes);

}  // namespace steelyard::metadata::wire
