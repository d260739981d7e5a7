// LongWork: what a reconciler begins and does not wait for, done one after another in a task of its own: it goes on
// with the operations of revisions, then moves what the policies ask for.
//
// Thread-safety: for one thread, beside which it works.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "store/context.h"
#include "store/placement.h"

namespace steelyard::store {

class LongWork {
 public:
  LongWork(Context& context, Observer& observer) : context_(context), observer_(observer) {}
  /// Stops what is under way, which whoever comes next goes on with, and waits for that.
  ~LongWork();
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;

  /// What is asked for while it waits for its turn is done once. UNAVAILABLE where there is no thread for it.
  Status go_on_with(const std::set<metadata::Identity>& revisions);
  Status follow(const Asked& asked);
  /// Whether nothing is under way, or waits for its turn, or to be taken.
  bool idle();

  struct Done {
    enum class What { kLook, kMove, kAllMoves };
    What what = What::kLook;
    metadata::Identity identity = {};  ///< not of kAllMoves
    ReconcileReport report = {};       ///< of kLook and kMove
    Asked asked = {};                  ///< of kAllMoves: all moves of these were made, and are done before it
    Status status = {};                ///< why it could not be done
  };
  std::vector<Done> take();

 private:
  Status start();
  void work();
  void look_at(const metadata::Identity& identity);
  void make_moves(const Asked& asked);
  void done(Done one);

  Context& context_;
  Observer& observer_;
  CancelFlag stop_{false};
  std::mutex mutex_;
  std::set<metadata::Identity> looks_;
  std::optional<Asked> moves_;
  bool works_ = false;
  std::shared_ptr<Event> woken_;  ///< while it waits for something to do
  std::vector<Done> done_;
  std::unique_ptr<Task> task_;  ///< last: it uses the others
};

}  // namespace steelyard::store
