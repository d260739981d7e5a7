// The directory tier under failing system calls: what is refused, what it says, and what it leaves.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hash/sha256.h"
#include "tiers/directory/layout.h"
#include "tiers/directory/test_folder.h"
#include "tiers/open.h"

namespace steelyard::tiers {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::size_t kMiB = 1024 * 1024;

std::size_t files_below(const std::string& path) {
  std::size_t count = 0;
  if (!fs::exists(path)) return 0;
  for (const auto& entry : fs::recursive_directory_iterator(path)) count += entry.is_regular_file() ? 1 : 0;
  return count;
}

class DirectoryFaults : public testing::Test {
 protected:
  void SetUp() override { open(folder_.path() + "/tier"); }
  void open(const std::string& path) {
    path_ = path;
    auto opened = open_directory(runtime_, test_options(path));
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    tier_ = std::move(opened).value();
  }
  static AlignedBuffer random_bytes(std::size_t bytes) {
    AlignedBuffer buffer = AlignedBuffer::allocate(bytes).value();
    real_runtime().fill_random(buffer.span());
    return buffer;
  }
  Result<PutOutcome> put(const ObjectName& name, ByteView data) {
    SY_ASSIGN_OR_RETURN(auto pending, tier_->start_put(name, data, hash::sha256(data)));
    return pending->finish();
  }
  ObjectName payload(std::uint32_t index, std::uint32_t attempt = 1) const {
    return {{group_, attempt}, ObjectKind::kPayload, index};
  }
  std::string file_of(const ObjectName& name) const { return path_ + "/" + directory::object_path(name); }
  void expect_holds(const ObjectName& name, ByteView data) {
    std::vector<std::byte> found(data.size());
    const Status status = tier_->read(name, {{0, found}});
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_TRUE(std::equal(found.begin(), found.end(), data.begin()));
  }

  const std::string group_ = std::string(64, 'd');
  TestFolder folder_;
  FaultRuntime runtime_;
  std::string path_;
  std::unique_ptr<Tier> tier_;
};

struct FailingStep {
  const char* point;
  int error_number;
  std::size_t bytes;
  Code code;
};
void PrintTo(const FailingStep& step, std::ostream* out) {
  *out << step.point << " errno " << step.error_number << " bytes " << step.bytes;
}

class FailingPut : public DirectoryFaults, public testing::WithParamInterface<FailingStep> {};

TEST_P(FailingPut, ShowsNothingAndMayBeRepeated) {
  const FailingStep step = GetParam();
  const auto buffer = random_bytes(step.bytes);
  const ByteView data = buffer.span().first(step.bytes);
  runtime_.arm(step.point, step.error_number);
  const auto failed = put(payload(0), data);
  EXPECT_EQ(failed.code(), step.code) << failed.status().to_string();
  EXPECT_THAT(failed.status().message(), HasSubstr(path_));
  if (step.code == Code::kNoSpace) {
    EXPECT_THAT(failed.status().message(), HasSubstr("wanted " + std::to_string(step.bytes)));
    EXPECT_THAT(failed.status().message(), HasSubstr("bytes are free"));
    EXPECT_FALSE(failed.status().hint().empty());
  }
  runtime_.disarm();
  EXPECT_EQ(files_below(path_ + "/groups"), 0U) << "the temporary file is gone and nothing is visible";
  EXPECT_EQ(files_below(path_ + "/content"), 0U);
  EXPECT_EQ(tier_->stat(payload(0)).code(), Code::kNotFound);
  const auto again = put(payload(0), data);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  expect_holds(payload(0), data);
}

std::vector<FailingStep> failing_steps() {
  std::vector<FailingStep> steps;
  for (const std::size_t bytes : {std::size_t{5000}, 2 * kMiB, 2 * kMiB + 77}) {
    for (const char* point : {"tier.open_tmp", "tier.write", "tier.close"}) {
      for (const int error : {ENOSPC, EDQUOT, EFBIG}) steps.push_back({point, error, bytes, Code::kNoSpace});
      steps.push_back({point, EIO, bytes, Code::kUnavailable});
    }
    steps.push_back({"tier.link", ENOSPC, bytes, Code::kNoSpace});
    steps.push_back({"tier.link", EIO, bytes, Code::kUnavailable});
    steps.push_back({"tier.mkdir", ENOSPC, bytes, Code::kNoSpace});
    steps.push_back({"tier.mkdir", EROFS, bytes, Code::kUnauthorized});
    steps.push_back({"tier.zero_write", EIO, bytes, Code::kUnavailable});
  }
  for (const std::size_t bytes : {2 * kMiB, 2 * kMiB + 77}) {
    steps.push_back({"tier.sync", EIO, bytes, Code::kUnavailable});
    steps.push_back({"tier.sync", ENOSPC, bytes, Code::kNoSpace});
    steps.push_back({"tier.truncate", EFBIG, bytes, Code::kNoSpace});
  }
  steps.erase(std::remove_if(steps.begin(), steps.end(),
                             [](const FailingStep& s) {
                               return std::string(s.point) == "tier.mkdir" && s.error_number == EROFS &&
                                      s.bytes != 5000;
                             }),
              steps.end());
  return steps;
}
INSTANTIATE_TEST_SUITE_P(Steps, FailingPut, testing::ValuesIn(failing_steps()));

TEST_F(DirectoryFaults, WriteErrorInTheMiddleOfALargeObject) {
  const auto buffer = random_bytes(40 * kMiB);  // three pieces
  runtime_.arm("tier.write", ENOSPC, 1, 2);
  EXPECT_EQ(put(payload(0), buffer.span()).code(), Code::kNoSpace);
  EXPECT_EQ(files_below(path_ + "/groups"), 0U);
}

TEST_F(DirectoryFaults, ShortWritesAreContinued) {
  for (const std::size_t bytes : {std::size_t{5000}, 5 * kMiB, 20 * kMiB + 123}) {
    const auto buffer = random_bytes(bytes);
    const ByteView data = buffer.span().first(bytes);
    const auto name = payload(static_cast<std::uint32_t>(bytes));
    runtime_.arm("tier.short_write", EIO, 3);
    const auto outcome = put(name, data);
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    expect_holds(name, data);
  }
}

TEST_F(DirectoryFaults, ShortReadsAreContinued) {
  const auto buffer = random_bytes(9 * kMiB + 5);
  const ByteView data = buffer.span().first(9 * kMiB + 5);
  ASSERT_TRUE(put(payload(0), data).ok());
  runtime_.arm("tier.short_read", EIO, 5);
  expect_holds(payload(0), data);
}

TEST_F(DirectoryFaults, StreamFailuresLeaveNothing) {
  const auto buffer = random_bytes(20 * kMiB);
  for (const char* point : {"tier.write", "tier.sync", "tier.zero_write"}) {
    runtime_.arm(point, ENOSPC);
    auto stream = tier_->open_put(payload(0), buffer.size(), hash::sha256(buffer.span()));
    ASSERT_TRUE(stream.ok());
    Status status = (*stream)->append(buffer.span());
    if (status.ok()) status = (*stream)->finish().status();
    EXPECT_FALSE(status.ok()) << point;
    stream->reset();
    runtime_.disarm();
    EXPECT_EQ(files_below(path_ + "/groups"), 0U) << point;
  }
}

TEST_F(DirectoryFaults, ContentLinkFailureCostsOnlySharing) {
  const auto buffer = random_bytes(2 * kMiB);
  runtime_.arm("tier.content_link", ENOSPC);
  const auto outcome = put(payload(0), buffer.span());
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  runtime_.disarm();
  expect_holds(payload(0), buffer.span());
  EXPECT_EQ(files_below(path_ + "/content"), 0U);
  EXPECT_EQ(tier_->usage()->private_copies, 1U);
  EXPECT_FALSE(tier_->facts().empty());
  EXPECT_EQ(*put(payload(1), buffer.span()), PutOutcome::kWritten);
}

TEST_F(DirectoryFaults, TooManyLinksGiveANewCopyThatReplacesTheEntry) {
  for (const std::size_t bytes : {std::size_t{7000}, 2 * kMiB}) {
    const auto buffer = random_bytes(bytes);
    const ByteView data = buffer.span().first(bytes);
    const auto first = payload(0, 1);
    const auto second = payload(0, 2);
    ASSERT_TRUE(put(first, data).ok());
    ASSERT_TRUE(tier_->flush(first.in).ok());
    const std::string entry = path_ + "/" + directory::content_path(hash::sha256(data));
    ASSERT_TRUE(fs::equivalent(entry, file_of(first)));
    runtime_.arm("tier.link_content", EMLINK);
    EXPECT_FALSE(*tier_->link(second, hash::sha256(data), bytes));
    EXPECT_EQ(*put(second, data), PutOutcome::kWritten);
    runtime_.disarm();
    ASSERT_TRUE(tier_->flush(second.in).ok());
    EXPECT_TRUE(fs::equivalent(entry, file_of(second)));
    EXPECT_FALSE(fs::equivalent(entry, file_of(first)));
    EXPECT_TRUE(*tier_->link(payload(0, 3), hash::sha256(data), bytes));
    EXPECT_TRUE(fs::equivalent(file_of(payload(0, 3)), file_of(second)));
    expect_holds(first, data);
    for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
      ASSERT_TRUE(tier_->remove_attempt({group_, attempt}).ok());
    }
    EXPECT_EQ(files_below(path_ + "/content/" + directory::content_path(hash::sha256(data)).substr(8, 2)), 1U)
        << "no temporary name is left in the index";
  }
}

TEST_F(DirectoryFaults, ContentThatMayNotBeLinkedGivesAPrivateCopy) {
  const auto buffer = random_bytes(2 * kMiB);
  ASSERT_TRUE(put(payload(0, 1), buffer.span()).ok());
  for (const int error : {EPERM, ENOTSUP, EXDEV}) {
    const auto name = payload(static_cast<std::uint32_t>(error), 2);
    runtime_.arm("tier.link_content", error);
    EXPECT_FALSE(*tier_->link(name, hash::sha256(buffer.span()), buffer.size()));
    EXPECT_EQ(*put(name, buffer.span()), PutOutcome::kWritten);
    runtime_.disarm();
    expect_holds(name, buffer.span());
  }
  EXPECT_EQ(tier_->usage()->private_copies, 3U);
}

TEST_F(DirectoryFaults, WithoutHardLinksARenameTakesTheirPlace) {
  const auto buffer = random_bytes(2 * kMiB);
  const auto other = random_bytes(2 * kMiB);
  for (const char* point : {"tier.link", "tier.content_link", "tier.link_content"}) runtime_.arm(point, EPERM);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  expect_holds(payload(0), buffer.span());
  EXPECT_EQ(put(payload(0), other.span()).code(), Code::kConflict);
  EXPECT_EQ(*put(payload(0), buffer.span()), PutOutcome::kExisted);
  EXPECT_EQ(files_below(path_ + "/groups"), 1U);
  EXPECT_FALSE(tier_->facts().empty());
}

TEST_F(DirectoryFaults, EntryOfAnotherSizeIsNeverLinkedAndIsReplaced) {
  const auto buffer = random_bytes(2 * kMiB);
  ASSERT_TRUE(put(payload(0, 1), buffer.span()).ok());
  const std::string entry = path_ + "/" + directory::content_path(hash::sha256(buffer.span()));
  fs::remove(entry);
  std::ofstream(entry) << "rot";
  EXPECT_FALSE(*tier_->link(payload(0, 2), hash::sha256(buffer.span()), buffer.size()));
  EXPECT_EQ(*put(payload(0, 2), buffer.span()), PutOutcome::kWritten);
  expect_holds(payload(0, 2), buffer.span());
  EXPECT_TRUE(fs::equivalent(entry, file_of(payload(0, 2))));
}

TEST_F(DirectoryFaults, EntryReplacedUnderTheLinkIsNoticed) {
  const auto buffer = random_bytes(2 * kMiB);
  ASSERT_TRUE(put(payload(0, 1), buffer.span()).ok());
  const std::string entry = path_ + "/" + directory::content_path(hash::sha256(buffer.span()));
  runtime_.on("tier.link_content", [&] {
    fs::remove(entry);
    std::ofstream(entry) << "other bytes";
  });
  EXPECT_FALSE(*tier_->link(payload(0, 2), hash::sha256(buffer.span()), buffer.size()));
  EXPECT_EQ(tier_->stat(payload(0, 2)).code(), Code::kNotFound);
}

TEST_F(DirectoryFaults, FlushFailureIsReportedAndNothingSmallIsIndexed) {
  const auto buffer = random_bytes(4096);
  for (const char* point : {"tier.flush", "tier.open_flush"}) {
    const auto name = payload(static_cast<std::uint32_t>(std::string(point).size()));
    ASSERT_TRUE(put(name, buffer.span().first(100 + name.index)).ok());
    runtime_.arm(point, EIO);
    EXPECT_EQ(tier_->flush(name.in).code(), Code::kUnavailable);
    EXPECT_EQ(files_below(path_ + "/content"), 0U) << "an entry is linked only after its bytes are durable";
    runtime_.disarm();
  }
}

TEST_F(DirectoryFaults, EqualSmallObjectsOfAnAttemptAreWrittenOnceBeforeTheFlushToo) {
  const auto buffer = random_bytes(8192);
  const auto written = put(payload(0), buffer.span());
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  EXPECT_EQ(*written, PutOutcome::kWritten);
  const auto linked = put(payload(1), buffer.span());
  ASSERT_TRUE(linked.ok()) << linked.status().to_string();
  EXPECT_EQ(*linked, PutOutcome::kLinked);
  const auto other_attempt = put(payload(0, 2), buffer.span());
  ASSERT_TRUE(other_attempt.ok());
  EXPECT_EQ(*other_attempt, PutOutcome::kWritten) << "it must not lean on what another attempt has not flushed";
  // A link that fails costs a copy.
  for (const int error : {EMLINK, EPERM, EIO}) {
    runtime_.arm("tier.link_content", error, 1);
    const auto copied = put(payload(static_cast<std::uint32_t>(error) + 100), buffer.span());
    ASSERT_TRUE(copied.ok()) << copied.status().to_string();
    EXPECT_EQ(*copied, PutOutcome::kWritten);
  }
  ASSERT_TRUE(tier_->flush(payload(0).in).ok());
  ASSERT_TRUE(tier_->remove(payload(0)).ok());
  expect_holds(payload(1), buffer.span());
  const auto found = tier_->link(payload(7), hash::sha256(buffer.span()), buffer.size());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_TRUE(*found) << "one content entry stands for all";
}

TEST_F(DirectoryFaults, TruncatedFileIsCorruptAndNoSignal) {
  const auto buffer = random_bytes(6 * kMiB);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  ASSERT_EQ(::truncate(file_of(payload(0)).c_str(), 2 * kMiB + 100), 0);
  AlignedBuffer into = AlignedBuffer::allocate(6 * kMiB).value();
  const Status status = tier_->read(payload(0), {{0, into.span()}});
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("payload 00000000"));
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(2 * kMiB + 100)));
  EXPECT_TRUE(tier_->read(payload(0), {{0, into.span().first(2 * kMiB + 100)}}).ok()) << "what is there can be read";
}

TEST_F(DirectoryFaults, TruncatedBetweenStartAndFinish) {
  const auto buffer = random_bytes(64 * kMiB);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  AlignedBuffer into = AlignedBuffer::allocate(64 * kMiB).value();
  int passes = 0;
  runtime_.on("tier.read", [&] {
    if (++passes != 9) return;
    ASSERT_EQ(::truncate(file_of(payload(0)).c_str(), kMiB), 0);
  });
  auto read = tier_->start_read(payload(0), {{0, into.span()}});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->finish().code(), Code::kCorrupt);
}

TEST_F(DirectoryFaults, ReadErrorNamesFileAndOffset) {
  const auto buffer = random_bytes(6 * kMiB);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  runtime_.arm("tier.read", EIO, 1, 1);
  AlignedBuffer into = AlignedBuffer::allocate(6 * kMiB).value();
  const Status status = tier_->read(payload(0), {{0, into.span()}});
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(file_of(payload(0))));
  EXPECT_THAT(status.message(), HasSubstr("offset " + std::to_string(4 * kMiB)));
}

TEST_F(DirectoryFaults, WithoutIoUringEverythingWorksInTasks) {
  runtime_.arm("tier.io_uring", ENOSYS);
  const auto buffer = random_bytes(40 * kMiB + 9);
  const ByteView data = buffer.span().first(40 * kMiB + 9);
  ASSERT_TRUE(put(payload(0), data).ok());
  expect_holds(payload(0), data);
  ASSERT_TRUE(tier_->flush(payload(0).in).ok());
  ASSERT_EQ(tier_->facts().size(), 1U);
  EXPECT_THAT(tier_->facts().front(), HasSubstr("io_uring"));
  EXPECT_EQ(runtime_.passes("tier.io_uring"), 1U) << "found out once";
}

TEST_F(DirectoryFaults, WithoutDirectIoThePageCacheIsUsed) {
  runtime_.arm("tier.direct", EINVAL);
  const auto buffer = random_bytes(40 * kMiB + 9);
  const ByteView data = buffer.span().first(40 * kMiB + 9);
  ASSERT_TRUE(put(payload(0), data).ok());
  expect_holds(payload(0), data);
  ASSERT_EQ(tier_->facts().size(), 1U);
  EXPECT_THAT(tier_->facts().front(), HasSubstr("direct I/O"));
  EXPECT_EQ(runtime_.passes("tier.direct"), 1U) << "found out once";
}

TEST_F(DirectoryFaults, DirectWriteThatIsRefusedLateFallsBack) {
  const auto buffer = random_bytes(20 * kMiB);
  runtime_.arm("tier.write", EINVAL, 1);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  expect_holds(payload(0), buffer.span());
  ASSERT_EQ(tier_->facts().size(), 1U);
}

TEST_F(DirectoryFaults, RemovalFailureIsReportedAndTheRestGoes) {
  for (std::uint32_t index = 0; index < 3; ++index) {
    const auto buffer = random_bytes(100);
    ASSERT_TRUE(put(payload(index), buffer.span().first(50)).ok());
  }
  runtime_.arm("tier.remove", EIO, 1, 1);
  EXPECT_EQ(tier_->remove_attempt({group_, 1}).code(), Code::kUnavailable);
  EXPECT_EQ(files_below(path_ + "/groups"), 1U);
}

TEST_F(DirectoryFaults, ForeignFilesSurviveRemoval) {
  const auto buffer = random_bytes(100);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  std::ofstream(path_ + "/" + directory::attempt_path({group_, 1}) + "/notes.txt") << "mine";
  EXPECT_TRUE(tier_->remove_attempt({group_, 1}).ok());
  EXPECT_EQ(tier_->stat(payload(0)).code(), Code::kNotFound);
  EXPECT_TRUE(fs::exists(path_ + "/" + directory::attempt_path({group_, 1}) + "/notes.txt"));
}

TEST_F(DirectoryFaults, TemporariesOfDeadWritersAreRemoved) {
  const auto buffer = random_bytes(100);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  const std::string tmp = path_ + "/" + directory::attempt_path({group_, 1}) + "/tmp/";
  std::ofstream(tmp + "0123456789abcdef") << "dead";
  std::ofstream(tmp + "fedcba9876543210") << "dead";
  std::ofstream(tmp + "foreign") << "mine";
  runtime_.arm("tier.remove", EIO, 1);
  EXPECT_FALSE(tier_->remove_temporaries({group_, 1}, 0).ok());
  EXPECT_FALSE(fs::exists(tmp + "fedcba9876543210")) << "goes on past a failure";
  EXPECT_TRUE(tier_->remove_temporaries({group_, 1}, 0).ok());
  EXPECT_FALSE(fs::exists(tmp + "0123456789abcdef"));
  EXPECT_TRUE(fs::exists(tmp + "foreign"));
}

TEST_F(DirectoryFaults, TemporariesThatMayBeInUseStay) {
  const auto buffer = random_bytes(100);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  const std::string file = path_ + "/" + directory::attempt_path({group_, 1}) + "/tmp/0123456789abcdef";
  std::ofstream(file) << "of another process";
  EXPECT_TRUE(tier_->remove_temporaries({group_, 1}, 3'600'000).ok());
  EXPECT_TRUE(fs::exists(file));
  EXPECT_TRUE(tier_->remove_temporaries({group_, 1}, 0).ok());
  EXPECT_FALSE(fs::exists(file));
}

/// Takes the temporary files of an attempt away, as another process that thinks their writer dead.
class StolenTemporaries : public DirectoryFaults {
 protected:
  void steal_at(const std::string& point, int times, std::uint32_t attempt) {
    thefts_ = times;
    runtime_.on(point, [this, attempt] {
      if (thefts_-- <= 0) return;
      for (const auto& file :
           fs::directory_iterator(path_ + "/" + directory::attempt_path({group_, attempt}) + "/tmp")) {
        fs::remove(file.path());
      }
    });
  }

  int thefts_ = 0;
};

TEST_F(StolenTemporaries, AReplacementIsDoneAgain) {
  const auto before = random_bytes(kMiB);
  const auto after = random_bytes(kMiB);
  for (const std::uint32_t attempt : {1U, 2U}) ASSERT_TRUE(put(payload(0, attempt), before.span()).ok());
  ASSERT_TRUE(put(payload(1), after.span()).ok());
  const auto relink = [&] { return tier_->relink({payload(0, 2), payload(0)}, hash::sha256(after.span()), kMiB); };
  for (const std::uint32_t attempt : {2U, 1U}) {
    steal_at("tier.after_replace_link", 1000, attempt);
    const auto relinked = relink();
    EXPECT_EQ(relinked.code(), Code::kUnavailable) << "it says that a name has its old bytes";
  }
  expect_holds(payload(0), before.span());
  steal_at("tier.after_replace_link", 3, 1);
  const auto relinked = relink();
  ASSERT_TRUE(relinked.ok()) << relinked.status().to_string();
  for (const std::uint32_t attempt : {1U, 2U}) expect_holds(payload(0, attempt), after.span());
}

TEST_F(StolenTemporaries, ANameThatWentStaysAway) {
  const auto before = random_bytes(kMiB);
  const auto after = random_bytes(kMiB);
  for (const std::uint32_t attempt : {1U, 2U}) ASSERT_TRUE(put(payload(0, attempt), before.span()).ok());
  ASSERT_TRUE(put(payload(1), after.span()).ok());
  runtime_.on("tier.after_replace_link", [&] { fs::remove_all(path_ + "/" + directory::attempt_path({group_, 2})); });
  const auto relinked = tier_->relink({payload(0, 2), payload(0)}, hash::sha256(after.span()), kMiB);
  EXPECT_TRUE(relinked.ok()) << relinked.status().to_string();
  EXPECT_EQ(tier_->stat(payload(0, 2)).code(), Code::kNotFound);
  expect_holds(payload(0), after.span());
}

TEST_F(StolenTemporaries, AMarkerIsWrittenAgain) {
  const auto buffer = random_bytes(100);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  steal_at("tier.after_marker_write", 1000, 1);
  EXPECT_EQ(tier_->put_committed({group_, 1}, "record").code(), Code::kUnavailable);
  // Also between its close and its sync, which opens it by name.
  std::uint32_t attempt = 1;
  for (const char* point : {"tier.after_marker_write", "tier.open_flush"}) {
    ASSERT_TRUE(put(payload(0, attempt), buffer.span()).ok());
    steal_at(point, 3, attempt);
    const Status status = tier_->put_committed({group_, attempt}, "record");
    EXPECT_TRUE(status.ok()) << point << ": " << status.to_string();
    EXPECT_LE(thefts_, 0) << point;
    EXPECT_EQ(*tier_->read_committed({group_, attempt}), "record") << point;
    ++attempt;
  }
}

TEST_F(StolenTemporaries, APutSaysSo) {
  const auto buffer = random_bytes(kMiB);
  steal_at("tier.after_write", 1, 1);
  EXPECT_EQ(put(payload(0), buffer.span()).code(), Code::kUnavailable);
  EXPECT_TRUE(put(payload(0), buffer.span()).ok());
  steal_at("tier.after_replacement_write", 1, 1);
  const auto after = random_bytes(kMiB);
  const auto replace = [&] {
    auto stream = tier_->open_replacement({payload(0)}, kMiB, hash::sha256(after.span()));
    EXPECT_TRUE((*stream)->append(after.span()).ok());
    return (*stream)->finish().status();
  };
  EXPECT_EQ(replace().code(), Code::kUnavailable);
  expect_holds(payload(0), buffer.span());
  EXPECT_TRUE(replace().ok());
}

TEST_F(DirectoryFaults, FoldersThatAReplacementMakesAreSynced) {
  const auto bytes = random_bytes(kMiB);
  ASSERT_TRUE(put(payload(1, 2), bytes.span()).ok());
  const auto syncs = [&](std::uint32_t attempt) {
    const std::uint64_t before = runtime_.passes("tier.flush");
    EXPECT_TRUE(*tier_->relink({payload(0, attempt)}, hash::sha256(bytes.span()), kMiB));
    return runtime_.passes("tier.flush") - before;
  };
  ASSERT_TRUE(put(payload(0, 1), random_bytes(kMiB).span()).ok());
  EXPECT_EQ(syncs(1), 1U) << "a name that was there: its folder";
  EXPECT_EQ(syncs(3), 6U) << "all from p to the tier's own";
}

TEST_F(DirectoryFaults, MarkerFailuresLeaveNoMarker) {
  const auto buffer = random_bytes(100);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  for (const char* point : {"tier.open_tmp", "tier.write", "tier.flush", "tier.marker"}) {
    runtime_.arm(point, ENOSPC);
    EXPECT_EQ(tier_->put_committed({group_, 1}, "record").code(), Code::kNoSpace) << point;
    runtime_.disarm();
    EXPECT_EQ(tier_->read_committed({group_, 1}).code(), Code::kNotFound) << point;
  }
  runtime_.arm("tier.rename", EROFS);
  EXPECT_EQ(tier_->put_deleting(group_, "going").code(), Code::kUnauthorized);
  runtime_.disarm();
  EXPECT_FALSE(tier_->list_group(group_)->deleting);
  char digit = '0';
  for (const char* point : {"tier.open_tmp", "tier.write", "tier.rename"}) {
    // A delete on a full disk goes on: the marker is there, though empty.
    const std::string group(64, digit++);
    runtime_.arm(point, ENOSPC);
    EXPECT_TRUE(tier_->put_deleting(group, "going").ok()) << point;
    runtime_.disarm();
    EXPECT_TRUE(tier_->list_group(group)->deleting) << point;
    EXPECT_EQ(*tier_->read_deleting(group), "") << point;
  }
  for (const char* point : {"tier.open_tmp", "tier.write", "tier.flush", "tier.rename"}) {
    runtime_.arm(point, ENOSPC);
    EXPECT_EQ(tier_->put_catalog_copy(3, "snapshot").code(), Code::kNoSpace) << point;
    runtime_.disarm();
    EXPECT_TRUE(tier_->list_catalog_copies()->empty()) << point;
  }
}

TEST_F(DirectoryFaults, FilesHaveNoWriteBits) {
  const auto buffer = random_bytes(2 * kMiB);
  ASSERT_TRUE(put(payload(0), buffer.span()).ok());
  struct stat there {};
  ASSERT_EQ(::stat(file_of(payload(0)).c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0222U, 0U);
}

TEST(DirectoryDiskFull, EveryPutIsRefusedWholeAndRoomCanBeMade) {
  const TestFolder folder;
  if (::geteuid() != 0 || ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64m") != 0) {
    GTEST_SKIP() << "a tmpfs cannot be mounted here";
  }
  {
    auto opened = open_directory(real_runtime(), test_options(folder.path() + "/tier"));
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    Tier& tier = **opened;
    const AttemptName attempt{std::string(64, 'f'), 1};
    AlignedBuffer buffer = AlignedBuffer::allocate(10 * kMiB).value();
    std::uint32_t index = 0;
    Status status;
    while (status.ok() && index < 20) {
      real_runtime().fill_random(buffer.span());
      auto pending = tier.start_put({attempt, ObjectKind::kPayload, index}, buffer.span(), hash::sha256(buffer.span()));
      status = pending.ok() ? (*pending)->finish().status() : pending.status();
      if (status.ok()) ++index;
    }
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("bytes are free"));
    EXPECT_EQ(index, 6U);
    EXPECT_EQ(tier.list_attempt(attempt)->size(), index);
    EXPECT_EQ(files_below(folder.path() + "/tier/groups"), index);
    std::vector<std::byte> found(100);
    EXPECT_TRUE(tier.read({attempt, ObjectKind::kPayload, 0}, {{0, found}}).ok()) << "a full tier can be read";
    EXPECT_TRUE(tier.remove_attempt(attempt).ok());
    const auto content = tier.list_content();
    ASSERT_TRUE(content.ok());
    for (const auto& entry : *content) EXPECT_TRUE(tier.remove_content(entry.sha256).ok());
    auto again = tier.start_put({attempt, ObjectKind::kPayload, 0}, buffer.span(), hash::sha256(buffer.span()));
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE((*again)->finish().ok());
  }
  ::umount(folder.path().c_str());
}

}  // namespace
}  // namespace steelyard::tiers
