#include "formats/tensor_table.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace steelyard::formats {

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
  std::vector<std::uint32_t> order(size());
  SY_CHECK(size() <= UINT32_MAX, "a tensor table has less than 2^32 rows");
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return names_.at(a) < names_.at(b); });
  TensorTable sorted;
  sorted.reserve(size(), names_.text_bytes());
  sorted.dims_.reserve(dims_.size());
  for (const std::uint32_t index : order) sorted.add(row(index));
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
