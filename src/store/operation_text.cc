#include "store/operation_text.h"

#include "base/units.h"
#include "base/utf8.h"
#include "metadata/rules.h"

namespace steelyard::store {

metadata::Operation ended_operation(const metadata::Operation& begun, metadata::OperationState state,
                                    const metadata::RevisionRecord& now) {
  if (const auto* retained = metadata::find_operation(now, begun.operation_id)) return *retained;
  metadata::Operation ended = begun;
  ended.state = state;
  return ended;
}

std::string text_kept_of(const Status& status) {
  constexpr std::size_t kBytesMax = 1000;
  std::string text = status.message().substr(0, kBytesMax);
  while (!is_valid_utf8(text)) text.pop_back();
  return text;
}

std::string_view verb_of(metadata::OperationKind kind) {
  switch (kind) {
    case metadata::OperationKind::kEvicting:
      return "evict";
    case metadata::OperationKind::kRehydrating:
      return "rehydrate";
    default:
      return "repair";
  }
}

std::string command_of(metadata::OperationKind kind, std::optional<std::uint32_t> ratio_millionths,
                       const std::string& ref) {
  std::string command = "steelyard " + std::string(verb_of(kind)) + " " + ref;
  if (metadata::moves_replicas(kind) && ratio_millionths) command += " --ratio " + format_ratio(*ratio_millionths);
  return command;
}

std::string command_of(const metadata::Operation& operation, const std::string& ref, const std::string& source) {
  std::string command = command_of(operation.kind, operation.ratio_millionths, ref);
  if (!source.empty()) command += " --source " + shell_word(source);
  return command;
}

}  // namespace steelyard::store
