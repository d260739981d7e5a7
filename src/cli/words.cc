#include "cli/words.h"

#include <algorithm>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/documents.h"
#include "store/operation_text.h"

namespace steelyard::cli {
namespace {

/// "37 %"; what is next to nothing or to all says so.
std::string share_words(std::uint32_t millionths) {
  constexpr std::uint32_t kPercent = 10'000;
  if (millionths < kPercent) return "<1 %";
  if (millionths > 99 * kPercent) return ">99 %";
  return std::to_string((millionths + kPercent / 2) / kPercent) + " %";
}

}  // namespace

std::string residency_words(const metadata::RevisionRecord& record) {
  std::string text(name_of(record.residency));
  return record.hot_millionths ? text + " " + share_words(*record.hot_millionths) : text;
}

std::string place_words(const metadata::Policy& policy) {
  std::string text = lower_case(name_of(policy.prefer));
  if (policy.ratio_millionths) text += " (" + format_ratio(*policy.ratio_millionths) + " hot)";
  return text;
}

std::string policy_words(const metadata::Policy& policy) {
  if (policy == metadata::Policy()) return "";
  return std::string(name_of(policy.mode)) + ", " + place_words(policy);
}

std::string operation_words(const metadata::Operation& operation) {
  std::string text(name_of(operation.kind));
  if (operation.total_bytes == 0) return text;
  const double done = static_cast<double>(operation.processed_bytes) / static_cast<double>(operation.total_bytes);
  return text + " " + std::to_string(std::min(100, static_cast<int>(done * 100))) + " %";
}

std::string started_words(const metadata::OperationView& view) {
  const std::string& id = view.operation.operation_id;
  if (view.is_being_run()) {
    return "operation " + id + " runs already: " + printable(view.runner->holder) + " carries it out";
  }
  return "operation " + id + " is started; `" + store::command_of(view.operation, ref_of(view.record), "") +
         "` or a reconcile carries it out";
}

std::string nothing_to_bring(const metadata::RevisionRecord& record) {
  return "there is nothing to bring into memory: " + ref_of(record) + " has no payload objects, and is always " +
         std::string(name_of(record.residency));
}

std::string runner_words(const metadata::OperationView& view) {
  const bool has_one = view.runner && !view.runner->token.empty();
  const std::string source = view.runner ? view.runner->source : "";
  const std::string next = "`" + store::command_of(view.operation, ref_of(view.record), source) +
                           (source.empty() ? "` or a reconcile goes on with it" : "` goes on with it");
  if (!has_one) return "none; " + next;
  const std::string holder = printable(view.runner->holder);
  if (view.runner_is_gone) return holder + " is gone; " + next;
  if (view.runner_left_ms <= 0) return holder + " gave no sign of life in time; " + next;
  return holder + "; another process may go on with it in " + format_age(view.runner_left_ms) +
         " if it gives no sign of life until then";
}

std::string status_words(const Status& status) {
  std::string text = printable(status.message());
  return status.hint().empty() ? text : text + " -> " + printable(status.hint());
}

std::string part_words(std::uint64_t part, std::uint64_t whole, std::string_view noun) {
  return std::to_string(part) + " of " + counted(whole, noun);
}

}  // namespace steelyard::cli
