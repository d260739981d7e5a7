// The stored messages and the values they stand for. Included by the codec's sources alone, because of what it
// includes.
#pragma once

#include <string>
#include <utility>

#include "base/status.h"
#include "metadata/types.h"

namespace steelyard::metadata {

namespace pb {
class Identity;
class RevisionRecord;
class Writer;
class Lease;
class Watermark;
class Runner;
class Access;
class EpochState;
}  // namespace pb

/// What went wrong while a message was turned into a value; the first one counts.
class Problem {
 public:
  void corrupt(std::string text) { set(Code::kCorrupt, std::move(text)); }
  void newer(std::string text) { set(Code::kUnavailable, std::move(text)); }
  /// A value that must not be stored is a damaged one.
  void check(const Status& valid) {
    if (!valid.ok()) corrupt(valid.message());
  }
  bool none() const { return code_ == Code::kOk; }
  Status status() const { return none() ? Status() : Status(code_, message_); }

 private:
  void set(Code code, std::string text) {
    if (!none()) return;
    code_ = code;
    message_ = std::move(text);
  }
  Code code_ = Code::kOk;
  std::string message_;
};

/// Messages to values: digests and enumerations are checked, the rest is validate.h's.
Identity take(const pb::Identity& in, Problem& problem);
RevisionRecord take(const pb::RevisionRecord& in, Problem& problem);
Writer take(const pb::Writer& in, Problem& problem);
Lease take(const pb::Lease& in, Problem& problem);
Watermark take(const pb::Watermark& in, Problem& problem);
Runner take(const pb::Runner& in, Problem& problem);
Access take(const pb::Access& in, Problem& problem);
EpochState take(const pb::EpochState& in, Problem& problem);

}  // namespace steelyard::metadata
