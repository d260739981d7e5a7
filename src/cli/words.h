// How several verbs put a record's state into words for people.
#pragma once

#include <string>

#include "metadata/rules.h"
#include "metadata/types.h"

namespace steelyard::cli {

/// "HOT", "MIXED 37 %", "MIXED <1 %": the share is rounded, and never to all or nothing.
std::string residency_words(const metadata::RevisionRecord& record);

/// "hot", "mixed (0.25 hot)": where the policy wants the revision.
std::string place_words(const metadata::Policy& policy);
/// "pinned, hot"; empty for the policy that every revision begins with.
std::string policy_words(const metadata::Policy& policy);

/// "EVICTING 40 %", by the bytes that are done.
std::string operation_words(const metadata::Operation& operation);
/// Of one that is left for others: what carries it out, or who does already.
std::string started_words(const metadata::OperationView& view);
/// Of a revision without payload objects, which no move is for.
std::string nothing_to_bring(const metadata::RevisionRecord& record);
/// Who carries out a running operation, or what goes on with it.
std::string runner_words(const metadata::OperationView& view);

/// A message and what to do about it, as a value of a row.
std::string status_words(const Status& status);

/// "12 of 40 objects".
std::string part_words(std::uint64_t part, std::uint64_t whole, std::string_view noun);

}  // namespace steelyard::cli
