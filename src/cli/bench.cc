// bench [REF]
#include "store/bench.h"

#include <cstdio>

#include "base/units.h"
#include "cli/documents.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

using store::BenchReport;

std::uint64_t rate_of(const BenchReport::Row& row) {
  return static_cast<std::uint64_t>(static_cast<double>(row.bytes) / row.seconds);
}

void print_json(Invocation& call, const BenchReport& report) {
  Json json;
  begin_document(json).key("measurements").begin_array();
  for (const BenchReport::Row& row : report.rows) {
    json.begin_object().key("name").string(row.name).key("of").string(row.of).key("bytes").integer(row.bytes);
    json.key("seconds").seconds(row.seconds).key("bytes_per_second").integer(rate_of(row)).end_object();
  }
  json.end_array().end_object();
  call.out().line(json.text());
}

void print_table(Invocation& call, const BenchReport& report) {
  Table table({{"WHAT"}, {"PER SECOND", true}, {"OF", false, true}});
  for (const BenchReport::Row& row : report.rows) {
    table.add({row.name, format_size(rate_of(row)), row.of + " (" + format_size(row.bytes) + ")"});
  }
  call.out().write(table.render(terminal()));
}

Status run_bench(Invocation& call) {
  std::optional<store::Selector> revision;
  if (!call.operands().empty()) {
    SY_ASSIGN_OR_RETURN(revision, call.selector(call.operands().front()));
  }
  SY_ASSIGN_OR_RETURN(const store::StoreOptions options, call.store_options());
  const WatchSignals signals;
  SY_ASSIGN_OR_RETURN(const BenchReport report,
                      store::measure_store(call.runtime(), options, revision, signals.flag()));
  if (call.json()) {
    print_json(call, report);
  } else if (call.quiet()) {
    for (const BenchReport::Row& row : report.rows) call.out().line(row.name + " " + std::to_string(rate_of(row)));
  } else {
    print_table(call, report);
  }
  return {};
}

}  // namespace

constinit const VerbSpec kBenchVerb = {.name = "bench",
                                       .operands = "[REF]",
                                       .operands_max = 1,
                                       .summary = "what memory and disk can do here, and what the store reaches",
                                       .prints = "a table",
                                       .run = run_bench};

}  // namespace steelyard::cli
