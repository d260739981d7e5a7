// verify REF, verify --all
#include <algorithm>

#include "base/limits.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "store/progress_meter.h"
#include "store/resolve.h"

namespace steelyard::cli {
namespace {

using store::Problem;
using store::ProblemKind;
using store::VerifyReport;

constexpr FlagSpec kFlags[] = {
    {.name = "--all", .placeholder = {}, .help = "every revision of the namespace that can be read, one after another"},
    kAllowDegraded,
};

std::string_view kind_name(ProblemKind kind) {
  switch (kind) {
    case ProblemKind::kMissingObject:
      return "missing_object";
    case ProblemKind::kObjectSize:
      return "object_size";
    case ProblemKind::kObjectChecksum:
      return "object_checksum";
    case ProblemKind::kFileSha256:
      return "file_sha256";
    case ProblemKind::kManifest:
      return "manifest";
  }
  return "manifest";
}

void write_report(Json& json, const VerifyReport& report) {
  json.key("ref").string(ref_of(report.record)).key("ok").boolean(report.problems.empty());
  json.key("checked_files").integer(report.checked_files).key("checked_objects").integer(report.checked_objects);
  json.key("checked_bytes").integer(report.checked_bytes);
  json.key("hot_objects").integer(report.hot_objects).key("hot_bytes").integer(report.hot_bytes);
  json.key("memory").begin_object();
  write_instances(json, report.hot_instance, report.recorded_instance, report.hot_unknown.ok());
  json.end_object();
  json.key("problems").begin_array();
  for (const Problem& problem : report.problems) {
    json.begin_object()
        .key("kind")
        .string(kind_name(problem.kind))
        .key("tier")
        .string(problem.tier)
        .key("file")
        .string_or_null(problem.file);
    json.key("tensor").string_or_null(problem.tensors.empty() ? std::string() : problem.tensors.front());
    json.key("tensors").begin_array();
    for (const std::string& tensor : problem.tensors) json.string(tensor);
    json.end_array().key("object").string_or_null(problem.object).key("offset");
    if (problem.offset) {
      json.integer(*problem.offset);
    } else {
      json.null();
    }
    json.key("expected").string_or_null(problem.expected).key("actual").string_or_null(problem.actual).end_object();
  }
  json.end_array();
}

/// Where it is, then what was wanted and found.
std::string describe(const Problem& problem) {
  constexpr std::size_t kTensorsNamedMax = 4;
  std::string place;
  const auto add = [&place](const std::string& part) { place += (place.empty() ? "" : ", ") + part; };
  if (!problem.file.empty()) add("file " + printable(problem.file));
  if (!problem.tensors.empty()) {
    std::string tensors = problem.tensors.size() == 1 ? "tensor " : "tensors ";
    for (std::size_t i = 0; i < problem.tensors.size() && i < kTensorsNamedMax; ++i) {
      tensors += (i > 0 ? ", " : "") + printable(problem.tensors[i]);
    }
    if (problem.tensors.size() > kTensorsNamedMax) {
      tensors += " and " + std::to_string(problem.tensors.size() - kTensorsNamedMax) + " more";
    }
    add(tensors);
  }
  if (!problem.object.empty()) add("object " + printable(problem.object));
  add("in the " + problem.tier + " tier");
  if (problem.offset) add("first bad block at byte " + std::to_string(*problem.offset));
  std::string line = std::string(kind_name(problem.kind)) + ": " + place;
  if (!problem.expected.empty()) line += "; wanted " + printable(problem.expected);
  if (!problem.actual.empty()) line += ", found " + printable(problem.actual);
  return line;
}

/// ", in FILE, FILE": the problems themselves are on stdout.
std::string files_of(const VerifyReport& report) {
  constexpr std::size_t kNamedMax = 4;
  std::vector<std::string> files;
  for (const Problem& problem : report.problems) {
    const std::string& where = problem.file.empty() ? problem.object : problem.file;
    if (!where.empty() && std::ranges::find(files, where) == files.end()) files.push_back(where);
  }
  std::string text;
  for (std::size_t i = 0; i < files.size() && i < kNamedMax; ++i) {
    text += (i == 0 ? ", in " : ", ") + printable(files[i]);
  }
  if (files.size() > kNamedMax) text += " and " + std::to_string(files.size() - kNamedMax) + " more files";
  return text;
}

/// The record counts what lies in a memory that was not read, and why it was not; else empty.
std::string why_unread(const VerifyReport& report) {
  if (report.recorded_instance.empty()) return "";
  if (!report.hot_unknown.ok()) return "what is mounted here cannot be read";
  return report.recorded_instance == report.hot_instance ? "" : "it is not mounted here";
}

/// What of it was read in memory.
std::string in_memory(const VerifyReport& report) {
  if (const std::string why = why_unread(report); !why.empty()) {
    return "; memory instance " + report.recorded_instance + " was not read: " + why;
  }
  if (report.hot_objects == 0) return "";
  return "; in memory " + counted(report.hot_objects, "object") + ", " + format_size(report.hot_bytes);
}

void print_problems(Invocation& call, const VerifyReport& report) {
  for (const Problem& problem : report.problems) call.out().line(describe(problem));
  if (!report.problems.empty() || call.quiet()) return;
  call.out().line(ref_of(report.record) + ": " + counted(report.checked_files, "file") + ", " +
                  counted(report.checked_objects, "object") + ", " + format_size(report.checked_bytes) +
                  in_memory(report));
}

/// How what is wrong in memory alone is put right.
std::string mending_memory(const VerifyReport& report) {
  const std::string ref = ref_of(report.record);
  const auto in_memory = [&report](bool missing) {
    return std::ranges::any_of(report.problems, [missing](const Problem& problem) {
      return problem.tier == "hot" && (problem.kind == ProblemKind::kMissingObject) == missing;
    });
  };
  std::string text;
  if (in_memory(false)) text = "`steelyard repair " + ref + "`, or the next reconcile, makes anew what is bad there";
  if (in_memory(true)) {
    text += (text.empty() ? "" : ", then ") + ("`steelyard rehydrate " + ref) + "` brings back what is missing there";
  }
  return text;
}

Status damaged(const VerifyReport& report) {
  const std::string ref = ref_of(report.record);
  const std::string found = counted(report.problems.size(), "problem") + " found" + files_of(report);
  const auto any = [&report](const auto& is) { return std::ranges::any_of(report.problems, is); };
  const bool ready = report.record.availability == metadata::Availability::kReady;
  if (ready && !any([](const Problem& problem) { return problem.tier != "hot"; })) {
    return {Code::kCorrupt, ref + " is not whole in memory: " + found,
            "every byte of it can be read from the cold tier; " + mending_memory(report)};
  }
  if (const std::string why = why_unread(report); ready && !why.empty()) {
    return {Code::kCorrupt, ref + " is damaged in the cold tier: " + found,
            "memory instance " + report.recorded_instance + " may hold what is missing, but " + why +
                "; `steelyard repair " + ref + " --source DIR` restores it from a folder"};
  }
  if (ready && report.recorded) {
    return {Code::kCorrupt, ref + " has damaged replicas: " + found,
            "every byte of it can still be read, as each tier holds what the other lacks; `steelyard repair " + ref +
                "`, or the next reconcile, makes them whole"};
  }
  if (any([](const Problem& problem) { return problem.kind == ProblemKind::kManifest; })) {
    return {Code::kCorrupt, ref + " is damaged: " + found,
            "nothing else holds a manifest: import the source again as a new generation, then delete this one"};
  }
  return {Code::kCorrupt, ref + " is damaged: " + found,
          "`steelyard repair " + ref +
              "` restores what the store, or a folder named with --source, still holds; intact files can be read with "
              "--allow-degraded"};
}

Status verify_one(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  Result<VerifyReport> report = store->verify(selector, printer, signals.flag());
  printer.clear();
  if (!report.ok()) return report.status();
  if (call.json()) {
    Json json;
    begin_document(json);
    write_report(json, *report);
    json.end_object();
    call.out().line(json.text());
  } else {
    print_problems(call, *report);
    if (report->problems.empty()) call.out().line("ok");
  }
  return report->problems.empty() ? Status() : damaged(*report);
}

/// What cannot be verified now does not keep the others from being looked at; the first failure is the verb's.
Status verify_all(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  Json json;
  begin_document(json).key("revisions").begin_array();
  Status first;
  std::uint64_t looked_at = 0;
  metadata::ListQuery query;
  query.tenant_id = call.settings().text("tenant");
  query.namespace_id = call.settings().text("namespace");
  query.limit = limits::kListLimitMax;
  do {
    SY_ASSIGN_OR_RETURN(const metadata::ListPage page, store->list(query));
    query.page_token = page.next_page_token;
    for (const metadata::RevisionRecord& record : page.records) {
      store::PhaseOfRevision phase(printer, ref_of(record));
      const Result<VerifyReport> report = store->verify(store::selector_of(record.identity), phase, signals.flag());
      printer.clear();
      // Deleted since it was listed.
      if (report.code() == Code::kNotFound || report.code() == Code::kNotReady) continue;
      if (store::is_cancelled(report.status())) return report.status();
      ++looked_at;
      if (report.ok()) {
        write_report(json.begin_object(), *report);
        json.end_object();
        if (!call.json()) print_problems(call, *report);
      } else {
        json.begin_object().key("ref").string(ref_of(record)).key("ok").boolean(false);
        json.key("code").string(code_name(report.code())).key("error").string(report.status().message());
        json.key("hint").string(report.status().hint()).end_object();
        if (!call.json()) call.out().line(ref_of(record) + ": " + printable(report.status().message()));
      }
      Status status = !report.ok() ? report.status() : report->problems.empty() ? Status() : damaged(*report);
      if (first.ok()) first = std::move(status);
    }
  } while (!query.page_token.empty());
  json.end_array().key("ok").boolean(first.ok()).end_object();
  if (call.json()) {
    call.out().line(json.text());
  } else if (first.ok()) {
    if (!call.quiet()) call.out().line(counted(looked_at, "revision") + " verified");
    call.out().line("ok");
  }
  return first;
}

Status run_verify(Invocation& call) {
  if (call.has("--all") == call.operands().empty()) return call.has("--all") ? verify_all(call) : verify_one(call);
  return {Code::kInvalidArgument,
          call.has("--all") ? "`verify --all` takes no REF" : "`verify` wants REF or --all; nothing was given",
          "`steelyard list` shows what there is"};
}

}  // namespace

constinit const VerbSpec kVerifyVerb = {
    .name = "verify",
    .operands = "[REF]",
    .operands_max = 1,
    .summary = "read every object and file of a revision again and compare checksums",
    .prints = "`ok`, or a line for each problem",
    .flags = kFlags,
    .run = run_verify};

}  // namespace steelyard::cli
