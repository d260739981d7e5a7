// Records and entries as bytes: parsing, the one byte form, and the checks of what an entry holds.
#include "metadata/codec.h"

#include <iterator>
#include <utility>

#include "metadata/codec_messages.h"
#include "metadata/proto/entry.pb.h"
#include "metadata/validate.h"
#include "metadata/wire.h"

namespace steelyard::metadata {
namespace {

/// A message whose parts lie in one piece of memory, on the stack where they fit: decoding is what reads cost most.
template <typename Message>
class InArena {
 public:
  Message& operator*() { return *message_; }

 private:
  alignas(8) char first_block_[4096];
  google::protobuf::Arena arena_{first_block_, sizeof first_block_};
  Message* message_ = google::protobuf::Arena::CreateMessage<Message>(&arena_);
};

template <typename Message, typename Value>
Result<Value> decode(std::string_view bytes, const char* what) {
  InArena<Message> parsed;
  Message& message = *parsed;
  if (bytes.size() > INT32_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kCorrupt, std::string("a stored ") + what + " is malformed");
  }
  Problem problem;
  Value value = take(message, problem);
  SY_RETURN_IF_ERROR(problem.status().annotate("reading a stored", what));
  return value;
}

/// One checked alternative of the entry.
template <typename Body, typename Message>
EntryBody checked(const Message& message, Problem& problem) {
  Body body{take(message, problem)};
  if (problem.none()) {
    const auto& [value] = body;
    problem.check(validate(value));
  }
  return body;
}

/// As `checked`, of a value that wire.h has read.
template <typename Body, typename Value>
EntryBody judged(Value value, Problem& problem) {
  problem.check(validate(value));
  return Body{std::move(value)};
}

EntryBody removed_lease(LeaseRemoved lease, Problem& problem) {
  problem.check(validate(lease.identity));
  problem.check(validate_id("lease id", lease.lease_id));
  return lease;
}

/// The entries of which a log is full, without a message in between; absent for all others, and for what is wrong.
std::optional<DecodedEntry> find_frequent_entry(std::string_view bytes, Problem& problem) {
  const std::optional<wire::EntryParts> parts = wire::find_entry(bytes);
  if (!parts) return std::nullopt;
  std::optional<EntryBody> body;
  switch (parts->field) {
    case pb::Entry::kRevisionPut:
      if (auto record = wire::find_record(parts->body)) body = judged<RevisionPut>(*std::move(record), problem);
      break;
    case pb::Entry::kRevisionRemoved:
      if (auto record = wire::find_record(parts->body)) body = judged<RevisionRemoved>(*std::move(record), problem);
      break;
    case pb::Entry::kWriterPut:
      if (auto writer = wire::find_writer(parts->body)) body = judged<WriterPut>(*std::move(writer), problem);
      break;
    case pb::Entry::kWriterRemoved:
      if (auto identity = wire::find_identity(parts->body)) body = judged<WriterRemoved>(*std::move(identity), problem);
      break;
    case pb::Entry::kLeasePut:
      if (auto lease = wire::find_lease(parts->body)) body = judged<LeasePut>(*std::move(lease), problem);
      break;
    case pb::Entry::kLeaseRemoved:
      if (auto lease = wire::find_removed_lease(parts->body)) body = removed_lease(*std::move(lease), problem);
      break;
    case pb::Entry::kAccessPut:
      if (auto access = wire::find_access(parts->body)) body = judged<AccessPut>(*std::move(access), problem);
      break;
    default:
      break;
  }
  if (!body) return std::nullopt;
  return DecodedEntry{*std::move(body), parts->mono_ms, parts->body};
}

void check_instant(const std::optional<std::int64_t>& mono_ms, Problem& problem) {
  if (mono_ms && (*mono_ms < 0 || *mono_ms > kInstantMsMax)) problem.corrupt("its instant is out of range");
}

EntryBody take_body(const pb::Entry& in, Problem& problem) {
  switch (in.body_case()) {
    case pb::Entry::kRevisionPut:
      return checked<RevisionPut>(in.revision_put(), problem);
    case pb::Entry::kRevisionRemoved:
      return checked<RevisionRemoved>(in.revision_removed(), problem);
    case pb::Entry::kWriterPut:
      return checked<WriterPut>(in.writer_put(), problem);
    case pb::Entry::kWriterRemoved:
      return checked<WriterRemoved>(in.writer_removed(), problem);
    case pb::Entry::kLeasePut:
      return checked<LeasePut>(in.lease_put(), problem);
    case pb::Entry::kLeaseRemoved: {
      const pb::LeaseName& lease = in.lease_removed();
      return removed_lease({take(lease.identity(), problem), lease.lease_id()}, problem);
    }
    case pb::Entry::kEpochBegun:
      return checked<EpochBegun>(in.epoch_begun(), problem);
    case pb::Entry::kWatermarkPut:
      return checked<WatermarkPut>(in.watermark_put(), problem);
    case pb::Entry::kRunnerPut:
      return checked<RunnerPut>(in.runner_put(), problem);
    case pb::Entry::kRunnerRemoved:
      return checked<RunnerRemoved>(in.runner_removed(), problem);
    case pb::Entry::kOperationForgotten: {
      OperationForgotten body{in.operation_forgotten().operation_id()};
      problem.check(validate_id("operation_id", body.operation_id));
      return body;
    }
    case pb::Entry::kAccessPut:
      return checked<AccessPut>(in.access_put(), problem);
    case pb::Entry::kAccessRemoved:
      return checked<AccessRemoved>(in.access_removed(), problem);
    case pb::Entry::BODY_NOT_SET:
      break;
  }
  pb::Entry known;
  if (in.has_mono_ms()) known.set_mono_ms(in.mono_ms());
  if (in.ByteSizeLong() == known.ByteSizeLong()) {
    problem.corrupt("it is of no type");
  } else {
    problem.newer("its type is not known to this version");
  }
  return WriterRemoved{};
}

/// In the order of EntryBody's alternatives.
constexpr std::string_view kBodyNames[] = {
    "RevisionPut",  "RevisionRemoved", "WriterPut",     "WriterRemoved",      "LeasePut",  "LeaseRemoved", "EpochBegun",
    "WatermarkPut", "RunnerPut",       "RunnerRemoved", "OperationForgotten", "AccessPut", "AccessRemoved"};
static_assert(std::size(kBodyNames) == std::variant_size_v<EntryBody>);

}  // namespace

std::string_view name_of(const EntryBody& body) { return kBodyNames[body.index()]; }

Entry encode_entry(const DecodedEntry& entry) { return {wire::encode(entry)}; }

Result<DecodedEntry> decode_entry(const Entry& entry) {
  Problem wrong;
  if (auto frequent = find_frequent_entry(entry.bytes, wrong)) {
    check_instant(frequent->mono_ms, wrong);
    SY_RETURN_IF_ERROR(wrong.status().annotate("reading log entry", name_of(frequent->body)));
    return *std::move(frequent);
  }
  InArena<pb::Entry> parsed;
  pb::Entry& message = *parsed;
  if (!message.ParseFromString(entry.bytes)) return Status(Code::kCorrupt, "a log entry is malformed");
  Problem problem;
  DecodedEntry decoded{take_body(message, problem), std::nullopt};
  if (message.has_mono_ms()) {
    decoded.mono_ms = message.mono_ms();
    check_instant(decoded.mono_ms, problem);
  }
  const bool typed = message.body_case() != pb::Entry::BODY_NOT_SET;
  SY_RETURN_IF_ERROR(problem.status().annotate("reading log entry",
                                               typed ? name_of(decoded.body) : std::string_view("of unknown type")));
  // One byte form: what a value does not hold was written by a newer version, or not by us.
  if (encode_entry(decoded).bytes != entry.bytes) {
    if (message.SerializeAsString() == entry.bytes) {
      return Status(Code::kUnavailable,
                    "log entry " + std::string(name_of(decoded.body)) + " has fields of a newer version");
    }
    return Status(Code::kCorrupt, "log entry " + std::string(name_of(decoded.body)) + " is not in its only form");
  }
  return decoded;
}

std::string encode_record(const RevisionRecord& record) { return wire::encode(record); }
std::string encode_writer(const Writer& writer) { return wire::encode(writer); }
std::string encode_lease(const Lease& lease) { return wire::encode(lease); }
std::string encode_watermark(const Watermark& watermark) { return wire::encode(watermark); }
std::string encode_runner(const Runner& runner) { return wire::encode(runner); }
std::string encode_access(const Access& access) { return wire::encode(access); }
std::string encode_epoch(const EpochState& epoch) { return wire::encode(epoch); }

Result<RevisionRecord> decode_record(std::string_view bytes) {
  if (auto record = wire::find_record(bytes)) return *std::move(record);
  return decode<pb::RevisionRecord, RevisionRecord>(bytes, "revision record");
}
Result<Writer> decode_writer(std::string_view bytes) {
  if (auto writer = wire::find_writer(bytes)) return *std::move(writer);
  return decode<pb::Writer, Writer>(bytes, "writer");
}
Result<Lease> decode_lease(std::string_view bytes) {
  if (auto lease = wire::find_lease(bytes)) return *std::move(lease);
  return decode<pb::Lease, Lease>(bytes, "lease");
}
Result<Watermark> decode_watermark(std::string_view bytes) {
  return decode<pb::Watermark, Watermark>(bytes, "watermark");
}
Result<Runner> decode_runner(std::string_view bytes) { return decode<pb::Runner, Runner>(bytes, "runner"); }
Result<Access> decode_access(std::string_view bytes) {
  if (auto access = wire::find_access(bytes)) return *std::move(access);
  return decode<pb::Access, Access>(bytes, "access");
}
Result<EpochState> decode_epoch(std::string_view bytes) {
  if (auto epoch = wire::find_epoch(bytes)) return *std::move(epoch);
  return decode<pb::EpochState, EpochState>(bytes, "epoch");
}

}  // namespace steelyard::metadata
