#include "formats/tensor_table.h"

#include <algorithm>

#include "base/check.h"

namespace steelyard::formats {
namespace {

/// The first eight bytes, big-endian, with zeros after a shorter text: orders as the bytes do, but for texts that
/// differ only after them or in zeros at the end.
std::uint64_t leading_bytes(std::string_view text) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0U);
  }
  return value;
}

}  // namespace

std::string_view StringColumn::at(std::size_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(text_).substr(begin, ends_[index] - begin);
}

void StringColumn::push_back(std::string_view text) {
  text_.append(text);
  ends_.push_back(text_.size());
}

void StringColumn::reserve(std::size_t strings, std::size_t text_bytes) {
  ends_.reserve(strings);
  text_.reserve(text_bytes);
}

std::uint32_t StringPool::intern(std::string_view text) {
  // Neighbouring tensors nearly always share their dtype and layout.
  if (last_ < strings_.size() && strings_.at(last_) == text) return last_;
  const auto [found, added] = numbers_.try_emplace(std::string(text), static_cast<std::uint32_t>(strings_.size()));
  if (added) strings_.push_back(text);
  last_ = found->second;
  return last_;
}

std::span<const std::int64_t> TensorTable::shape(std::size_t index) const {
  const std::uint64_t begin = index == 0 ? 0 : dims_end_[index - 1];
  return std::span(dims_).subspan(begin, dims_end_[index] - begin);
}

std::pair<std::size_t, std::size_t> TensorTable::alias_range(std::size_t index) const {
  if (index >= aliases_end_.size()) return {0, 0};
  return {index == 0 ? 0 : aliases_end_[index - 1], aliases_end_[index]};
}

TensorRow TensorTable::row(std::size_t index) const {
  SY_CHECK(index < size(), "no such row in the tensor table");
  const Facts& facts = facts_[index];
  TensorRow row;
  row.tensor_id = names_.at(index);
  row.dtype = dtypes_.at(facts.dtype);
  row.shape = shape(index);
  row.layout_fingerprint = layouts_.at(facts.layout);
  if (facts.has_place) row.place = TensorPlace{facts.run, facts.offset, facts.bytes};
  if (facts.has_layer) row.layer_id = layers_[index];
  if (facts.has_expert) row.expert_id = experts_[index];
  const auto [first, last] = alias_range(index);
  row.aliases.reserve(last - first);
  for (std::size_t i = first; i < last; ++i) row.aliases.push_back(aliases_.at(i));
  return row;
}

void TensorTable::add(const TensorRow& row) {
  const std::size_t index = size();
  sorted_ = sorted_ && (index == 0 || names_.at(index - 1) <= row.tensor_id);
  Facts facts;
  facts.dtype = dtypes_.intern(row.dtype);
  facts.layout = layouts_.intern(row.layout_fingerprint);
  if (row.place) {
    facts.has_place = true;
    facts.run = row.place->run;
    facts.offset = row.place->offset;
    facts.bytes = row.place->bytes;
  }
  if (row.layer_id) {
    facts.has_layer = true;
    layers_.resize(index + 1);
    layers_[index] = *row.layer_id;
  }
  if (row.expert_id) {
    facts.has_expert = true;
    experts_.resize(index + 1);
    experts_[index] = *row.expert_id;
  }
  if (!row.aliases.empty()) {
    aliases_end_.resize(index, aliases_.size());
    for (const std::string_view alias : row.aliases) aliases_.push_back(alias);
    aliases_end_.push_back(aliases_.size());
  }
  names_.push_back(row.tensor_id);
  dims_.insert(dims_.end(), row.shape.begin(), row.shape.end());
  dims_end_.push_back(dims_.size());
  facts_.push_back(facts);
}

void TensorTable::reserve(std::size_t rows, std::size_t name_bytes) {
  names_.reserve(rows, name_bytes);
  facts_.reserve(rows);
  dims_end_.reserve(rows);
}

void TensorTable::sort() {
  if (sorted_) return;
  SY_CHECK(size() <= UINT32_MAX, "a tensor table has less than 2^32 rows");
  // Names of one checkpoint begin alike. The eight bytes after what all have in common, as one number, decide most
  // comparisons without a visit to the names.
  std::string_view common = names_.at(0);
  for (std::size_t i = 1; i < size(); ++i) {
    const std::string_view name = names_.at(i);
    const auto differs = std::ranges::mismatch(common, name).in1;
    common = common.substr(0, static_cast<std::size_t>(differs - common.begin()));
  }
  struct Key {
    std::uint64_t begin = 0;
    std::uint32_t row = 0;
  };
  std::vector<Key> order(size());
  for (std::size_t i = 0; i < size(); ++i) {
    order[i] = {leading_bytes(names_.at(i).substr(common.size())), static_cast<std::uint32_t>(i)};
  }
  std::ranges::sort(order, [this](const Key& a, const Key& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    const int names = names_.at(a.row).compare(names_.at(b.row));
    return names != 0 ? names < 0 : a.row < b.row;
  });
  TensorTable sorted;
  sorted.reserve(size(), names_.text_bytes());
  sorted.dims_.reserve(dims_.size());
  for (const Key& key : order) sorted.add(row(key.row));
  *this = std::move(sorted);
}

std::optional<std::size_t> TensorTable::find(std::string_view tensor_id) const {
  SY_CHECK(sorted_, "find needs a sorted tensor table");
  std::size_t first = 0;
  std::size_t last = size();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (names_.at(middle) < tensor_id) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  if (first == size() || names_.at(first) != tensor_id) return std::nullopt;
  return first;
}

bool TensorTable::operator==(const TensorTable& other) const {
  if (size() != other.size()) return false;
  for (std::size_t i = 0; i < size(); ++i) {
    const TensorRow a = row(i);
    const TensorRow b = other.row(i);
    if (a.tensor_id != b.tensor_id || a.dtype != b.dtype || !std::ranges::equal(a.shape, b.shape) ||
        a.layout_fingerprint != b.layout_fingerprint || a.place != b.place || a.layer_id != b.layer_id ||
        a.expert_id != b.expert_id || a.aliases != b.aliases) {
      return false;
    }
  }
  return true;
}

}  // namespace steelyard::formats
