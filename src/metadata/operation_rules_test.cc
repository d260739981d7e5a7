// Operations: the fence, one runner at a time, takeover, cancel, and what a record retains.
#include "metadata/keys.h"
#include "metadata/test_bench.h"

namespace steelyard::metadata {
namespace {

struct OperationRules : testing::Test {
  OperationRules() { bench.publish(identity); }

  StartOperation start(char id, std::optional<RunnerGrant> runner = std::nullopt) const {
    StartOperation command;
    command.identity = identity;
    command.expected_metadata_generation = bench.record(identity).metadata_generation;
    command.operation_id = token_of(id);
    command.kind = OperationKind::kRepairing;
    command.total_members = 3;
    command.total_bytes = 30;
    command.runner = std::move(runner);
    return command;
  }
  TakeOperation take(char id, char token) const {
    return {identity, token_of(id), TestBench::grant(token), false, {}, {}, {}};
  }
  ReportOperation report(char id, char token, std::uint32_t attempt, std::uint64_t members) const {
    return {identity, {token_of(id), token_of(token), attempt}, members, members * 10, "under way", false};
  }
  EndOperation end(char id, char token, std::uint32_t attempt, OperationState state = OperationState::kDone) const {
    return {identity, {token_of(id), token_of(token), attempt}, state, 3, 30, "all restored", {}};
  }

  const Identity identity = identity_of("llama", 1);
  TestBench bench;
};

TEST_F(OperationRules, StartedRunAndEnded) {
  const StartOperation command = start('1', TestBench::grant('a'));
  const auto started = bench.run(command);
  ASSERT_TRUE(started.ok()) << started.status().to_string();
  EXPECT_EQ(started->record->metadata_generation, 3U);
  EXPECT_EQ(started->record->operation->kind, OperationKind::kRepairing);
  EXPECT_EQ(started->runner->run_attempt, 1U);

  // A lost answer: the same request again changes nothing, and another under its id is refused.
  const auto again = bench.run(command);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(bench.last.empty());
  EXPECT_EQ(again->record, started->record);
  EXPECT_EQ(again->runner, started->runner);
  StartOperation without = command;
  without.runner.reset();
  EXPECT_FALSE(bench.run(without)->runner) << "the runner is another's";
  StartOperation other = command;
  other.expected_metadata_generation = 3;
  EXPECT_EQ(bench.run(other).code(), Code::kConflict);

  bench.advance(10);
  ASSERT_TRUE(bench.run(report('1', 'a', 1, 2)).ok());
  const auto view = get_operation(bench.state, token_of('1'));
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->operation.processed_members, 2U);
  EXPECT_EQ(view->operation.message, "under way");
  EXPECT_EQ(bench.record(identity).metadata_generation, 3U) << "progress moves no generation";

  const auto ended = bench.run(end('1', 'a', 1));
  ASSERT_TRUE(ended.ok()) << ended.status().to_string();
  EXPECT_FALSE(ended->record->operation);
  EXPECT_EQ(ended->record->metadata_generation, 4U);
  EXPECT_EQ(get_operation(bench.state, token_of('1'))->operation.state, OperationState::kDone);
  EXPECT_EQ(get_operation(bench.state, token_of('1'))->operation.processed_bytes, 30U);
  ASSERT_TRUE(bench.run(end('1', 'a', 1)).ok()) << "a retry";
  EXPECT_TRUE(bench.last.empty());
  EXPECT_EQ(bench.run(end('1', 'a', 1, OperationState::kFailed)).code(), Code::kStaleGeneration);
  EXPECT_EQ(bench.run(report('1', 'a', 1, 3)).code(), Code::kStaleGeneration);
}

TEST_F(OperationRules, AtMostOneAndFenced) {
  StartOperation stale = start('1');
  stale.expected_metadata_generation = 1;
  EXPECT_EQ(bench.run(stale).code(), Code::kStaleGeneration);
  bench.must(start('1'));
  const auto second = bench.run(start('2'));
  EXPECT_EQ(second.code(), Code::kBusy);
  EXPECT_NE(second.status().message().find(token_of('1')), std::string::npos);
  StartOperation nothing = start('3');
  nothing.kind = OperationKind::kNone;
  EXPECT_NE(bench.run(nothing).code(), Code::kOk);
  EXPECT_EQ(bench.run(CancelOperation{token_of('9')}).code(), Code::kNotFound);
}

TEST_F(OperationRules, AMalformedStartIsRefused) {
  StartOperation nothing = start('3');
  nothing.kind = OperationKind::kNone;
  EXPECT_EQ(bench.run(nothing).code(), Code::kInvalidArgument);
  StartOperation id = start('3');
  id.operation_id = "x";
  EXPECT_EQ(bench.run(id).code(), Code::kInvalidArgument);
}

TEST_F(OperationRules, OneRunnerAtATime) {
  bench.must(start('1', TestBench::grant('a')));
  const auto busy = bench.run(take('1', 'b'));
  EXPECT_EQ(busy.code(), Code::kBusy);
  EXPECT_NE(busy.status().message().find("runner a"), std::string::npos);
  TakeOperation wrong = take('1', 'b');
  wrong.current_runner_gone = true;
  wrong.gone_process = TestBench::grant('c').process;
  EXPECT_EQ(bench.run(wrong).code(), Code::kBusy) << "the proof is about another process";

  // Its token ends, is given back, or its process is gone: taken over, and the old one is out.
  bench.must(report('1', 'a', 1, 1));
  bench.advance(limits::kWriterTtlMs);
  const auto expired = bench.run(take('1', 'b'));
  ASSERT_TRUE(expired.ok()) << expired.status().to_string();
  EXPECT_EQ(expired->runner->run_attempt, 2U);
  EXPECT_EQ(expired->runner->processed_members, 1U);
  EXPECT_EQ(bench.run(report('1', 'a', 1, 2)).code(), Code::kStaleGeneration);
  EXPECT_EQ(bench.run(end('1', 'a', 1)).code(), Code::kStaleGeneration);
  ReportOperation back = report('1', 'b', 2, 1);
  back.give_back = true;
  bench.must(back);
  EXPECT_EQ(bench.run(take('1', 'c'))->runner->run_attempt, 3U);
  TakeOperation gone = take('1', 'd');
  gone.current_runner_gone = true;
  gone.gone_process = TestBench::grant('c').process;
  EXPECT_EQ(bench.run(gone)->runner->run_attempt, 4U);
  EXPECT_EQ(bench.run(take('2', 'd')).code(), Code::kStaleGeneration);
}

TEST_F(OperationRules, AnEndTellsHowFarItCame) {
  const auto ended_as = [&](char id) { return get_operation(bench.state, token_of(id)).value().operation; };
  // DONE is all of it, also where its last runner has not counted what others did before it.
  bench.must(start('1', TestBench::grant('a')));
  bench.must(report('1', 'a', 1, 1));
  EndOperation done = end('1', 'a', 1);
  done.processed_members = 1;
  done.processed_bytes = 10;
  bench.must(done);
  EXPECT_EQ(ended_as('1').processed_members, 3U);
  EXPECT_EQ(ended_as('1').processed_bytes, 30U);

  // FAILED is what its end says, or what was told before it if that is more: a runner that took over may count anew.
  bench.must(start('2', TestBench::grant('a')));
  bench.must(report('2', 'a', 1, 1));
  EndOperation failed = end('2', 'a', 1, OperationState::kFailed);
  failed.processed_members = 2;
  failed.processed_bytes = 20;
  bench.must(failed);
  EXPECT_EQ(ended_as('2').processed_members, 2U);
  EXPECT_EQ(ended_as('2').processed_bytes, 20U);
  bench.must(start('3', TestBench::grant('a')));
  bench.must(report('3', 'a', 1, 2));
  bench.advance(limits::kWriterTtlMs);
  bench.must(take('3', 'b'));
  failed = end('3', 'b', 2, OperationState::kFailed);
  failed.processed_members = 0;
  failed.processed_bytes = 0;
  bench.must(failed);
  EXPECT_EQ(ended_as('3').processed_members, 2U);

  // CANCELLED, as was told.
  bench.must(start('4', TestBench::grant('a')));
  bench.must(report('4', 'a', 1, 1));
  bench.must(CancelOperation{token_of('4')});
  EXPECT_EQ(ended_as('4').processed_members, 1U);
  EXPECT_EQ(ended_as('4').processed_bytes, 10U);
}

TEST_F(OperationRules, ARetryOfAnEndIsAnsweredToTheRunThatEndedIt) {
  bench.must(start('1', TestBench::grant('a')));
  bench.advance(limits::kWriterTtlMs);
  bench.must(take('1', 'b'));
  const EndOperation first = end('1', 'b', 2, OperationState::kFailed);
  bench.must(first);
  EXPECT_EQ(get_operation(bench.state, token_of('1'))->operation.ended_by, token_of('b'));
  bench.must(first);
  EXPECT_TRUE(bench.last.empty());
  const auto late = bench.run(end('1', 'a', 1, OperationState::kFailed));
  const auto renewal = bench.run(report('1', 'a', 1, 1));
  EXPECT_EQ(late.code(), Code::kStaleGeneration);
  EXPECT_EQ(late.status().message(), renewal.status().message());

  bench.must(start('2', TestBench::grant('a')));
  bench.must(CancelOperation{token_of('2')});
  EXPECT_EQ(get_operation(bench.state, token_of('2'))->operation.ended_by, "") << "no runner ended it";
}

TEST_F(OperationRules, AnEndThatDoesNotSayWhoseItWasIsAnsweredToAll) {
  bench.must(start('1', TestBench::grant('a')));
  // As it was written before ends said that.
  RevisionRecord record = bench.record(identity);
  ++record.metadata_generation;
  Operation ended = *std::exchange(record.operation, std::nullopt);
  ended.state = OperationState::kDone;
  ended.ended_at_ms = record.updated_at_ms;
  record.finished_operations.push_back(std::move(ended));
  bench.append({encode_entry({RunnerRemoved{identity}, {}}), encode_entry({RevisionPut{record}, bench.now.mono_ms})});
  EXPECT_TRUE(bench.run(end('1', 'b', 2)).ok());
  EXPECT_TRUE(bench.last.empty());
}

TEST_F(OperationRules, ARetryIsNotToldOfAnotherRunner) {
  const StartOperation command = start('1', TestBench::grant('a'));
  bench.must(command);
  bench.advance(limits::kWriterTtlMs);
  bench.must(take('1', 'b'));
  const auto again = bench.run(command);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->runner);
}

TEST_F(OperationRules, WhereTheBytesComeFromStaysKnown) {
  StartOperation command = start('1', TestBench::grant('a'));
  command.runner->source = "/checkpoints/\xff";
  EXPECT_EQ(bench.run(command)->runner->source, command.runner->source);
  ReportOperation back = report('1', 'a', 1, 1);
  back.give_back = true;
  bench.must(back);
  EXPECT_EQ(bench.run(take('1', 'b'))->runner->source, command.runner->source) << "a runner without one";
  EXPECT_EQ(get_operation(bench.state, token_of('1'))->runner->source, command.runner->source);
  bench.advance(limits::kWriterTtlMs);
  TakeOperation other = take('1', 'c');
  other.runner.source = "/elsewhere";
  EXPECT_EQ(bench.run(other)->runner->source, "/elsewhere");
  bench.advance(limits::kWriterTtlMs);
  other = take('1', 'd');
  other.runner.source.assign(5000, 'x');
  EXPECT_EQ(bench.run(other).code(), Code::kInvalidArgument);
}

TEST_F(OperationRules, ARebootLetsTheRunnerGoOn) {
  bench.must(start('1', TestBench::grant('a')));
  bench.now = {"boot-b", 5, bench.now.wall_ms};
  EXPECT_EQ(bench.run(take('1', 'b')).code(), Code::kBusy) << "it was live, so it has its whole time again";
  bench.must(BeginEpoch{});
  EXPECT_EQ(bench.run(take('1', 'b')).code(), Code::kBusy);
  bench.advance(limits::kWriterTtlMs);
  EXPECT_TRUE(bench.run(take('1', 'b')).ok());
}

TEST_F(OperationRules, CancelIsDurableAndRepeatable) {
  bench.must(start('1', TestBench::grant('a')));
  const auto cancelled = bench.run(CancelOperation{token_of('1')});
  ASSERT_TRUE(cancelled.ok());
  EXPECT_FALSE(cancelled->record->operation);
  EXPECT_EQ(get_operation(bench.state, token_of('1'))->operation.state, OperationState::kCancelled);
  bench.must(CancelOperation{token_of('1')});
  EXPECT_TRUE(bench.last.empty());
  EXPECT_EQ(bench.run(end('1', 'a', 1)).code(), Code::kStaleGeneration);
  EXPECT_FALSE(*find_runner(bench.state, identity));
}

TEST_F(OperationRules, ADeleteCancelsIt) {
  bench.must(start('1', TestBench::grant('a')));
  bench.must(DeleteWeightRevision{identity, 3, DeleteMode::kRefuse});
  EXPECT_EQ(get_operation(bench.state, token_of('1'))->operation.state, OperationState::kCancelled);
  EXPECT_EQ(bench.run(report('1', 'a', 1, 1)).code(), Code::kStaleGeneration);
  EXPECT_EQ(bench.run(start('2')).code(), Code::kNotReady);
}

TEST_F(OperationRules, TheLastSixteenAreRetained) {
  const std::string digits = "0123456789abcdef";
  const auto id = [&](std::size_t number) { return std::string(31, digits[number / 16]) + digits[number % 16]; };
  for (std::size_t number = 0; number < limits::kOperationsRetained + 2; ++number) {
    StartOperation command = start('1');
    command.operation_id = id(number);
    bench.must(command);
    bench.must(CancelOperation{id(number)});
  }
  EXPECT_EQ(bench.record(identity).finished_operations.size(), limits::kOperationsRetained);
  EXPECT_EQ(get_operation(bench.state, id(1)).code(), Code::kNotFound);
  EXPECT_TRUE(get_operation(bench.state, id(2)).ok());
}

}  // namespace
}  // namespace steelyard::metadata
