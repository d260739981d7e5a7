#include "store/operation_text.h"

#include <gtest/gtest.h>

namespace steelyard::store {
namespace {

using metadata::OperationState;

TEST(EndedOperation, IsTheOneThatWasBegunWhateverEndedAfterIt) {
  metadata::Operation begun;
  begun.operation_id = std::string(32, 'a');
  metadata::RevisionRecord now;
  EXPECT_EQ(ended_operation(begun, OperationState::kDone, now).state, OperationState::kDone) << "it is forgotten";
  metadata::Operation ended = begun;
  ended.state = OperationState::kDone;
  ended.message = "over";
  metadata::Operation later;
  later.operation_id = std::string(32, 'b');
  later.state = OperationState::kFailed;
  now.finished_operations = {ended, later};
  EXPECT_EQ(ended_operation(begun, OperationState::kDone, now), ended);
}

}  // namespace
}  // namespace steelyard::store
