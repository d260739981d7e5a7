#include "store/residency.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/units.h"
#include "store/evict.h"
#include "store/rehydrate.h"
#include "store/resolve.h"

namespace steelyard::store {
namespace {

using Step = Result<ResidencyResult> (*)(Context&, const ResidencyRequest&, Observer&, const CancelFlag&, Begin);

Result<ResidencyResult> in_order(Step first, Step second, Context& context, const ResidencyRequest& request,
                                 Observer& observer, const CancelFlag& cancel, Begin begin) {
  auto begun = first(context, request, observer, cancel, begin);
  if (!begun.ok() || !request.ratio_millionths || (!request.wait && begun->operation)) return begun;
  const bool nothing_hot =
      begun->record.residency != metadata::Residency::kHot && begun->record.residency != metadata::Residency::kMixed;
  // It was COLD, or others took everything out; and not where all that was in memory is outside the set.
  const bool took_it_out = begun->operation && begun->operation->kind == metadata::OperationKind::kEvicting;
  if (nothing_hot && !took_it_out) return begun;
  if (begin == Begin::kNothing && !begun->operation) return begun;
  ResidencyRequest rest = request;
  rest.target = selector_of(begun->record.identity);
  rest.expected_generation.reset();
  auto rested = second(context, rest, observer, cancel, Begin::kWhereNoneRuns);
  if (!rested.ok()) {
    if (begun->moved_objects == 0) return rested;
    const bool brought = begun->operation->kind == metadata::OperationKind::kRehydrating;
    const std::string done =
        fmt::format("{} {} memory before", counted(begun->moved_objects, "object"), brought ? "came into" : "left");
    const std::string& hint = rested.status().hint();
    return Status(rested.status()).with_hint(hint.empty() ? done : hint + "; " + done);
  }
  ResidencyResult done = std::move(rested).value();
  done.moved_objects += begun->moved_objects;
  done.removed_objects += begun->removed_objects;
  done.read_bytes += begun->read_bytes;
  done.evicted.insert(done.evicted.begin(), begun->evicted.begin(), begun->evicted.end());
  if (!done.operation) done.operation = std::move(begun->operation);
  return done;
}

}  // namespace

Result<ResidencyResult> run_rehydrate(Context& context, const ResidencyRequest& request, Observer& observer,
                                      const CancelFlag& cancel, Begin begin) {
  return in_order(rehydrate_only, evict_only, context, request, observer, cancel, begin);
}

Result<ResidencyResult> run_evict(Context& context, const ResidencyRequest& request, Observer& observer,
                                  const CancelFlag& cancel, Begin begin) {
  return in_order(evict_only, rehydrate_only, context, request, observer, cancel, begin);
}

}  // namespace steelyard::store
