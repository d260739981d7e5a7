#include "base/faults.h"

#include <cerrno>
#include <charconv>
#include <optional>

#include "base/utf8.h"

namespace steelyard {
namespace {

std::optional<int> errno_by_name(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    int number;
  } kNames[] = {
      {"ENOSPC", ENOSPC}, {"EIO", EIO},     {"EACCES", EACCES}, {"EROFS", EROFS},     {"EMLINK", EMLINK},
      {"EPERM", EPERM},   {"EXDEV", EXDEV}, {"EINVAL", EINVAL}, {"ENOTSUP", ENOTSUP}, {"ETIMEDOUT", ETIMEDOUT},
      {"EAGAIN", EAGAIN}, {"EBUSY", EBUSY}, {"ENOMEM", ENOMEM}, {"EINTR", EINTR},     {"EBADF", EBADF},
      {"ENOSYS", ENOSYS}};
  for (const auto& entry : kNames) {
    if (entry.name == name) return entry.number;
  }
  return std::nullopt;
}

Result<FaultRule> parse_rule(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument, "fault rule '" + printable(text) + "': " + std::string(why),
                  "rules are ACTION@POINT[#N], separated by commas");
  };
  const auto at = text.find('@');
  if (at == std::string_view::npos) return refuse("there is no @");
  const std::string_view action = text.substr(0, at);
  std::string_view point = text.substr(at + 1);
  FaultRule rule;
  if (const auto hash = point.find('#'); hash != std::string_view::npos) {
    const std::string_view number = point.substr(hash + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rule.at_pass);
    if (error != std::errc() || end != number.data() + number.size() || rule.at_pass == 0) {
      return refuse("after # stands the number of a pass, from 1");
    }
    point = point.substr(0, hash);
  }
  if (point.empty()) return refuse("the point is empty");
  if (point.ends_with('*')) {
    rule.prefix = true;
    point.remove_suffix(1);
  }
  rule.point = point;
  if (action == "kill" || action == "stop") {
    rule.action = action == "kill" ? FaultRule::Action::kKill : FaultRule::Action::kStop;
    if (rule.at_pass == 0) rule.at_pass = 1;
  } else if (action == "trace") {
    rule.action = FaultRule::Action::kTrace;
    rule.prefix = true;
    rule.point.clear();
    rule.at_pass = 0;
  } else {
    const auto number = errno_by_name(action);
    if (!number) return refuse("the action is not kill, stop, trace or a known errno name");
    rule.action = FaultRule::Action::kErrno;
    rule.error_number = *number;
  }
  return rule;
}

}  // namespace

Result<std::vector<FaultRule>> parse_fault_rules(std::string_view text) {
  std::vector<FaultRule> rules;
  for (;;) {
    const auto comma = text.find(',');
    SY_ASSIGN_OR_RETURN(FaultRule rule, parse_rule(text.substr(0, comma)));
    rules.push_back(std::move(rule));
    if (comma == std::string_view::npos) return rules;
    text.remove_prefix(comma + 1);
  }
}

std::vector<FaultRule> rules_acting_on(std::vector<FaultRule>& rules, std::string_view point) {
  std::vector<FaultRule> acting;
  for (FaultRule& rule : rules) {
    if (!rule.matches(point)) continue;
    ++rule.passes;
    if (rule.at_pass == 0 || rule.passes == rule.at_pass) acting.push_back(rule);
  }
  return acting;
}

}  // namespace steelyard
