// How the contracts say no: INVALID_ARGUMENT, the path of the field, the contract's words, then what was found.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace steelyard::placement {

/// Where a value stands: "fragments[17].local_shape[1]". The parts are joined only when there is something to say.
/// Views; lives on the stack of a check.
class Path {
 public:
  Path() = default;
  explicit Path(std::string_view field) : field_(field) {}
  Path(const Path* parent, std::string_view field) : parent_(parent), field_(field) {}
  Path(const Path* parent, std::size_t index) : parent_(parent), index_(index), indexed_(true) {}

  std::string text() const;
  /// The nearest name: "local_shape" of the path above.
  std::string_view name() const;

 private:
  const Path* parent_ = nullptr;
  std::string_view field_;
  std::size_t index_ = 0;
  bool indexed_ = false;
};

/// "<path>: <message>"; the message alone for an empty path.
Status contract_error(const Path& path, std::string_view message);

/// The contract's words about single values. `found` is shown behind them where it is not empty.
Status not_a_string(const Path& path);
Status not_an_integer(const Path& path, std::string_view found = {});
Status not_integers(const Path& path);
Status below_minimum(const Path& path, std::int64_t minimum, std::string_view found);
Status beyond_63_bits(const Path& path, std::string_view found);
Status beyond_64_bits(const Path& path, std::string_view found);

/// A text as messages show it: quoted, escaped, cut where it is very long.
std::string shown(std::string_view text);
std::string shown(std::span<const std::int64_t> numbers);

}  // namespace steelyard::placement
