// doctor
#include "store/doctor.h"

#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

using store::DoctorReport;
using State = DoctorReport::State;

constexpr FlagSpec kFlags[] = {
    {.name = "--conformance",
     .placeholder = {},
     .help = "run the tests that every tier must pass, in a folder of their own beside the objects"},
    {.name = "--adopt",
     .placeholder = {},
     .help = "give a cold tier that lost its store.json, or has another store's, the id of the catalog it belongs to"},
};

std::string_view name_of(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kWarning:
      return "warning";
    case State::kProblem:
      return "problem";
    case State::kSkipped:
      return "skipped";
  }
  return "problem";
}

Colour colour_of(State state) {
  switch (state) {
    case State::kOk:
      return Colour::kGreen;
    case State::kWarning:
      return Colour::kYellow;
    case State::kProblem:
      return Colour::kRed;
    case State::kSkipped:
      return Colour::kDim;
  }
  return Colour::kNone;
}

void print_json(Invocation& call, const DoctorReport& report, std::size_t problems) {
  Json json;
  begin_document(json).key("ok").boolean(problems == 0).key("adopted").boolean(report.adopted);
  json.key("checks").begin_array();
  for (const DoctorReport::Check& check : report.checks) {
    json.begin_object().key("name").string(check.name).key("state").string(name_of(check.state));
    json.key("found").string(check.found).key("next_step").string_or_null(check.next_step).end_object();
  }
  json.end_array().end_object();
  call.out().line(json.text());
}

/// `-q`: only what is wrong.
void print_text(Invocation& call, const DoctorReport& report) {
  for (const DoctorReport::Check& check : report.checks) {
    if (call.quiet() && check.state != State::kProblem) continue;
    std::string label(name_of(check.state));
    label.resize(7, ' ');
    call.out().line(coloured(label, colour_of(check.state), terminal().colour_out) + "  " + printable(check.name) +
                    ": " + printable(check.found));
    if (!check.next_step.empty()) call.out().line("         -> " + printable(check.next_step));
  }
}

Status run_doctor(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::StoreOptions options, call.store_options());
  store::DoctorRequest request;
  request.conformance = call.has("--conformance");
  request.adopt = call.has("--adopt");
  const WatchSignals signals;
  SY_ASSIGN_OR_RETURN(const DoctorReport report,
                      store::examine_store(call.runtime(), options, request, signals.flag()));
  std::size_t problems = 0;
  Code code = Code::kOk;
  for (const DoctorReport::Check& check : report.checks) {
    if (check.state != State::kProblem) continue;
    if (problems++ == 0) code = check.code;
  }
  if (call.json()) {
    print_json(call, report, problems);
  } else {
    print_text(call, report);
    if (problems == 0) call.out().line("ok");
  }
  if (problems == 0) return {};
  return {code, counted(problems, "problem") + " found in the store " + printable(options.path),
          "the report says what to do"};
}

}  // namespace

constinit const VerbSpec kDoctorVerb = {.name = "doctor",
                                        .summary = "what is wrong with the store or the machine, and what to do",
                                        .prints = "`ok`, or what to do",
                                        .flags = kFlags,
                                        .run = run_doctor};

}  // namespace steelyard::cli
