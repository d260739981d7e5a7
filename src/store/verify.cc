#include "store/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/workers.h"
#include "formats/identity.h"
#include "hash/sha256.h"
#include "store/damage_map.h"
#include "store/damage_record.h"
#include "store/file_segments.h"
#include "store/hot_repair.h"
#include "store/lease_guard.h"
#include "store/manifest_file.h"
#include "store/progress_meter.h"
#include "store/replica_check.h"
#include "store/resolve.h"
#include "store/verified_reader.h"

namespace steelyard::store {
namespace {

/// What one worker reads in one go. Whole objects are digested as objects; with a file, its digest is taken too.
struct Job {
  std::optional<std::size_t> file;
  bool whole_objects = false;
  std::vector<formats::ObjectRange> segments;
  std::uint64_t bytes = 0;
};

/// A file of an import is whole objects in order, so one pass serves both digests. What no such file covers is read as
/// objects, and files that are laid out differently are read once more as files.
std::vector<Job> plan_jobs(const formats::StoredManifest& manifest) {
  std::vector<Job> jobs;
  std::vector<bool> covered(manifest.objects.size(), false);
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    Job job{i, true, segments_of(manifest, manifest.files[i]), manifest.files[i].bytes};
    for (const formats::ObjectRange& segment : job.segments) {
      if (segment.bytes != manifest.objects[segment.object].bytes || covered[segment.object]) job.whole_objects = false;
    }
    if (job.whole_objects) {
      for (const formats::ObjectRange& segment : job.segments) covered[segment.object] = true;
    }
    jobs.push_back(std::move(job));
  }
  for (std::uint32_t object = 0; object < manifest.objects.size(); ++object) {
    if (covered[object]) continue;
    const std::uint64_t bytes = manifest.objects[object].bytes;
    jobs.push_back({std::nullopt, true, {{object, 0, bytes}}, bytes});
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.bytes > b.bytes; });
  return jobs;
}

class Verification {
 public:
  Verification(Context& context, const metadata::RevisionRecord& record, const formats::StoredManifest& manifest,
               const HotReplicas& hot, Observer& observer, StopSignal& stop)
      : context_(context),
        manifest_(manifest),
        attempt_(attempt_of(record)),
        hot_(hot),
        jobs_(plan_jobs(manifest)),
        stop_(stop),
        progress_(context.runtime, observer, "verify", total_bytes() + hot.bytes, jobs_.size()) {}

  Status run() {
    const unsigned workers =
        std::min<unsigned>(context_.options.jobs, static_cast<unsigned>(std::max<std::size_t>(jobs_.size(), 1)));
    const std::uint64_t piece_bytes = read_piece_bytes(context_.io_budget, workers);
    const auto work = [&] {
      auto buffers = ReadBuffers::allocate(piece_bytes);
      if (!buffers.ok()) return stop_.fail(std::move(buffers).status());
      while (!stop_.stopped()) {
        const std::size_t turn = next_job_.fetch_add(1);
        if (turn >= jobs_.size()) return;
        if (Status status = check(jobs_[turn], *buffers); !status.ok()) stop_.fail(std::move(status));
      }
    };
    auto tasks = spawn_workers(context_.runtime, "verify-worker", workers - 1, work);
    work();
    tasks.clear();
    SY_RETURN_IF_ERROR(stop_.status("verify"));
    SY_RETURN_IF_ERROR(check_memory());
    progress_.finish();
    return {};
  }

  /// By object, then by file.
  std::vector<Problem> problems() {
    std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
      return std::tie(a.object, a.file) < std::tie(b.object, b.file);
    });
    return std::move(problems_);
  }
  std::vector<std::string> damaged_keys() const { return keys_of(damaged_); }
  /// Those that could not be read now; nothing is known of them.
  std::vector<std::string> unread_keys() const { return keys_of(unread_); }
  const Status& read_error() const { return read_error_; }
  std::size_t missing_objects() const { return missing_; }
  /// No damage of the revision: the cold tier decides that.
  const BadInMemory& bad_in_memory() const { return bad_in_memory_; }

  /// Takes damaged bytes out of the content index, so that no later import links them.
  void stop_sharing_damage() {
    for (const std::uint32_t object : damaged_) {
      stop_sharing(context_, payload_of(attempt_, object), manifest_.objects[object].sha256);
    }
  }

 private:
  Status check_memory() {
    std::vector<tiers::ObjectName> replicas;
    for (std::uint32_t object = 0; object < manifest_.objects.size(); ++object) {
      if (hot_.has(object)) replicas.push_back(hot_.name_of(object));
    }
    if (replicas.empty()) return {};
    SY_ASSIGN_OR_RETURN(const auto bad, check_replicas(context_, *hot_.tier, manifest_, replicas, stop_, progress_));
    for (const BadObject& one : bad) {
      if (one.kind == ProblemKind::kMissingObject) continue;  // evicted meanwhile, or not to be read now
      Problem problem = describe(manifest_, one);
      problem.tier = hot_.tier->traits().name;
      problems_.push_back(std::move(problem));
      if (one.read_error.ok()) bad_in_memory_.emplace(one.object, manifest_.objects[one.object].bytes);
    }
    return {};
  }

  std::uint64_t total_bytes() const {
    std::uint64_t total = 0;
    for (const Job& job : jobs_) total += job.bytes;
    return total;
  }

  std::vector<std::string> keys_of(const std::vector<std::uint32_t>& objects) const {
    std::vector<std::string> keys;
    for (const std::uint32_t object : objects) keys.push_back(formats::payload_key(manifest_.identity, object));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
  }

  Status check(const Job& job, ReadBuffers& buffers) {
    VerifiedReader reader(context_.cold, attempt_, manifest_.objects, job.segments, buffers);
    hash::Sha256 file_sha;
    hash::Sha256 object_sha;
    bool file_is_whole = true;
    const bool same_digest = job.whole_objects && job.segments.size() == 1;
    VerifiedReader::Piece piece;
    for (;;) {
      if (stop_.stopped()) return {};
      SY_ASSIGN_OR_RETURN(const bool more, reader.next(piece));
      if (!more) break;
      if (piece.bad) {
        file_is_whole = false;
        object_sha = hash::Sha256();
        if (job.whole_objects) add(*piece.bad);
        continue;
      }
      for (ByteView rest = piece.bytes; !rest.empty();) {
        const ByteView block = rest.first(std::min<std::size_t>(rest.size(), limits::kBlockBytes));
        rest = rest.subspan(block.size());
        if (!job.whole_objects) {
          file_sha.update(block);
        } else if (same_digest || !job.file) {
          object_sha.update(block);
        } else {
          hash::Sha256::update_two(file_sha, block, object_sha, block);
        }
        progress_.add_bytes(block.size());
      }
      if (piece.last_of_segment && job.whole_objects) {
        const std::uint32_t object = job.segments[piece.segment].object;
        const Digest found = object_sha.finish();
        check_size(object);
        if (same_digest) file_digest_ok(job, found, file_is_whole);
        if (found != manifest_.objects[object].sha256) {
          add({ProblemKind::kObjectChecksum,
               object,
               std::nullopt,
               "sha256 " + manifest_.objects[object].sha256.hex(),
               "sha256 " + found.hex(),
               {}});
        }
      }
    }
    if (!same_digest) file_digest_ok(job, file_sha.finish(), file_is_whole);
    progress_.add_file();
    return {};
  }

  /// A read ends where the manifest says; what lies behind is seen only here.
  void check_size(std::uint32_t object) {
    const std::uint64_t wanted = manifest_.objects[object].bytes;
    const auto stat = context_.cold.stat(payload_of(attempt_, object));
    if (stat.ok() && stat->bytes == wanted) return;
    // Gone since it was read: the next verify tells.
    if (!stat.ok() && stat.code() == Code::kNotFound) return;
    const std::string expected = fmt::format("{} bytes", wanted);
    if (stat.ok()) {
      add({ProblemKind::kObjectSize, object, std::nullopt, expected, fmt::format("{} bytes", stat->bytes), {}});
    } else {
      add({ProblemKind::kMissingObject, object, std::nullopt, expected, stat.status().message(), stat.status()});
    }
  }

  void file_digest_ok(const Job& job, const Digest& found, bool read_whole) {
    if (!job.file || !read_whole) return;
    const formats::FileEntry& file = manifest_.files[*job.file];
    if (found == file.sha256) return;
    Problem problem;
    problem.kind = ProblemKind::kFileSha256;
    problem.file = file.path;
    problem.expected = "sha256 " + file.sha256.hex();
    problem.actual = "sha256 " + found.hex();
    const std::lock_guard lock(mutex_);
    problems_.push_back(std::move(problem));
  }

  void add(const BadObject& bad) {
    Problem problem = describe(manifest_, bad);
    problem.unread = !bad.read_error.ok();
    const std::lock_guard lock(mutex_);
    problems_.push_back(std::move(problem));
    if (!bad.read_error.ok()) {
      unread_.push_back(bad.object);
      if (read_error_.ok()) read_error_ = bad.read_error;
      return;
    }
    damaged_.push_back(bad.object);
    if (bad.kind == ProblemKind::kMissingObject) ++missing_;
  }

  Context& context_;
  const formats::StoredManifest& manifest_;
  const tiers::AttemptName attempt_;
  const HotReplicas& hot_;
  const std::vector<Job> jobs_;
  StopSignal& stop_;
  ProgressMeter progress_;
  std::atomic<std::size_t> next_job_{0};
  std::mutex mutex_;
  std::vector<Problem> problems_;
  std::vector<std::uint32_t> damaged_;
  std::vector<std::uint32_t> unread_;
  Status read_error_;
  std::size_t missing_ = 0;
  BadInMemory bad_in_memory_;
};

/// Everything was read but these, and nothing that was read is damaged.
Status not_read(const std::vector<std::string>& keys, const Status& first) {
  constexpr std::size_t kNamedMax = 16;
  std::string message =
      fmt::format("{} could not be read now: ", keys.size() == 1 ? "1 object" : fmt::format("{} objects", keys.size()));
  for (std::size_t i = 0; i < keys.size() && i < kNamedMax; ++i) message += (i > 0 ? ", " : "") + keys[i];
  if (keys.size() > kNamedMax) message += fmt::format(" and {} more", keys.size() - kNamedMax);
  message += "; the first error: " + first.message();
  return {Code::kUnavailable, std::move(message),
          "everything else is intact and nothing was recorded; check the disk, then verify again"};
}

/// No manifest and no member: what was there is gone as a whole.
bool is_gone(Context& context, const metadata::RevisionRecord& record) {
  const auto members = context.cold.list_attempt(attempt_of(record));
  return members.ok() && members->empty();
}

/// What the record counts in the memory that is mounted here, and a listing does not show. Who removes a replica lowers
/// the record first: one that is the same before and after the listing counts what must be there.
std::vector<Problem> missing_in_memory(Context& context, metadata::RevisionRecord record,
                                       const formats::StoredManifest& manifest) {
  constexpr int kTriesMax = 5;
  HotReplicas hot;
  for (int tries = 1;; ++tries) {
    auto found = find_hot(context, record, manifest);
    auto now = context.catalog.get_weight_revision(record.identity);
    if (!found.ok() || !now.ok() || tries > kTriesMax) return {};
    hot = std::move(found).value();
    if (now->metadata_generation == record.metadata_generation) break;
    record = std::move(now).value();
  }
  const bool here = !record.hot_instance.empty() && hot.instance == record.hot_instance;
  if (!here || hot.members >= record.hot_members) return {};
  std::vector<Problem> problems;
  if (record.residency == metadata::Residency::kHot) {
    for (std::uint32_t object = 0; object < manifest.objects.size(); ++object) {
      if (hot.has(object)) continue;
      problems.push_back(describe(manifest, {ProblemKind::kMissingObject,
                                             object,
                                             std::nullopt,
                                             fmt::format("{} bytes", manifest.objects[object].bytes),
                                             "no object",
                                             {}}));
    }
  } else {
    // Which ones they were, nobody knows.
    Problem& problem = problems.emplace_back();
    problem.expected = counted(record.hot_members, "object");
    problem.actual = counted(hot.members, "object");
  }
  for (Problem& problem : problems) problem.tier = hot.tier->traits().name;
  return problems;
}

Problem manifest_problem(const metadata::RevisionRecord& record, const Status& status) {
  Problem problem;
  problem.kind = ProblemKind::kManifest;
  problem.object = record.manifest_key;
  problem.expected = "sha256 " + record.summary.manifest_sha256;
  problem.actual = status.message();
  return problem;
}

}  // namespace

Result<VerifyReport> run_verify(Context& context, const Selector& selector, Observer& observer,
                                const CancelFlag& cancel) {
  VerifyReport report;
  SY_ASSIGN_OR_RETURN(report.record, resolve(context.catalog, selector, Purpose::kReadDegraded));
  report.recorded_instance = report.record.hot_instance;
  auto instance = look_for_instance(context);
  report.hot_unknown = instance.status();
  if (instance.ok()) report.hot_instance = *std::move(instance);
  StopSignal stop(cancel);
  SY_ASSIGN_OR_RETURN(const auto lease, LeaseGuard::acquire(context, report.record, {.allow_degraded = true}, stop));

  std::vector<std::string> damaged;
  bool all_missing = false;
  BadInMemory bad_in_memory;
  const auto manifest = load_manifest(context.cold, report.record);
  if (manifest.ok()) {
    const auto hot = find_hot(context, report.record, *manifest);
    if (!hot.ok()) log_warning("what lies in memory is not verified: {}", hot.status().message());
    report.hot_unknown = hot.status();
    const HotReplicas in_memory = hot.ok() ? *hot : HotReplicas();
    Verification verification(context, report.record, *manifest, in_memory, observer, stop);
    SY_RETURN_IF_ERROR(verification.run());
    bad_in_memory = verification.bad_in_memory();
    report.hot_objects = in_memory.members;
    report.hot_bytes = in_memory.bytes;
    report.problems = verification.problems();
    for (Problem& problem : missing_in_memory(context, report.record, *manifest)) {
      report.problems.push_back(std::move(problem));
    }
    report.checked_files = manifest->files.size();
    report.checked_objects = manifest->objects.size() + 1;
    report.checked_bytes = manifest->logical_bytes();
    damaged = verification.damaged_keys();
    const std::vector<std::string> unread = verification.unread_keys();
    const bool proved = std::ranges::any_of(
        report.problems, [](const Problem& problem) { return problem.kind == ProblemKind::kFileSha256; });
    if (damaged.empty() && !proved && !unread.empty()) return not_read(unread, verification.read_error());
    // What could not be read keeps the damage that was recorded of it.
    for (const std::string& key : report.record.damage.objects) {
      if (std::ranges::binary_search(unread, key)) damaged.push_back(key);
    }
    std::sort(damaged.begin(), damaged.end());
    damaged.erase(std::unique(damaged.begin(), damaged.end()), damaged.end());
    if (!context.read_only) verification.stop_sharing_damage();
    all_missing = !manifest->objects.empty() && verification.missing_objects() == manifest->objects.size();
  } else if (manifest.code() == Code::kCorrupt) {
    report.checked_objects = 1;
    report.problems.push_back(manifest_problem(report.record, manifest.status()));
    damaged.push_back(report.record.manifest_key);
    all_missing = is_gone(context, report.record);
  } else {
    return manifest.status();
  }
  if (const auto stat = context.cold.stat(manifest_of(attempt_of(report.record))); stat.ok()) {
    report.checked_bytes += stat->bytes;
  }
  if (!report.problems.empty()) SY_RETURN_IF_ERROR(check_not_deleted(context, report.record));
  if (context.read_only) return report;
  ObjectFindings findings;
  findings.damaged = std::move(damaged);
  findings.complete = true;
  findings.none_is_there = all_missing;
  findings.bad_in_memory = std::move(bad_in_memory);
  auto recorded = record_findings(context, report.record, findings, stop);
  if (recorded.code() == Code::kNoSpace || recorded.code() == Code::kBusy) {
    log_warning("what was found could not be recorded: {}", recorded.status().message());
    return report;
  }
  SY_ASSIGN_OR_RETURN(report.record, std::move(recorded));
  report.recorded = true;
  return report;
}

}  // namespace steelyard::store
