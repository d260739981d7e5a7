// What makes damaged revisions whole again.
#include <fmt/format.h>

#include <algorithm>

#include "formats/identity.h"
#include "sim/checkpoints.h"
#include "sim/workload/calls.h"
#include "sim/workload/client.h"

namespace steelyard::sim {

Status Client::repair(const metadata::Identity& identity, bool with_source, bool wait) {
  const Revision& revision = *bench_.model.find(identity);
  store::RepairRequest request;
  request.target = selector_of(identity);
  if (with_source && revision.checkpoint) request.source = checkpoints()[*revision.checkpoint].path;
  request.wait = wait;
  Operation& operation = start(fmt::format("repair {}{}{}", text_of(identity),
                                           request.source.empty() ? "" : " --source", wait ? "" : " --no-wait"));
  operation.operates = true;
  const store::CancelFlag cancel{false};
  Deaf deaf;
  const auto answer = store_->repair(request, deaf, cancel);
  end(operation, answer.status());
  if (!alive()) return answer.status();
  if (answer.ok()) {
    bench_.model.shown(operation, answer->record);
  } else if (answer.code() == Code::kCorrupt && !bench_.model.may_be_damaged(revision)) {
    bench_.model.violated(
        fmt::format("repair of {} finds damage where none is: {}", text_of(identity), answer.status().to_string()));
  }
  return answer.status();
}

void Client::make_whole(const metadata::Identity& identity, std::int64_t patience_ms) {
  const Revision& revision = *bench_.model.find(identity);
  const std::vector<std::string> damaged = bench_.look_at(identity).damaged;
  const bool has_manifest = !std::ranges::binary_search(damaged, formats::manifest_key(identity));
  if (damaged.empty() || !has_manifest || !revision.checkpoint || !revision.readable()) return;
  // Who does not see the memory that the record names records no damage.
  const std::string& named = revision.now().hot_instance;
  if (has_hot() && !named.empty() && named != own_instance()) return;
  verify(identity).ignore("judged where it was answered");
  Status repaired = repair(identity, true, true);
  if (repaired.code() == Code::kBusy) {
    // The runner of a process that is gone without a proof: its token ends.
    process_.runtime().sleep_ms(patience_ms);
    repaired = repair(identity, true, true);
  }
  if (!repaired.ok()) {
    bench_.model.violated(fmt::format("{} cannot be repaired in peace: {}", text_of(identity), repaired.to_string()));
    return;
  }
  const std::vector<std::string> left = bench_.look_at(identity).damaged;
  if (!left.empty()) {
    bench_.model.violated(fmt::format("{} of {} is damaged after its repair", left.front(), text_of(identity)));
  }
  if (revision.now().availability != metadata::Availability::kReady || revision.now().operation) {
    bench_.model.violated(text_of(identity) + " is whole again and not READY");
  }
}

}  // namespace steelyard::sim
