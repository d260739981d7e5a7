// list [RESOURCE]
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/verbs.h"
#include "cli/words.h"
#include "formats/ref.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--all", .placeholder = {}, .help = "in every state, also unfinished imports and tombstones"},
    {.name = "--state",
     .placeholder = "STATE",
     .help = "in this state",
     .repeatable = true,
     .choices = "IMPORTING|READY|DEGRADED|DELETING|DELETED"},
    {.name = "--label", .placeholder = "K=V", .help = "with this label", .repeatable = true},
    {.name = "--newest", .placeholder = {}, .help = "only the newest commit of each resource"},
    {.name = "--limit", .placeholder = "N", .help = "at most so many, 1 to 1000 (default: 100)"},
    {.name = "--page-token", .placeholder = "T", .help = "go on where a list of the same query stopped"},
    kAllowDegraded,
};

Result<metadata::ListQuery> query_of(const Invocation& call) {
  SY_RETURN_IF_ERROR(call.check_names());
  metadata::ListQuery query;
  query.tenant_id = call.settings().text("tenant");
  query.namespace_id = call.settings().text("namespace");
  if (!call.operands().empty()) {
    SY_ASSIGN_OR_RETURN(formats::Ref ref, formats::parse_ref(call.operands().front()));
    if (ref.revision || ref.weight_generation) {
      return Status(
          Code::kInvalidArgument,
          "`list` takes a resource without revision and generation; found " + in_quotes(call.operands().front()),
          "`steelyard inspect REF` shows one revision");
    }
    query.resource_id = std::move(ref.resource_id);
  }
  query.all = call.has("--all");
  for (const std::string& name : call.all("--state")) {
    if (const auto state = metadata::availability_from_name(name)) query.states.push_back(*state);
  }
  if (query.all && !query.states.empty()) {
    return Status(Code::kInvalidArgument, "--all and --state exclude each other");
  }
  for (const std::string& text : call.all("--label")) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return bad_flag("--label", text, "KEY=VALUE");
    query.labels.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  query.newest = call.has("--newest");
  SY_ASSIGN_OR_RETURN(const auto limit, call.count("--limit", 1, limits::kListLimitMax));
  query.limit = static_cast<std::size_t>(limit.value_or(limits::kListLimitDefault));
  query.page_token = call.find("--page-token").value_or(std::string());
  return query;
}

/// Live leases by lineage and generation, in one look.
Result<std::map<formats::Identity, std::uint64_t>> count_leases(store::Store& store, const metadata::ListQuery& query) {
  std::map<formats::Identity, std::uint64_t> counts;
  SY_ASSIGN_OR_RETURN(const auto rows, store.list_leases(std::nullopt, query.tenant_id, query.namespace_id));
  for (const auto& row : rows) ++counts[row.lease.identity];
  return counts;
}

std::uint64_t leases_of(const std::map<formats::Identity, std::uint64_t>& counts,
                        const metadata::RevisionRecord& record) {
  const auto at = counts.find(record.identity);
  return at == counts.end() ? 0 : at->second;
}

void print_json(Invocation& call, const metadata::ListPage& page,
                const std::map<formats::Identity, std::uint64_t>& leases) {
  Json json;
  begin_document(json).key("revisions").begin_array();
  for (const auto& record : page.records) write_revision(json, record, leases_of(leases, record));
  json.end_array().key("next_page_token").string_or_null(page.next_page_token).end_object();
  call.out().line(json.text());
}

/// A filter that matches nothing is told apart from a place where nothing is.
std::string nothing_listed(const Invocation& call) {
  std::string filter;
  const auto add = [&filter](const std::string& part) { filter += (filter.empty() ? "" : ", ") + part; };
  if (!call.operands().empty()) add("resource " + printable(call.operands().front()));
  for (const std::string& state : call.all("--state")) add("state " + printable(state));
  for (const std::string& label : call.all("--label")) add("label " + printable(label));
  const std::string where = "namespace " + printable(call.settings().text("namespace"));
  if (!filter.empty()) return "no revision in " + where + " matches: " + filter;
  return "no revisions in " + where;
}

/// How far it is stands beside the record.
std::string operation_of(store::Store& store, const metadata::RevisionRecord& record) {
  if (!record.operation) return "";
  return operation_words(view_of_operation(store, record, *record.operation).operation);
}

/// `store` is there where something is listed.
void print_table(Invocation& call, store::Store* store, const metadata::ListPage& page,
                 const std::map<formats::Identity, std::uint64_t>& leases) {
  if (page.records.empty()) {
    call.out().line(nothing_listed(call));
    return;
  }
  const auto any = [&page](const auto& is) { return std::ranges::any_of(page.records, is); };
  const bool operations = any([](const auto& record) { return record.operation.has_value(); });
  const bool policies = any([](const auto& record) { return !policy_words(record.policy).empty(); });
  std::vector<Table::Column> columns{{.heading = "REF", .whole = true}, {"STATE"}, {"RESIDENCY"}};
  if (operations) columns.push_back({"OPERATION"});
  columns.push_back({"SIZE", true});
  columns.push_back({"LEASES", true});
  if (policies) columns.push_back({"POLICY"});
  columns.push_back({"CREATED"});
  Table table(std::move(columns));
  for (const auto& record : page.records) {
    std::vector<std::string> row{ref_of(record), std::string(name_of(record.availability)), residency_words(record)};
    if (operations) row.push_back(operation_of(*store, record));
    row.push_back(format_size(record.summary.logical_bytes));
    row.push_back(std::to_string(leases_of(leases, record)));
    if (policies) row.push_back(policy_words(record.policy));
    row.push_back(format_rfc3339(record.created_at_ms).substr(0, 19) + "Z");
    table.add(std::move(row));
  }
  call.out().write(table.render(terminal()));
  if (!page.next_page_token.empty()) {
    call.out().line("more: the same command with --page-token " + page.next_page_token);
  }
}

Status run_list(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const metadata::ListQuery query, query_of(call));
  metadata::ListPage page;
  std::map<formats::Identity, std::uint64_t> leases;
  Result<std::unique_ptr<store::Store>> store = call.open_store(store::OpenMode::kRead);
  // Where no store is, nothing is in it.
  if (!store.ok() && store.code() != Code::kNotFound) return store.status();
  if (!store.ok()) {
    write_stderr("note: there is no store at " + printable(call.settings().text("store")) +
                 " yet; `steelyard import` makes it\n");
  }
  if (store.ok()) {
    SY_ASSIGN_OR_RETURN(page, (*store)->list(query));
    if (call.json() || !call.quiet()) {
      SY_ASSIGN_OR_RETURN(leases, count_leases(**store, query));
    }
  }
  if (call.json()) {
    print_json(call, page, leases);
  } else if (call.quiet()) {
    for (const auto& record : page.records) call.out().line(ref_of(record));
    if (!page.next_page_token.empty()) {
      log_warning(
          "these are the first {} and there are more: --limit takes up to {}, and the next page is the same "
          "command with --page-token {}",
          page.records.size(), limits::kListLimitMax, page.next_page_token);
    }
  } else {
    print_table(call, store.ok() ? store->get() : nullptr, page, leases);
  }
  return {};
}

}  // namespace

constinit const VerbSpec kListVerb = {.name = "list",
                                      .operands = "[RESOURCE]",
                                      .operands_max = 1,
                                      .summary = "revisions of a namespace that can be read, in the order of commit",
                                      .prints = "a table",
                                      .flags = kFlags,
                                      .run = run_list};

}  // namespace steelyard::cli
