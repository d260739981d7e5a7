// import SOURCE [REF]
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "formats/ref.h"
#include "store/source_folder.h"

namespace steelyard::cli {
namespace {

constexpr std::int64_t kWaitMsMax = 24 * 3'600'000LL;

constexpr FlagSpec kFlags[] = {
    {.name = "--checkpoint-id", .placeholder = "ID", .help = "the resource, as it is: not escaped"},
    {.name = "--model-id", .placeholder = "ID", .help = "kept as the label model_id"},
    {.name = "--revision", .placeholder = "R", .help = "the revision, as it is: not escaped (default: main)"},
    {.name = "--generation",
     .placeholder = "N",
     .help = "the generation (default: go on with the newest if it is unfinished, else 1 + the highest ever used)"},
    {.name = "--source", .placeholder = "PATH", .help = "the source, instead of the first argument"},
    {.name = "--include",
     .placeholder = "GLOB",
     .help = "take only what matches, also what is skipped by default; `*` matches `/` too",
     .repeatable = true},
    {.name = "--exclude",
     .placeholder = "GLOB",
     .help = "leave out what matches; wins over --include",
     .repeatable = true},
    {.name = "--label", .placeholder = "K=V", .help = "a label of the revision", .repeatable = true},
    {.name = "--residency",
     .placeholder = "WHERE",
     .help = "where the revision is when the command ends (default: the setting policy.prefer)",
     .choices = "hot|cold"},
    {.name = "--dry-run",
     .placeholder = {},
     .help = "check headers and indexes, print what would be taken and skipped"},
    {.name = "--allow-empty", .placeholder = {}, .help = "accept a source without a weight file"},
    {.name = "--follow-links", .placeholder = {}, .help = "follow links that leave the source"},
    {.name = "--ignore-index", .placeholder = {}, .help = "do not trust a safetensors index (a stale one)"},
    {.name = "--wait",
     .placeholder = "D",
     .help = "wait this long for another writer of the same identity (default: 0s)"},
    {.name = "--verify-after-write", .placeholder = {}, .help = "read everything back before publishing"},
};

/// SOURCE and REF, whichever way they are given.
struct Target {
  std::string source;
  store::Selector selector;
  std::optional<std::string> hub_ref;
};

Result<Target> target_of(const Invocation& call) {
  Target target;
  std::vector<std::string> operands = call.operands();
  if (const auto source = call.find("--source")) {
    if (operands.size() > 1) {
      return Status(Code::kInvalidArgument, "the source is named twice: --source " + printable(*source) + " and " +
                                                in_quotes(operands.front()));
    }
    target.source = *source;
  } else if (operands.empty()) {
    return Status(Code::kInvalidArgument, "`import` wants SOURCE; nothing was given",
                  "usage: steelyard import [flags] SOURCE [REF]");
  } else {
    target.source = operands.front();
    operands.erase(operands.begin());
  }
  if (target.source.empty()) return Status(Code::kInvalidArgument, "SOURCE is empty; wanted a folder or a file");

  SY_RETURN_IF_ERROR(call.check_names());
  store::Selector& selector = target.selector;
  selector.tenant_id = call.settings().text("tenant");
  selector.namespace_id = call.settings().text("namespace");
  if (!operands.empty()) {
    SY_ASSIGN_OR_RETURN(selector.ref, formats::parse_ref(operands.front()));
    if (call.has("--checkpoint-id")) {
      return Status(Code::kInvalidArgument, "the resource is named twice: REF " + in_quotes(operands.front()) +
                                                " and --checkpoint-id " + in_quotes(*call.find("--checkpoint-id")));
    }
  } else if (const auto id = call.find("--checkpoint-id")) {
    selector.ref.resource_id = *id;
  } else {
    const store::DefaultName name = store::default_name(target.source);
    selector.ref.resource_id = name.resource_id;
    selector.ref.revision = name.revision;
    target.hub_ref = name.hub_ref;
  }
  if (const auto revision = call.find("--revision")) {
    if (!operands.empty() && selector.ref.revision && *selector.ref.revision != *revision) {
      return Status(Code::kInvalidArgument, "the revision is named twice: REF has " +
                                                in_quotes(*selector.ref.revision) + ", --revision " +
                                                in_quotes(*revision));
    }
    if (selector.ref.revision != *revision) target.hub_ref.reset();
    selector.ref.revision = *revision;
  }
  SY_ASSIGN_OR_RETURN(const auto generation, call.count("--generation", 1, INT64_MAX));
  if (generation) {
    const auto number = static_cast<std::int64_t>(*generation);
    if (selector.ref.weight_generation && *selector.ref.weight_generation != number) {
      return Status(Code::kInvalidArgument, "the generation is named twice: REF has " +
                                                std::to_string(*selector.ref.weight_generation) + ", --generation " +
                                                std::to_string(number));
    }
    selector.ref.weight_generation = number;
  }
  if (!selector.ref.revision) selector.ref.revision = "main";
  const formats::Lineage lineage{selector.tenant_id, selector.namespace_id, selector.ref.resource_id,
                                 *selector.ref.revision};
  if (Status status = formats::validate(lineage); !status.ok()) {
    if (operands.empty() && !call.has("--checkpoint-id")) {
      return std::move(status).with_hint("give the import a name of its own: steelyard import SOURCE REF");
    }
    return status;
  }
  return target;
}

Result<metadata::Labels> labels_of(const Invocation& call) {
  metadata::Labels labels;
  auto add = [&labels](std::string key, std::string value, std::string_view by) -> Status {
    for (const auto& label : labels) {
      if (label.first == key) {
        return {Code::kInvalidArgument, "the label " + in_quotes(key) + " is given twice (" + std::string(by) + ")"};
      }
    }
    labels.emplace_back(std::move(key), std::move(value));
    return {};
  };
  for (const std::string& text : call.all("--label")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return bad_flag("--label", text, "KEY=VALUE");
    SY_RETURN_IF_ERROR(add(text.substr(0, equals), text.substr(equals + 1), "--label"));
  }
  if (const auto model_id = call.find("--model-id")) SY_RETURN_IF_ERROR(add("model_id", *model_id, "--model-id"));
  std::sort(labels.begin(), labels.end());
  return labels;
}

Result<metadata::Policy> policy_of(const Settings& settings) {
  metadata::Policy policy;
  const std::string prefer = settings.text("policy.prefer");
  policy.prefer = prefer == "hot"     ? metadata::Residency::kHot
                  : prefer == "mixed" ? metadata::Residency::kMixed
                                      : metadata::Residency::kCold;
  const std::string mode = settings.text("policy.mode");
  policy.mode = mode == "pinned" ? metadata::PolicyMode::kPinned
                : mode == "auto" ? metadata::PolicyMode::kAuto
                                 : metadata::PolicyMode::kManual;
  const bool has_ratio = settings.value("policy.ratio").text.has_value();
  if (has_ratio != (policy.prefer == metadata::Residency::kMixed)) {
    return Status(Code::kInvalidArgument,
                  has_ratio ? "policy.ratio is " + settings.text("policy.ratio") + ", but policy.prefer is " + prefer +
                                  "; a ratio goes with mixed only"
                            : "policy.prefer is mixed, which needs policy.ratio",
                  "see where they came from with `steelyard config show`");
  }
  if (has_ratio) policy.ratio_millionths = static_cast<std::uint32_t>(settings.number("policy.ratio"));
  return policy;
}

/// Whether the revision is to be in memory when the command ends.
Result<bool> wants_memory(const Invocation& call) {
  const auto flag = call.find("--residency");
  const std::string wanted = flag.value_or(call.settings().text("policy.prefer"));
  if (wanted != "mixed") return wanted == "hot";
  return Status(Code::kInvalidArgument, "policy.prefer is mixed, and an import ends hot or cold",
                "say which with --residency");
}

Result<store::ImportRequest> request_of(const Invocation& call) {
  SY_ASSIGN_OR_RETURN(const Target target, target_of(call));
  store::ImportRequest request;
  request.source = target.source;
  request.target = target.selector;
  request.checkpoint.include = call.all("--include");
  request.checkpoint.exclude = call.all("--exclude");
  request.checkpoint.ignore_index = call.has("--ignore-index");
  request.checkpoint.allow_empty = call.has("--allow-empty");
  request.checkpoint.header_limit = call.settings().number("header_limit");
  request.follow_links = call.has("--follow-links");
  SY_ASSIGN_OR_RETURN(request.labels, labels_of(call));
  if (target.hub_ref) request.automatic_labels = {{std::string(store::kHubRefLabel), *target.hub_ref}};
  if (call.settings().given("chunk_size")) request.chunk_bytes = call.settings().number("chunk_size");
  SY_ASSIGN_OR_RETURN(request.policy, policy_of(call.settings()));
  request.verify_after_write = call.has("--verify-after-write");
  SY_ASSIGN_OR_RETURN(const auto wait_ms, call.duration_ms("--wait", 0, kWaitMsMax));
  request.wait_ms = wait_ms.value_or(0);
  SY_ASSIGN_OR_RETURN(request.into_memory, wants_memory(call));
  SY_RETURN_IF_ERROR(store::check_import_residency(
      request.policy, request.into_memory ? metadata::Residency::kHot : metadata::Residency::kCold));
  return request;
}

/// What memory an import would need, and what there is; absent: it would end cold.
struct MemoryNeed {
  std::uint64_t needed_bytes = 0;
  Result<std::uint64_t> available_bytes;
};

void print_plan_json(Output& out, const formats::CheckpointPlan& plan, const std::optional<MemoryNeed>& memory) {
  Json json;
  begin_document(json).key("dry_run").boolean(true).key("files").begin_array();
  for (const auto& file : plan.files) {
    json.begin_object().key("path").string(file.path).key("kind").string(kind_name(file.kind));
    json.key("bytes").integer(file.bytes).end_object();
  }
  json.end_array().key("logical_bytes").integer(plan.logical_bytes).key("skipped").begin_array();
  for (const auto& file : plan.skipped) {
    json.begin_object().key("path").string(file.path).key("bytes").integer(file.bytes);
    json.key("reason").string(file.reason).end_object();
  }
  json.end_array().key("residency").string(memory ? "hot" : "cold").key("memory");
  if (memory) {
    json.begin_object().key("needed_bytes").integer(memory->needed_bytes).key("available_bytes");
    if (memory->available_bytes.ok()) {
      json.integer(*memory->available_bytes);
    } else {
      json.null();
    }
    json.end_object();
  } else {
    json.null();
  }
  json.end_object();
  out.line(json.text());
}

std::string memory_line(const MemoryNeed& memory) {
  const std::string need = "would then take " + format_size(memory.needed_bytes) + " of memory; ";
  if (!memory.available_bytes.ok())
    return need + "what there is is not known: " + memory.available_bytes.status().message();
  const bool fits = memory.needed_bytes <= *memory.available_bytes;
  return need + format_size(*memory.available_bytes) + " are available" + (fits ? "" : ", which is too little");
}

Status dry_run(Invocation& call, const store::ImportRequest& request) {
  ProgressPrinter printer(call.runtime(), call.settings());
  Result<formats::CheckpointPlan> plan = store::preview_import(request, printer);
  printer.clear();
  if (!plan.ok()) return plan.status();
  std::optional<MemoryNeed> memory;
  if (request.into_memory) {
    SY_ASSIGN_OR_RETURN(const store::StoreOptions options, call.store_options());
    memory = MemoryNeed{plan->logical_bytes, store::memory_room(call.runtime(), options)};
  }
  if (call.json()) {
    print_plan_json(call.out(), *plan, memory);
    return {};
  }
  if (call.quiet()) {
    for (const auto& file : plan->files) call.out().line(printable(file.path));
    return {};
  }
  Table files({{"TAKEN"}, {"KIND"}, {"SIZE", true}});
  for (const auto& file : plan->files) files.add({printable(file.path), kind_name(file.kind), format_size(file.bytes)});
  call.out().write(files.render(terminal()));
  if (!plan->skipped.empty()) {
    Table skipped({{"SKIPPED"}, {"SIZE", true}, {"WHY"}});
    for (const auto& file : plan->skipped) {
      skipped.add({printable(file.path), format_size(file.bytes), printable(file.reason)});
    }
    call.out().line("");
    // Whole, however wide: the reason ends with the flag that takes it.
    call.out().write(skipped.render(Terminal{}));
  }
  call.out().line("");
  call.out().line("would import " + counted(plan->files.size(), "file") + ", " + format_size(plan->logical_bytes) +
                  "; nothing was written");
  if (memory) call.out().line(memory_line(*memory));
  return {};
}

void print_result(Invocation& call, bool hot, const store::ImportResult& result) {
  const std::string ref = ref_of(result.record);
  if (call.json()) {
    Json json;
    begin_document(json).key("revision");
    write_revision(json, result.record, result.active_leases);
    json.key("stats").begin_object();
    json.key("files").integer(result.files).key("tensors").integer(result.tensors);
    json.key("payload_objects").integer(result.payload_objects).key("logical_bytes").integer(result.logical_bytes);
    json.key("written_bytes").integer(result.written_bytes).key("reused_bytes").integer(result.reused_bytes);
    json.key("seconds").seconds(result.seconds);
    json.key("skipped").integer(result.skipped).key("skipped_bytes").integer(result.skipped_bytes);
    json.key("already_there").boolean(result.already_there);
    json.end_object().end_object();
    call.out().line(json.text());
    return;
  }
  if (!call.quiet()) {
    std::string line = "imported " + counted(result.files, "file") + ", " + counted(result.tensors, "tensor") + ", " +
                       format_size(result.logical_bytes);
    if (result.reused_bytes > 0) line += " (" + format_size(result.reused_bytes) + " of it already stored)";
    line += " in " + format_age(static_cast<std::int64_t>(result.seconds * 1000));
    if (result.already_there) line = "already there: the same content was published before";
    call.out().line(line);
    if (hot && result.record.summary.payload_count == 0) call.out().line(nothing_to_bring(result.record));
    if (result.skipped > 0) {
      call.out().line("not taken: " + std::to_string(result.skipped) +
                      (result.skipped == 1 ? " file or folder, " : " files or folders, ") +
                      format_size(result.skipped_bytes) + " (--dry-run names them and the flag that takes them)");
    }
  }
  call.out().line(ref);
}

Status run_import(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::ImportRequest request, request_of(call));
  if (call.has("--dry-run")) return dry_run(call, request);
  // A source that is not there must not leave an empty store behind.
  struct stat info {};
  if (stat(request.source.c_str(), &info) != 0) {
    return errno_status(errno, "stat", printable(request.source)).annotate("opening", "the source");
  }
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kCreate));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  Result<store::ImportResult> result = store->import(request, printer, signals.flag());
  printer.clear();
  if (!result.ok()) return result.status();
  print_result(call, request.into_memory, *result);
  return {};
}

}  // namespace

constexpr std::string_view kExample =
    "--policy-prefer, --policy-ratio and --policy-mode are recorded with the revision as its policy, as by `policy "
    "set`.\n"
    "With a quarter of it kept in memory by the next `steelyard reconcile`:\n\n"
    "  steelyard import ./llama llama-70b --policy-prefer mixed --policy-ratio 0.25 --policy-mode pinned "
    "--residency cold\n";

constinit const VerbSpec kImportVerb = {
    .name = "import",
    .operands = "SOURCE [REF]",
    .operands_min = 0,
    .operands_max = 2,
    .summary = "make a revision of a checkpoint folder, a hub snapshot or one weight file",
    .prints = "the complete reference of the new revision as its last line",
    .flags = kFlags,
    .example = kExample,
    .run = run_import};

}  // namespace steelyard::cli
