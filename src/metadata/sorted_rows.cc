#include "metadata/sorted_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace steelyard::metadata {
namespace {

using Row = SortedRows::Row;

constexpr std::size_t kBlockBytes = 256U << 10;

/// The first bytes of a key behind what all keys of its table share: most comparisons need no more.
struct Head {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint32_t row = 0;
};

/// Eight bytes of the key as a number in their order; behind its end zeros.
std::uint64_t head_of(std::string_view key, std::size_t at) {
  std::uint64_t head = 0;
  for (std::size_t end = at + sizeof head; at < end; ++at) {
    head = head << 8 | (at < key.size() ? static_cast<unsigned char>(key[at]) : 0U);
  }
  return head;
}

std::size_t shared_prefix(const std::vector<Row>& rows) {
  std::string_view shared = rows.front().key;
  for (const auto& [key, value] : rows) {
    const auto [end, unused] = std::mismatch(shared.begin(), shared.end(), key.begin(), key.end());
    shared = shared.substr(0, static_cast<std::size_t>(end - shared.begin()));
  }
  return shared.size();
}

bool before(const Row& a, const Row& b) { return a.key < b.key; }

/// Puts the rows of one table in order, behind `out`.
void append_sorted(const std::vector<Row>& rows, std::vector<Row>& out) {
  if (std::is_sorted(rows.begin(), rows.end(), before)) {
    out.insert(out.end(), rows.begin(), rows.end());
    return;
  }
  const std::size_t shared = shared_prefix(rows);
  std::vector<Head> heads(rows.size());
  for (std::uint32_t i = 0; i < heads.size(); ++i) {
    heads[i] = {head_of(rows[i].key, shared), head_of(rows[i].key, shared + sizeof(std::uint64_t)), i};
  }
  std::sort(heads.begin(), heads.end(), [&rows](const Head& a, const Head& b) {
    if (a.first != b.first) return a.first < b.first;
    if (a.second != b.second) return a.second < b.second;
    return rows[a.row].key < rows[b.row].key;
  });
  for (const Head& head : heads) out.push_back(rows[head.row]);
}

}  // namespace

std::size_t SortedRows::rank(std::string_view key) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(rows_, key, {}, &Row::key) - rows_.begin());
}

const SortedRows::Row* SortedRows::find(std::string_view key) const {
  const std::size_t at = rank(key);
  return at < rows_.size() && rows_[at].key == key ? &rows_[at] : nullptr;
}

std::string_view SortedRows::Builder::keep(std::string_view bytes) {
  if (bytes.size() > free_bytes_) {
    const std::size_t block = std::max(kBlockBytes, bytes.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    free_ = blocks_.back().get();
    free_bytes_ = block;
  }
  if (bytes.empty()) return {free_, 0};
  std::memcpy(free_, bytes.data(), bytes.size());
  const std::string_view kept(free_, bytes.size());
  free_ += bytes.size();
  free_bytes_ -= bytes.size();
  return kept;
}

void SortedRows::Builder::add(std::string_view key, std::string_view value) {
  tables_[key.empty() ? 0 : static_cast<unsigned char>(key.front())].push_back({key, value});
}

std::optional<SortedRows> SortedRows::Builder::finish() && {
  SortedRows sorted;
  std::size_t total = 0;
  for (const auto& rows : tables_) total += rows.size();
  sorted.rows_.reserve(total);
  for (auto& rows : tables_) {
    append_sorted(rows, sorted.rows_);
    rows = {};
  }
  const auto twice = [](const Row& a, const Row& b) { return a.key == b.key; };
  if (std::adjacent_find(sorted.rows_.begin(), sorted.rows_.end(), twice) != sorted.rows_.end()) return std::nullopt;
  sorted.blocks_ = std::move(blocks_);
  return sorted;
}

}  // namespace steelyard::metadata
