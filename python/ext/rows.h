// Rows of the contracts out of Python: dataclass instances, their dicts, or an adapter's records, all by one reader per
// type; and the facade's dataclasses out of rows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ext/convert.h"
#include "placement/inventory.h"
#include "placement/types.h"

namespace steelyard::python {

/// Where fields come from.
class Fields {
 public:
  virtual ~Fields() = default;
  /// The field must exist.
  virtual nb::object get(nb::handle name) const = 0;
  /// None where it does not exist.
  virtual nb::object find(nb::handle name) const = 0;
};

/// The attributes of an object of the facade.
class ObjectFields final : public Fields {
 public:
  explicit ObjectFields(nb::handle object) : object_(object) {}
  nb::object get(nb::handle name) const override;
  nb::object find(nb::handle name) const override { return get(name); }

 private:
  nb::handle object_;
};

/// A dict with all fields.
class DictFields final : public Fields {
 public:
  explicit DictFields(nb::handle dict) : dict_(dict) {}
  nb::object get(nb::handle name) const override;
  nb::object find(nb::handle name) const override { return get(name); }

 private:
  nb::handle dict_;
};

/// What an adapter gives: a Mapping, or an object with attributes. "missing required field: X" at `path`.
class RecordFields final : public Fields {
 public:
  RecordFields(nb::handle record, const Path& path);
  nb::object get(nb::handle name) const override;
  nb::object find(nb::handle name) const override { return lookup(name, false); }

 private:
  nb::object lookup(nb::handle name, bool required) const;
  nb::handle record_;
  const Path& path_;
  bool mapping_;
};

/// Rows with the memory that they point into. They are filled again and again: capacity is kept.
struct TensorReader {
  placement::TensorDescriptorRow row;

  void read(const Fields& fields, const Path& path);

 private:
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> shard_dims_;
  nb::object keep_[3];
};

class RankReader {
 public:
  /// A ParallelRank. The last one is remembered: neighbours mostly share theirs.
  const placement::ParallelRank& read(nb::handle value, const Path& path);
  /// The rank of a record, which may be a mapping.
  const placement::ParallelRank& read_record(nb::handle value, const Path& path);

 private:
  void read_fields(const Fields& fields, const Path& path);
  nb::object last_;
  placement::ParallelRank rank_;
};

/// The fields that placed and runtime fragments have in common.
class BoxReader {
 public:
  template <typename Row>
  void read(const Fields& fields, const Path& path, bool record, Row& row);

 private:
  std::vector<std::int64_t> offset_;
  std::vector<std::int64_t> shape_;
  RankReader rank_;
  nb::object keep_[2];
};

struct PlacementFragmentReader {
  placement::PlacementFragmentRow row;

  void read(const Fields& fields, const Path& path, bool record = false);

 private:
  BoxReader box_;
  nb::object keep_;
};

struct RuntimeFragmentReader {
  placement::RuntimeFragmentRow row;

  void read(const Fields& fields, const Path& path, bool record = false);

 private:
  BoxReader box_;
  nb::object keep_[5];
};

struct BindingFragmentReader {
  placement::BindingFragmentRow row;

  void read(const Fields& fields, const Path& path, bool record = false);

 private:
  nb::object keep_[5];
};

struct AllocationReader {
  placement::AllocationFacts facts;

  /// `whole`: stride and offsets are required (runtime records).
  void read(const Fields& fields, const Path& path, bool whole);

 private:
  std::vector<std::int64_t> stride_;
  nb::object keep_;
};

/// A Python object as an owner, and back; None is no owner.
placement::Owner to_owner(nb::handle object);
nb::object to_python(const placement::Owner& owner);

/// Instances of the facade's frozen dataclasses from rows that a manifest holds: nothing is checked again.
nb::object to_python(const placement::ParallelRank& rank);
nb::object to_python(const placement::TensorDescriptorRow& row);
nb::object to_python(const placement::PlacementFragmentRow& row, nb::handle rank);
nb::object to_python(const placement::RuntimeFragmentRow& row, nb::handle rank);
nb::object to_python(const placement::BindingFragmentRow& row);

}  // namespace steelyard::python
