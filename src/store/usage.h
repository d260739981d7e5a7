// usage: how many bytes each revision takes in the cold tier, shared ones told apart, and how full the tiers are.
#pragma once

#include <string>

#include "store/context.h"
#include "store/store.h"

namespace steelyard::store {

Result<UsageReport> run_usage(Context& context, const std::string& tenant_id, const std::string& namespace_id);

}  // namespace steelyard::store
