#include "store/doctor.h"

#include <fmt/format.h>
#include <sys/statfs.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "catalog/catalog.h"
#include "formats/identity.h"
#include "formats/ref.h"
#include "hash/sha256.h"
#include "oplog/open.h"
#include "oplog/replay.h"
#include "store/catalog_copy.h"
#include "store/committed_marker.h"
#include "store/context.h"
#include "store/damage_record.h"
#include "store/doctor_memory.h"
#include "store/io_budget.h"
#include "store/manifest_file.h"
#include "store/open_store.h"
#include "store/operation_text.h"
#include "store/scratch_folder.h"
#include "tests/conformance/tier_conformance.h"
#include "tiers/open.h"

namespace steelyard::store {
namespace {

using metadata::Availability;
using metadata::RevisionRecord;
using Check = DoctorReport::Check;
using State = DoctorReport::State;

constexpr std::size_t kRecordsPerStep = 1000;
constexpr std::size_t kNamedMax = 4;
constexpr std::uint64_t kTrialBytes = limits::kMiB;
constexpr std::uint64_t kConformanceBytes = 8 * limits::kMiB;
constexpr decltype(statfs::f_type) kTmpfsMagic = 0x01021994;

/// "a, b and 3 more".
class Names {
 public:
  void add(const std::string& name) {
    if (++count_ <= kNamedMax) text_ += (text_.empty() ? "" : ", ") + name;
  }
  std::uint64_t count() const { return count_; }
  std::string text() const {
    return count_ <= kNamedMax ? text_ : fmt::format("{} and {} more", text_, count_ - kNamedMax);
  }

 private:
  std::uint64_t count_ = 0;
  std::string text_;
};

class Examination {
 public:
  Examination(Runtime& runtime, const StoreOptions& options, const DoctorRequest& request, const CancelFlag& cancel)
      : runtime_(runtime), options_(options), request_(request), cancel_(cancel), paths_(paths_of(options)) {}

  Result<DoctorReport> run() {
    look_at_machine();
    if (request_.adopt) SY_RETURN_IF_ERROR(adopt());
    auto parts = open_parts(runtime_, options_, OpenMode::kRead);
    if (!parts.ok()) {
      problem("store", parts.status());
      return std::move(report_);
    }
    look_at_store(*parts);
    SY_RETURN_IF_ERROR(look_at_catalog(*parts));
    look_at_copies(*parts->cold);
    look_at_space(*parts->cold);
    for (Check& check : examine_memory(runtime_, options_, *parts, in_memory_)) {
      report_.checks.push_back(std::move(check));
    }
    try_tier(parts->read_only);
    return std::move(report_);
  }

 private:
  void ok(std::string name, std::string found) {
    report_.checks.push_back({std::move(name), State::kOk, std::move(found), {}, {}});
  }
  void warn(std::string name, std::string found, std::string next_step) {
    report_.checks.push_back({std::move(name), State::kWarning, std::move(found), std::move(next_step), {}});
  }
  void problem(std::string name, const Status& status) {
    report_.checks.push_back({std::move(name), State::kProblem, status.message(), status.hint(), status.code()});
  }
  void skipped(std::string name, std::string why) {
    report_.checks.push_back({std::move(name), State::kSkipped, std::move(why), {}, {}});
  }

  void look_at_machine() {
    if (runtime_.epoch().empty()) {
      problem("machine", {Code::kUnavailable, "the boot id of this kernel cannot be read from /proc",
                          "mount /proc; without it nothing can be written"});
    } else {
      ok("machine",
         fmt::format("boot {}, process {} on {}", runtime_.epoch(), runtime_.self().pid, runtime_.self().host));
    }
    const auto limit = cgroup_memory_limit();
    const std::uint64_t budget = io_budget(options_.io_memory, limit);
    std::string found = fmt::format("{} for I/O buffers", format_size(budget));
    if (limit) found += fmt::format(", in a cgroup with a limit of {}", format_size(*limit));
    if (budget < options_.io_memory) {
      warn("memory", found + fmt::format("; io_memory is {}", format_size(options_.io_memory)),
           "a higher memory limit makes imports and reads faster");
    } else {
      ok("memory", std::move(found));
    }
  }

  void look_at_store(const StoreParts& parts) {
    struct statfs info {};
    const std::string found = fmt::format("{}, id {}{}", printable(paths_.store), parts.store_id,
                                          parts.read_only ? ", read-only for this user" : "");
    if (statfs(paths_.store.c_str(), &info) == 0 && info.f_type == kTmpfsMagic) {
      warn("store", found + ", in memory (tmpfs)", "it is gone with the next boot; a store on a disk stays");
    } else {
      ok("store", found);
    }
  }

  Status look_at_catalog(const StoreParts& parts) {
    const Status implied = oplog::verify_state(*parts.log);
    if (implied.code() == Code::kBusy) {
      skipped("catalog state", implied.message());
    } else if (!implied.ok()) {
      problem("catalog", implied);
      return {};
    }
    // Groups before records: what is begun later is in neither, or in the records alone.
    const auto groups = parts.cold->list_groups();
    TierObserver tier_observer(*parts.cold);
    catalog::Catalog catalog(runtime_, *parts.log, tier_observer, {});
    RevisionsExamined seen;
    std::optional<metadata::Identity> after;
    for (;;) {
      SY_ASSIGN_OR_RETURN(const auto records, catalog.records_after(after, kRecordsPerStep));
      for (const RevisionRecord& record : records) {
        if (cancel_) return cancelled("the examination");
        SY_RETURN_IF_ERROR(look_at(record, catalog, *parts.cold, seen));
      }
      if (records.size() < kRecordsPerStep) break;
      after = records.back().identity;
    }
    ok("catalog", fmt::format("{}, {}; the state is the one that the log implies", counted(seen.live, "revision"),
                              counted(seen.tombstones, "tombstone")));
    report(seen);
    if (!groups.ok()) {
      problem("cold tier", groups.status());
      return {};
    }
    return look_at_groups(*groups, catalog, *parts.cold);
  }

  /// What was found of all revisions, named.
  struct RevisionsExamined {
    std::uint64_t live = 0;
    std::uint64_t tombstones = 0;
    Names degraded;
    Names lacking;  ///< what is not recorded yet
    Names unread;
    Names deleting;
    Names waiting;  ///< DELETING under live leases
    Names unfinished;
    Names unmarked;
    Names stray;       ///< a `deleting` marker beside a published one
    Names elsewhere;   ///< IMPORTING, but published in the tier
    Names operations;  ///< that nobody runs
    Names unrun;       ///< what goes on with them
    std::string first_degraded;
    std::string first_lacking;
    Status first_error;
  };

  Status look_at(const RevisionRecord& record, catalog::Catalog& catalog, tiers::Tier& cold, RevisionsExamined& seen) {
    const std::string ref = formats::format_ref(record.identity);
    switch (record.availability) {
      case Availability::kImporting: {
        SY_ASSIGN_OR_RETURN(const auto row, catalog.get_writer_row(record.identity));
        const auto listing = cold.list_group(attempt_of(record).group);
        if (listing.ok() && !listing->committed_attempts.empty()) {
          // A commit may have come between.
          const auto now = catalog.get_weight_revision(record.identity);
          if (now.ok() && now->metadata_generation == record.metadata_generation) seen.elsewhere.add(ref);
          return {};
        }
        if (!row || !row->live || runtime_.provably_gone(row->writer.process)) seen.unfinished.add(ref);
        return {};
      }
      case Availability::kReady:
      case Availability::kDegraded:
        return look_at_published(record, ref, catalog, cold, seen);
      case Availability::kDeleting: {
        SY_ASSIGN_OR_RETURN(const auto leases, catalog.list_leases(record.identity));
        (leases.empty() ? seen.deleting : seen.waiting).add(ref);
        return {};
      }
      case Availability::kDeleted:
        ++seen.tombstones;
        return {};
    }
    return {};
  }

  Status look_at_published(const RevisionRecord& record, const std::string& ref, catalog::Catalog& catalog,
                           tiers::Tier& cold, RevisionsExamined& seen) {
    ++seen.live;
    if (!record.hot_instance.empty()) {
      in_memory_.push_back(
          {record.identity, record.hot_instance, record.hot_boot_id, record.hot_members, record.metadata_generation});
    }
    const auto lacks = what_lacks(record, cold);
    const auto marker = look_at_committed_marker(cold, record);
    const bool unmarked = marker.ok() && *marker != MarkerState::kFits;
    const auto listing = cold.list_group(attempt_of(record).group);
    const bool stray = listing.ok() && listing->deleting;
    if (!lacks.ok() || !lacks->empty() || unmarked || stray) {
      // A delete may have begun since, or a repair ended.
      const auto now = catalog.get_weight_revision(record.identity);
      if (!now.ok() || now->metadata_generation != record.metadata_generation) return {};
    }
    if (record.availability == Availability::kDegraded) {
      if (seen.degraded.count() == 0) seen.first_degraded = ref;
      seen.degraded.add(ref);
    }
    if (!lacks.ok()) {
      if (seen.first_error.ok()) seen.first_error = lacks.status();
      seen.unread.add(ref);
    } else if (!lacks->empty()) {
      if (seen.lacking.count() == 0) seen.first_lacking = ref;
      seen.lacking.add(ref + " (" + *lacks + ")");
    }
    if (unmarked) seen.unmarked.add(*marker == MarkerState::kMissing ? ref : ref + " (damaged)");
    if (stray) seen.stray.add(ref);
    if (!record.operation) return {};
    const auto found = catalog.query_operation(record.operation->operation_id);
    if (!found.ok() || found->operation.state != metadata::OperationState::kRunning) return {};
    if (!found->is_being_run()) {
      const std::string source = found->runner ? found->runner->source : "";
      seen.operations.add(fmt::format("{} of {}", name_of(record.operation->kind), ref));
      seen.unrun.add(fmt::format("`{}`", command_of(*record.operation, ref, source)));
    }
    return {};
  }

  /// What a listing shows to be gone or of another size, and the record does not say; empty: nothing.
  Result<std::string> what_lacks(const RevisionRecord& record, tiers::Tier& cold) const {
    const auto recorded = [&](const std::string& key) { return std::ranges::count(record.damage.objects, key) != 0; };
    const auto manifest = load_manifest(cold, record);
    if (manifest.code() == Code::kCorrupt) {
      return recorded(record.manifest_key) ? std::string() : "its manifest: " + manifest.status().message();
    }
    SY_RETURN_IF_ERROR(manifest.status());
    SY_ASSIGN_OR_RETURN(const auto misfits, misfits_of(cold, attempt_of(record), *manifest));
    std::uint64_t count = 0;
    std::string first;
    for (const std::uint32_t object : misfits) {
      const std::string key = formats::payload_key(record.identity, object);
      if (recorded(key)) continue;
      if (count++ == 0) first = key;
    }
    // Of many the record names some and counts all.
    const bool unnamed = record.damage.count > record.damage.objects.size();
    if (count == 0 || (unnamed && misfits.size() <= record.damage.count)) return std::string();
    return fmt::format("{} of {}, first {}", count, counted(manifest->objects.size(), "object"), first);
  }

  void report(RevisionsExamined& seen) {
    if (seen.degraded.count() > 0) {
      problem("revisions", {Code::kCorrupt, fmt::format("DEGRADED: {}", seen.degraded.text()),
                            fmt::format("`steelyard verify {0}` names what is damaged, `steelyard repair {0}`, with "
                                        "--source the folder it was imported from, restores it",
                                        seen.first_degraded)});
    }
    if (seen.lacking.count() > 0) {
      problem("objects",
              {Code::kCorrupt, fmt::format("missing or of another size: {}", seen.lacking.text()),
               fmt::format("`steelyard reconcile` records it, `steelyard repair {}`, with --source the folder it was "
                           "imported from, restores it",
                           seen.first_lacking)});
    } else if (seen.unread.count() > 0) {
      problem("objects", std::move(seen.first_error).annotate("looking at", seen.unread.text()));
    } else {
      ok("objects", "those of each revision are there, or recorded as damaged; `steelyard verify REF` reads them");
    }
    if (seen.deleting.count() > 0) {
      warn("revisions", fmt::format("DELETING: {}", seen.deleting.text()), "`steelyard reconcile` finishes it");
    }
    if (seen.waiting.count() > 0) {
      warn(
          "revisions", fmt::format("DELETING, and still leased: {}", seen.waiting.text()),
          "`steelyard lease list` shows the holders; when the last lease has ended, `steelyard reconcile` finishes it");
    }
    if (seen.unfinished.count() > 0) {
      warn("revisions", fmt::format("IMPORTING without a live writer: {}", seen.unfinished.text()),
           "the same `steelyard import` goes on with it, `steelyard abort` ends it");
    }
    if (seen.unrun.count() > 0) {
      warn(
          "revisions",
          fmt::format("{} that nobody runs: {}", counted(seen.operations.count(), "operation"), seen.operations.text()),
          seen.unrun.text() + " goes on with it");
    }
    if (seen.unmarked.count() > 0) {
      warn("revisions", fmt::format("without the `committed` marker that `recover` needs: {}", seen.unmarked.text()),
           "`steelyard reconcile` writes it");
    }
    if (seen.stray.count() > 0) {
      warn("revisions",
           fmt::format("with a `deleting` marker that is of no removal, and hides it from `recover`: {}",
                       seen.stray.text()),
           "`steelyard reconcile` removes it");
    }
    if (seen.elsewhere.count() > 0) {
      warn("revisions", fmt::format("IMPORTING here, but published in the cold tier: {}", seen.elsewhere.text()),
           "an older catalog was put back: put the newer one back, or make one that knows it with `steelyard recover "
           "--force`");
    }
  }

  Status look_at_groups(const std::vector<std::string>& groups, catalog::Catalog& catalog, tiers::Tier& cold) {
    Names unknown;
    Names published;
    Names marked;  ///< nothing but a `deleting` marker
    for (const std::string& group : groups) {
      if (cancel_) return cancelled("the examination");
      SY_ASSIGN_OR_RETURN(const auto record, catalog.find_by_group(group));
      if (record) continue;
      const auto listing = cold.list_group(group);
      if (!listing.ok()) {
        problem("cold tier", listing.status());
        continue;
      }
      const bool kept = !listing->deleting && !listing->committed_attempts.empty();
      const bool waits = listing->deleting && listing->attempts.empty();
      (kept ? published : waits ? marked : unknown).add(group);
    }
    if (marked.count() > 0) {
      ok("cold tier", fmt::format("{} of removed revisions: the `deleting` marker waits for a second copy of the "
                                  "catalog that knows them, then `steelyard gc` frees it: {}",
                                  counted(marked.count(), "group"), marked.text()));
    }
    if (unknown.count() > 0) {
      warn("cold tier",
           fmt::format("{} that no revision refers to: {}", counted(unknown.count(), "group"), unknown.text()),
           "`steelyard gc` frees them");
    }
    if (published.count() > 0) {
      warn(
          "cold tier",
          fmt::format("{} that another catalog published and this one does not know: {}",
                      counted(published.count(), "group"), published.text()),
          "`steelyard gc` keeps them; `steelyard recover --dry-run` shows them, `steelyard recover --force` takes them "
          "into a new catalog");
    }
    return {};
  }

  void look_at_copies(tiers::Tier& cold) {
    const auto copies = cold.list_catalog_copies();
    if (!copies.ok()) return problem("catalog copies", copies.status());
    if (copies->empty()) return ok("catalog copies", "none yet; `recover` would go by the `committed` markers alone");
    const Status status = read_snapshot_copy(cold, copies->back()).status();
    if (!status.ok()) {
      return warn("catalog copies", fmt::format("the newest, {}, cannot be used: {}", copies->back(), status.message()),
                  "the next snapshot replaces it; until then `recover` would take an older one");
    }
    ok("catalog copies", fmt::format("the newest is of append {}", copies->back()));
  }

  void look_at_space(tiers::Tier& cold) {
    const auto usage = cold.usage();
    const auto available = cold.available_bytes();
    if (!usage.ok()) return problem("free space", usage.status());
    if (!available.ok()) return problem("free space", available.status());
    const std::string found =
        fmt::format("{} used, {} free of {}, {} may be written", format_size(usage->bytes),
                    format_size(usage->free_bytes), format_size(usage->capacity_bytes), format_size(*available));
    if (*available == 0) {
      problem("free space", {Code::kNoSpace, found + ": cold.reserve_free is reached",
                             "delete revisions and run `steelyard gc`, or lower cold.reserve_free"});
    } else {
      ok("free space", found);
    }
    if (usage->private_copies > 0) {
      warn(
          "deduplication", counted(usage->private_copies, "object") + " could not be shared by content",
          "each keeps its bytes for itself until its revision is deleted; the trial below says whether this filesystem "
          "shares, and where it does they are left from a lost or damaged content index, or from a limit of links");
    }
  }

  /// In a tier of its own, in a folder of the cold tier: on the same filesystem, and it touches no object.
  ///
  /// Puts, shares, reads: what this filesystem can do for a tier.
  void try_tier(bool read_only) {
    if (read_only) {
      skipped("trial", "the store is read-only for this user");
      if (request_.conformance) skipped("conformance", "the store is read-only for this user");
      return;
    }
    ScratchFolder scratch(runtime_, paths_.cold, "doctor-");
    if (const Status status = scratch.make(); !status.ok()) return problem("trial", status);
    tiers::DirectoryOptions trial;
    trial.path = scratch.path();
    trial.store_id = runtime_.random_hex(16);
    trial.create = true;
    trial.medium = options_.cold_medium;
    trial.reserve_free_bytes = options_.cold_reserve_free;
    const auto tier = tiers::open_directory(runtime_, trial);
    if (!tier.ok()) return problem("trial", tier.status());
    const auto shared = try_objects(**tier);
    if (!shared.ok()) {
      problem("trial", shared.status());
    } else {
      ok("trial", "an object was written, flushed, read back and removed");
      if (!*shared) {
        warn("deduplication", "equal objects cannot be shared on this filesystem",
             "each revision takes all of its bytes; a filesystem with hard links shares them");
      }
    }
    for (const std::string& fact : (*tier)->facts()) warn("kernel", fact, "reads and writes work, but slower");
    if (request_.conformance) run_conformance(trial);
  }

  /// Whether the second of two equal objects shared the bytes of the first.
  Result<bool> try_objects(tiers::Tier& tier) {
    SY_ASSIGN_OR_RETURN(const auto data, tiers::AlignedBuffer::allocate(kTrialBytes));
    runtime_.fill_random(data.span());
    const Digest digest = hash::sha256(data.span());
    const tiers::AttemptName attempt{runtime_.random_hex(32), 1};
    tiers::PutOutcome second{};
    for (const std::uint32_t index : {0U, 1U}) {
      SY_ASSIGN_OR_RETURN(const auto put, tier.start_put(payload_of(attempt, index), data.span(), digest));
      SY_ASSIGN_OR_RETURN(second, put->finish());
    }
    SY_RETURN_IF_ERROR(tier.flush(attempt));
    SY_ASSIGN_OR_RETURN(const auto back, tiers::AlignedBuffer::allocate(kTrialBytes));
    SY_RETURN_IF_ERROR(tier.read(payload_of(attempt, 1), {{0, back.span()}}));
    if (hash::sha256(back.span()) != digest) {
      return Status(Code::kCorrupt, "what was written a moment ago reads back as something else", "check the disk");
    }
    SY_RETURN_IF_ERROR(tier.remove_attempt(attempt));
    return second == tiers::PutOutcome::kLinked;
  }

  void run_conformance(const tiers::DirectoryOptions& trial) {
    conformance::TierUnderTest subject;
    subject.open = [&] { return tiers::open_directory(runtime_, trial); };
    subject.object_bytes = kConformanceBytes;
    std::size_t passed = 0;
    for (const conformance::CaseResult& result : conformance::run_tier_conformance(runtime_, subject)) {
      const std::string name = "conformance: " + result.name;
      switch (result.outcome) {
        case conformance::CaseResult::Outcome::kPassed:
          ++passed;
          break;
        case conformance::CaseResult::Outcome::kFailed:
          problem(name, {Code::kUnavailable, result.detail, "this filesystem is not fit for a cold tier; use another"});
          break;
        case conformance::CaseResult::Outcome::kSkipped:
          skipped(name, result.detail);
          break;
      }
    }
    ok("conformance", counted(passed, "case") + " passed");
  }

  /// The cold tier gets the catalog's id when it holds what the catalog knows.
  Status adopt() {
    SY_ASSIGN_OR_RETURN(const std::string wanted, oplog::sqlite_store_id(paths_.catalog));
    const auto found = tiers::directory_store_id(paths_.cold);
    if (found.ok() && *found == wanted) {
      ok("adopt", "the cold tier has the catalog's store id already");
      return {};
    }
    if (found.code() == Code::kUnavailable || found.code() == Code::kUnauthorized) return found.status();
    SY_RETURN_IF_ERROR(prove_belonging(wanted));
    SY_RETURN_IF_ERROR(tiers::claim_directory(runtime_, paths_.cold, wanted));
    report_.adopted = true;
    ok("adopt", fmt::format("the cold tier {} now has the catalog's store id {}{}", printable(paths_.cold), wanted,
                            found.ok() ? fmt::format(" instead of {}", *found) : std::string()));
    return {};
  }

  /// It holds the manifests of half of the published revisions at least, byte for byte.
  Status prove_belonging(const std::string& store_id) {
    tiers::DirectoryOptions cold;
    cold.path = paths_.cold;
    cold.store_id = store_id;
    cold.read_only = true;
    cold.unclaimed = true;
    SY_ASSIGN_OR_RETURN(const auto tier, tiers::open_directory(runtime_, cold));
    oplog::SqliteOptions log_options;
    log_options.path = paths_.catalog;
    log_options.store_id = store_id;
    log_options.read_only = true;
    SY_ASSIGN_OR_RETURN(const auto log, oplog::open_sqlite(runtime_, log_options));
    TierObserver tier_observer(*tier);
    catalog::Catalog catalog(runtime_, *log, tier_observer, {});
    std::uint64_t proved = 0;
    std::uint64_t published = 0;
    std::optional<metadata::Identity> after;
    for (;;) {
      if (cancel_) return cancelled("the examination");
      SY_ASSIGN_OR_RETURN(const auto records, catalog.records_after(after, kRecordsPerStep));
      for (const RevisionRecord& record : records) {
        if (!is_published(record.availability)) continue;
        ++published;
        const auto bytes = read_manifest_bytes(*tier, attempt_of(record));
        if (bytes.code() == Code::kNotFound) continue;
        if (bytes.ok() && hash::sha256_hex(*bytes) == record.summary.manifest_sha256) ++proved;
      }
      if (records.size() < kRecordsPerStep) break;
      after = records.back().identity;
    }
    if (proved > 0 && proved * 2 >= published) return {};
    return {Code::kConflict,
            fmt::format("{} is not adopted: it holds the manifests of {} of the {} that the catalog knows",
                        printable(paths_.cold), proved, counted(published, "published revision")),
            "name the folder that holds this store's objects with --cold-path"};
  }

  Runtime& runtime_;
  const StoreOptions& options_;
  const DoctorRequest& request_;
  const CancelFlag& cancel_;
  const StorePaths paths_;
  DoctorReport report_;
  std::vector<MemoryRecord> in_memory_;
};

}  // namespace

Result<DoctorReport> examine_store(Runtime& runtime, const StoreOptions& options, const DoctorRequest& request,
                                   const CancelFlag& cancel) {
  return Examination(runtime, options, request, cancel).run();
}

}  // namespace steelyard::store
