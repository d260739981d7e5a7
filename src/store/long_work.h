// LongWork: what a reconciler begins and does not wait for, done one after another in a task of its own: it goes on
// with the operations of revisions, then moves what the policies ask for.
//
// Thread-safety: for one thread, beside which it works.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "store/context.h"
#include "store/placement.h"

namespace steelyard::store {

/// How long is waited before something that could not be done is tried again: at first, and at most.
inline constexpr std::int64_t kFirstPauseMs = 10'000;
inline constexpr std::int64_t kLongestPauseMs = 5 * 60'000;
struct BackOff {
  std::int64_t until_mono_ms = 0;
  std::int64_t length_ms = 0;  ///< twice as long each time
  void lengthen(std::int64_t now) {
    length_ms = std::clamp(2 * length_ms, kFirstPauseMs, kLongestPauseMs);
    until_mono_ms = now + length_ms;
  }
};

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
  /// Forgets why a move of the revision waits: there is a reason to try it at once.
  void try_again(const metadata::Identity& identity);
  /// When the policies are to be followed again though nothing changed: a cool-down ends, or it is time to try what
  /// could not be done once more. INT64_MAX: never, or they are about to be.
  std::int64_t follow_at_mono_ms();
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

  /// A move that could not be made is not tried again before its pause is over, whatever the plan says: each try is
  /// an operation, and wakes who watches.
  struct Pause : BackOff {
    Status why;
    bool tried = false;  ///< else memory had no room for it in the plan, which says at once when that is so no more
  };
  Status may_try(const metadata::Move& move);
  void pause(const metadata::Identity& identity, const ReconcileReport& report, std::int64_t now);

  Context& context_;
  Observer& observer_;
  CancelFlag stop_{false};
  std::mutex mutex_;
  std::set<metadata::Identity> looks_;
  std::optional<Asked> moves_;
  bool works_ = false;
  std::map<metadata::Identity, Pause> pauses_;
  std::optional<metadata::Identity> trying_;
  std::int64_t again_at_mono_ms_ = INT64_MAX;
  std::shared_ptr<Event> woken_;  ///< while it waits for something to do
  std::vector<Done> done_;
  std::unique_ptr<Task> task_;  ///< last: it uses the others
};

}  // namespace steelyard::store
