#include "placement/columns.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "base/check.h"
#include "hash/xxh3.h"

namespace steelyard::placement {
namespace {

constexpr std::size_t kSlotsMin = 16;

/// Slots for a hash table that stays at most half full.
std::size_t slots_for(std::size_t entries) {
  std::size_t slots = kSlotsMin;
  while (slots < entries * 2) slots *= 2;
  return slots;
}

std::uint64_t hash_of(const ParallelRank& rank) {
  std::uint64_t hash = 0;
  for (const std::int64_t part : {rank.dp, rank.tp, rank.pp, rank.ep}) {
    hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

std::vector<std::string_view> StringLists::list(std::size_t row) const {
  std::vector<std::string_view> out(count(row));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = at(row, i);
  return out;
}

void StringLists::set(std::size_t row, std::span<const std::string_view> list) {
  if (list.empty()) return;
  SY_CHECK(row >= ends_.size(), "lists come in ascending order of their rows");
  ends_.resize(row, strings_.size());
  for (const std::string_view text : list) strings_.push_back(text);
  ends_.push_back(strings_.size());
}

std::size_t NamePool::slot_of(std::string_view name, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    const Slot& at = slots_[slot];
    if (at.number_plus_1 == 0) return slot;
    if (at.tag == tag && names_.at(at.number_plus_1 - 1) == name) return slot;
  }
}

void NamePool::rehash(std::size_t slots) {
  slots_.assign(slots, {});
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::uint64_t hash = hash::xxh3(as_bytes(names_.at(i)));
    std::size_t slot = hash & (slots - 1);
    while (slots_[slot].number_plus_1 != 0) slot = (slot + 1) & (slots - 1);
    slots_[slot] = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(i + 1)};
  }
}

void NamePool::reserve(std::size_t names, std::size_t text_bytes) {
  names_.reserve(names, text_bytes);
  if (slots_for(names) > slots_.size()) rehash(slots_for(names));
}

std::uint32_t NamePool::intern(std::string_view name) {
  if (slots_.size() < slots_for(names_.size() + 1)) rehash(slots_for(names_.size() + 1));
  const std::uint64_t hash = hash::xxh3(as_bytes(name));
  Slot& slot = slots_[slot_of(name, hash)];
  if (slot.number_plus_1 == 0) {
    SY_CHECK(names_.size() < UINT32_MAX - 1, "a pool holds less than 2^32 names");
    names_.push_back(name);
    slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(names_.size())};
  }
  return slot.number_plus_1 - 1;
}

std::optional<std::uint32_t> NamePool::find(std::string_view name) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[slot_of(name, hash::xxh3(as_bytes(name)))];
  if (slot.number_plus_1 == 0) return std::nullopt;
  return slot.number_plus_1 - 1;
}

std::optional<std::span<const std::int64_t>> TensorColumns::shard_dims(std::size_t row) const {
  if (!rows_[row].has_shard_dims) return std::nullopt;
  return shard_dims_.at(row);
}

TensorDescriptorRow TensorColumns::row(std::size_t row) const {
  return {.tensor_id = tensor_id(row),
          .global_shape = shape(row),
          .dtype = dtype(row),
          .itemsize = itemsize(row),
          .partition_dim = partition_dim(row),
          .layout_fingerprint = layout_fingerprint(row),
          .layer_id = layer_id(row),
          .expert_id = expert_id(row),
          .shard_dims = shard_dims(row)};
}

std::optional<std::size_t> TensorColumns::find(std::string_view tensor_id) const { return ids_.find(tensor_id); }

void TensorColumns::add(const TensorDescriptorRow& row) {
  SY_CHECK(ids_.intern(row.tensor_id) == rows_.size(), "a tensor is added once");
  shapes_.push_back(row.global_shape);
  shard_dims_.push_back(row.shard_dims.value_or(std::span<const std::int64_t>()));
  rows_.push_back({.itemsize = row.itemsize,
                   .partition_dim = row.partition_dim.value_or(-1),
                   .layer_id = row.layer_id.value_or(-1),
                   .expert_id = row.expert_id.value_or(-1),
                   .dtype = dtypes_.intern(row.dtype),
                   .layout = layouts_.intern(row.layout_fingerprint),
                   .has_shard_dims = row.shard_dims.has_value()});
}

void TensorColumns::reserve(std::size_t rows, std::size_t id_bytes) {
  ids_.reserve(rows, id_bytes);
  rows_.reserve(rows);
  shapes_.reserve(rows, rows * 2);
  shard_dims_.reserve(rows, rows);
}

void BoxColumns::reserve(std::size_t rows, std::size_t dimensions) {
  tensors_.reserve(rows);
  rank_numbers_.reserve(rows);
  nbytes_.reserve(rows);
  offsets_.reserve(rows, dimensions);
  shapes_.reserve(rows, dimensions);
}

std::uint32_t BoxColumns::number_of(const ParallelRank& rank) {
  // Neighbouring fragments often share their rank.
  if (!rank_numbers_.empty() && ranks_[rank_numbers_.back()] == rank) return rank_numbers_.back();
  const auto free_or_same = [&](const ParallelRank& wanted) {
    const std::size_t mask = rank_slots_.size() - 1;
    std::size_t slot = hash_of(wanted) & mask;
    while (rank_slots_[slot] != 0 && ranks_[rank_slots_[slot] - 1] != wanted) slot = (slot + 1) & mask;
    return slot;
  };
  if (rank_slots_.size() < slots_for(ranks_.size() + 1)) {
    rank_slots_.assign(slots_for(ranks_.size() + 1), 0);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      rank_slots_[free_or_same(ranks_[i])] = static_cast<std::uint32_t>(i + 1);
    }
  }
  std::uint32_t& slot = rank_slots_[free_or_same(rank)];
  if (slot == 0) {
    ranks_.push_back(rank);
    slot = static_cast<std::uint32_t>(ranks_.size());
  }
  return slot - 1;
}

void BoxColumns::add(std::uint32_t tensor, std::span<const std::int64_t> offset, std::span<const std::int64_t> shape,
                     std::uint64_t nbytes, const ParallelRank& rank, std::span<const std::string_view> aliases) {
  SY_CHECK(size() < UINT32_MAX - 1, "a manifest has less than 2^32 fragments");
  aliases_.set(size(), aliases);
  const std::uint32_t rank_number = number_of(rank);
  rank_numbers_.push_back(rank_number);
  tensors_.push_back(tensor);
  nbytes_.push_back(nbytes);
  offsets_.push_back(offset);
  shapes_.push_back(shape);
}

void BoxColumns::sort_ranks() {
  if (std::ranges::is_sorted(ranks_)) return;
  std::vector<std::uint32_t> order(ranks_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [this](std::uint32_t a, std::uint32_t b) { return ranks_[a] < ranks_[b]; });
  std::vector<std::uint32_t> number_of_old(ranks_.size());
  std::vector<ParallelRank> sorted(ranks_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    number_of_old[order[i]] = static_cast<std::uint32_t>(i);
    sorted[i] = ranks_[order[i]];
  }
  ranks_ = std::move(sorted);
  for (std::uint32_t& number : rank_numbers_) number = number_of_old[number];
  rank_slots_.clear();  // made again when a rank is added
}

void BoxColumns::renumber_tensors(std::span<const std::uint32_t> tensor_numbers) {
  for (std::uint32_t& tensor : tensors_) tensor = tensor_numbers[tensor];
}

BoxColumns BoxColumns::in_order(std::span<const std::uint32_t> order) const {
  BoxColumns out;
  out.reserve(order.size(), std::max(offsets_.value_count(), shapes_.value_count()));
  out.ranks_ = ranks_;
  for (const std::uint32_t row : order) {
    if (const std::size_t count = alias_count(row); count != 0) out.aliases_.set(out.size(), aliases(row));
    out.tensors_.push_back(tensors_[row]);
    out.rank_numbers_.push_back(rank_numbers_[row]);
    out.nbytes_.push_back(nbytes_[row]);
    out.offsets_.push_back(offsets_.at(row));
    out.shapes_.push_back(shapes_.at(row));
  }
  return out;
}

FragmentsOfTensors::FragmentsOfTensors(std::size_t tensors, const BoxColumns& boxes)
    : ends_(tensors), rows_(boxes.size()) {
  std::vector<std::uint32_t> next(tensors + 1);
  for (std::size_t i = 0; i < boxes.size(); ++i) ++next[boxes.tensor(i) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::copy(next.begin() + 1, next.end(), ends_.begin());
  for (std::size_t i = 0; i < boxes.size(); ++i) rows_[next[boxes.tensor(i)]++] = static_cast<std::uint32_t>(i);
  std::size_t begin = 0;
  for (const std::uint32_t end : ends_) {
    const auto rows = std::span(rows_).subspan(begin, end - begin);
    const auto less = [&boxes](std::uint32_t a, std::uint32_t b) {
      return std::pair(boxes.rank_number(a), a) < std::pair(boxes.rank_number(b), b);
    };
    if (!std::ranges::is_sorted(rows, less)) std::ranges::sort(rows, less);
    begin = end;
  }
}

void PlaceColumns::reserve(std::size_t rows) { addresses_.reserve(rows), rows_.reserve(rows); }

void PlaceColumns::add(const MemoryPlace& place, Owner owner) {
  // Neighbouring fragments nearly always lie in one memory.
  const auto number = [this](std::string_view name, std::uint32_t Row::*part) {
    if (!rows_.empty() && names_.at(rows_.back().*part) == name) return rows_.back().*part;
    return names_.intern(name);
  };
  const Row row{number(place.worker_id, &Row::worker), number(place.endpoint, &Row::endpoint),
                number(place.device, &Row::device)};
  if (owner != nullptr) {
    owners_.resize(size());
    owners_.push_back(std::move(owner));
  }
  rows_.push_back(row);
  addresses_.push_back(place.address);
}

PlaceColumns PlaceColumns::in_order(std::span<const std::uint32_t> order) const {
  PlaceColumns out;
  out.reserve(order.size());
  out.names_ = names_;
  if (!owners_.empty()) out.owners_.reserve(order.size());
  for (const std::uint32_t row : order) {
    out.addresses_.push_back(addresses_[row]);
    out.rows_.push_back(rows_[row]);
    if (!owners_.empty()) out.owners_.push_back(owner(row));
  }
  return out;
}

StringColumn in_order(const StringColumn& texts, std::span<const std::uint32_t> order) {
  StringColumn out;
  out.reserve(order.size(), texts.text_bytes());
  for (const std::uint32_t row : order) out.push_back(texts.at(row));
  return out;
}

std::optional<std::size_t> find_sorted(const StringColumn& texts, std::string_view wanted) {
  std::size_t first = 0;
  std::size_t last = texts.size();
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (texts.at(middle) < wanted) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  if (first == texts.size() || texts.at(first) != wanted) return std::nullopt;
  return first;
}

}  // namespace steelyard::placement
