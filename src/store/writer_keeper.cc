#include "store/writer_keeper.h"

#include <utility>

#include "base/workers.h"

namespace steelyard::store {

bool is_lost(const Status& renewed) {
  const Code code = renewed.code();
  return code == Code::kStaleGeneration || code == Code::kNotFound || code == Code::kNotReady ||
         code == Code::kConflict;
}

WriterKeeper::WriterKeeper(Runtime& runtime, catalog::Catalog& catalog, metadata::RenewWeightImport token,
                           std::int64_t ttl_ms, StopSignal& stop)
    : runtime_(runtime), catalog_(catalog), token_(std::move(token)), stop_(stop), ended_(runtime.make_event()) {
  auto task = try_spawn(runtime_, "writer-renewal", [this, every_ms = ttl_ms / 4] { renew_until_ended(every_ms); });
  if (task.ok()) {
    task_ = std::move(task).value();
  } else {
    stop_.fail(task.status());
  }
}

WriterKeeper::~WriterKeeper() {
  ended_->set();
  if (task_) task_->join();
  if (!give_back_) return;
  catalog_
      .release_weight_import(
          {.identity = token_.identity, .token = token_.token, .import_attempt = token_.import_attempt})
      .ignore("the token ends by itself after its time to live");
}

void WriterKeeper::renew_until_ended(std::int64_t every_ms) {
  while (!ended_->wait_until(runtime_.mono_ms() + every_ms)) {
    const auto renewed = catalog_.renew_weight_import(token_);
    // Only an answer of the rules ends the import; a log that cannot be reached now is tried again in time.
    const Status gone = renewed.ok() ? Status() : catalog_.check_place();
    if (is_lost(renewed.status()) || !gone.ok()) {
      stop_.fail(gone.ok() ? renewed.status() : gone);
      return;
    }
  }
}

}  // namespace steelyard::store
