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
#include "store/damage_record.h"
#include "store/hot_repair.h"
#include "store/object_repair.h"
#include "store/operation_run.h"
#include "store/operation_text.h"

namespace steelyard::store {
namespace {

using metadata::OperationKind;

/// The path as it is from any folder.
std::string absolute(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::absolute(path, failed);
  return failed ? path : whole.lexically_normal().string();
}

class Repair final : public OperationRun {
 public:
  Repair(Context& context, const RepairRequest& request, Source* source, Observer& observer, const CancelFlag& cancel)
      : OperationRun(context,
                     {.kind = OperationKind::kRepairing,
                      .target = metadata::Residency::kCold,
                      .ratio_millionths = {},
                      .selector = request.target,
                      .expected_generation = request.expected_generation,
                      .wait = request.wait},
                     observer, cancel),
        request_(request),
        source_(source) {}

  Result<RepairResult> run() {
    SY_RETURN_IF_ERROR(OperationRun::run());
    RepairResult result;
    // What was done before this run, or is left to others, the operation tells.
    const bool told = token_.token.empty() && operation_.has_value();
    result.restored_objects = told ? operation_->processed_members : restored_.members;
    result.restored_bytes = told ? operation_->processed_bytes : restored_.bytes;
    result.record = std::move(record_);
    result.operation = std::move(operation_);
    return result;
  }

 private:
  Status look() override {
    damaged_.clear();
    bad_in_memory_.clear();
    whole_keys_.clear();
    total_bytes_ = 0;
    SY_RETURN_IF_ERROR(check_free());
    SY_RETURN_IF_ERROR(load());
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
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      if (damaged.contains(object)) continue;
      SY_ASSIGN_OR_RETURN(const auto bad, check_object(context_, attempt_of(record_), manifest_, object, buffers));
      if (bad && bad->read_error.ok()) damaged.insert(object);
    }
    return {};
  }

  Result<bool> is_done() override {
    if (!damaged_.empty() || !bad_in_memory_.empty()) return false;
    SY_RETURN_IF_ERROR(record_whole());
    return true;
  }

  std::uint64_t members() const { return damaged_.size() + bad_in_memory_.size(); }

  void describe(metadata::StartOperation& command) const override {
    command.total_members = members();
    command.total_bytes = total_bytes_;
  }
  Amount left() const override { return {members(), total_bytes_}; }

  metadata::RunnerGrant grant() const override {
    metadata::RunnerGrant grant = OperationRun::grant();
    if (!request_.source.empty()) grant.source = absolute(request_.source);
    return grant;
  }

  Status work(RunnerKeeper& keeper) override {
    ProgressMeter progress(context_.runtime, observer_, "repair", total_bytes_, members());
    Status status = restore_objects(keeper, progress);
    if (status.ok()) status = renew_memory(keeper, progress);
    // What became whole is so, however the rest went.
    if (const Status recorded = record_restored(); status.ok()) status = recorded;
    SY_RETURN_IF_ERROR(status);
    progress.finish();
    SY_POINT(context_.runtime, "repair.after_findings");
    if (unrestored_.empty()) return {};
    gives_up_ = !awaits_source();
    return nobody_has();
  }

  bool can_never_go_on(const Status& /*why*/) const override { return gives_up_; }

  Status fail(RunnerKeeper& keeper, const Status& why) override {
    const std::string message = gives_up_ ? fmt::format("{} of {} restored; nobody has the rest", restored_.members,
                                                        counted(members(), "object"))
                                          : text_kept_of(why);
    return keeper.fail(why, message).status();
  }

  std::string done_message() const override { return counted(members(), "object") + " restored"; }
  const char* noun() const override { return "the repair"; }
  void after_start() override { SY_POINT(context_.runtime, "repair.after_start"); }
  void after_end() override { SY_POINT(context_.runtime, "repair.after_end"); }

  /// With the source that it has or had.
  std::string arguments() const override {
    const std::string& source = request_.source.empty() ? known_source_ : request_.source;
    std::string words;
    if (!source.empty()) words += " --source " + shell_word(source);
    if (request_.follow_links) words += " --follow-links";
    return words;
  }

  Status restore_objects(RunnerKeeper& keeper, ProgressMeter& progress) {
    BlockSources sources(context_, record_, manifest_, damaged_, source_, hot_);
    std::uint64_t largest = 0;
    for (const std::uint32_t object : damaged_) largest = std::max(largest, manifest_.objects[object].bytes);
    SY_ASSIGN_OR_RETURN(const auto memory,
                        tiers::AlignedBuffer::allocate(object_repair_bytes(context_.io_budget, largest)));
    for (const std::uint32_t object : damaged_) {
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      ObjectRepair repair(context_, attempt_of(record_), manifest_, object, sources, memory.span(), stop_, progress);
      std::vector<tiers::ObjectName> names;
      auto unrestored = repair.run(names);
      if (!unrestored.ok()) return std::move(unrestored).status().annotate("repairing", key_of(object));
      progress.add_file();
      if (*unrestored) {
        unrestored_.push_back(**unrestored);
      } else {
        whole_keys_.push_back(key_of(object));
        for (const tiers::ObjectName& name : names) others_[name.in].push_back(name.index);
        count_restored(object, keeper);
      }
      SY_POINT(context_.runtime, "repair.after_object");
    }
    return {};
  }

  void count_restored(std::uint32_t object, RunnerKeeper& keeper) {
    const std::uint64_t bytes = manifest_.objects[object].bytes;
    ++restored_.members;
    restored_.bytes += bytes;
    keeper.add(1, bytes);
  }

  Status renew_memory(RunnerKeeper& keeper, ProgressMeter& progress) {
    for (const std::uint32_t object : bad_in_memory_) {
      SY_RETURN_IF_ERROR(stop_.status(noun()));
      const bool lost = std::ranges::any_of(unrestored_, [&](const Unrestored& one) { return one.object == object; });
      // What neither replica has, nobody has; the good blocks of both stay.
      if (!lost) {
        SY_RETURN_IF_ERROR(renew_in_memory(context_, record_, manifest_, hot_, object, stop_));
        count_restored(object, keeper);
      }
      progress.add_bytes(manifest_.objects[object].bytes);
      progress.add_file();
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

  /// Somebody who has its source may still end it well.
  bool awaits_source() const { return source_ == nullptr && !known_source_.empty(); }

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
              fmt::format("the operation was given a source before; `steelyard operation cancel {}` ends it",
                          token_.operation_id)};
    }
    return {
        Code::kCorrupt, std::move(message),
        source_ == nullptr
            ? fmt::format("`steelyard repair {} --source DIR` takes them from a folder that holds the original files",
                          ref())
            : "the source does not hold them; name the folder that the revision was imported from"};
  }

  std::string key_of(std::uint32_t object) const { return formats::payload_key(record_.identity, object); }

  const RepairRequest& request_;
  Source* source_;
  HotReplicas hot_;
  std::vector<std::uint32_t> damaged_;        ///< in the cold tier
  std::vector<std::uint32_t> bad_in_memory_;  ///< the replica there
  std::uint64_t total_bytes_ = 0;
  Amount restored_;        ///< by this run
  bool gives_up_ = false;  ///< nobody has the rest
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
