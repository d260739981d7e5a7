#include "reshard/region_finder.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "base/checked.h"

namespace steelyard::reshard {
namespace {

std::uint64_t elements(std::span<const std::int64_t> extent) {
  std::uint64_t product = 1;
  for (const std::int64_t size : extent) product *= static_cast<std::uint64_t>(size);
  return product;
}

}  // namespace

Status RegionFinder::find(std::size_t target_fragment) {
  hits_.clear();
  dims_.clear();
  for (std::uint32_t piece = inputs_.target_piece_begin[target_fragment];
       piece < inputs_.target_piece_begin[target_fragment + 1]; ++piece) {
    const bool disjoint = inputs_.groups->disjoint(inputs_.target_pieces.tensor(piece));
    SY_RETURN_IF_ERROR(disjoint ? cover_disjoint(piece) : cover_overlapping(piece));
  }
  for (const Hit& hit : hits_) {
    const auto sum = checked_add(bytes_, hit.bytes);
    if (!sum) return Status(Code::kInvalidArgument, "the plan's bytes must fit in an unsigned 64-bit integer");
    bytes_ = *sum;
  }
  const auto in_memory_order = [](const Hit& a, const Hit& b) { return a.target_base < b.target_base; };
  if (!std::is_sorted(hits_.begin(), hits_.end(), in_memory_order)) {
    std::sort(hits_.begin(), hits_.end(), in_memory_order);
  }
  const std::uint32_t target_rank = inputs_.target->rank_number(target_fragment);
  for (Hit& hit : hits_) {
    if (hit.chosen) continue;
    hit.source_piece = choose(hit.group, target_rank).piece;
    rank_bytes_[inputs_.source->rank_number(inputs_.source_pieces.fragment(hit.source_piece))] += hit.bytes;
  }
  return {};
}

std::uint64_t RegionFinder::append_to(RegionTable& regions) const {
  std::uint64_t segments = 0;
  for (const Hit& hit : hits_) {
    const std::size_t rank = inputs_.target_pieces.rank(hit.target_piece);
    segments += regions.add(inputs_.source_pieces, hit.source_piece, inputs_.target_pieces, hit.target_piece,
                            {dims_.data() + hit.box, rank}, {dims_.data() + hit.box + rank, rank},
                            inputs_.tensors[inputs_.target_pieces.tensor(hit.target_piece)].itemsize);
  }
  return segments;
}

void RegionFinder::add_hit(std::uint32_t piece, std::uint32_t group, std::span<const std::int64_t> offset,
                           std::span<const std::int64_t> extent) {
  Hit hit;
  hit.target_base = byte_offset(inputs_.target_pieces, piece, offset);
  hit.bytes =
      elements(extent) * static_cast<std::uint64_t>(inputs_.tensors[inputs_.target_pieces.tensor(piece)].itemsize);
  hit.target_piece = piece;
  hit.group = group;
  hit.box = dims_.size();
  dims_.insert(dims_.end(), offset.begin(), offset.end());
  dims_.insert(dims_.end(), extent.begin(), extent.end());
  hits_.push_back(hit);
}

Status RegionFinder::cover_disjoint(std::uint32_t piece) {
  const auto offset = inputs_.target_pieces.offset(piece);
  const auto extent = inputs_.target_pieces.extent(piece);
  const BoxGroups& groups = *inputs_.groups;
  groups_.clear();
  groups.find(inputs_.target_pieces.tensor(piece), offset, extent, groups_);
  std::uint64_t covered = 0;
  offset_.resize(offset.size());
  extent_.resize(offset.size());
  for (const std::uint32_t group : groups_) {
    const auto from = groups.offset(group);
    const auto size = groups.extent(group);
    for (std::size_t d = 0; d < offset.size(); ++d) {
      offset_[d] = std::max(offset[d], from[d]);
      extent_[d] = std::min(offset[d] + extent[d], from[d] + size[d]) - offset_[d];
    }
    covered += elements(extent_);
    add_hit(piece, group, offset_, extent_);
  }
  // Disjoint and inside of the piece, so as many elements as it has are all of them.
  return covered == elements(extent) ? Status() : missing(piece);
}

Status RegionFinder::cover_overlapping(std::uint32_t piece) {
  const PieceTable& targets = inputs_.target_pieces;
  const BoxGroups& groups = *inputs_.groups;
  const std::uint32_t tensor = targets.tensor(piece);
  const std::uint32_t target_rank = inputs_.target->rank_number(targets.fragment(piece));
  const std::size_t rank = targets.rank(piece);
  const std::vector<std::int64_t> ones(rank, 1);
  // A heap of what is left, the box with the first element on top.
  const auto later = [](const geometry::Box& a, const geometry::Box& b) { return a.offset > b.offset; };
  std::vector<geometry::Box> left{{{targets.offset(piece).begin(), targets.offset(piece).end()},
                                   {targets.extent(piece).begin(), targets.extent(piece).end()}}};
  while (!left.empty()) {
    std::pop_heap(left.begin(), left.end(), later);
    geometry::Box part = std::move(left.back());
    left.pop_back();
    groups_.clear();
    groups.find(tensor, part.offset, ones, groups_);
    if (groups_.empty()) return missing(piece);
    std::uint32_t best_group = groups_[0];
    Candidate best = choose(best_group, target_rank);
    for (std::size_t i = 1; i < groups_.size(); ++i) {
      const Candidate other = choose(groups_[i], target_rank);
      if (other < best) best = other, best_group = groups_[i];
    }
    // The chosen box has the part's first element, so what it leaves lies behind it in one dimension after the other.
    geometry::Box rest = part;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t end = groups.offset(best_group)[d] + groups.extent(best_group)[d];
      const std::int64_t taken = std::min(part.extent[d], end - part.offset[d]);
      if (taken < part.extent[d]) {
        geometry::Box behind = rest;
        behind.offset[d] += taken;
        behind.extent[d] -= taken;
        left.push_back(std::move(behind));
        std::push_heap(left.begin(), left.end(), later);
      }
      rest.extent[d] = taken;
    }
    add_hit(piece, best_group, rest.offset, rest.extent);
    hits_.back().source_piece = best.piece;
    hits_.back().chosen = true;
    rank_bytes_[inputs_.source->rank_number(inputs_.source_pieces.fragment(best.piece))] += hits_.back().bytes;
  }
  return {};
}

RegionFinder::Candidate RegionFinder::choose(std::uint32_t group, std::uint32_t target_rank) const {
  const auto members = inputs_.groups->members(group);
  const bool balance = inputs_.options.choice == Choice::kBalance;
  const auto candidate = [&](std::uint32_t piece) {
    const std::uint32_t rank = inputs_.source->rank_number(inputs_.source_pieces.fragment(piece));
    Candidate out{piece, 0, balance ? rank_bytes_[rank] : rank};
    if (!inputs_.source_places.empty()) {
      const PlanInputs::Place& here = inputs_.target_places[target_rank];
      const PlanInputs::Place& there = inputs_.source_places[rank];
      const bool same_worker = here.worker != 0 && here.worker == there.worker;
      const bool same_endpoint = here.endpoint != 0 && here.endpoint == there.endpoint;
      out.distance = same_worker ? 0 : same_endpoint ? 1 : 2;
    }
    return out;
  };
  Candidate best = candidate(members[0]);
  // Members are in order of preference, so the first one is the best where nothing else counts.
  if (!balance && inputs_.source_places.empty()) return best;
  for (std::size_t i = 1; i < members.size(); ++i) best = std::min(best, candidate(members[i]));
  return best;
}

Status RegionFinder::missing(std::uint32_t piece) const {
  const PieceTable& targets = inputs_.target_pieces;
  const std::uint32_t tensor = targets.tensor(piece);
  const geometry::Box target{{targets.offset(piece).begin(), targets.offset(piece).end()},
                             {targets.extent(piece).begin(), targets.extent(piece).end()}};
  std::vector<std::uint32_t> near;
  inputs_.groups->find(tensor, target.offset, target.extent, near);
  std::vector<geometry::Box> sources;
  for (const std::uint32_t group : near) {
    const auto offset = inputs_.groups->offset(group);
    const auto extent = inputs_.groups->extent(group);
    sources.push_back({{offset.begin(), offset.end()}, {extent.begin(), extent.end()}});
  }
  const geometry::Box first = geometry::missing(target, sources).front();
  return Status(Code::kInvalidArgument,
                "tensor \"" + std::string(inputs_.tensors[tensor].id) + "\", target fragment \"" +
                    inputs_.target->fragment_id(targets.fragment(piece)) + "\": no source fragment covers " +
                    box_text(first.offset, first.extent) + ", the first missing box",
                "give the planner the manifest of every source rank that holds a part of this tensor");
}

}  // namespace steelyard::reshard
