// Cat: one file's bytes, verified, in order.
#pragma once

#include <functional>

#include "store/context.h"

namespace steelyard::store {

Status run_cat(Context& context, const CatRequest& request, const std::function<Status(ByteView)>& sink,
               const CancelFlag& cancel);

}  // namespace steelyard::store
