#include "store/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "formats/identity.h"
#include "hash/sha256.h"
#include "store/committed_marker.h"
#include "store/import_layout.h"
#include "store/import_room.h"
#include "store/lease_guard.h"
#include "store/manifest_file.h"
#include "store/overlap.h"
#include "store/payload_pipeline.h"
#include "store/progress_meter.h"
#include "store/removal.h"
#include "store/resolve.h"
#include "store/same_content.h"
#include "store/stop_signal.h"
#include "store/writer_keeper.h"

namespace steelyard::store {
namespace {

constexpr std::int64_t kWaitStepMs = 200;
constexpr std::uint32_t kAttemptMax = std::numeric_limits<std::uint32_t>::max();

/// One import under way. The steps are called in the order in which they stand here.
class Import {
 public:
  Import(Context& context, const ImportRequest& request, Source& source, Observer& observer, const CancelFlag& cancel)
      : context_(context),
        request_(request),
        source_(source),
        observer_(observer),
        cancel_(cancel),
        stop_(cancel),
        begun_ns_(context.runtime.mono_ns()) {}

  Result<ImportResult> run() {
    SY_RETURN_IF_ERROR(plan());
    SY_RETURN_IF_ERROR(find_interrupted_move());
    if (already_there_) return result();
    if (request_.into_memory) SY_RETURN_IF_ERROR(check_memory());
    SY_RETURN_IF_ERROR(begin());
    if (already_there_) return result();
    Status status = write_and_commit();
    if (!status.ok()) return explain(std::move(status));
    clean_up();
    return result();
  }

 private:
  Status plan() {
    SY_ASSIGN_OR_RETURN(plan_, formats::plan_checkpoint(source_.files(), reader_of(source_), request_.checkpoint));
    SY_RETURN_IF_ERROR(check_apart());
    for (const std::string& warning : plan_.warnings) observer_.warning(warning);
    SY_ASSIGN_OR_RETURN(chunk_bytes_, choose_chunk_bytes());
    SY_ASSIGN_OR_RETURN(layout_, lay_out(plan_, chunk_bytes_));
    return {};
  }

  /// An import that was interrupted on the way into memory has published its revision. The same one again is answered
  /// with that, and the caller goes on with the operation.
  Status find_interrupted_move() {
    if (!request_.into_memory || request_.target.ref.weight_generation) return {};
    SY_ASSIGN_OR_RETURN(const auto record, newest());
    const bool comes_into_memory = record && record->operation &&
                                   record->operation->kind == metadata::OperationKind::kRehydrating &&
                                   record->operation->target == metadata::Residency::kHot;
    if (!comes_into_memory || !is_as_asked(*record)) return {};
    SY_ASSIGN_OR_RETURN(already_there_, holds_this_content(*record));
    return {};
  }

  Status check_memory() {
    return check_memory_for_import(context_, request_, source_, plan_, layout_, observer_, stop_);
  }

  Status check_apart() const {
    std::vector<std::string> paths;
    paths.reserve(plan_.files.size());
    for (const formats::PlannedFile& file : plan_.files) paths.push_back(file.path);
    return check_source_apart(context_.options, request_.source, paths);
  }

  /// The request's, else that of the lineage's newest published generation, else the default.
  Result<std::uint64_t> choose_chunk_bytes() {
    if (request_.chunk_bytes) {
      const std::uint64_t bytes = *request_.chunk_bytes;
      if (bytes < limits::kChunkBytesMin || bytes > limits::kChunkBytesMax || bytes % limits::kChunkBytesMin != 0) {
        return Status(Code::kInvalidArgument,
                      fmt::format("the chunk size is {}; it must be a multiple of 1 MiB from 1 MiB to 4 GiB",
                                  format_size(bytes)));
      }
      return bytes;
    }
    SY_ASSIGN_OR_RETURN(const auto records, context_.catalog.list_lineage(lineage_of(request_.target)));
    for (auto record = records.rbegin(); record != records.rend(); ++record) {
      if (!is_published(record->availability)) continue;
      const auto manifest = load_manifest(context_.cold, *record);
      if (manifest.ok()) return manifest->chunk_bytes;
    }
    return limits::kChunkBytesDefault;
  }

  Status begin() {
    metadata::BeginWeightImport command;
    command.lineage = lineage_of(request_.target);
    command.weight_generation = request_.target.ref.weight_generation;
    command.token = context_.runtime.random_hex(16);
    command.process = context_.runtime.self();
    command.holder = holder_of(context_.runtime);
    command.ttl_ms = context_.options.writer_ttl_ms;
    command.expected.payload_count = layout_.objects.size();
    command.expected.logical_bytes = plan_.logical_bytes;
    command.labels = with_automatic(request_.labels);
    command.policy = request_.policy;

    std::optional<metadata::RevisionRecord> newest_before;
    if (request_.wait_ms > 0) {
      SY_ASSIGN_OR_RETURN(newest_before, newest());
    }
    const std::int64_t deadline = context_.runtime.mono_ms() + request_.wait_ms;
    for (;;) {
      SY_RETURN_IF_ERROR(check_next(command));
      auto answer = context_.catalog.begin_weight_import(command);
      if (answer.ok()) {
        record_ = std::move(answer->record).value();
        token_ = {record_.identity, command.token, record_.import_attempt};
        attempt_ = attempt_of(record_);
        SY_POINT(context_.runtime, "import.after_begin");
        SY_ASSIGN_OR_RETURN(command.least_attempt, free_attempt());
        if (command.least_attempt == attempt_.attempt) return {};
        command.weight_generation = record_.identity.weight_generation;
        continue;
      }
      if (answer.code() == Code::kConflict) {
        SY_ASSIGN_OR_RETURN(const bool again, can_go_on(command));
        if (already_there_) return {};
        if (again) continue;
      }
      if (answer.code() != Code::kBusy || context_.runtime.mono_ms() >= deadline) return std::move(answer).status();
      if (!command.weight_generation) {
        // Whoever is waited for is remembered by number: what he publishes must not pass unseen, and be made twice.
        SY_ASSIGN_OR_RETURN(const auto awaited, newest());
        const bool new_now = awaited && (!newest_before || newest_before->identity != awaited->identity ||
                                         newest_before->availability == metadata::Availability::kImporting);
        if (new_now) command.weight_generation = awaited->identity.weight_generation;
      }
      SY_POINT(context_.runtime, "import.waiting");
      if (cancel_.load()) return cancelled("waiting for the other writer");
      context_.runtime.sleep_ms(kWaitStepMs);
    }
  }

  /// Before there is a record, which would outlive the refusal: the identity that Begin would give, if it is new here,
  /// must not be of another history.
  Status check_next(const metadata::BeginWeightImport& command) {
    SY_ASSIGN_OR_RETURN(const auto records, context_.catalog.list_lineage(command.lineage));
    SY_ASSIGN_OR_RETURN(const std::int64_t watermark, context_.catalog.get_watermark(command.lineage));
    std::int64_t generation = command.weight_generation.value_or(watermark);
    if (!command.weight_generation) {
      if (!records.empty()) {
        const bool goes_on = records.back().availability == metadata::Availability::kImporting;
        const std::int64_t newest = records.back().identity.weight_generation;
        generation = goes_on ? newest - 1 : std::max(generation, newest);
      }
      if (generation == std::numeric_limits<std::int64_t>::max()) return {};  // Begin says it
      ++generation;
    }
    if (generation <= watermark) return {};  // the same
    const bool known = std::ranges::any_of(records, [&](const auto& record) {
      return record.identity.weight_generation == generation &&
             record.availability != metadata::Availability::kImporting;
    });
    return known ? Status() : check_history({command.lineage, generation});
  }

  /// The attempt's own number, or the lowest above all that lie in its group: nothing was put under the attempt yet, so
  /// what lies there, or under a higher one, is of another history, of an import that a recovered catalog does not
  /// know. Bytes of two histories never meet, and whoever removes the old ones late removes nothing else.
  Result<std::uint32_t> free_attempt() {
    const auto listing = context_.cold.list_group(attempt_.group);
    const bool last = listing.ok() && !listing->attempts.empty() && listing->attempts.back() == kAttemptMax;
    if (listing.ok() && !last) {
      return listing->attempts.empty() ? attempt_.attempt : std::max(attempt_.attempt, listing->attempts.back() + 1);
    }
    context_.catalog
        .release_weight_import(
            {.identity = token_.identity, .token = token_.token, .import_attempt = token_.import_attempt})
        .ignore("the token ends by itself after its time to live");
    SY_RETURN_IF_ERROR(listing.status());
    return Status(Code::kConflict,
                  fmt::format("the cold tier holds attempt {} of {}, the last one there can be, and this catalog does "
                              "not know it",
                              kAttemptMax, formats::format_ref(record_.identity)),
                  "--generation takes another number");
  }

  /// The lineage's newest record, in any state.
  Result<std::optional<metadata::RevisionRecord>> newest() {
    SY_ASSIGN_OR_RETURN(auto records, context_.catalog.list_lineage(lineage_of(request_.target)));
    if (records.empty()) return std::optional<metadata::RevisionRecord>();
    return std::optional(std::move(records.back()));
  }

  metadata::Labels with_automatic(metadata::Labels labels) const {
    for (const auto& label : request_.automatic_labels) {
      if (std::ranges::none_of(labels, [&](const auto& own) { return own.first == label.first; })) {
        labels.push_back(label);
      }
    }
    std::sort(labels.begin(), labels.end());
    return labels;
  }

  /// What remains of a record's labels without those that an import gives by itself.
  metadata::Labels user_labels(metadata::Labels labels) const {
    std::erase_if(labels, [&](const auto& label) {
      return label.first == kHubRefLabel &&
             std::ranges::none_of(request_.labels, [&](const auto& own) { return own.first == label.first; });
    });
    return labels;
  }

  bool same_user_labels(const metadata::RevisionRecord& record) const {
    metadata::Labels wanted = request_.labels;
    std::sort(wanted.begin(), wanted.end());
    return user_labels(record.labels) == wanted;
  }

  /// Published as this import would publish it, but for its content.
  bool is_as_asked(const metadata::RevisionRecord& record) const {
    return record.availability == metadata::Availability::kReady && same_user_labels(record) &&
           record.policy == request_.policy;
  }

  /// What a CONFLICT of Begin may be besides one: the unfinished import has another automatic label, which it keeps;
  /// or the writer that was waited for is done, with this content (then it is already there) or with another.
  Result<bool> can_go_on(metadata::BeginWeightImport& command) {
    SY_ASSIGN_OR_RETURN(auto record, newest());
    if (command.weight_generation) {
      auto exact = context_.catalog.get_weight_revision({command.lineage, *command.weight_generation});
      if (!exact.ok() && exact.code() != Code::kNotFound) return std::move(exact).status();
      record = exact.ok() ? std::optional(std::move(exact).value()) : std::nullopt;
    }
    if (record && record->availability == metadata::Availability::kImporting) {
      if (!same_user_labels(*record) || record->labels == command.labels) return false;
      command.labels = std::move(record->labels);
      return true;
    }
    if (request_.target.ref.weight_generation || !command.weight_generation) return false;
    if (record && is_as_asked(*record)) {
      SY_ASSIGN_OR_RETURN(already_there_, holds_this_content(*record));
    }
    command.weight_generation.reset();
    command.labels = with_automatic(request_.labels);
    return true;
  }

  Result<bool> holds_this_content(const metadata::RevisionRecord& record) {
    const auto manifest = load_manifest(context_.cold, record);
    if (!manifest.ok()) {
      log_info("what was published before cannot be compared: {}", manifest.status().to_string());
      return false;
    }
    ProgressMeter progress(context_.runtime, observer_, "verify", plan_.logical_bytes, plan_.files.size());
    SY_ASSIGN_OR_RETURN(const bool same, has_content_of(context_, source_, plan_, *manifest, stop_, progress));
    if (!same) return false;
    progress.finish();
    record_ = record;
    summary_ = record.summary;
    tensors_ = manifest->tensors.size();
    reused_bytes_ = record.summary.logical_bytes;
    return true;
  }

  Status write_and_commit() {
    WriterKeeper keeper(context_.runtime, context_.catalog, token_, context_.options.writer_ttl_ms, stop_);
    SY_RETURN_IF_ERROR(check_history(record_.identity));
    if (Status status = write_all(); !status.ok()) return reason_of(std::move(status));
    // Members that are missing at the end: then nothing was published, perhaps because somebody aborted it.
    if (Status status = commit(); !status.ok()) {
      return status.code() == Code::kCorrupt ? reason_of(std::move(status)) : status;
    }
    keeper.committed();
    return {};
  }

  /// Everything that lies in the tier, durable.
  Status write_all() {
    SY_RETURN_IF_ERROR(write_payload());
    SY_RETURN_IF_ERROR(write_manifest());
    SY_RETURN_IF_ERROR(stop_.status("the import"));
    SY_RETURN_IF_ERROR(context_.cold.flush(attempt_));
    context_.observer.set_flushed(attempt_, true);
    SY_POINT(context_.runtime, "import.after_flush");
    return {};
  }

  /// A writer that was taken over may meet what follows from it, its files gone, before a renewal tells it.
  Status reason_of(Status status) {
    if (status.code() == Code::kStaleGeneration || is_cancelled(status)) return status;
    Status renewed = context_.catalog.renew_weight_import(token_).status();
    if (!is_lost(renewed)) return status;
    log_info("the import met this first: {}", status.to_string());
    return renewed;
  }

  /// A committed attempt of an identity that the catalog has as IMPORTING is of another history: an older catalog was
  /// put back, or two catalogs use one cold tier. Its bytes may be the only copy of a published revision.
  Status check_history(const metadata::Identity& identity) {
    const std::string group = attempt_of(identity, 1).group;
    SY_ASSIGN_OR_RETURN(const auto listing, context_.cold.list_group(group));
    if (listing.deleting) {
      resumable_ = false;
      return {Code::kConflict,
              fmt::format("{} was deleted or aborted as the cold tier knows it (group {}), but not in this catalog: an "
                          "older catalog was put back, or another store uses the same cold tier",
                          formats::format_ref(identity), group),
              "--generation takes another number"};
    }
    Status status = check_not_published_elsewhere(context_.cold, identity);
    if (status.ok()) return status;
    resumable_ = false;
    return std::move(status).with_hint(status.hint() + "; --generation takes another number");
  }

  Status write_payload() {
    std::vector<std::uint64_t> sizes;
    sizes.reserve(layout_.objects.size());
    for (const ObjectSpan& object : layout_.objects) sizes.push_back(object.bytes);
    context_.observer.expect(attempt_, std::move(sizes));

    SY_RETURN_IF_ERROR(check_space());
    ProgressMeter progress(context_.runtime, observer_, "import", plan_.logical_bytes, plan_.files.size());
    PayloadPipeline pipeline(context_, source_, plan_, layout_, attempt_,
                             {.verify_after_write = request_.verify_after_write}, stop_, progress);
    SY_RETURN_IF_ERROR(pipeline.run());
    progress.finish();
    written_bytes_ = pipeline.written_bytes();
    reused_bytes_ = pipeline.reused_bytes();
    objects_ = std::move(pipeline.objects());
    file_digests_ = pipeline.file_digests();
    SY_POINT(context_.runtime, "import.after_objects");
    return {};
  }

  /// Where the source might not fit, finds out how much of it the tier really lacks before a byte is written.
  Status check_space() {
    SY_ASSIGN_OR_RETURN(const std::uint64_t available, context_.cold.available_bytes());
    const bool fits = plan_.logical_bytes <= available;
    ProgressMeter progress(context_.runtime, observer_, "scan", fits ? 0 : plan_.logical_bytes, plan_.files.size());
    if (fits) {
      progress.finish();
      return {};
    }
    PayloadPipeline pipeline(context_, source_, plan_, layout_, attempt_, {.link_only = true}, stop_, progress);
    SY_RETURN_IF_ERROR(pipeline.run());
    progress.finish();
    if (pipeline.absent_bytes() <= available) return {};
    const auto size = format_sizes_apart({pipeline.absent_bytes(), available});
    return {Code::kNoSpace,
            fmt::format("the cold tier needs {} more for this import and may use {} (cold.reserve_free is kept): {} "
                        "are missing",
                        size[0], size[1], format_size(pipeline.absent_bytes() - available)),
            "free space, set --cold-path to a larger filesystem for a new store, or lower --cold-reserve-free"};
  }

  Status write_manifest() {
    formats::StoredManifest manifest;
    manifest.identity = record_.identity;
    manifest.created_at_ms = record_.created_at_ms;
    manifest.chunk_bytes = chunk_bytes_;
    manifest.source = source_.facts();
    std::sort(manifest.source.begin(), manifest.source.end());
    manifest.runs = std::move(layout_.runs);
    manifest.objects = std::move(objects_);
    manifest.tensors = std::move(layout_.tensors);
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      const formats::PlannedFile& file = plan_.files[i];
      manifest.files.push_back({file.path, file.kind, file.bytes, file_digests_[i], std::move(layout_.pieces[i])});
    }
    tensors_ = manifest.tensors.size();

    SY_ASSIGN_OR_RETURN(const std::string json, formats::write_manifest(manifest));
    const Digest sha256 = hash::sha256(as_bytes(json));
    summary_ = {manifest.objects.size(), manifest.logical_bytes(),
                formats::payload_keys_sha256(record_.identity, static_cast<std::uint32_t>(manifest.objects.size())),
                sha256.hex()};
    SY_ASSIGN_OR_RETURN(const auto put, context_.cold.start_put(manifest_of(attempt_), as_bytes(json), sha256));
    SY_RETURN_IF_ERROR(put->finish().status());
    SY_POINT(context_.runtime, "import.after_manifest_put");
    return {};
  }

  Status commit() {
    metadata::CommitWeightImport command;
    command.identity = record_.identity;
    command.token = token_.token;
    command.import_attempt = token_.import_attempt;
    command.expected_metadata_generation = record_.metadata_generation;
    command.summary = summary_;
    SY_ASSIGN_OR_RETURN(record_, context_.catalog.commit_weight_import(command));
    context_.observer.forget(attempt_);
    SY_POINT(context_.runtime, "import.after_commit");
    return {};
  }

  /// The revision is published; nothing here may turn that into a failure.
  void clean_up() {
    if (Status status = ensure_committed_marker(context_.cold, record_); !status.ok()) {
      observer_.warning(fmt::format(
          "{} is published, but its `committed` marker could not be written ({}): until it is, the cold tier alone "
          "does "
          "not bring the revision back; `steelyard reconcile {}` writes it, as does the next command that reads it",
          formats::format_ref(record_.identity), status.message(), formats::format_ref(record_.identity)));
    }
    SY_POINT(context_.runtime, "import.after_committed_marker");
    remove_leftovers();
  }

  void remove_leftovers() { note(remove_older_attempts()); }

  /// What is held before the record is read again is what this revision's earlier writers left, and nobody else's.
  Status remove_older_attempts() {
    SY_ASSIGN_OR_RETURN(const tiers::GroupListing listing, context_.cold.list_group(attempt_.group));
    std::vector<std::unique_ptr<tiers::HeldAttempt>> held;
    for (const std::uint32_t attempt : listing.attempts) {
      if (attempt >= attempt_.attempt || std::ranges::count(listing.committed_attempts, attempt) != 0) continue;
      auto one = context_.cold.hold_attempt({attempt_.group, attempt});
      if (one.ok()) held.push_back(std::move(one).value());
    }
    if (held.empty()) return {};
    SY_ASSIGN_OR_RETURN(const auto now, context_.catalog.get_weight_revision(record_.identity));
    if (now.import_attempt != attempt_.attempt) return {};
    for (const auto& one : held) note(context_.cold.remove_held(*one));
    return {};
  }

  static void note(const Status& status) {
    if (!status.ok()) log_info("left for gc: {}", status.to_string());
  }

  Status explain(Status status) const {
    context_.observer.forget(attempt_);
    if (status.code() == Code::kUnknownOutcome) {
      return std::move(status).with_hint(
          fmt::format("`steelyard inspect {}` tells whether it was published", formats::format_ref(record_.identity)));
    }
    // A CONFLICT is of an identity that is used, by an abort for example: it says itself how to go on.
    if (!resumable_ || status.code() == Code::kConflict) return status;
    if (status.code() == Code::kStaleGeneration) {
      const auto now = context_.catalog.get_weight_revision(record_.identity);
      const bool aborted =
          now.ok() && now->committed_seq == 0 && now->availability != metadata::Availability::kImporting;
      return std::move(status).with_hint(
          aborted ? std::string("somebody aborted this import; the same command without a generation begins a new one")
                  : fmt::format("another writer took this import over; `steelyard inspect {}` shows what became of it",
                                formats::format_ref(record_.identity)));
    }
    if (is_cancelled(status)) {
      return std::move(status).with_hint(
          fmt::format("nothing was left half visible; run the same command again: it resumes {}",
                      formats::format_ref(record_.identity)));
    }
    const std::string resume =
        fmt::format("nothing was published; the same command resumes {}", formats::format_ref(record_.identity));
    const std::string hint = status.hint().empty() ? resume : status.hint() + "; " + resume;
    return std::move(status).with_hint(hint);
  }

  ImportResult result() const {
    ImportResult result;
    result.record = record_;
    result.files = plan_.files.size();
    result.tensors = tensors_;
    result.payload_objects = summary_.payload_count;
    result.logical_bytes = summary_.logical_bytes;
    result.written_bytes = written_bytes_;
    result.reused_bytes = reused_bytes_;
    result.already_there = already_there_;
    result.skipped = plan_.skipped.size();
    for (const formats::SkippedFile& file : plan_.skipped) result.skipped_bytes += file.bytes;
    result.seconds = static_cast<double>(context_.runtime.mono_ns() - begun_ns_) / 1e9;
    return result;
  }

  Context& context_;
  const ImportRequest& request_;
  Source& source_;
  Observer& observer_;
  const CancelFlag& cancel_;
  StopSignal stop_;
  const std::int64_t begun_ns_;

  bool resumable_ = true;
  bool already_there_ = false;
  formats::CheckpointPlan plan_;
  std::uint64_t chunk_bytes_ = 0;
  ImportLayout layout_;
  metadata::RevisionRecord record_;
  metadata::RenewWeightImport token_;
  tiers::AttemptName attempt_;
  std::vector<formats::ObjectEntry> objects_;
  std::vector<Digest> file_digests_;
  metadata::GroupSummary summary_;
  std::uint64_t tensors_ = 0;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t reused_bytes_ = 0;
};

}  // namespace

Result<ImportResult> run_import(Context& context, const ImportRequest& request, Source& source, Observer& observer,
                                const CancelFlag& cancel) {
  return Import(context, request, source, observer, cancel).run();
}

Result<formats::CheckpointPlan> preview_import(const ImportRequest& request, Observer& observer) {
  SY_ASSIGN_OR_RETURN(const auto source, open_source(request.source, request.follow_links));
  SY_ASSIGN_OR_RETURN(formats::CheckpointPlan plan,
                      formats::plan_checkpoint(source->files(), reader_of(*source), request.checkpoint));
  for (const std::string& warning : plan.warnings) observer.warning(warning);
  return plan;
}

}  // namespace steelyard::store
