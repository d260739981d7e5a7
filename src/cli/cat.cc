// cat REF FILE
#include "cli/signals.h"
#include "cli/verbs.h"

namespace steelyard::cli {
namespace {

constexpr FlagSpec kFlags[] = {
    {.name = "--range",
     .placeholder = "START-END",
     .help = "only these bytes, both included; START- for all from there"},
    kAllowDegraded,
};

std::optional<std::uint64_t> parse_offset(std::string_view text) {
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  std::uint64_t number = 0;
  for (char c : text) number = number * 10 + static_cast<std::uint64_t>(c - '0');
  return number;
}

Status parse_range(const std::string& text, store::CatRequest& request) {
  const std::string wanted = "START-END or START-: whole numbers, START not above END";
  const std::size_t dash = text.find('-');
  if (dash == std::string::npos) return bad_flag("--range", text, wanted);
  request.first = parse_offset(std::string_view(text).substr(0, dash));
  const std::string_view last = std::string_view(text).substr(dash + 1);
  if (!last.empty()) request.last = parse_offset(last);
  if (!request.first || (!last.empty() && (!request.last || *request.last < *request.first))) {
    return bad_flag("--range", text, wanted);
  }
  return {};
}

Status run_cat(Invocation& call) {
  store::CatRequest request;
  SY_ASSIGN_OR_RETURN(request.source, call.selector(call.operands()[0]));
  request.path = call.operands()[1];
  request.allow_degraded = call.has("--allow-degraded");
  if (const auto range = call.find("--range")) SY_RETURN_IF_ERROR(parse_range(*range, request));
  SY_ASSIGN_OR_RETURN(const auto store, call.open_store(store::OpenMode::kRead));
  const WatchSignals signals;
  return store->cat(
      request, [&call](ByteView bytes) { return call.out().write_through(bytes); }, signals.flag());
}

}  // namespace

constinit const VerbSpec kCatVerb = {.name = "cat",
                                     .operands = "REF FILE",
                                     .operands_min = 2,
                                     .operands_max = 2,
                                     .summary = "write one file's verified bytes to stdout",
                                     .prints = "the bytes and nothing else",
                                     .flags = kFlags,
                                     .run = run_cat};

}  // namespace steelyard::cli
