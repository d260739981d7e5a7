#include "tests/conformance/tier_conformance.h"

#include <algorithm>
#include <optional>

#include "tests/conformance/tier_bench.h"

namespace steelyard::conformance {
namespace {

void put_reads_back(Bench& b) {
  std::uint32_t index = 0;
  const std::uint64_t big = b.subject().object_bytes;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{511}, std::uint64_t{4096},
                                    std::uint64_t{4097}, kMiB - 1, kMiB, kMiB + 1, big - 1, big}) {
    const auto buffer = b.random_bytes(bytes);
    const ByteView data = buffer.span().first(bytes);
    // Nothing at all is content that others may share.
    const auto outcome = b.try_put(b.payload(index), data);
    b.check(outcome.status());
    b.that(bytes == 0 || *outcome == PutOutcome::kWritten, "new bytes are written");
    b.holds(b.payload(index++), data);
  }
  b.check(b.tier().flush(b.attempt()));
  b.equal(b.tier().list_attempt(b.attempt())->size(), std::size_t{index}, "objects listed");
}

void unaligned_memory_is_put(Bench& b) {
  const auto buffer = b.random_bytes(5 * kMiB);
  const ByteView data = buffer.span().subspan(13, 5 * kMiB - 100);
  b.put(b.payload(0), data);
  b.holds(b.payload(0), data);
}

void put_is_create_only(Bench& b) {
  for (const std::uint64_t bytes : {std::uint64_t{100}, 2 * kMiB}) {
    const auto first = b.random_bytes(bytes);
    const auto other = b.random_bytes(bytes);
    const auto index = static_cast<std::uint32_t>(bytes);
    b.put(b.payload(index), first.span());
    b.put(b.payload(index), first.span(), PutOutcome::kExisted);
    b.code(b.try_put(b.payload(index), other.span()).status(), Code::kConflict, "put of other bytes");
    b.code(b.try_put(b.payload(index), first.span().first(bytes / 2)).status(), Code::kConflict, "put of fewer bytes");
    b.holds(b.payload(index), first.span());
  }
}

void manifest_is_an_object_apart(Bench& b) {
  const auto bytes = b.random_bytes(3000);
  b.put(b.manifest(), bytes.span());
  b.put(b.manifest(), bytes.span(), PutOutcome::kExisted);
  b.holds(b.manifest(), bytes.span());
  b.absent(b.payload(0));
  b.check(b.tier().flush(b.attempt()));
  // A manifest is not indexed by content.
  const auto linked = b.tier().link(b.payload(0), b.digest(bytes.span()), bytes.size());
  b.check(linked.status());
  b.that(!*linked, "a manifest's bytes were found by content");
}

void abandoned_put_leaves_nothing(Bench& b) {
  const auto bytes = b.random_bytes(3 * kMiB);
  const Digest digest = b.digest(bytes.span());
  b.check(b.tier().start_put(b.payload(0), bytes.span(), digest).status());
  {
    auto stream = b.tier().open_put(b.payload(1), bytes.size(), digest);
    b.check(stream.status());
    b.check((*stream)->append(bytes.span().first(kMiB)));
  }
  b.absent(b.payload(0));
  b.absent(b.payload(1));
  b.equal(b.tier().list_attempt(b.attempt())->size(), std::size_t{0}, "objects listed");
  b.that(!*b.tier().link(b.payload(2), digest, bytes.size()), "an abandoned put's content was found");
}

void pending_put_is_not_visible(Bench& b) {
  const auto bytes = b.random_bytes(2 * kMiB);
  auto put = b.tier().start_put(b.payload(0), bytes.span(), b.digest(bytes.span()));
  b.check(put.status());
  b.absent(b.payload(0));
  b.check((*put)->finish().status());
  b.holds(b.payload(0), bytes.span());
}

void streams_write_in_pieces(Bench& b) {
  std::uint32_t index = 0;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{10}, kMiB + 7, b.subject().object_bytes - 5}) {
    const auto buffer = b.random_bytes(bytes);
    const ByteView data = buffer.span().first(bytes);
    auto stream = b.tier().open_put(b.payload(index), bytes, b.digest(data));
    b.check(stream.status());
    for (std::uint64_t at = 0; at < bytes;) {
      const std::uint64_t step = std::min<std::uint64_t>(700'001, bytes - at);
      b.check((*stream)->append(data.subspan(at, step)));
      at += step;
    }
    b.check((*stream)->finish().status());
    b.holds(b.payload(index++), data);
  }
}

void streams_count_their_bytes(Bench& b) {
  for (const std::uint64_t bytes : {std::uint64_t{1000}, 2 * kMiB}) {
    const auto buffer = b.random_bytes(bytes);
    const Digest digest = b.digest(buffer.span());
    const ByteView data = buffer.span().first(bytes);
    auto shorter = b.tier().open_put(b.payload(0), bytes, digest);
    b.check(shorter.status());
    b.check((*shorter)->append(data.first(bytes - 1)));
    b.code((*shorter)->finish().status(), Code::kCorrupt, "a stream with too few bytes");
    auto longer = b.tier().open_put(b.payload(0), bytes, digest);
    b.check(longer.status());
    b.check((*longer)->append(data));
    b.code((*longer)->append(data.first(1)), Code::kCorrupt, "a stream with too many bytes");
    longer->reset();
    b.absent(b.payload(0));
  }
}

void equal_content_is_linked(Bench& b) {
  for (const std::uint64_t bytes : {std::uint64_t{5000}, 2 * kMiB}) {
    const auto buffer = b.random_bytes(bytes);
    const ByteView data = buffer.span().first(bytes);
    const Digest digest = b.digest(data);
    const auto index = static_cast<std::uint32_t>(bytes % 1000);
    b.that(!*b.tier().link(b.payload(index), digest, bytes), "content was found before it was put");
    b.put(b.payload(index), data);
    b.check(b.tier().flush(b.attempt()));
    b.that(*b.tier().link(b.payload(index, 2), digest, bytes), "flushed content was not found");
    b.that(*b.tier().link(b.payload(index, 2), digest, bytes), "linking twice");
    b.put(b.payload(index + 1, 2), data, PutOutcome::kLinked);
    b.holds(b.payload(index, 2), data);
    b.that(!*b.tier().link(b.payload(index + 2, 2), digest, bytes + 1), "content of another size was linked");
    const auto other = b.random_bytes(bytes);
    const auto conflict = b.tier().link(b.payload(index, 2), b.digest(other.span().first(bytes)), bytes);
    b.code(conflict.status(), Code::kConflict, "linking other content to an existing name");
    // The bytes live as long as one name does.
    b.check(b.tier().remove(b.payload(index)));
    b.holds(b.payload(index, 2), data);
    b.check(b.tier().flush(b.attempt(2)));
  }
}

void content_is_found_by_other_processes(Bench& b) {
  const auto bytes = b.random_bytes(2 * kMiB);
  b.put(b.payload(0), bytes.span());
  const auto other = b.reopen();
  b.that(*other->link(b.payload(0, 2), b.digest(bytes.span()), bytes.size()), "content of another process");
  b.holds(*other, b.payload(0, 2), bytes.span());
  b.check(other->flush(b.attempt()));  // covers what the first process put
  b.check(other->flush(b.attempt(2)));
}

void attempts_are_apart(Bench& b) {
  const auto first = b.random_bytes(1000);
  const auto second = b.random_bytes(2000);
  b.put(b.payload(0, 1), first.span().first(1000));
  b.put(b.payload(0, 2), second.span().first(2000));
  b.holds(b.payload(0, 1), first.span().first(1000));
  b.check(b.tier().remove_attempt(b.attempt(1)));
  b.absent(b.payload(0, 1));
  b.holds(b.payload(0, 2), second.span().first(2000));
}

void late_steps_are_harmless(Bench& b) {
  // A writer thought dead goes on after its attempt was removed and another one committed.
  const auto dead = b.reopen();
  const auto bytes = b.random_bytes(2 * kMiB);
  const auto others = b.random_bytes(3000);
  auto late_put = dead->start_put(b.payload(0, 1), bytes.span(), b.digest(bytes.span()));
  b.check(late_put.status());
  b.put(b.payload(0, 2), others.span().first(3000));
  b.put(b.manifest(2), others.span().first(500));
  b.check(b.tier().flush(b.attempt(2)));
  if (b.tier().traits().durable) b.check(b.tier().put_committed(b.attempt(2), "record"));
  b.check(b.tier().remove_attempt(b.attempt(1)));
  (*late_put)->finish().status().ignore("it may fail or succeed, in its own attempt");
  dead->flush(b.attempt(1)).ignore("as above");
  dead->remove_temporaries(b.attempt(1), 0).ignore("as above");
  b.holds(b.payload(0, 2), others.span().first(3000));
  b.equal(b.tier().list_attempt(b.attempt(2))->size(), std::size_t{2}, "objects of the committed attempt");
  const auto listing = b.tier().list_group(b.group());
  b.check(listing.status());
  if (!b.tier().traits().durable) return;
  b.equal(listing->committed_attempts.size(), std::size_t{1}, "committed attempts");
  b.equal(listing->committed_attempts.front(), 2U, "the committed attempt");
}

void ranges_read_exactly(Bench& b) {
  const std::uint64_t bytes = 5 * kMiB + 123;
  const auto buffer = b.random_bytes(bytes);
  const ByteView data = buffer.span().first(bytes);
  b.put(b.payload(0), data);
  const std::pair<std::uint64_t, std::uint64_t> ranges[] = {{0, 0},
                                                            {0, 1},
                                                            {1, 1},
                                                            {4095, 2},
                                                            {4096, 4096},
                                                            {1, 2 * kMiB},
                                                            {kMiB - 1, kMiB},
                                                            {bytes - 1, 1},
                                                            {bytes - 5000, 5000},
                                                            {bytes, 0},
                                                            {3 * kMiB, bytes - 3 * kMiB}};
  for (const auto& [offset, count] : ranges) {
    const AlignedBuffer aligned = AlignedBuffer::allocate(count + 4096).value();
    for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, static_cast<std::size_t>(offset % 4096)}) {
      const ByteSpan guard = aligned.span();
      std::fill(guard.begin(), guard.end(), std::byte{0xEE});
      if (shift + count > guard.size()) continue;
      const ByteSpan into = guard.subspan(shift, count);
      b.check(b.tier().read(b.payload(0), {{offset, into}}));
      b.that(std::equal(into.begin(), into.end(), data.begin() + static_cast<std::ptrdiff_t>(offset)),
             "range at " + std::to_string(offset) + " of " + std::to_string(count) + " bytes has other bytes");
      const auto untouched = [](std::byte value) { return value == std::byte{0xEE}; };
      b.that(std::all_of(guard.begin(), guard.begin() + static_cast<std::ptrdiff_t>(shift), untouched) &&
                 std::all_of(guard.begin() + static_cast<std::ptrdiff_t>(shift + count), guard.end(), untouched),
             "range at " + std::to_string(offset) + " wrote outside its memory");
    }
  }
  // Several at once, out of order.
  std::vector<std::byte> tail(7), head(9), middle(100'000);
  b.check(b.tier().read(b.payload(0), {{bytes - 7, tail}, {0, head}, {kMiB + 5, middle}}));
  b.that(std::equal(tail.begin(), tail.end(), data.end() - 7) && std::equal(head.begin(), head.end(), data.begin()) &&
             std::equal(middle.begin(), middle.end(), data.begin() + static_cast<std::ptrdiff_t>(kMiB + 5)),
         "several ranges");
}

void reading_past_the_end_is_an_error(Bench& b) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{10}, std::uint64_t{8192}, 2 * kMiB + 1}) {
    const auto buffer = b.random_bytes(bytes);
    const auto index = static_cast<std::uint32_t>(bytes);
    b.check(b.try_put(b.payload(index), buffer.span().first(bytes)).status());
    AlignedBuffer into = AlignedBuffer::allocate(bytes + 8192).value();
    b.code(b.tier().read(b.payload(index), {{0, into.span().first(bytes + 1)}}), Code::kCorrupt, "one byte too many");
    b.code(b.tier().read(b.payload(index), {{bytes, into.span().first(1)}}), Code::kCorrupt, "a byte at the end");
    b.code(b.tier().read(b.payload(index), {{bytes + 4096, into.span().first(4096)}}), Code::kCorrupt,
           "a page beyond the end");
    b.code(b.tier().read(b.payload(index), {{UINT64_MAX - 10, into.span().first(4096)}}), Code::kCorrupt,
           "an offset that overflows");
  }
  std::vector<std::byte> one(1);
  b.code(b.tier().read(b.payload(77), {{0, one}}), Code::kNotFound, "reading an absent object");
}

void listing_is_ordered_and_reports_foreign_names(Bench& b) {
  const auto bytes = b.random_bytes(4096);
  for (const std::uint32_t index : {2U, 0U, 11U}) b.put(b.payload(index), bytes.span().first(100 + index));
  b.put(b.manifest(), bytes.span());
  if (b.subject().add_foreign) {
    b.check(b.subject().add_foreign(b.attempt(), "p/0000000x"));
    b.check(b.subject().add_foreign(b.attempt(), "p/000000001"));
    b.check(b.subject().add_foreign(b.attempt(), "notes.txt"));
  }
  std::vector<std::string> foreign;
  const auto listed = b.tier().list_attempt(b.attempt(), &foreign);
  b.check(listed.status());
  b.equal(listed->size(), std::size_t{4}, "objects listed");
  b.that((*listed)[0].name == b.manifest() && (*listed)[1].name == b.payload(0) && (*listed)[2].name == b.payload(2) &&
             (*listed)[3].name == b.payload(11),
         "manifest first, then payloads by index");
  b.equal((*listed)[3].bytes, std::uint64_t{111}, "listed size");
  std::sort(foreign.begin(), foreign.end());
  const std::vector<std::string> expected = b.subject().add_foreign
                                                ? std::vector<std::string>{"notes.txt", "p/000000001", "p/0000000x"}
                                                : std::vector<std::string>{};
  b.that(foreign == expected, "foreign names reported");
  b.equal(b.tier().list_attempt(b.attempt(3))->size(), std::size_t{0}, "objects of an absent attempt");
}

void markers_are_for_durable_tiers(Bench& b) {
  const auto bytes = b.random_bytes(100);
  b.put(b.payload(0), bytes.span());
  const bool durable = b.tier().traits().durable;
  const Code wanted = durable ? Code::kOk : Code::kInvalidArgument;
  b.code(b.tier().put_committed(b.attempt(), "record"), wanted, "a `committed` marker");
  b.code(b.tier().put_deleting(b.group(), "going"), wanted, "a `deleting` marker");
  const auto listing = b.tier().list_group(b.group());
  b.check(listing.status());
  b.equal(listing->deleting, durable, "a `deleting` marker is listed");
  b.equal(listing->committed_attempts.size(), std::size_t{durable ? 1U : 0U}, "`committed` markers listed");
  const std::uint64_t sequence = (std::uint64_t{1} << 61) + std::stoull(b.runtime().random_hex(4), nullptr, 16);
  b.code(b.tier().put_catalog_copy(sequence, "copy"), wanted, "a catalog copy");
  b.code(b.tier().read_catalog_copy(sequence).status(), durable ? Code::kOk : Code::kNotFound, "reading the copy");
  b.check(b.tier().remove_catalog_copy(sequence));
  b.code(b.tier().replace_committed(b.attempt(), "another"), wanted, "another `committed` marker");
  b.code(b.tier().read_committed(b.attempt()).status(), durable ? Code::kOk : Code::kNotFound, "reading the marker");
  // There is nothing to take back, or it is taken back.
  b.check(b.tier().check_removable(b.group()));
  b.check(b.tier().remove_deleting(b.group()));
  b.code(b.tier().read_deleting(b.group()).status(), Code::kNotFound, "reading a marker that is not there");
}

void markers_are_create_only(Bench& b) {
  if (!b.tier().traits().durable) return;
  b.code(b.tier().put_committed(b.attempt(), "record"), Code::kNotFound, "`committed` of an absent attempt");
  b.code(b.tier().read_committed(b.attempt()).status(), Code::kNotFound, "reading an absent `committed`");
  const auto bytes = b.random_bytes(100);
  b.put(b.payload(0), bytes.span());
  b.check(b.tier().put_committed(b.attempt(), "record"));
  b.check(b.tier().put_committed(b.attempt(), "record"));
  b.code(b.tier().put_committed(b.attempt(), "another"), Code::kConflict, "another `committed`");
  b.equal(*b.tier().read_committed(b.attempt()), std::string("record"), "`committed`");
  b.equal(b.tier().list_attempt(b.attempt())->size(), std::size_t{1}, "a marker is no object");
  b.that(!b.tier().list_group(b.group())->deleting, "not deleting yet");
  b.code(b.tier().read_deleting(b.group()).status(), Code::kNotFound, "reading an absent `deleting`");
  b.check(b.tier().put_deleting(b.group(), "going"));
  b.check(b.tier().put_deleting(b.group(), "another"));
  b.equal(*b.tier().read_deleting(b.group()), std::string("going"), "`deleting`");
  const auto listing = b.reopen()->list_group(b.group());
  b.check(listing.status());
  b.that(listing->deleting, "the `deleting` marker");
  b.that(listing->attempts == std::vector<std::uint32_t>{1}, "attempts listed");
  b.that(listing->committed_attempts == std::vector<std::uint32_t>{1}, "committed attempts listed");
  const auto groups = b.tier().list_groups();
  b.check(groups.status());
  b.that(std::binary_search(groups->begin(), groups->end(), b.group()), "the group is listed");

  b.check(b.tier().replace_committed(b.attempt(), "another record"));
  b.equal(*b.reopen()->read_committed(b.attempt()), std::string("another record"), "`committed` that was replaced");
  b.code(b.tier().replace_committed({b.group(), 2}, "record"), Code::kNotFound, "replacing where no attempt is");
  b.check(b.tier().check_removable(b.group()));
  b.check(b.tier().remove_deleting(b.group()));
  b.check(b.tier().remove_deleting(b.group()));
  const auto without = b.reopen()->list_group(b.group());
  b.that(!without->deleting && without->committed_attempts == std::vector<std::uint32_t>{1}, "`deleting` taken back");
}

void removal_is_idempotent(Bench& b) {
  const auto bytes = b.random_bytes(2 * kMiB);
  b.put(b.payload(0), bytes.span());
  b.check(b.tier().remove(b.payload(0)));
  b.check(b.tier().remove(b.payload(0)));
  b.absent(b.payload(0));
  b.put(b.payload(1), bytes.span().first(10));
  b.put(b.manifest(), bytes.span().first(20));
  const bool durable = b.tier().traits().durable;
  if (durable) b.check(b.tier().put_committed(b.attempt(), "record"));
  if (durable) b.check(b.tier().put_deleting(b.group(), "going"));
  b.code(b.tier().remove_group(b.group()), Code::kConflict, "removing a group that holds an attempt");
  b.check(b.tier().remove_attempt(b.attempt()));
  b.check(b.tier().remove_attempt(b.attempt()));
  b.equal(b.tier().list_group(b.group())->attempts.size(), std::size_t{0}, "attempts after removal");
  b.equal(b.tier().list_group(b.group())->deleting, durable, "`deleting` stays until the group goes");
  b.check(b.tier().remove_group(b.group()));
  b.check(b.tier().remove_group(b.group()));
  b.that(!b.tier().list_group(b.group())->deleting, "`deleting` after the group went");
}

void removal_goes_on_past_failures(Bench& b) {
  if (!b.subject().block_removal) b.skip("this backend's removals cannot be made to fail");
  const auto bytes = b.random_bytes(4096);
  for (std::uint32_t index = 0; index < 4; ++index) b.put(b.payload(index), bytes.span().first(10 + index));
  const auto unblock = b.subject().block_removal(b.payload(1));
  const Status status = b.tier().remove_attempt(b.attempt());
  unblock();
  b.that(!status.ok(), "the failure is reported");
  const auto left = b.tier().list_attempt(b.attempt());
  b.check(left.status());
  b.equal(left->size(), std::size_t{1}, "objects left");
  b.that(left->front().name == b.payload(1), "the one left is the one that failed");
  b.check(b.tier().remove_attempt(b.attempt()));
}

void removal_reaches_what_was_held(Bench& b) {
  const auto before = b.random_bytes(2 * kMiB);
  const auto after = b.random_bytes(2 * kMiB);
  b.code(b.tier().hold_attempt(b.attempt()).status(), Code::kNotFound, "holding an attempt that is not there");
  b.put(b.payload(0), before.span());
  b.put(b.manifest(), before.span().first(100));
  const auto late = b.reopen();
  const auto held = late->hold_attempt(b.attempt());
  b.check(held.status());
  b.that((*held)->name() == b.attempt(), "the name of what is held");
  b.check(b.tier().remove_attempt(b.attempt()));
  b.check(late->remove_held(**held));  // nothing is left of it
  b.put(b.payload(0), after.span());
  b.put(b.manifest(), after.span().first(100));
  const auto& traits = b.tier().traits();
  if (traits.durable) b.check(b.tier().put_committed(b.attempt(), "record"));
  b.check(late->remove_held(**held));
  b.holds(b.payload(0), after.span());
  b.holds(b.manifest(), after.span().first(100));
  if (traits.durable) {
    b.equal(*b.tier().read_committed(b.attempt()), std::string("record"), "the marker of an attempt made since");
  }

  const auto again = late->hold_attempt(b.attempt());
  b.check(again.status());
  // It is the same attempt still.
  b.put(b.payload(1), before.span(), traits.keeps_unused_content ? PutOutcome::kLinked : PutOutcome::kWritten);
  b.check(late->remove_held(**again));
  b.equal(b.tier().list_group(b.group())->attempts.size(), std::size_t{0}, "attempts after removal");
}

void an_empty_group_goes(Bench& b) {
  const auto bytes = b.random_bytes(1000);
  b.put(b.payload(0), bytes.span().first(1000));
  b.check(b.tier().remove_empty_group(b.group()));
  b.holds(b.payload(0), bytes.span().first(1000));
  const bool durable = b.tier().traits().durable;
  if (durable) b.check(b.tier().put_deleting(b.group(), ""));
  b.check(b.tier().remove_attempt(b.attempt()));
  b.check(b.tier().remove_empty_group(b.group()));
  if (!durable) {
    const auto groups = b.tier().list_groups();
    b.check(groups.status());
    b.that(!std::binary_search(groups->begin(), groups->end(), b.group()), "a group without anything is not listed");
    return;
  }
  b.that(b.tier().list_group(b.group())->deleting, "a marker keeps its group");
  // It is there, and gets the bytes for which there was no room.
  b.equal(*b.tier().read_deleting(b.group()), std::string(), "an empty marker");
  b.check(b.tier().put_deleting(b.group(), "going"));
  b.equal(*b.tier().read_deleting(b.group()), std::string("going"), "a marker that was empty");
  b.check(b.tier().put_deleting(b.group(), "gone"));
  b.equal(*b.tier().read_deleting(b.group()), std::string("going"), "a marker that was there");
  b.check(b.tier().remove_group(b.group()));
  b.check(b.tier().remove_empty_group(b.group()));
}

void temporaries_of_live_puts_stay(Bench& b) {
  const auto bytes = b.random_bytes(2 * kMiB);
  auto put = b.tier().start_put(b.payload(0), bytes.span(), b.digest(bytes.span()));
  b.check(put.status());
  b.check(b.tier().remove_temporaries(b.attempt(), 0));
  b.check((*put)->finish().status());
  b.holds(b.payload(0), bytes.span());
}

void content_can_be_listed_and_removed(Bench& b) {
  const auto bytes = b.random_bytes(2 * kMiB);
  const Digest digest = b.digest(bytes.span());
  b.put(b.payload(0), bytes.span());
  const auto find = [&]() -> std::optional<tiers::ContentEntry> {
    const auto entries = b.tier().list_content();
    b.check(entries.status());
    const auto entry =
        std::find_if(entries->begin(), entries->end(), [&](const auto& e) { return e.sha256 == digest; });
    if (entry == entries->end()) return std::nullopt;
    return *entry;
  };
  auto entry = find();
  b.that(entry.has_value(), "the entry is listed");
  b.equal(entry->bytes, std::uint64_t{2 * kMiB}, "bytes of the entry");
  b.equal(entry->links, std::uint64_t{2}, "links of the entry");
  b.check(b.tier().remove(b.payload(0)));
  entry = find();
  b.equal(entry.has_value(), b.tier().traits().keeps_unused_content, "content that no object uses is there");
  if (entry) b.equal(entry->links, std::uint64_t{1}, "links of an entry that no object uses");
  b.check(b.tier().remove_content(digest));
  b.check(b.tier().remove_content(digest));
  b.that(!find().has_value(), "the entry went");
}

void replace(Bench& b, const std::vector<ObjectName>& names, ByteView bytes) {
  auto stream = b.tier().open_replacement(names, bytes.size(), b.digest(bytes));
  b.check(stream.status());
  const std::size_t half = bytes.size() / 2;
  b.check((*stream)->append(bytes.first(half)));
  b.check((*stream)->append(bytes.subspan(half)));
  b.check((*stream)->finish().status());
}

void replacement_reaches_every_name(Bench& b) {
  for (const std::uint64_t bytes : {2 * kMiB + 5, kMiB / 2}) {
    const auto index = static_cast<std::uint32_t>(bytes % kMiB);
    const auto before = b.random_bytes(bytes);
    const auto after = b.random_bytes(bytes);
    const ByteView old_bytes = before.span().first(bytes);
    const ByteView new_bytes = after.span().first(bytes);
    const ObjectName own = b.payload(index);
    const ObjectName other = b.payload(index + 1, 2);
    b.put(own, old_bytes);
    b.check(b.tier().flush(b.attempt()));
    const auto shared = b.try_put(other, old_bytes);
    b.check(shared.status());
    if (*shared != PutOutcome::kLinked) b.skip("nothing is shared here");
    b.check(b.tier().flush(b.attempt(2)));
    b.equal(b.tier().stat(own)->storage, b.tier().stat(other)->storage, "storage of names that share their bytes");

    const ObjectName gone = b.payload(index + 2, 2);
    replace(b, {other, gone, own}, new_bytes);
    b.holds(own, new_bytes);
    b.holds(other, new_bytes);
    b.absent(gone);
    b.equal(b.tier().stat(own)->storage, b.tier().stat(other)->storage, "storage after a replacement");
    const auto content = b.tier().stat_content(b.digest(new_bytes));
    b.check(content.status());
    b.equal(content->storage, b.tier().stat(own)->storage, "storage of the content entry");
    b.equal(content->bytes, bytes, "size of the content entry");
    std::vector<std::byte> found(bytes);
    auto read = b.tier().start_read_content(b.digest(new_bytes), {{0, found}});
    b.check(read.status());
    b.check((*read)->finish());
    b.that(std::equal(found.begin(), found.end(), new_bytes.begin()), "content reads back with other bytes");
    const auto reopened = b.reopen();
    b.holds(*reopened, other, new_bytes);

    // The old content may be in the index still, and then is linked back without a byte written.
    if (!b.tier().traits().keeps_unused_content) continue;
    const auto linked = b.tier().relink({other, own}, b.digest(old_bytes), bytes);
    b.check(linked.status());
    b.that(*linked, "content that is there is linked");
    b.holds(own, old_bytes);
    b.holds(other, old_bytes);
    b.check(b.tier().relink({other, own}, b.digest(old_bytes), bytes).status());
  }
}

void replacement_is_whole_or_not_at_all(Bench& b) {
  const auto before = b.random_bytes(kMiB);
  const auto after = b.random_bytes(kMiB);
  b.put(b.payload(0), before.span());
  {
    auto abandoned = b.tier().open_replacement({b.payload(0)}, kMiB, b.digest(after.span()));
    b.check(abandoned.status());
    b.check((*abandoned)->append(after.span()));
  }
  b.holds(b.payload(0), before.span());
  auto cut = b.tier().open_replacement({b.payload(0)}, kMiB, b.digest(after.span()));
  b.check(cut.status());
  b.check((*cut)->append(after.span().first(1000)));
  b.code((*cut)->finish().status(), Code::kCorrupt, "a replacement with too few bytes");
  b.holds(b.payload(0), before.span());
  b.code(b.tier().stat_content(b.digest(after.span())).status(), Code::kNotFound,
         "content of an abandoned replacement");
  const auto linked = b.tier().relink({b.payload(0)}, b.digest(after.span()), kMiB);
  b.check(linked.status());
  b.that(!*linked, "content that is not there cannot be linked");
  b.holds(b.payload(0), before.span());

  // A name that is absent is made; only payload is replaced.
  replace(b, {b.payload(1)}, after.span());
  b.holds(b.payload(1), after.span());
  b.code(b.tier().open_replacement({b.manifest()}, 1, b.digest(after.span())).status(), Code::kInvalidArgument,
         "replacing a manifest");
  b.code(b.tier().open_replacement({}, 1, b.digest(after.span())).status(), Code::kInvalidArgument,
         "a replacement without names");
}

void catalog_copies_are_kept_by_sequence(Bench& b) {
  if (!b.tier().traits().durable) return;
  const std::uint64_t base = (std::uint64_t{1} << 62) + std::stoull(b.runtime().random_hex(4), nullptr, 16);
  b.check(b.tier().put_catalog_copy(base + 5, "five"));
  b.check(b.tier().put_catalog_copy(base, "zero"));
  b.check(b.tier().put_catalog_copy(base, "zero"));
  const auto listed = b.reopen()->list_catalog_copies();
  b.check(listed.status());
  b.that(std::is_sorted(listed->begin(), listed->end()), "copies are listed ascending");
  b.that(std::count(listed->begin(), listed->end(), base) == 1 &&
             std::count(listed->begin(), listed->end(), base + 5) == 1,
         "both copies are listed");
  b.equal(*b.tier().read_catalog_copy(base + 5), std::string("five"), "a copy");
  const auto head = b.tier().read_catalog_copy_head(base + 5, 2);
  b.check(head.status());
  b.that(head->bytes == "fi" && head->total_bytes == 4, "the head of a copy");
  b.check(b.tier().remove_catalog_copy(base));
  b.check(b.tier().remove_catalog_copy(base));
  b.check(b.tier().remove_catalog_copy(base + 5));
  b.code(b.tier().read_catalog_copy(base).status(), Code::kNotFound, "a removed copy");
}

void same_name_from_two_tasks(Bench& b) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    const auto first = b.random_bytes(kMiB + 100);
    const auto second = b.random_bytes(kMiB + 100);
    const Digest digests[2] = {b.digest(first.span()), b.digest(second.span())};
    const ByteView data[2] = {first.span(), second.span()};
    Status results[2];
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < 2; ++i) {
      tasks.push_back(b.runtime().spawn("put", [&, i] {
        auto put = b.tier().start_put(b.payload(round), data[i], digests[i]);
        results[i] = put.ok() ? (*put)->finish().status() : put.status();
      }));
    }
    tasks.clear();
    const int winner = results[0].ok() ? 0 : 1;
    b.check(results[winner]);
    b.code(results[1 - winner], Code::kConflict, "the loser of two puts of one name");
    b.holds(b.payload(round), data[winner]);
  }
}

void same_content_from_two_tasks(Bench& b) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    const auto bytes = b.random_bytes(round % 2 == 0 ? kMiB + 5 : 5000);
    const Digest digest = b.digest(bytes.span());
    Status results[3];
    std::vector<std::unique_ptr<Task>> tasks;
    for (std::uint32_t i = 0; i < 3; ++i) {
      // Two different names, and one of them twice.
      tasks.push_back(b.runtime().spawn("put", [&, i] {
        auto put = b.tier().start_put(b.payload(round, 1 + i / 2), bytes.span(), digest);
        results[i] = put.ok() ? (*put)->finish().status() : put.status();
      }));
    }
    tasks.clear();
    for (const Status& status : results) b.check(status);
    b.holds(b.payload(round, 1), bytes.span());
    b.holds(b.payload(round, 2), bytes.span());
  }
  b.check(b.tier().flush(b.attempt(1)));
  b.check(b.tier().flush(b.attempt(2)));
}

void bad_names_are_refused(Bench& b) {
  const auto bytes = b.random_bytes(10);
  for (const std::string& group :
       {std::string(), std::string("../../etc"), std::string(64, 'G'), std::string(63, 'a')}) {
    const AttemptName attempt{group, 1};
    const ObjectName name{attempt, ObjectKind::kPayload, 0};
    b.code(b.try_put(name, bytes.span()).status(), Code::kInvalidArgument, "put in group " + group);
    b.code(b.tier().stat(name).status(), Code::kInvalidArgument, "stat in group " + group);
    b.code(b.tier().remove_attempt(attempt), Code::kInvalidArgument, "removal of group " + group);
    b.code(b.tier().put_deleting(group, "going"), Code::kInvalidArgument, "marker of group " + group);
    b.code(b.tier().list_group(group).status(), Code::kInvalidArgument, "listing of group " + group);
  }
  b.code(b.try_put(b.payload(100'000'000), bytes.span()).status(), Code::kInvalidArgument, "index of nine digits");
}

void usage_counts_shared_bytes_once(Bench& b) {
  const auto before = b.tier().usage();
  b.check(before.status());
  const auto bytes = b.random_bytes(2 * kMiB);
  b.put(b.payload(0), bytes.span());
  b.put(b.payload(1), bytes.span(), PutOutcome::kLinked);
  const auto after = b.tier().usage();
  b.check(after.status());
  b.equal(after->bytes - before->bytes, 2 * kMiB, "bytes added");
  b.check(b.tier().available_bytes().status());
  b.that(after->capacity_bytes >= after->free_bytes, "free bytes are within the capacity");
}

constexpr Case kCases[] = {
    {"put reads back", put_reads_back},
    {"unaligned memory is put", unaligned_memory_is_put},
    {"put is create-only", put_is_create_only},
    {"the manifest is an object apart", manifest_is_an_object_apart},
    {"an abandoned put leaves nothing", abandoned_put_leaves_nothing},
    {"a pending put is not visible", pending_put_is_not_visible},
    {"streams write in pieces", streams_write_in_pieces},
    {"streams count their bytes", streams_count_their_bytes},
    {"equal content is linked", equal_content_is_linked},
    {"content is found by other processes", content_is_found_by_other_processes},
    {"attempts are apart", attempts_are_apart},
    {"late steps are harmless", late_steps_are_harmless},
    {"ranges read exactly", ranges_read_exactly},
    {"reading past the end is an error", reading_past_the_end_is_an_error},
    {"listing is ordered and reports foreign names", listing_is_ordered_and_reports_foreign_names},
    {"markers are for durable tiers", markers_are_for_durable_tiers},
    {"markers are create-only", markers_are_create_only},
    {"removal is idempotent", removal_is_idempotent},
    {"removal goes on past failures", removal_goes_on_past_failures},
    {"removal reaches what was held", removal_reaches_what_was_held},
    {"an empty group goes", an_empty_group_goes},
    {"temporaries of live puts stay", temporaries_of_live_puts_stay},
    {"content can be listed and removed", content_can_be_listed_and_removed},
    {"a replacement reaches every name", replacement_reaches_every_name},
    {"a replacement is whole or not at all", replacement_is_whole_or_not_at_all},
    {"catalog copies are kept by sequence", catalog_copies_are_kept_by_sequence},
    {"one name from two tasks", same_name_from_two_tasks},
    {"one content from several tasks", same_content_from_two_tasks},
    {"bad names are refused", bad_names_are_refused},
    {"usage counts shared bytes once", usage_counts_shared_bytes_once},
};

}  // namespace

std::vector<CaseResult> run_tier_conformance(Runtime& runtime, const TierUnderTest& subject) {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  for (const Case& one : memory_cases()) cases.push_back(one);
  std::vector<CaseResult> results;
  for (const Case& one : cases) {
    CaseResult result;
    result.name = one.name;
    try {
      Bench bench(runtime, subject);
      one.run(bench);
    } catch (const Skipped& skipped) {
      result.outcome = CaseResult::Outcome::kSkipped;
      result.detail = skipped.why;
    } catch (const Failed& failed) {
      result.outcome = CaseResult::Outcome::kFailed;
      result.detail = failed.why;
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace steelyard::conformance
