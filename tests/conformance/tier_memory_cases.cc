// Mappings, replicas by operation and reservations. Tiers without the capability must refuse, so every case says
// something of every tier.
#include <algorithm>

#include "tests/conformance/tier_bench.h"

namespace steelyard::conformance {
namespace {

using tiers::AddressRange;

std::string operation(Bench& b) { return b.runtime().random_hex(16); }

ObjectName by(const std::string& operation, ObjectName name) {
  name.in.operation = operation;
  return name;
}

bool equal_bytes(ByteView found, ByteView expected) {
  return std::equal(found.begin(), found.end(), expected.begin(), expected.end());
}

/// True when the tier is one of those that refuse; then it did.
bool refuses_to_map(Bench& b) {
  if (b.tier().traits().mappable) return false;
  const auto bytes = b.random_bytes(4096);
  b.put(b.payload(0), bytes.span());
  const AddressRange range = AddressRange::reserve(4096).value();
  b.code(b.tier().map(b.payload(0), 4096, range, 0), Code::kInvalidArgument, "mapping an object of this tier");
  return true;
}

bool refuses_operations(Bench& b) {
  if (b.tier().traits().per_operation) return false;
  const auto bytes = b.random_bytes(100);
  const ObjectName name = by(operation(b), b.payload(0));
  b.code(b.try_put(name, bytes.span()).status(), Code::kInvalidArgument, "put under an operation");
  b.code(b.tier().stat(name).status(), Code::kInvalidArgument, "stat under an operation");
  b.code(b.tier().reserve(operation(b), 100).status(), Code::kInvalidArgument, "a reservation");
  b.that(b.tier().list_group(b.group())->by_operation.empty(), "no attempt is listed by operation");
  return true;
}

void runs_are_mapped_at_consecutive_addresses(Bench& b) {
  if (refuses_to_map(b)) return;
  const std::uint64_t sizes[] = {2 * kMiB, 2 * kMiB, kMiB, 12'345};
  const std::uint64_t total = 5 * kMiB + 12'345;
  const auto run = b.random_bytes(total);
  const AddressRange range = AddressRange::reserve(total).value();
  std::uint64_t offset = 0;
  std::uint32_t index = 0;
  for (const std::uint64_t bytes : sizes) {
    b.put(b.payload(index), run.span().subspan(offset, bytes));
    b.check(b.tier().map(b.payload(index++), bytes, range, offset));
    offset += bytes;
  }
  b.that(equal_bytes(range.view(0, total), run.span().first(total)), "a mapped run has other bytes");
  const auto past = range.view(total, range.size() - total);
  b.that(std::all_of(past.begin(), past.end(), [](std::byte value) { return value == std::byte{0}; }),
         "the rest of the last page is zero");
  // Another object may take the place of one.
  b.check(b.tier().map(b.payload(0), sizes[0], range, 2 * kMiB));
  b.that(equal_bytes(range.view(2 * kMiB, 2 * kMiB), run.span().first(2 * kMiB)), "mapped over another object");
}

void mappings_outlive_names_and_tiers(Bench& b) {
  if (refuses_to_map(b)) return;
  const auto bytes = b.random_bytes(kMiB);
  const auto others = b.random_bytes(kMiB);
  b.put(b.payload(0), bytes.span());
  const AddressRange range = AddressRange::reserve(2 * kMiB).value();
  {
    const auto other = b.reopen();
    b.check(other->map(b.payload(0), kMiB, range, 0));
    b.check(b.tier().remove_attempt(b.attempt()));
    b.check(other->stat(b.payload(1)).code() == Code::kNotFound ? Status() : Status(Code::kInternal, "stat"));
  }
  b.put(b.payload(0), others.span());
  b.check(b.tier().map(b.payload(0), kMiB, range, kMiB));
  b.that(equal_bytes(range.view(0, kMiB), bytes.span()), "the bytes of a removed object");
  b.that(equal_bytes(range.view(kMiB, kMiB), others.span()), "the bytes of the one that has its name now");
  AddressRange moved = AddressRange::reserve(4096).value();
  const auto small = b.random_bytes(4096);
  b.put(b.payload(1), small.span());
  b.check(b.tier().map(b.payload(1), 4096, moved, 0));
  const AddressRange kept = std::move(moved);
  b.that(equal_bytes(kept.view(0, 4096), small.span()), "a moved range keeps its mappings");
}

void maps_are_refused_where_they_do_not_fit(Bench& b) {
  if (refuses_to_map(b)) return;
  const auto bytes = b.random_bytes(10'000);
  const ByteView data = bytes.span().first(10'000);
  b.put(b.payload(0), data);
  const AddressRange range = AddressRange::reserve(16'384).value();
  b.check(b.tier().map(b.payload(0), 10'000, range, 4096));
  b.code(b.tier().map(b.payload(0), 10'001, range, 0), Code::kCorrupt, "an object of another size");
  b.code(b.tier().map(b.payload(0), 10'000, range, 100), Code::kInvalidArgument, "an offset inside a page");
  b.code(b.tier().map(b.payload(0), 10'000, range, 8192), Code::kInvalidArgument, "an object over the range's end");
  b.code(b.tier().map(b.payload(0), 10'000, range, 1 << 20), Code::kInvalidArgument, "an offset outside the range");
  b.code(b.tier().map(b.payload(0), UINT64_MAX, range, 0), Code::kInvalidArgument, "an endless object");
  b.code(b.tier().map(b.payload(1), 10'000, range, 0), Code::kNotFound, "an absent object");
  b.that(equal_bytes(range.view(4096, 10'000), data), "what was mapped before is still there");
  const AddressRange nothing = AddressRange::reserve(0).value();
  b.put(b.payload(2), ByteView());
  b.check(b.tier().map(b.payload(2), 0, nothing, 0));
}

void operations_are_apart(Bench& b) {
  if (refuses_operations(b)) return;
  const std::string first = operation(b);
  const std::string second = operation(b);
  const auto bytes = b.random_bytes(2 * kMiB);
  b.put(by(first, b.payload(0)), bytes.span());
  b.put(by(second, b.payload(0)), bytes.span(), PutOutcome::kLinked);
  b.put(by(second, b.payload(1)), bytes.span().first(4096));
  const auto listing = b.reopen()->list_group(b.group());
  b.check(listing.status());
  std::vector<AttemptName> expected = {by(first, b.payload(0)).in, by(second, b.payload(0)).in};
  std::sort(expected.begin(), expected.end());
  b.that(listing->by_operation == expected, "both operations are listed");
  b.that(listing->attempts.empty(), "no attempt without an operation is listed");
  b.absent(b.payload(0));
  // The runner of the first, thought dead, removes what it made, puts some of it again, and both are removed.
  b.check(b.tier().remove(by(first, b.payload(0))));
  b.holds(by(second, b.payload(0)), bytes.span());
  b.check(b.try_put(by(first, b.payload(1)), bytes.span().first(100)).status());
  b.holds(by(second, b.payload(1)), bytes.span().first(4096));
  b.code(b.tier().remove_group(b.group()), Code::kConflict, "removing a group that an operation's replicas are in");
  b.check(b.tier().remove_attempt(by(first, b.payload(0)).in));
  b.equal(b.tier().list_attempt(by(second, b.payload(0)).in)->size(), std::size_t{2},
          "objects of the second operation");
  b.check(b.tier().remove_attempt(by(second, b.payload(0)).in));
  b.check(b.tier().remove_group(b.group()));
  for (const char* bad : {"x", "../../../../../../etc", "0123456789ABCDEF0123456789ABCDEF"}) {
    b.code(b.try_put(by(bad, b.payload(0)), bytes.span().first(1)).status(), Code::kInvalidArgument, bad);
  }
}

void reservations_hold_space(Bench& b) {
  if (refuses_operations(b)) return;
  const auto other = b.reopen();
  const std::uint64_t before = *other->available_bytes();
  if (before < 8 * kMiB) b.skip("too little space for the case");
  const std::string own = operation(b);
  auto reservation = b.tier().reserve(own, 4 * kMiB);
  b.check(reservation.status());
  b.code(b.tier().reserve(own, 4096).status(), Code::kInvalidArgument, "a second reservation of one operation");
  b.that(*other->available_bytes() <= before - 4 * kMiB, "others see what is reserved");
  const Status refused = other->reserve(operation(b), before - kMiB).status();
  b.code(refused, Code::kNoSpace, "more than is left");
  b.that(!refused.hint().empty(), "the hint says what to do");
  const auto bytes = b.random_bytes(2 * kMiB);
  b.put(by(own, b.payload(0)), bytes.span());
  b.that(*other->available_bytes() <= before - 4 * kMiB, "a put takes from its reservation");
  {
    // A put that is given up gives its share back, and one that needs more than was reserved takes the rest.
    auto abandoned = b.tier().start_put(by(own, b.payload(1)), bytes.span(), b.digest(b.random_bytes(64).span()));
    b.check(abandoned.status());
  }
  const auto more = b.random_bytes(3 * kMiB);
  b.put(by(own, b.payload(2)), more.span());
  reservation->reset();
  b.check(b.tier().remove_attempt(by(own, b.payload(0)).in));
  b.code(other->reserve(operation(b), UINT64_MAX).status(), Code::kNoSpace, "more than there can be");
}

void an_instance_is_named(Bench& b) {
  const auto instance = b.tier().instance();
  b.check(instance.status());
  b.equal(instance->empty(), b.tier().traits().durable, "a durable tier has no instance");
  b.equal(*b.reopen()->instance(), *instance, "every process sees the same instance");
}

}  // namespace

std::vector<Case> memory_cases() {
  return {{"runs are mapped at consecutive addresses", runs_are_mapped_at_consecutive_addresses},
          {"mappings outlive names and tiers", mappings_outlive_names_and_tiers},
          {"maps are refused where they do not fit", maps_are_refused_where_they_do_not_fit},
          {"operations are apart", operations_are_apart},
          {"reservations hold space", reservations_hold_space},
          {"an instance is named", an_instance_is_named}};
}

}  // namespace steelyard::conformance
