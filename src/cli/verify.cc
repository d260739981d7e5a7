// verify REF
#include <algorithm>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

using store::Problem;
using store::ProblemKind;
using store::VerifyReport;

constexpr FlagSpec kFlags[] = {kAllowDegraded};

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

void print_json(Invocation& call, const VerifyReport& report) {
  Json json;
  begin_document(json).key("ref").string(ref_of(report.record)).key("ok").boolean(report.problems.empty());
  json.key("checked_files").integer(report.checked_files).key("checked_objects").integer(report.checked_objects);
  json.key("checked_bytes").integer(report.checked_bytes).key("problems").begin_array();
  for (const Problem& problem : report.problems) {
    json.begin_object().key("kind").string(kind_name(problem.kind)).key("file").string_or_null(problem.file);
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
  json.end_array().end_object();
  call.out().line(json.text());
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

Status run_verify(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  Result<VerifyReport> report = store->verify(selector, printer, signals.flag());
  printer.clear();
  if (!report.ok()) return report.status();
  if (call.json()) {
    print_json(call, *report);
  } else {
    for (const Problem& problem : report->problems) call.out().line(describe(problem));
    if (report->problems.empty()) {
      if (!call.quiet()) {
        call.out().line(ref_of(report->record) + ": " + counted(report->checked_files, "file") + ", " +
                        counted(report->checked_objects, "object") + ", " + format_size(report->checked_bytes));
      }
      call.out().line("ok");
    }
  }
  if (report->problems.empty()) return {};
  const std::size_t count = report->problems.size();
  return {Code::kCorrupt,
          ref_of(report->record) + " is damaged: " + std::to_string(count) + (count == 1 ? " problem" : " problems") +
              " found" + files_of(*report),
          "`steelyard repair REF` restores what the store, or a folder named with --source, still holds; intact files "
          "can be read with --allow-degraded"};
}

}  // namespace

constinit const VerbSpec kVerifyVerb = {
    .name = "verify",
    .operands = "REF",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "read every object and file of a revision again and compare checksums",
    .prints = "`ok`, or a line for each problem",
    .flags = kFlags,
    .run = run_verify};

}  // namespace steelyard::cli
