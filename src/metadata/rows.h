// Decoded rows of a range of keys.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metadata/keys.h"
#include "metadata/state.h"

namespace steelyard::metadata {

/// The values of all rows whose keys begin with `prefix`, in key order.
template <typename Value>
Result<std::vector<Value>> rows_under(const StateView& view, const std::string& prefix,
                                      Result<Value> (*decode)(std::string_view)) {
  std::vector<Value> values;
  Status failed;
  SY_RETURN_IF_ERROR(
      view.scan(prefix, keys::after_prefix(prefix), false, [&](std::string_view /*key*/, std::string_view row) {
        Result<Value> value = decode(row);
        if (!value.ok()) {
          failed = std::move(value).status();
          return false;
        }
        values.push_back(std::move(value).value());
        return true;
      }));
  SY_RETURN_IF_ERROR(failed);
  return values;
}

}  // namespace steelyard::metadata
