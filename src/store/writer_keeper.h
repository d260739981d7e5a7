// WriterKeeper: renews an import's writer token while it works, and gives it back when it ends without Commit.
#pragma once

#include <memory>

#include "catalog/catalog.h"
#include "store/stop_signal.h"

namespace steelyard::store {

/// The token is not this writer's any more, or the revision is not to be imported: an answer of the rules, not a log
/// that cannot be reached now.
bool is_lost(const Status& renewed);

/// Renews at a quarter of the time to live. A lost token stops the import through `stop`.
class WriterKeeper {
 public:
  WriterKeeper(Runtime& runtime, catalog::Catalog& catalog, metadata::RenewWeightImport token, std::int64_t ttl_ms,
               StopSignal& stop);
  ~WriterKeeper();  ///< stops renewing; gives the token back unless committed() was called

  void committed() { give_back_ = false; }

 private:
  void renew_until_ended(std::int64_t every_ms);

  Runtime& runtime_;
  catalog::Catalog& catalog_;
  const metadata::RenewWeightImport token_;
  StopSignal& stop_;
  bool give_back_ = true;
  std::unique_ptr<Event> ended_;
  std::unique_ptr<Task> task_;
};

}  // namespace steelyard::store
