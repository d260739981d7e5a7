// lease acquire REF, lease renew ID, lease release ID, lease list [REF]
#include <algorithm>

#include "base/limits.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "formats/ref.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kTtl = {
    .name = "--ttl", .placeholder = "D", .help = "time to live, 1s to 1d (default: the setting lease.ttl)"};
constexpr FlagSpec kAcquireFlags[] = {
    kTtl,
    {.name = "--holder", .placeholder = "H", .help = "who holds it; shown to people whom the lease keeps waiting"},
    {.name = "--nonce",
     .placeholder = "N",
     .help = "the same holder and nonce renew the same lease (default: a fresh one)"},
    kAllowDegraded,
};
constexpr FlagSpec kRenewFlags[] = {kTtl};

Result<std::int64_t> ttl_of(const Invocation& call) {
  SY_ASSIGN_OR_RETURN(const auto ttl_ms, call.duration_ms("--ttl", limits::kLeaseTtlMsMin, limits::kLeaseTtlMsMax));
  return ttl_ms.value_or(static_cast<std::int64_t>(call.settings().number("lease.ttl")));
}

Status check_text(std::string_view flag, const std::string& text) {
  const std::string wanted =
      "1 to " + std::to_string(limits::kHolderBytesMax) + " bytes of UTF-8 without control characters";
  if (text.size() > limits::kHolderBytesMax) {
    return {Code::kInvalidArgument,
            std::string(flag) + " has " + std::to_string(text.size()) + " bytes; wanted " + wanted};
  }
  if (text.empty() || !is_valid_utf8(text) || has_control_character(text)) return bad_flag(flag, text, wanted);
  return {};
}

/// `evicted`, of an acquire: what went to bring the revision into memory.
void print_lease(Invocation& call, const metadata::Lease& lease, const std::vector<std::string>* evicted = nullptr) {
  const std::int64_t left_ms = lease_left_ms(call.runtime(), lease);
  if (call.json()) {
    Json json;
    begin_document(json).key("lease");
    write_lease(json, lease, left_ms, true);
    if (evicted != nullptr) {
      json.key("evicted").begin_array();
      for (const std::string& ref : *evicted) json.string(ref);
      json.end_array();
    }
    json.end_object();
    call.out().line(json.text());
    return;
  }
  if (!call.quiet()) {
    call.out().line("leased " + formats::format_ref(lease.identity) + " to " + printable(lease.holder) + " for " +
                    format_age((left_ms + 999) / 1000 * 1000));  // the milliseconds since are no second less
  }
  call.out().line(lease.lease_id);
}

Status run_acquire(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const store::Selector selector, call.selector(call.operands().front()));
  SY_ASSIGN_OR_RETURN(const std::int64_t ttl_ms, ttl_of(call));
  const auto holder = call.find("--holder");
  if (!holder) {
    return {Code::kInvalidArgument, "`lease acquire` wants --holder: who holds the lease",
            "for example: --holder \"$(whoami)@$(hostname)\""};
  }
  SY_RETURN_IF_ERROR(check_text("--holder", *holder));
  const std::string nonce = call.find("--nonce").value_or(call.runtime().random_hex(16));
  SY_RETURN_IF_ERROR(check_text("--nonce", nonce));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  // Who repeats a holder and nonce renews a lease that he has: it stays, whatever becomes of this acquire.
  std::vector<catalog::Catalog::LeaseRow> held;
  if (call.has("--nonce")) {
    SY_ASSIGN_OR_RETURN(held, store->list_leases(std::nullopt, selector.tenant_id, selector.namespace_id));
  }
  SY_ASSIGN_OR_RETURN(metadata::Lease lease,
                      store->acquire_lease(selector, *holder, nonce, ttl_ms, call.has("--allow-degraded")));
  const WatchSignals signals;
  ProgressPrinter printer(call.runtime(), call.settings());
  const Result<store::FollowResult> followed = store->follow_policy(lease.identity, printer, signals.flag());
  printer.clear();
  const bool was_held =
      std::ranges::any_of(held, [&](const auto& row) { return row.lease.lease_id == lease.lease_id; });
  const auto give_back = [&] {
    if (!was_held) store->release_lease(lease.lease_id).ignore("it ends by itself after its time to live");
  };
  if (store::is_cancelled(followed.status())) {
    give_back();
    return followed.status();
  }
  const std::string ref = formats::format_ref(lease.identity);
  const std::vector<std::string> evicted = followed.ok() ? followed->evicted : std::vector<std::string>();
  for (const std::string& gone : evicted) {
    if (!call.json()) log_warning("evicted {} to make room for {}", gone, ref);
  }
  // What the revision is in is worth a warning; the lease is what was asked for.
  const Status stays = followed.ok() ? followed->no_room : followed.status();
  if (!stays.ok()) {
    log_warning("{} stays where it is: {}{}{}", ref, stays.message(), stays.hint().empty() ? "" : " -> ", stays.hint());
  }
  if (!followed.ok() || followed->moved || !evicted.empty()) {
    const auto acquire_again = [&](const metadata::Lease& before) {
      store::Selector same = selector;
      same.ref.revision = before.identity.lineage.revision;
      same.ref.weight_generation = before.identity.weight_generation;
      return store->acquire_lease(same, *holder, nonce, ttl_ms, call.has("--allow-degraded"));
    };
    // Its time counts from the end of the move. It was granted, so it stays, though the revision be damaged by now.
    auto renewed = store->renew_lease(lease.lease_id, ttl_ms);
    if (renewed.ok()) {
      lease = std::move(renewed).value();
    } else {
      auto again = acquire_again(lease);
      if (!again.ok()) give_back();
      SY_ASSIGN_OR_RETURN(lease, std::move(again));
    }
  }
  print_lease(call, lease, &evicted);
  return {};
}

Status run_renew(Invocation& call) {
  SY_ASSIGN_OR_RETURN(const std::int64_t ttl_ms, ttl_of(call));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  SY_ASSIGN_OR_RETURN(const metadata::Lease lease, store->renew_lease(call.operands().front(), ttl_ms));
  print_lease(call, lease);
  return {};
}

Status run_release(Invocation& call) {
  const std::string& id = call.operands().front();
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kWrite));
  SY_RETURN_IF_ERROR(store->release_lease(id));
  if (call.json()) {
    Json json;
    begin_document(json).key("lease_id").string(id).key("released").boolean(true).end_object();
    call.out().line(json.text());
  } else {
    call.out().line(printable(id));
  }
  return {};
}

Status run_lease_list(Invocation& call) {
  std::optional<store::Selector> selector;
  if (!call.operands().empty()) {
    SY_ASSIGN_OR_RETURN(selector, call.selector(call.operands().front()));
  }
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  SY_ASSIGN_OR_RETURN(const auto rows,
                      store->list_leases(selector, call.settings().text("tenant"), call.settings().text("namespace")));
  if (call.json()) {
    Json json;
    begin_document(json).key("leases").begin_array();
    for (const auto& row : rows) write_lease(json, row.lease, row.left_ms, true);
    json.end_array().end_object();
    call.out().line(json.text());
    return {};
  }
  if (call.quiet()) {
    for (const auto& row : rows) call.out().line(row.lease.lease_id);
    return {};
  }
  if (rows.empty()) {
    call.out().line("no live leases");
    return {};
  }
  Table table({{.heading = "LEASE", .whole = true},
               {.heading = "HOLDER", .first_to_cut = true},
               {"LEFT", true},
               {.heading = "REF", .whole = true}});
  for (const auto& row : rows) {
    table.add({row.lease.lease_id, printable(row.lease.holder), format_age(row.left_ms),
               formats::format_ref(row.lease.identity)});
  }
  call.out().write(table.render(terminal()));
  return {};
}

}  // namespace

constinit const VerbSpec kLeaseAcquireVerb = {.name = "lease",
                                              .sub = "acquire",
                                              .operands = "REF",
                                              .operands_min = 1,
                                              .operands_max = 1,
                                              .summary = "protect a revision while it is read",
                                              .prints = "the lease id as its last line",
                                              .flags = kAcquireFlags,
                                              .run = run_acquire};
constinit const VerbSpec kLeaseRenewVerb = {.name = "lease",
                                            .sub = "renew",
                                            .operands = "ID",
                                            .operands_min = 1,
                                            .operands_max = 1,
                                            .summary = "extend a lease; never shortens it",
                                            .prints = "the lease id as its last line",
                                            .flags = kRenewFlags,
                                            .run = run_renew};
constinit const VerbSpec kLeaseReleaseVerb = {.name = "lease",
                                              .sub = "release",
                                              .operands = "ID",
                                              .operands_min = 1,
                                              .operands_max = 1,
                                              .summary = "end a lease; may be repeated",
                                              .prints = "the lease id",
                                              .run = run_release};
constinit const VerbSpec kLeaseListVerb = {.name = "lease",
                                           .sub = "list",
                                           .operands = "[REF]",
                                           .operands_max = 1,
                                           .summary = "live leases of a revision or of the namespace",
                                           .prints = "a table",
                                           .run = run_lease_list};

}  // namespace steelyard::cli
