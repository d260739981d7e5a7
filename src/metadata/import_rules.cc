// Begin, renewal, release, commit and abort of an import.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/ref.h"
#include "metadata/turn.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

Status conflict_used(const RevisionRecord& record) {
  const std::string ref = formats::format_ref(record.identity);
  const bool published = record.committed_seq != 0;
  return {Code::kConflict,
          ref + (published ? " was published before (it is " : " was an import that was aborted (it is ") +
              state_and_since(record) + "), and an identity is used only once",
          "import it as a new generation: leave the generation out, or give one above " +
              std::to_string(record.identity.weight_generation)};
}

Status conflict_watermark(const Identity& identity, const Watermark& mark) {
  return {Code::kConflict,
          formats::format_ref(identity) + " is at or below the lineage's watermark: generations up to " +
              std::to_string(mark.weight_generation) + " are used",
          "leave the generation out, or give one above " + std::to_string(mark.weight_generation)};
}

/// The generation that an import without one gets.
Result<std::int64_t> choose_generation(const StateView& view, const Lineage& lineage) {
  SY_ASSIGN_OR_RETURN(const std::optional<RevisionRecord> newest, newest_of(view, lineage));
  if (newest && newest->availability == Availability::kImporting) return newest->identity.weight_generation;
  SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(view, lineage));
  const std::int64_t used =
      std::max(newest ? newest->identity.weight_generation : 0, mark ? mark->weight_generation : 0);
  if (used == limits::kGenerationMax) {
    return Status(Code::kGenerationExhausted,
                  formats::format_ref(Identity{lineage, used}) + " is the last generation there can be",
                  "import under another revision name");
  }
  return used + 1;
}

Status validate_begin(const BeginWeightImport& command) {
  SY_RETURN_IF_ERROR(formats::validate(command.lineage));
  SY_RETURN_IF_ERROR(validate_id("writer token", command.token));
  SY_RETURN_IF_ERROR(validate_ttl("writer ttl", command.ttl_ms, kWriterTtlMsMin, kWriterTtlMsMax));
  SY_RETURN_IF_ERROR(validate_summary(command.expected, false));
  SY_RETURN_IF_ERROR(validate_labels(command.labels));
  SY_RETURN_IF_ERROR(validate_policy(command.policy));
  SY_RETURN_IF_ERROR(validate_process(command.process));
  return validate_holder(command.holder);
}

Writer make_writer(const Turn& turn, const BeginWeightImport& command, const RevisionRecord& record) {
  Writer writer;
  writer.identity = record.identity;
  writer.import_attempt = record.import_attempt;
  writer.token = command.token;
  writer.holder = command.holder;
  writer.process = command.process;
  writer.ttl_ms = command.ttl_ms;
  writer.epoch = turn.now.epoch;
  writer.granted_mono_ms = turn.now.mono_ms;
  writer.granted_wall_ms = turn.now.wall_ms;
  return writer;
}

void renew(const Turn& turn, Writer& writer) {
  writer.epoch = turn.now.epoch;
  writer.granted_mono_ms = turn.now.mono_ms;
  writer.granted_wall_ms = turn.now.wall_ms;
  writer.idle_before_ms = 0;
}

void answer(Turn& turn, RevisionRecord record, Writer writer) {
  turn.answer.record = std::move(record);
  turn.answer.writer = std::move(writer);
}

/// BUSY while the writer lives.
Status check_writer_not_live(const Turn& turn, const Writer& writer, std::string_view hint) {
  const LeaseLife life = life_of(writer, turn.epoch, turn.now);
  if (!life.live) return {};
  return {Code::kBusy,
          formats::format_ref(writer.identity) + " is being imported by " + printable(writer.holder) +
              ", last renewed " + format_age(idle_ms_of(writer, turn.epoch, turn.now)) + " ago, its token ends in " +
              format_age(life.left_ms) + " unless renewed",
          std::string(hint)};
}

Status continue_import(Turn& turn, const BeginWeightImport& command, const RevisionRecord& record) {
  if (record.labels != command.labels) {
    return {Code::kConflict,
            formats::format_ref(record.identity) + " was begun with other labels (" +
                std::to_string(record.labels.size()) + " then, " + std::to_string(command.labels.size()) +
                " now, or other values)",
            "repeat the labels of the first import, or abort it first"};
  }
  SY_ASSIGN_OR_RETURN(std::optional<Writer> writer, find_writer(turn.view, record.identity));
  const bool own = writer && writer->token == command.token;
  if (own && record.import_attempt >= command.least_attempt) {
    if (!life_of(*writer, turn.epoch, turn.now).live) {
      // Nobody took over: the token lives again.
      renew(turn, *writer);
      turn.put(WriterPut{*writer});
    }
    answer(turn, record, *std::move(writer));
    return {};
  }
  const bool gone = writer && command.current_writer_gone && writer->process == command.gone_process;
  if (writer && !gone && !own) {
    SY_RETURN_IF_ERROR(check_writer_not_live(
        turn, *writer, "wait for it: the same import with --wait 30s does, or as long as you say"));
  }
  if (record.import_attempt == std::numeric_limits<std::uint32_t>::max()) {
    return {Code::kGenerationExhausted, formats::format_ref(record.identity) + " has had the last attempt there can be",
            "abort it and import a new generation"};
  }
  RevisionRecord next = next_of(record, turn.now);
  next.import_attempt = std::max(next.import_attempt + 1, command.least_attempt);
  next.summary = command.expected;
  Writer taken = make_writer(turn, command, next);
  turn.put(RevisionPut{next});
  turn.put(WriterPut{taken});
  answer(turn, std::move(next), std::move(taken));
  return {};
}

/// The writer of an IMPORTING record, or STALE_GENERATION when (token, attempt) is not its current one.
Result<Writer> get_own_writer(const Turn& turn, const RevisionRecord& record, std::string_view token,
                              std::uint32_t import_attempt) {
  const std::string ref = formats::format_ref(record.identity);
  if (record.availability != Availability::kImporting) {
    return Status(Code::kStaleGeneration, ref + " is " + state_and_since(record) + ": its import is over",
                  is_published(record.availability)
                      ? "it can be read; other content is imported as a new generation"
                      : "import it again under a new generation; what was stored is found again by its content");
  }
  SY_ASSIGN_OR_RETURN(std::optional<Writer> writer, find_writer(turn.view, record.identity));
  if (import_attempt != record.import_attempt) {
    return Status(Code::kStaleGeneration,
                  ref + ": attempt " + std::to_string(import_attempt) + " was taken over, the current one is " +
                      std::to_string(record.import_attempt),
                  "begin again; what was stored is found again by its content");
  }
  if (!writer || writer->token != token) {
    return Status(Code::kStaleGeneration,
                  ref + ": the writer token is not the current one of attempt " + std::to_string(import_attempt) +
                      (!writer || writer->token.empty() ? ", which was given back or has ended" : ""),
                  "begin again; what was stored is found again by its content");
  }
  return *std::move(writer);
}

}  // namespace

Status judge(Turn& turn, const BeginWeightImport& command) {
  SY_RETURN_IF_ERROR(validate_begin(command));
  Identity identity{command.lineage, 0};
  if (command.weight_generation) {
    identity.weight_generation = *command.weight_generation;
  } else {
    SY_ASSIGN_OR_RETURN(identity.weight_generation, choose_generation(turn.view, command.lineage));
  }
  SY_RETURN_IF_ERROR(formats::validate(identity));
  SY_ASSIGN_OR_RETURN(const std::optional<RevisionRecord> found, find_revision(turn.view, identity));
  if (found) {
    if (found->availability != Availability::kImporting) return conflict_used(*found);
    return continue_import(turn, command, *found);
  }
  SY_ASSIGN_OR_RETURN(const std::optional<Watermark> mark, find_watermark(turn.view, identity.lineage));
  if (mark && mark->weight_generation >= identity.weight_generation) return conflict_watermark(identity, *mark);

  RevisionRecord record;
  record.identity = identity;
  record.metadata_generation = 1;
  record.import_attempt = std::max<std::uint32_t>(command.least_attempt, 1);
  record.manifest_key = formats::manifest_key(identity);
  record.payload_group_id = formats::payload_group_id(identity);
  record.summary = command.expected;
  record.begin_seq = turn.sequence;
  record.created_at_ms = turn.now.wall_ms;
  record.updated_at_ms = turn.now.wall_ms;
  record.availability_since_ms = turn.now.wall_ms;
  record.labels = command.labels;
  record.policy = command.policy;
  Writer writer = make_writer(turn, command, record);
  turn.put(RevisionPut{record});
  turn.put(WriterPut{writer});
  answer(turn, std::move(record), std::move(writer));
  return {};
}

Status judge(Turn& turn, const RenewWeightImport& command) {
  SY_RETURN_IF_ERROR(validate_id("writer token", command.token));
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  SY_ASSIGN_OR_RETURN(Writer writer, get_own_writer(turn, record, command.token, command.import_attempt));
  // An ended token that nobody took over lives again: the attempt is still its own.
  const Writer before = writer;
  renew(turn, writer);
  if (writer.granted_mono_ms == before.granted_mono_ms && before.idle_before_ms == 0) writer = before;
  if (writer != before) turn.put(WriterPut{writer});
  answer(turn, std::move(record), std::move(writer));
  return {};
}

Status judge(Turn& turn, const ReleaseWeightImport& command) {
  SY_RETURN_IF_ERROR(validate_id("writer token", command.token));
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  const bool same_attempt = record.import_attempt == command.import_attempt;
  SY_ASSIGN_OR_RETURN(std::optional<Writer> current, find_writer(turn.view, command.identity));
  if (same_attempt && (record.availability != Availability::kImporting || !current || current->token.empty())) {
    turn.answer.record = std::move(record);
    turn.answer.writer = std::move(current);
    return {};  // there is no token any more
  }
  SY_ASSIGN_OR_RETURN(Writer writer, get_own_writer(turn, record, command.token, command.import_attempt));
  writer.token.clear();
  turn.put(WriterPut{writer});
  answer(turn, std::move(record), std::move(writer));
  return {};
}

Status judge(Turn& turn, const CommitWeightImport& command) {
  SY_RETURN_IF_ERROR(validate_id("writer token", command.token));
  SY_RETURN_IF_ERROR(validate_summary(command.summary, true));
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  const AppliedRequest request = Arguments(command.identity)
                                     .add(command.token)
                                     .add(command.import_attempt)
                                     .add(command.summary.payload_count)
                                     .add(command.summary.logical_bytes)
                                     .add(command.summary.payload_keys_sha256)
                                     .add(command.summary.manifest_sha256)
                                     .request(RequestKind::kCommit, command.expected_metadata_generation);
  if (was_applied(record, request)) {
    turn.answer.record = std::move(record);
    return {};
  }
  if (record.availability != Availability::kImporting && record.import_attempt == command.import_attempt) {
    return conflict_used(record);
  }
  SY_RETURN_IF_ERROR(get_own_writer(turn, record, command.token, command.import_attempt).status());
  SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));

  RevisionRecord next = next_of(record, turn.now);
  set_availability(next, Availability::kReady);
  next.residency = Residency::kCold;
  next.summary = command.summary;
  next.committed_seq = turn.sequence;
  set_applied(next, request);
  turn.put(RevisionPut{next});
  turn.put(WriterRemoved{command.identity});
  turn.answer.record = std::move(next);
  return {};
}

Status judge(Turn& turn, const AbortWeightImport& command) {
  SY_ASSIGN_OR_RETURN(RevisionRecord record, get_record(turn.view, command.identity));
  const std::string ref = formats::format_ref(command.identity);
  const bool by_token = !command.token.empty();
  if (by_token) SY_RETURN_IF_ERROR(validate_id("writer token", command.token));
  const AppliedRequest request = Arguments(command.identity)
                                     .add(command.token)
                                     .add(command.import_attempt)
                                     .add(command.force ? 1U : 0U)
                                     .add(command.only_if_idle_ms ? std::to_string(*command.only_if_idle_ms) : "")
                                     .request(RequestKind::kAbort, command.expected_metadata_generation);
  if (was_applied(record, request)) {
    turn.answer.record = std::move(record);
    return {};
  }
  if (record.committed_seq != 0) {
    return {Code::kConflict, ref + " is published (" + state_and_since(record) + "), there is no import to abort",
            "`steelyard delete` removes a published revision"};
  }
  if (record.availability != Availability::kImporting) {
    if (!by_token) SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
    if (by_token && command.import_attempt != record.import_attempt) {
      return {
          Code::kStaleGeneration,
          ref + " is " + state_and_since(record) + ", aborted under attempt " + std::to_string(record.import_attempt),
          "import it again under a new generation"};
    }
    turn.answer.record = std::move(record);
    return {};  // it was aborted before
  }
  SY_ASSIGN_OR_RETURN(const std::optional<Writer> writer, find_writer(turn.view, command.identity));
  if (by_token) {
    SY_RETURN_IF_ERROR(get_own_writer(turn, record, command.token, command.import_attempt).status());
    if (command.expected_metadata_generation != 0) {
      SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
    }
  } else {
    SY_RETURN_IF_ERROR(check_fence(record, command.expected_metadata_generation));
    if (writer && command.only_if_idle_ms) {
      const std::int64_t idle = idle_ms_of(*writer, turn.epoch, turn.now);
      if (idle < *command.only_if_idle_ms) {
        return {Code::kBusy,
                ref + " was renewed by " + printable(writer->holder) + " " + format_age(idle) +
                    " ago, wanted at least " + format_age(*command.only_if_idle_ms),
                "the import goes on: leave it alone"};
      }
    }
    const bool gone = writer && command.current_writer_gone && writer->process == command.gone_process;
    if (writer && !command.force && !gone) {
      SY_RETURN_IF_ERROR(check_writer_not_live(turn, *writer, "wait for it, or use --force"));
    }
  }
  RevisionRecord next = next_of(record, turn.now);
  set_availability(next, Availability::kDeleting);
  set_applied(next, request);
  turn.put(RevisionPut{next});
  if (writer) turn.put(WriterRemoved{command.identity});
  turn.answer.record = std::move(next);
  return {};
}

}  // namespace steelyard::metadata
