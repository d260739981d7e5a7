#include "metadata/rules.h"

#include "metadata/test_bench.h"
#include "metadata/validate.h"

namespace steelyard::metadata {
namespace {

const Identity kIdentity = identity_of("llama", 7);

TEST(Begin, FirstAnswersWithRecordAndWriter) {
  TestBench bench;
  const Result<Answer> answer = bench.run(bench.begin(kIdentity, 'a'));
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->record->availability, Availability::kImporting);
  EXPECT_EQ(answer->record->manifest_key, "weights/production/llama/main/7/manifest");
  EXPECT_EQ(answer->record->import_attempt, 1U);
  EXPECT_EQ(answer->record->begin_seq, 1U);
  EXPECT_EQ(answer->writer->token, token_of('a'));
  EXPECT_EQ(bench.record(kIdentity), *answer->record);
}

TEST(Begin, BusyNamesHolderAndAge) {
  TestBench bench;
  bench.must(bench.begin(kIdentity, 'a'));
  bench.advance(12'000);
  const Status status = bench.run(bench.begin(kIdentity, 'b')).status();
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_NE(status.message().find("llama@main#7 is being imported by writer a, last renewed 12s ago"),
            std::string::npos)
      << status.message();
  EXPECT_FALSE(status.hint().empty());
}

TEST(Begin, TakeoverRaisesAttemptAndKeepsFirstFacts) {
  TestBench bench;
  auto first = bench.begin(kIdentity, 'a');
  first.labels = {{"a", "1"}};
  first.policy.mode = PolicyMode::kPinned;
  bench.must(first);
  const std::int64_t created = bench.record(kIdentity).created_at_ms;
  bench.advance(limits::kWriterTtlMs);
  auto second = bench.begin(kIdentity, 'b');
  second.labels = first.labels;
  bench.must(second);
  const RevisionRecord record = bench.record(kIdentity);
  EXPECT_EQ(record.import_attempt, 2U);
  EXPECT_EQ(record.metadata_generation, 2U);
  EXPECT_EQ(record.created_at_ms, created);
  EXPECT_EQ(record.policy.mode, PolicyMode::kPinned);
  EXPECT_EQ(bench.run(bench.commit(kIdentity, 'a', 1, 2)).code(), Code::kStaleGeneration);
}

TEST(Begin, AttemptsOfAnotherHistoryArePassedOver) {
  TestBench bench;
  auto command = bench.begin(kIdentity, 'a');
  bench.must(command);
  command.least_attempt = 41;
  const auto own = bench.run(command);
  ASSERT_TRUE(own.ok()) << own.status().to_string();
  EXPECT_EQ(own->record->import_attempt, 41U);
  EXPECT_EQ(own->writer->import_attempt, 41U);
  EXPECT_EQ(bench.record(kIdentity).metadata_generation, 2U);
  bench.must(command);
  EXPECT_TRUE(bench.last.empty()) << "a retry";
  auto other = bench.begin(kIdentity, 'b');
  other.least_attempt = 50;
  EXPECT_EQ(bench.run(other).code(), Code::kBusy) << "the writer lives";
  bench.advance(limits::kWriterTtlMs);
  other.least_attempt = 7;
  EXPECT_EQ(bench.run(other)->record->import_attempt, 42U) << "never lower than the next";
  auto first = bench.begin(identity_of("qwen", 1), 'c');
  first.least_attempt = 5;
  EXPECT_EQ(bench.run(first)->record->import_attempt, 5U);
}

TEST(Begin, DefaultGeneration) {
  TestBench bench;
  auto automatic = bench.begin(kIdentity, 'a');
  automatic.weight_generation.reset();
  EXPECT_EQ(bench.run(automatic)->record->identity.weight_generation, 1);
  EXPECT_EQ(bench.run(automatic)->record->identity.weight_generation, 1) << "continues what is IMPORTING";
  bench.must(bench.commit(identity_of("llama", 1), 'a', 1, 1));
  EXPECT_EQ(bench.run(automatic)->record->identity.weight_generation, 2);
}

TEST(Begin, LastGeneration) {
  TestBench bench;
  const Identity last = identity_of("llama", INT64_MAX);
  bench.publish(last);
  auto automatic = bench.begin(last, 'a');
  automatic.weight_generation.reset();
  EXPECT_EQ(bench.run(automatic).code(), Code::kGenerationExhausted);
  EXPECT_EQ(newest_of(bench.state, last.lineage).value()->identity, last);
  EXPECT_TRUE(bench.run(bench.begin(identity_of("llama", 1), 'a')).ok()) << "an unused one below is still free";
  for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(bench.run(bench.begin(identity_of("llama", wrong), 'a')).code(), Code::kInvalidArgument);
  }
}

TEST(Begin, BadProcess) {
  TestBench bench;
  auto command = bench.begin(kIdentity, 'a');
  command.process.pid = -1;
  EXPECT_EQ(bench.run(command).code(), Code::kInvalidArgument);
  command.process.pid = 1;
  command.process.host = std::string(1025, 'h');
  EXPECT_EQ(bench.run(command).code(), Code::kInvalidArgument);
}

TEST(Begin, AtOrBelowWatermark) {
  TestBench bench;
  bench.must(BeginEpoch{});
  bench.append({encode_entry({WatermarkPut{{kIdentity.lineage, 7}}, bench.now.mono_ms})});
  const Status status = bench.run(bench.begin(kIdentity, 'a')).status();
  EXPECT_EQ(status.code(), Code::kConflict);
  EXPECT_NE(status.message().find("7 are used"), std::string::npos) << status.message();
  auto automatic = bench.begin(kIdentity, 'a');
  automatic.weight_generation.reset();
  EXPECT_EQ(bench.run(automatic)->record->identity.weight_generation, 8);
  const Status gone = get_record(bench.state, kIdentity).status();
  EXPECT_EQ(gone.code(), Code::kNotFound);
  EXPECT_NE(gone.message().find("compacted"), std::string::npos);
}

TEST(Record, UpdatedAtNeverDecreases) {
  TestBench bench;
  bench.must(bench.begin(kIdentity, 'a'));
  const std::int64_t before = bench.record(kIdentity).updated_at_ms;
  bench.now.wall_ms -= 5'000;
  bench.must(bench.commit(kIdentity, 'a', 1, 1));
  EXPECT_EQ(bench.record(kIdentity).updated_at_ms, before);
}

TEST(Commit, WrongFenceNamesTheCurrentGeneration) {
  TestBench bench;
  bench.must(bench.begin(kIdentity, 'a'));
  const Status status = bench.run(bench.commit(kIdentity, 'a', 1, 5)).status();
  EXPECT_EQ(status.code(), Code::kStaleGeneration);
  EXPECT_NE(status.message().find("5 was expected, the current one is 1"), std::string::npos) << status.message();
}

TEST(Abort, AbandonmentRechecksTheAge) {
  TestBench bench;
  bench.must(bench.begin(kIdentity, 'a'));
  AbortWeightImport command{kIdentity, "", 0, 1, false, limits::kAbandonAfterMs};
  bench.advance(limits::kAbandonAfterMs - 1);
  EXPECT_EQ(bench.run(command).code(), Code::kBusy);
  bench.advance(1);
  EXPECT_TRUE(bench.run(command).ok());
  EXPECT_EQ(bench.record(kIdentity).availability, Availability::kDeleting);
}

TEST(Lease, RenewalNeverShortensAndReleaseIsIdempotent) {
  TestBench bench;
  bench.publish(kIdentity);
  const Lease lease = *bench.run(bench.acquire(kIdentity, "reader", 60'000))->lease;
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "reader", 1'000))->lease, lease);
  EXPECT_EQ(bench.run(RenewLease{lease.lease_id, 1'000})->lease, lease);
  EXPECT_TRUE(bench.last.empty());
  bench.advance(59'999);
  EXPECT_EQ(live_leases_of(bench.state, kIdentity, bench.now)->size(), 1U);
  EXPECT_TRUE(bench.run(RenewLease{lease.lease_id, 1'000}).ok());
  bench.advance(1'000);
  EXPECT_EQ(bench.run(RenewLease{lease.lease_id, 1'000}).code(), Code::kLeaseExpired);
  EXPECT_TRUE(bench.run(ReleaseLease{lease.lease_id}).ok());
  EXPECT_TRUE(bench.run(ReleaseLease{lease.lease_id}).ok());
  EXPECT_TRUE(bench.last.empty());
  EXPECT_EQ(bench.run(RenewLease{lease.lease_id, 1'000}).code(), Code::kNotFound);
}

TEST(Lease, AcquireRemovesExpiredOnesOfItsRevision) {
  TestBench bench;
  bench.publish(kIdentity);
  bench.must(bench.acquire(kIdentity, "one", 1'000));
  bench.must(bench.acquire(kIdentity, "two", 1'000));
  bench.advance(1'000);
  bench.must(bench.acquire(kIdentity, "one", 1'000));
  EXPECT_EQ(all_leases_of(bench.state, kIdentity)->size(), 1U);
}

TEST(Lease, CapCountsLiveOnes) {
  TestBench bench;
  bench.publish(kIdentity);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < limits::kLeasesPerRevisionMax; ++i) {
    Lease lease;
    lease.identity = kIdentity;
    lease.holder = "h" + std::to_string(i);
    lease.nonce = "n";
    lease.lease_id = lease_id_of(kIdentity, lease.holder, lease.nonce);
    lease.ttl_ms = 1'000;
    lease.epoch = bench.now.epoch;
    lease.expires_mono_ms = bench.now.mono_ms + 1'000;
    const bool last = i + 1 == limits::kLeasesPerRevisionMax;
    entries.push_back(encode_entry({LeasePut{lease}, last ? std::optional(bench.now.mono_ms) : std::nullopt}));
  }
  bench.append(entries);
  const Status status = bench.run(bench.acquire(kIdentity, "late")).status();
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_NE(status.message().find("the cap is 10000"), std::string::npos) << status.message();
  EXPECT_TRUE(bench.run(bench.acquire(kIdentity, "h5")).ok()) << "a repeat renews";
  bench.advance(1'000);
  EXPECT_TRUE(bench.run(bench.acquire(kIdentity, "late")).ok());
}

TEST(Lease, ARevisionThatDegradesKeepsItsLeases) {
  TestBench bench;
  bench.publish(kIdentity);
  const Lease lease = *bench.run(bench.acquire(kIdentity, "reader", 10'000))->lease;
  bench.must(ReconcileRevision{kIdentity, 2, TestBench::damaged()});
  bench.advance(5'000);
  const Result<Answer> renewed = bench.run(RenewLease{lease.lease_id, 10'000});
  ASSERT_TRUE(renewed.ok()) << renewed.status().to_string();
  bench.advance(5'000);
  const Result<Answer> repeated = bench.run(bench.acquire(kIdentity, "reader", 10'000));
  ASSERT_TRUE(repeated.ok()) << repeated.status().to_string();
  EXPECT_EQ(repeated->lease->expires_mono_ms, bench.now.mono_ms + 10'000);
  EXPECT_EQ(repeated->record->availability, Availability::kDegraded);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "another")).code(), Code::kNotReady);
  bench.advance(10'000);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "reader")).code(), Code::kNotReady) << "its lease has ended";
}

TEST(Lease, BadArguments) {
  TestBench bench;
  bench.publish(kIdentity);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "")).code(), Code::kInvalidArgument);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "a\nb")).code(), Code::kInvalidArgument);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "\xff")).code(), Code::kInvalidArgument);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, std::string(1025, 'x'))).code(), Code::kInvalidArgument);
  EXPECT_TRUE(bench.run(bench.acquire(kIdentity, std::string(1024, 'x'))).ok());
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "a", 999)).code(), Code::kInvalidArgument);
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "a", limits::kLeaseTtlMsMax + 1)).code(), Code::kInvalidArgument);
  EXPECT_EQ(bench.run(RenewLease{"short", 1'000}).code(), Code::kInvalidArgument);
  auto acquire = bench.acquire(kIdentity, "a");
  acquire.process.pid = -1;
  EXPECT_EQ(bench.run(acquire).code(), Code::kInvalidArgument);
}

TEST(Delete, RefusesUnderALeaseAndDrains) {
  TestBench bench;
  bench.publish(kIdentity);
  const Lease lease = *bench.run(bench.acquire(kIdentity, "alice", 30'000))->lease;
  const Status busy = bench.run(DeleteWeightRevision{kIdentity, 2, DeleteMode::kRefuse}).status();
  EXPECT_EQ(busy.code(), Code::kBusy);
  EXPECT_NE(busy.message().find("1 live lease (alice), the nearest expiry in 30s"), std::string::npos)
      << busy.message();
  bench.must(DeleteWeightRevision{kIdentity, 2, DeleteMode::kDrain});
  EXPECT_EQ(bench.run(bench.acquire(kIdentity, "bob")).code(), Code::kNotReady);
  EXPECT_EQ(bench.run(FinishDelete{kIdentity, 3}).code(), Code::kBusy);
  // Renewed again and again, but not beyond 24 hours.
  std::int64_t held_ms = 0;
  while (bench.run(RenewLease{lease.lease_id, limits::kLeaseTtlMsMax}).ok() && held_ms < 2 * limits::kLeaseTtlMsMax) {
    bench.advance(3'600'000);
    held_ms += 3'600'000;
  }
  EXPECT_EQ(held_ms, limits::kLeaseTtlMsMax);
  bench.must(FinishDelete{kIdentity, 3});
  EXPECT_EQ(bench.record(kIdentity).residency, Residency::kAbsent);
}

TEST(Delete, ANewEpochArmsNoLeaseBeyondTheEndOfItsDrain) {
  TestBench bench;
  bench.publish(kIdentity);
  const Lease lease = *bench.run(bench.acquire(kIdentity, "alice", limits::kLeaseTtlMsMax))->lease;
  bench.must(DeleteWeightRevision{kIdentity, 2, DeleteMode::kDrain});
  bench.advance(limits::kLeaseTtlMsMax - 1'000);
  bench.must(bench.begin(identity_of("qwen", 1), 'b'));  // the last instant of the old epoch
  bench.now = {"boot-b", 5, bench.now.wall_ms};
  EXPECT_EQ(live_leases_of(bench.state, kIdentity, bench.now)->size(), 1U);
  bench.must(BeginEpoch{});
  const Lease armed = **find_lease(bench.state, lease.lease_id);
  EXPECT_EQ(armed.expires_mono_ms, 5 + 1'000);
  EXPECT_EQ(armed.renewable_until_mono_ms, 5 + 1'000);
  bench.advance(1'000);
  bench.must(FinishDelete{kIdentity, 3});
}

TEST(Reconcile, NamesAtMostSixtyFour) {
  TestBench bench;
  bench.publish(kIdentity);
  ReconcileRevision command;
  command.identity = kIdentity;
  command.observed_generation = 2;
  for (int i = 0; i < 100; ++i) command.seen.damage.objects.push_back("object " + std::to_string(i));
  command.seen.cold_readable = false;
  bench.must(command);
  const RevisionRecord record = bench.record(kIdentity);
  EXPECT_EQ(record.availability, Availability::kDegraded);
  EXPECT_EQ(record.damage.objects.size(), 64U);
  EXPECT_EQ(record.damage.count, 100U);
  command.observed_generation = 3;
  bench.must(command);
  EXPECT_TRUE(bench.last.empty()) << "nothing changed";
  bench.must(ReconcileRevision{kIdentity, 3, {}});
  EXPECT_EQ(bench.record(kIdentity).availability, Availability::kReady);
  ReconcileRevision absent{kIdentity, 4, {}};
  absent.seen.cold_readable = false;
  EXPECT_EQ(bench.run(absent).code(), Code::kInvalidArgument) << "nothing is readable, and nothing is damaged";
}

TEST(Epoch, RearmsWhatWasLiveAndEndsWhatHadExpired) {
  TestBench bench;
  bench.publish(kIdentity);
  const Identity importing = identity_of("qwen", 1);
  bench.must(bench.begin(importing, 'c'));
  const Lease dead = *bench.run(bench.acquire(kIdentity, "dead", 1'000))->lease;
  const Lease live = *bench.run(bench.acquire(kIdentity, "live", 50'000))->lease;
  bench.advance(10'000);
  bench.must(RenewWeightImport{importing, token_of('c'), 1});  // the last instant of the old epoch
  bench.now.epoch = "boot-b";
  bench.now.mono_ms = 5;
  // A reader that may not write sees the same: what was live counts as re-armed.
  EXPECT_EQ(live_leases_of(bench.state, kIdentity, bench.now)->size(), 1U);
  bench.must(BeginEpoch{});
  EXPECT_EQ(epoch_of(bench.state)->ordinal, 2U);
  EXPECT_FALSE(find_lease(bench.state, dead.lease_id)->has_value());
  const Lease rearmed = **find_lease(bench.state, live.lease_id);
  EXPECT_EQ(rearmed.epoch, "boot-b");
  EXPECT_EQ(rearmed.expires_mono_ms, 5 + 50'000);
  EXPECT_EQ(bench.run(bench.begin(importing, 'd')).code(), Code::kBusy);
  EXPECT_TRUE(bench.run(RenewWeightImport{importing, token_of('c'), 1}).ok());
  bench.must(BeginEpoch{});
  EXPECT_TRUE(bench.last.empty());
  bench.advance(50'000);
  EXPECT_EQ(bench.run(RenewLease{live.lease_id, 1'000}).code(), Code::kLeaseExpired);
}

TEST(Epoch, ExpiredTokenEndsAndTheAgeGoesOn) {
  TestBench bench;
  bench.must(bench.begin(kIdentity, 'a'));
  bench.advance(limits::kWriterTtlMs);
  bench.must(bench.begin(identity_of("other", 1), 'b'));
  bench.now.epoch = "boot-b";
  bench.now.mono_ms = 0;
  bench.must(BeginEpoch{});
  EXPECT_EQ(bench.run(RenewWeightImport{kIdentity, token_of('a'), 1}).code(), Code::kStaleGeneration);
  AbortWeightImport abandon{kIdentity, "", 0, 1, false, limits::kAbandonAfterMs};
  bench.advance(limits::kAbandonAfterMs - limits::kWriterTtlMs - 1);
  EXPECT_EQ(bench.run(abandon).code(), Code::kBusy);
  bench.advance(1);
  EXPECT_TRUE(bench.run(abandon).ok());
}

TEST(Epoch, AClockThatStepsBackWithinItsEpochDoesNotRevive) {
  TestBench bench;
  bench.publish(kIdentity);
  const Lease lease = *bench.run(bench.acquire(kIdentity, "r", 1'000))->lease;
  bench.advance(1'000);
  bench.must(bench.begin(identity_of("other", 1), 'b'));
  bench.now.mono_ms -= 500;
  EXPECT_EQ(bench.run(RenewLease{lease.lease_id, 1'000}).code(), Code::kLeaseExpired);
}

TEST(Entries, UnknownTypeIsRefused) {
  // Field 100, length-delimited, empty.
  EXPECT_EQ(changes_of({std::string("\xa2\x06\x00", 3)}).code(), Code::kUnavailable);
  EXPECT_EQ(changes_of({""}).code(), Code::kCorrupt);
  EXPECT_EQ(changes_of({"\xff\xff"}).code(), Code::kCorrupt);
  TestBench bench;
  bench.must(bench.begin(kIdentity, 'a'));
  Entry entry = bench.last.back();
  entry.bytes += std::string("\xa2\x06\x00", 3);
  EXPECT_EQ(changes_of(entry).code(), Code::kUnavailable);
}

TEST(Entries, ReplayRefusesWhatTheRulesWouldNotWrite) {
  TestBench bench;
  bench.publish(kIdentity);
  const RevisionRecord good = bench.record(kIdentity);
  const auto refused = [&](auto change) {
    RevisionRecord record = good;
    ++record.metadata_generation;
    change(record);
    const Entry entry = encode_entry({RevisionPut{record}, bench.now.mono_ms});
    return check_entries(bench.state, bench.state.sequence() + 1, {entry}).code();
  };
  EXPECT_EQ(refused([](RevisionRecord&) {}), Code::kOk);
  EXPECT_EQ(refused([](RevisionRecord& r) { ++r.metadata_generation; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { --r.metadata_generation; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.availability = Availability::kImporting; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.residency = Residency::kUnknown; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.summary.logical_bytes = 1; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.labels = {{"k", "v"}}; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { ++r.import_attempt; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.committed_seq = 9; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.created_at_ms -= 1; }), Code::kCorrupt);
  EXPECT_EQ(refused([](RevisionRecord& r) { r.manifest_key += "x"; }), Code::kCorrupt);
  EXPECT_EQ(check_entries(bench.state, 99, bench.last).code(), Code::kCorrupt);
  const Identity importing = identity_of("qwen", 7);
  bench.must(bench.begin(importing, 'b'));
  const auto mark = [&](std::int64_t generation) {
    const Entry entry = encode_entry({WatermarkPut{{importing.lineage, generation}}, bench.now.mono_ms});
    return check_entries(bench.state, bench.state.sequence() + 1, {entry}).code();
  };
  EXPECT_EQ(mark(6), Code::kOk);
  EXPECT_EQ(mark(7), Code::kCorrupt) << "an import that goes on is not compacted";
  EXPECT_EQ(check_entries(bench.state, bench.state.sequence() + 1, {}).code(), Code::kCorrupt);
}

Result<std::shared_ptr<const SortedRows>> load(const StateView& state) {
  return load_section(save_section(state).value(), state.sequence());
}

TEST(Section, ARecordOfALaterAppendIsRefused) {
  TestBench bench;
  bench.publish(kIdentity);
  EXPECT_TRUE(load(bench.state).ok());
  const std::uint64_t committed = find_revision(bench.state, kIdentity).value()->committed_seq;
  const std::string section = save_section(bench.state).value();
  EXPECT_TRUE(load_section(section, committed).ok());
  const auto refused = load_section(section, committed - 1);
  EXPECT_EQ(refused.code(), Code::kCorrupt);
  EXPECT_NE(refused.status().message().find("a record of append " + std::to_string(committed)), std::string::npos)
      << refused.status().to_string();
}

TEST(Section, RowsThatContradictEachOtherAreRefused) {
  const Identity importing = identity_of("qwen", 7);
  // Applied without the check that replay makes.
  const auto loaded_with = [&](const EntryBody& body) {
    TestBench bench;
    bench.publish(kIdentity);
    bench.must(bench.begin(importing, 'b'));
    EXPECT_TRUE(load(bench.state).ok());
    EXPECT_TRUE(bench.state.apply(9, {encode_entry({body, bench.now.mono_ms})}).ok());
    return load(bench.state).status();
  };
  const auto refused = [&](const EntryBody& body, std::string_view why) {
    const Status status = loaded_with(body);
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find(why), std::string::npos) << status.to_string();
  };
  TestBench bench;
  bench.must(bench.begin(importing, 'b'));
  Writer writer = find_writer(bench.state, importing).value().value();
  refused(WriterRemoved{importing}, "qwen@main#7: an import without a writer");
  refused(WatermarkPut{{importing.lineage, 7}}, "qwen@main#7: an import at or below the watermark");
  EXPECT_TRUE(loaded_with(WatermarkPut{{importing.lineage, 6}}).ok());
  ++writer.import_attempt;
  refused(WriterPut{writer}, "a writer of another attempt");
  --writer.import_attempt;
  writer.epoch = "boot-z";
  refused(WriterPut{writer}, "a writer of another epoch");
  writer.epoch = bench.now.epoch;
  writer.identity = kIdentity;
  refused(WriterPut{writer}, "llama@main#7: a writer without an import");
  bench.publish(kIdentity);
  Lease lease = *bench.run(bench.acquire(kIdentity, "r"))->lease;
  EXPECT_TRUE(loaded_with(LeasePut{lease}).ok());
  lease.identity = importing;
  lease.lease_id = lease_id_of(importing, lease.holder, lease.nonce);
  refused(LeasePut{lease}, "a lease on a revision that cannot have one");
  refused(AccessPut{{identity_of("none", 1), bench.now.epoch, 1, 1, 1}}, "an access without a record");
  refused(AccessPut{{kIdentity, "boot-z", 1, 1, 2}}, "an access in an epoch to come");
}

TEST(Section, AnInstantBeforeItsEpochIsRefused) {
  TestBench bench;
  bench.must(BeginEpoch{});
  EXPECT_TRUE(load(bench.state).ok());
  // Applied without the check that replay makes.
  const Lineage& lineage = kIdentity.lineage;
  ASSERT_TRUE(bench.state.apply(2, {encode_entry({WatermarkPut{{lineage, 1}}, bench.now.mono_ms - 1})}).ok());
  EXPECT_EQ(load(bench.state).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace steelyard::metadata
