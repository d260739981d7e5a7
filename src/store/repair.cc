#include "store/repair.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "hash/sha256.h"
#include "hash/xxh3.h"
#include "store/block_sources.h"
#include "store/damage_record.h"
#include "store/hot_repair.h"
#include "store/manifest_file.h"
#include "store/progress_meter.h"
#include "store/resolve.h"
#include "store/runner_keeper.h"
#include "store/writer_keeper.h"

namespace steelyard::store {
namespace {

using metadata::OperationKind;
using metadata::OperationState;
using metadata::RevisionRecord;

/// Between reading a record and starting an operation on it others may change it.
constexpr int kTriesMax = 5;

/// The path as it is from any folder.
std::string absolute(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  return failed ? path : whole.lexically_normal().string();
}

/// What an object lacks that nobody has.
struct Unrestored {
  std::uint32_t object = 0;
  std::uint64_t blocks = 0;
  std::uint64_t first_block = 0;
};

/// One object on its way to being whole.
class ObjectRepair {
 public:
  ObjectRepair(Context& context, const tiers::AttemptName& attempt, const formats::StoredManifest& manifest,
               std::uint32_t object, BlockSources& sources, ByteSpan memory, StopSignal& stop, ProgressMeter& progress)
      : context_(context),
        name_(payload_of(attempt, object)),
        entry_(manifest.objects[object]),
        object_(object),
        sources_(sources),
        memory_(memory),
        keeps_(entry_.bytes <= memory.size()),
        stop_(stop),
        progress_(progress) {}

  /// Absent: it is whole. `names` receives the others that got its bytes, or share them.
  Result<std::optional<Unrestored>> run(std::vector<tiers::ObjectName>& names) {
    SY_RETURN_IF_ERROR(examine());
    SY_ASSIGN_OR_RETURN(names, sources_.sharing(name_));
    if (whole_) return std::optional<Unrestored>();
    std::vector<tiers::ObjectName> all = names;
    all.push_back(name_);
    SY_ASSIGN_OR_RETURN(const bool linked, link_content(all));
    if (linked) return std::optional<Unrestored>();
    SY_ASSIGN_OR_RETURN(const auto unrestored, find_blocks());
    if (unrestored) return unrestored;
    SY_RETURN_IF_ERROR(write(all));
    return std::optional<Unrestored>();
  }

 private:
  std::uint64_t blocks() const { return entry_.blocks.size(); }
  std::uint64_t bytes_of(std::uint64_t block) const {
    return std::min(limits::kBlockBytes, entry_.bytes - block * limits::kBlockBytes);
  }
  /// Where a block lies in memory: each in its own place where the whole object fits.
  ByteSpan place_of(std::uint64_t block) const {
    return memory_.subspan(keeps_ ? block * limits::kBlockBytes : 0, bytes_of(block));
  }
  bool is_right(std::uint64_t block, ByteView bytes) const { return hash::xxh3(bytes) == entry_.blocks[block]; }

  /// Reads what lies there, and finds the bad blocks.
  Status examine() {
    bad_.assign(blocks(), false);
    hash::Sha256 sha;
    for (std::uint64_t block = 0; block < blocks(); ++block) {
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      const Status read = context_.cold.read(name_, {{block * limits::kBlockBytes, place_of(block)}});
      // A sector that cannot be read is as bad as a wrong one: the new bytes get another place.
      bad_[block] = !read.ok() || !is_right(block, place_of(block));
      const bool proves_nothing = !read.ok() && read.code() != Code::kNotFound && read.code() != Code::kCorrupt;
      if (proves_nothing && unread_.ok()) unread_ = read;
      if (!bad_[block]) sha.update(place_of(block));
      progress_.add_bytes(bytes_of(block));
    }
    const auto stat = context_.cold.stat(name_);
    if (!stat.ok() && stat.code() != Code::kNotFound && stat.code() != Code::kCorrupt) return stat.status();
    whole_ = stat.ok() && stat->bytes == entry_.bytes && std::ranges::count(bad_, true) == 0 &&
             sha.finish() == entry_.sha256;
    if (stat.ok()) storage_ = stat->storage;
    return {};
  }

  /// A whole copy that the content index has is linked; nothing is written then.
  Result<bool> link_content(const std::vector<tiers::ObjectName>& names) {
    const auto entry = context_.cold.stat_content(entry_.sha256);
    if (!entry.ok() || entry->bytes != entry_.bytes || entry->storage == storage_) return false;
    hash::Sha256 sha;
    const auto scratch = tiers::AlignedBuffer::allocate(limits::kBlockBytes);
    SY_RETURN_IF_ERROR(scratch.status());
    for (std::uint64_t block = 0; block < blocks(); ++block) {
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      const ByteSpan into = scratch->span().first(bytes_of(block));
      auto read = context_.cold.start_read_content(entry_.sha256, {{block * limits::kBlockBytes, into}});
      const Status status = read.ok() ? (*read)->finish() : std::move(read).status();
      if (!status.ok() || !is_right(block, into)) return false;
      sha.update(into);
    }
    if (sha.finish() != entry_.sha256) return false;
    auto linked = context_.cold.relink(names, entry_.sha256, entry_.bytes);
    if (linked.ok()) return *linked;
    if (linked.code() == Code::kNoSpace || linked.code() == Code::kUnauthorized) return std::move(linked).status();
    log_info("the copy in the content index cannot be linked: {}", linked.status().to_string());
    return false;
  }

  /// Whether every bad block can be had. Where the object is in memory, they are in it then.
  Result<std::optional<Unrestored>> find_blocks() {
    Unrestored missing{object_, 0, 0};
    for (std::uint64_t block = 0; block < blocks(); ++block) {
      if (!bad_[block]) continue;
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      SY_ASSIGN_OR_RETURN(const bool found, sources_.fetch(object_, block, place_of(block)));
      if (found) continue;
      SY_RETURN_IF_ERROR(unread_);
      if (missing.blocks++ == 0) missing.first_block = block;
    }
    return missing.blocks == 0 ? std::optional<Unrestored>() : std::optional(missing);
  }

  Status write(const std::vector<tiers::ObjectName>& names) {
    SY_ASSIGN_OR_RETURN(const auto stream, context_.cold.open_replacement(names, entry_.bytes, entry_.sha256));
    hash::Sha256 sha;
    for (std::uint64_t block = 0; block < blocks(); ++block) {
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      const ByteSpan bytes = place_of(block);
      if (!keeps_) SY_RETURN_IF_ERROR(read_again(block, bytes));
      sha.update(bytes);
      SY_RETURN_IF_ERROR(stream->append(bytes));
    }
    if (sha.finish() != entry_.sha256) {
      return {Code::kCorrupt, "blocks whose checksums are right do not add up to SHA-256 " + entry_.sha256.hex(),
              "name a folder that holds the original with --source"};
    }
    SY_POINT(context_.runtime, "repair.before_replace");
    SY_RETURN_IF_ERROR(stream->finish().status());
    SY_POINT(context_.runtime, "repair.after_replace");
    return {};
  }

  Status read_again(std::uint64_t block, ByteSpan into) {
    if (!bad_[block]) {
      SY_RETURN_IF_ERROR(context_.cold.read(name_, {{block * limits::kBlockBytes, into}}));
      if (is_right(block, into)) return {};
    }
    SY_ASSIGN_OR_RETURN(const bool found, sources_.fetch(object_, block, into));
    if (found) return {};
    return {Code::kUnavailable, fmt::format("block {} was there a moment ago and is gone", block),
            "run the same command again"};
  }

  Context& context_;
  const tiers::ObjectName name_;
  const formats::ObjectEntry& entry_;
  const std::uint32_t object_;
  BlockSources& sources_;
  const ByteSpan memory_;
  const bool keeps_;  ///< the whole object fits into memory_
  StopSignal& stop_;
  ProgressMeter& progress_;
  std::vector<bool> bad_;
  bool whole_ = false;
  Status unread_;  ///< the first block that only could not be read now
  std::uint64_t storage_ = 0;
};

class Repair {
 public:
  Repair(Context& context, const RepairRequest& request, Source* source, Observer& observer, const CancelFlag& cancel)
      : context_(context), request_(request), source_(source), observer_(observer), stop_(cancel) {}

  /// A record that moved between being read and the start, without the caller's fence, is read again.
  Result<RepairResult> run() {
    SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, request_.target, Purpose::kReadDegraded));
    SY_RETURN_IF_ERROR(check_expected());
    for (int tries = 1;; ++tries) {
      Result<RepairResult> repaired = run_on_record();
      const bool moved = repaired.code() == Code::kStaleGeneration && token_.token.empty();
      if (!moved || request_.expected_generation || tries == kTriesMax) return repaired;
      SY_ASSIGN_OR_RETURN(record_, resolve(context_.catalog, selector_of(record_.identity), Purpose::kReadDegraded));
    }
  }

 private:
  Result<RepairResult> run_on_record() {
    damaged_.clear();
    bad_in_memory_.clear();
    whole_keys_.clear();
    total_bytes_ = 0;
    SY_RETURN_IF_ERROR(load());
    SY_RETURN_IF_ERROR(find_damage());
    if (damaged_.empty() && bad_in_memory_.empty() && !record_.operation) {
      SY_RETURN_IF_ERROR(record_whole());
      result_.record = record_;
      return std::move(result_);
    }
    SY_RETURN_IF_ERROR(start());
    SY_POINT(context_.runtime, "repair.after_start");
    if (!request_.wait) return std::move(result_);
    return restore();
  }

  /// A repair that was started at the expected generation is this one, interrupted.
  Status check_expected() const {
    if (!request_.expected_generation || *request_.expected_generation == record_.metadata_generation) return {};
    const auto& running = record_.operation;
    if (running && running->kind == OperationKind::kRepairing &&
        running->request.expected_generation == *request_.expected_generation) {
      return {};
    }
    return {Code::kStaleGeneration,
            fmt::format("{}: metadata generation {} was expected, the current one is {}", ref(),
                        *request_.expected_generation, record_.metadata_generation),
            "read the record again, and repeat the request if it still makes sense"};
  }

  Status load() {
    auto manifest = load_manifest(context_.cold, record_);
    if (manifest.code() == Code::kCorrupt) {
      SY_RETURN_IF_ERROR(check_not_deleted(context_, record_));
      record_bad_manifest(context_, record_, stop_);
      if (record_.operation) SY_RETURN_IF_ERROR(fail_operation(manifest.status()));
      return std::move(manifest).status().with_hint(
          "nothing else holds a manifest, and without it no object can be restored; import the source again as a new "
          "generation");
    }
    SY_RETURN_IF_ERROR(manifest.status());
    manifest_ = std::move(manifest).value();
    return {};
  }

  /// An operation that can never go on must not run for ever.
  Status fail_operation(const Status& why) {
    SY_RETURN_IF_ERROR(start());
    if (token_.token.empty()) return {};
    RunnerKeeper keeper(context_.runtime, context_.catalog, record_.identity, token_, context_.options.writer_ttl_ms,
                        stop_);
    return keeper.end(OperationState::kFailed, text_kept_of(why)).status();
  }

  std::string ref() const { return formats::format_ref(record_.identity); }
  std::string key_of(std::uint32_t object) const { return formats::payload_key(record_.identity, object); }

  Status find_damage() {
    std::set<std::uint32_t> damaged;
    if (record_.damage.count > record_.damage.objects.size()) {
      // The record names only some of them.
      for (std::uint32_t object = 0; object < manifest_.objects.size(); ++object) damaged.insert(object);
    }
    for (const std::string& key : record_.damage.objects) {
      const auto object = payload_index_of(record_.identity, key);
      if (object && *object < manifest_.objects.size()) {
        damaged.insert(*object);
      } else {
        whole_keys_.push_back(key);  // the manifest, which was read just now
      }
    }
    SY_ASSIGN_OR_RETURN(const auto misfits, misfits_of(context_.cold, attempt_of(record_), manifest_));
    damaged.insert(misfits.begin(), misfits.end());
    SY_RETURN_IF_ERROR(find_damage_beside_memory(damaged));
    damaged_.assign(damaged.begin(), damaged.end());
    for (const std::uint32_t object : damaged_) total_bytes_ += manifest_.objects[object].bytes;
    for (const std::uint32_t object : bad_in_memory_) total_bytes_ += manifest_.objects[object].bytes;
    return {};
  }

  /// What memory serves the record does not name, so both replicas are read. Memory of which nothing is known now
  /// repairs nothing, and is not repaired.
  Status find_damage_beside_memory(std::set<std::uint32_t>& damaged) {
    auto hot = find_hot(context_, record_, manifest_);
    if (!hot.ok()) log_warning("what lies in memory is left alone: {}", hot.status().message());
    hot_ = hot.ok() ? std::move(hot).value() : HotReplicas();
    SY_ASSIGN_OR_RETURN(HotDamage found,
                        find_hot_damage(context_, record_, manifest_, hot_, damaged, stop_, observer_));
    damaged.insert(found.cold.begin(), found.cold.end());
    bad_in_memory_ = std::move(found.memory);
    if (record_.hot_members == 0 || hot_.instance == record_.hot_instance) return {};
    // Nothing is known here of the memory that the record names, and its damage may not be recorded: all is read.
    SY_ASSIGN_OR_RETURN(ReadBuffers buffers, ReadBuffers::allocate(read_piece_bytes(context_.io_budget, 4)));
    for (std::uint32_t object = 0; object < manifest_.objects.size(); ++object) {
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      if (damaged.contains(object)) continue;
      SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record_), manifest_, object, buffers));
      if (bad && bad->read_error.ok()) damaged.insert(object);
    }
    return {};
  }

  /// Starts the operation, or takes over the one that nobody runs.
  Status start() {
    if (record_.operation) {
      if (record_.operation->kind != OperationKind::kRepairing) {
        return {Code::kBusy,
                fmt::format("{} has the running {} operation {}", ref(), name_of(record_.operation->kind),
                            record_.operation->operation_id),
                "wait for it, or end it: steelyard operation cancel " + record_.operation->operation_id};
      }
      token_.operation_id = record_.operation->operation_id;
      if (!request_.wait) return remember(record_);
      metadata::TakeOperation command;
      command.identity = record_.identity;
      command.operation_id = token_.operation_id;
      command.runner = grant();
      SY_ASSIGN_OR_RETURN(const metadata::Answer taken, context_.catalog.take_operation(command));
      return begun(taken);
    }
    metadata::StartOperation command;
    command.identity = record_.identity;
    command.expected_metadata_generation = record_.metadata_generation;
    command.operation_id = context_.runtime.random_hex(16);
    command.kind = OperationKind::kRepairing;
    command.target = metadata::Residency::kCold;
    command.total_members = damaged_.size() + bad_in_memory_.size();
    command.total_bytes = total_bytes_;
    if (request_.wait) command.runner = grant();
    token_.operation_id = command.operation_id;
    SY_ASSIGN_OR_RETURN(const metadata::Answer started, context_.catalog.start_operation(command));
    if (!request_.wait) return remember(*started.record);
    return begun(started);
  }

  metadata::RunnerGrant grant() const {
    metadata::RunnerGrant grant = runner_grant(context_.runtime, context_.options.writer_ttl_ms);
    if (!request_.source.empty()) grant.source = absolute(request_.source);
    return grant;
  }

  Status begun(const metadata::Answer& answer) {
    SY_CHECK(answer.runner.has_value(), "who becomes the runner is told so");
    token_.token = answer.runner->token;
    token_.run_attempt = answer.runner->run_attempt;
    known_source_ = answer.runner->source;
    return remember(*answer.record);
  }

  Status remember(const RevisionRecord& record) {
    record_ = record;
    result_.record = record;
    result_.operation = record.operation;
    return {};
  }

  Result<RepairResult> restore() {
    RunnerKeeper keeper(context_.runtime, context_.catalog, record_.identity, token_, context_.options.writer_ttl_ms,
                        stop_);
    ProgressMeter progress(context_.runtime, observer_, "repair", total_bytes_,
                           damaged_.size() + bad_in_memory_.size());
    Status status = restore_objects(keeper, progress);
    if (status.ok()) status = renew_memory(keeper, progress);
    // What became whole is so, however the rest went.
    if (const Status recorded = record_restored(); status.ok()) status = recorded;
    if (!status.ok()) return stopped(keeper, std::move(status));
    if (!unrestored_.empty() && awaits_source()) {
      status = nobody_has();
      keeper.set_message(text_kept_of(status));
      return status;
    }
    progress.finish();
    SY_POINT(context_.runtime, "repair.after_findings");
    const std::uint64_t all = damaged_.size() + bad_in_memory_.size();
    const std::uint64_t restored = all - unrestored_.size();
    const auto state = unrestored_.empty() ? OperationState::kDone : OperationState::kFailed;
    auto ended = keeper.end(state, unrestored_.empty() ? counted(restored, "object") + " restored"
                                                       : fmt::format("{} of {} restored; nobody has the rest", restored,
                                                                     counted(all, "object")));
    if (!ended.ok()) return stopped(keeper, std::move(ended).status());
    SY_POINT(context_.runtime, "repair.after_end");
    if (!unrestored_.empty()) return nobody_has();
    result_.record = std::move(ended).value();
    result_.operation = ended_operation(*result_.operation, state, result_.record);
    result_.restored_objects = restored;
    result_.restored_bytes = total_bytes_;
    return std::move(result_);
  }

  Status restore_objects(RunnerKeeper& keeper, ProgressMeter& progress) {
    BlockSources sources(context_, record_, manifest_, damaged_, source_, hot_);
    std::uint64_t largest = limits::kBlockBytes;
    for (const std::uint32_t object : damaged_) largest = std::max(largest, manifest_.objects[object].bytes);
    largest = (largest + limits::kBlockBytes - 1) / limits::kBlockBytes * limits::kBlockBytes;
    // Beside it: what the tier holds of a stream, and a block of what is compared.
    const std::uint64_t budget = context_.io_budget - tiers::kPutStreamBytesMax - limits::kBlockBytes;
    SY_ASSIGN_OR_RETURN(const auto memory,
                        tiers::AlignedBuffer::allocate(largest <= budget ? largest : limits::kBlockBytes));
    for (const std::uint32_t object : damaged_) {
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      ObjectRepair repair(context_, attempt_of(record_), manifest_, object, sources, memory.span(), stop_, progress);
      std::vector<tiers::ObjectName> names;
      auto unrestored = repair.run(names);
      if (!unrestored.ok()) return std::move(unrestored).status().annotate("repairing", key_of(object));
      if (*unrestored) {
        unrestored_.push_back(**unrestored);
      } else {
        whole_keys_.push_back(key_of(object));
        for (const tiers::ObjectName& name : names) others_[name.in].push_back(name.index);
      }
      progress.add_file();
      if (!*unrestored) keeper.add(1, manifest_.objects[object].bytes);
      SY_POINT(context_.runtime, "repair.after_object");
    }
    return {};
  }

  Status renew_memory(RunnerKeeper& keeper, ProgressMeter& progress) {
    for (const std::uint32_t object : bad_in_memory_) {
      SY_RETURN_IF_ERROR(stop_.status("the repair"));
      const bool lost = std::ranges::any_of(unrestored_, [&](const Unrestored& one) { return one.object == object; });
      // What neither replica has, nobody has; the good blocks of both stay.
      if (!lost) SY_RETURN_IF_ERROR(renew_in_memory(context_, record_, manifest_, hot_, object, stop_));
      progress.add_bytes(manifest_.objects[object].bytes);
      progress.add_file();
      if (!lost) keeper.add(1, manifest_.objects[object].bytes);
      SY_POINT(context_.runtime, "repair.after_memory_object");
    }
    return {};
  }

  /// Other revisions first: as long as this one is not recorded, a second try comes by here again.
  Status record_restored() {
    for (const auto& [attempt, objects] : others_) {
      SY_ASSIGN_OR_RETURN(const auto other, context_.catalog.find_by_group(attempt.group));
      if (!other || other->import_attempt != attempt.attempt || other->identity == record_.identity) continue;
      ObjectFindings findings;
      for (const std::uint32_t object : objects)
        findings.whole.push_back(formats::payload_key(other->identity, object));
      SY_RETURN_IF_ERROR(record_findings(context_, *other, findings, stop_).status());
      SY_POINT(context_.runtime, "repair.after_other");
    }
    return record_whole();
  }

  Status record_whole() {
    ObjectFindings findings;
    findings.whole = whole_keys_;
    for (const Unrestored& one : unrestored_) findings.damaged.push_back(key_of(one.object));
    if (findings.whole.empty() && findings.damaged.empty() && bad_in_memory_.empty()) return {};
    const bool all_read = damaged_.size() == manifest_.objects.size() &&
                          whole_keys_.size() + unrestored_.size() >= manifest_.objects.size();
    if (all_read) findings.complete = true;
    SY_ASSIGN_OR_RETURN(record_, record_findings(context_, record_, findings, stop_));
    return {};
  }

  Status stopped(RunnerKeeper& keeper, Status status) {
    keeper.set_message(text_kept_of(status));
    const auto found = context_.catalog.query_operation(token_.operation_id);
    if (found.ok() && found->operation.state == OperationState::kCancelled) {
      return Status(Code::kConflict, fmt::format("operation {} was {}", token_.operation_id, found->operation.message),
                    fmt::format("what was restored is; `{}` starts another", same_command()));
    }
    // Whoever took it over, or deleted the revision, takes away what this one works on before a renewal tells it.
    if (status.code() == Code::kUnavailable && !is_cancelled(status)) {
      const auto now = context_.catalog.get_weight_revision(record_.identity);
      const bool deleted = now.ok() ? !is_published(now->availability) : now.code() == Code::kNotFound;
      if (deleted) {
        return Status(Code::kNotReady, fmt::format("{} was deleted while it was repaired", ref()),
                      "there is nothing to repair any more");
      }
      metadata::ReportOperation sign;
      sign.identity = record_.identity;
      sign.token = token_;
      const Status renewed = context_.catalog.report_operation(sign).status();
      if (is_lost(renewed)) status = renewed;
    }
    const std::string next = fmt::format("the operation goes on with `{}`", same_command());
    const std::string hint = status.hint().empty() || is_cancelled(status) ? next : status.hint() + "; " + next;
    return std::move(status).with_hint(hint);
  }

  /// Somebody who has its source may still end it well.
  bool awaits_source() const { return source_ == nullptr && !known_source_.empty(); }

  /// What goes on with the operation, with the source that it has or had.
  std::string same_command() const {
    std::string command = "steelyard repair " + ref();
    const std::string& source = request_.source.empty() ? known_source_ : request_.source;
    if (!source.empty()) command += " --source " + shell_word(source);
    if (request_.follow_links) command += " --follow-links";
    return command;
  }

  Status nobody_has() const {
    constexpr std::size_t kNamedMax = 8;
    std::string message =
        fmt::format("{} of {}: nobody has the good bytes of ", counted(unrestored_.size(), "object"), ref());
    for (std::size_t i = 0; i < std::min(unrestored_.size(), kNamedMax); ++i) {
      const Unrestored& one = unrestored_[i];
      message += fmt::format("{}{} ({} from byte {})", i == 0 ? "" : ", ", key_of(one.object),
                             one.blocks == 1 ? "1 block" : fmt::format("{} blocks", one.blocks),
                             one.first_block * limits::kBlockBytes);
    }
    if (unrestored_.size() > kNamedMax) message += fmt::format(" and {} more", unrestored_.size() - kNamedMax);
    if (awaits_source()) {
      return {Code::kCorrupt, std::move(message),
              fmt::format("the operation was given a source before and goes on with `{}`; `steelyard operation cancel "
                          "{}` ends it",
                          same_command(), token_.operation_id)};
    }
    return {Code::kCorrupt, std::move(message),
            source_ == nullptr ? "name a folder that holds the original files with --source DIR"
                               : "the source does not hold them; name the folder that the revision was imported from"};
  }

  Context& context_;
  const RepairRequest& request_;
  Source* source_;
  Observer& observer_;
  StopSignal stop_;
  RepairResult result_;
  RevisionRecord record_;
  formats::StoredManifest manifest_;
  HotReplicas hot_;
  std::vector<std::uint32_t> damaged_;        ///< in the cold tier
  std::vector<std::uint32_t> bad_in_memory_;  ///< the replica there
  std::uint64_t total_bytes_ = 0;
  metadata::RunnerToken token_;
  std::string known_source_;  ///< the operation's: this run's, or that of a runner before it
  std::vector<std::string> whole_keys_;
  std::vector<Unrestored> unrestored_;
  std::map<tiers::AttemptName, std::vector<std::uint32_t>> others_;  ///< names that got whole bytes
};

}  // namespace

Result<RepairResult> run_repair(Context& context, const RepairRequest& request, Source* source, Observer& observer,
                                const CancelFlag& cancel) {
  return Repair(context, request, source, observer, cancel).run();
}

}  // namespace steelyard::store
