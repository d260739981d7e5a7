// What is said of an operation: in its record, and to who is to go on with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "metadata/types.h"

namespace steelyard::store {

/// An operation that was ended, as its record retains it; `now` may be later than the end. Without a trace there, when
/// enough later ones have ended: as it began, with its last state.
metadata::Operation ended_operation(const metadata::Operation& begun, metadata::OperationState state,
                                    const metadata::RevisionRecord& now);

/// What an operation keeps of an error's text.
std::string text_kept_of(const Status& status);

/// The verb that goes on with an operation of this kind.
std::string_view verb_of(metadata::OperationKind kind);

/// The whole command that goes on with the operation: `steelyard rehydrate m@main#1 --ratio 0.5`. `source`: that of a
/// repair; may be empty.
std::string command_of(const metadata::Operation& operation, const std::string& ref, const std::string& source);
/// The same of one that there is not.
std::string command_of(metadata::OperationKind kind, std::optional<std::uint32_t> ratio_millionths,
                       const std::string& ref);

}  // namespace steelyard::store
