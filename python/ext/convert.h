// From Python values to the values of the contracts, and back: the rules of docs/python.md about strings, integers and
// sequences stand here, once. All functions want the GIL.
//
// Every refusal is a steelyard.model_weight.ContractError, thrown as a C++ exception that nanobind hands to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "placement/errors.h"

namespace steelyard::python {

namespace nb = nanobind;
using placement::Path;

/// `dict[str, Any]` in the stubs.
using FieldDict = nb::typed<nb::dict, nb::str, nb::any>;

/// Throws the ContractError that says what `status` says.
[[noreturn]] void raise(const Status& status);
inline void check(const Status& status) {
  if (!status.ok()) [[unlikely]]
    raise(status);
}
template <typename T>
T unwrap(Result<T>&& result) {
  if (!result.ok()) [[unlikely]]
    raise(result.status());
  return std::move(result).value();
}

/// The names of fields and classes, made once.
struct Names {
  nb::object tensor_id, global_shape, dtype, itemsize, partition_dim, layout_fingerprint, layer_id, expert_id,
      shard_dims;
  nb::object placement_fragment_id, fragment_id, global_offset, local_shape, nbytes, rank, aliases;
  nb::object address, worker_id, endpoint, device, lease_generation, owner;
  nb::object dp, tp, pp, ep;
  nb::object model_id, revision, tensors, fragments, placement_id, placement_digest, instance_id, generation, lease_id;
  nb::object is_contiguous, stride, storage_offset, byte_offset, address_semantics;
};
const Names& names();

/// A class of the facade, as `steelyard.model_weight` exports it.
nb::handle facade(const char* name);

/// Text of a `str` itself that is not empty. It lives as long as `value`.
std::string_view text(nb::handle value, const Path& path);
std::optional<std::string_view> optional_text(nb::handle value, const Path& path);

/// An int, or whatever has __index__, but never a bool. Beyond 63 bits it is refused; the caller checks the rest.
std::int64_t integer(nb::handle value, const Path& path);
std::optional<std::int64_t> optional_integer(nb::handle value, const Path& path);
/// The same for unsigned 64-bit integers of at least `minimum`.
std::uint64_t unsigned_integer(nb::handle value, std::int64_t minimum, const Path& path);

/// A sequence of integers that has an order: any Sequence but text, or a one-dimensional integer array.
void integers(nb::handle value, const Path& path, std::vector<std::int64_t>& out);

/// A tuple of the items of any Sequence but text; "<owner> <field> must be a sequence" otherwise.
nb::object item_sequence(nb::handle value, std::string_view owner, const Path& path);

/// Texts of a sequence; `keep` holds what they live in.
void texts(nb::handle value, const Path& path, std::vector<std::string_view>& out, nb::object& keep);

nb::object to_python(std::string_view text);
nb::object to_python(std::int64_t value);
nb::object to_python(std::uint64_t value);
nb::object to_python(std::span<const std::int64_t> values);
nb::object to_python(std::span<const std::string_view> values);
template <typename T>
nb::object to_python(const std::optional<T>& value) {
  return value ? to_python(*value) : nb::none();
}

}  // namespace steelyard::python
