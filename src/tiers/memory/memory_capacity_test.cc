// What limits the hot tier, and how its account comes out right whatever happens to the processes.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "hash/sha256.h"
#include "tiers/memory/test_instance.h"
#include "tiers/page.h"

namespace steelyard::tiers {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1024 * 1024;
const AttemptName kAttempt{std::string(64, 'a'), 1, std::string(32, 'b')};
const AttemptName kOther{std::string(64, 'a'), 1, std::string(32, 'c')};

ObjectName payload(std::uint32_t index, const AttemptName& attempt = kAttempt) {
  return {attempt, ObjectKind::kPayload, index};
}

Status put(Tier& tier, const ObjectName& name, std::uint64_t bytes) {
  const auto buffer = AlignedBuffer::allocate(bytes).value();
  real_runtime().fill_random(buffer.span());
  const ByteView data = buffer.span().first(bytes);
  SY_ASSIGN_OR_RETURN(auto pending, tier.start_put(name, data, hash::sha256(data)));
  return pending->finish().status();
}

/// A process that does something with a tier of its own and then waits to be killed.
class Child {
 public:
  using Ready = std::function<void(bool)>;
  explicit Child(const std::function<void(const Ready&)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      body([&](bool ready) {
        const char answer = ready ? 'y' : 'n';
        if (::write(ends[1], &answer, 1) != 1) ::_exit(1);
        for (;;) ::pause();
      });
      ::_exit(1);
    }
    ::close(ends[1]);
    char answer = 0;
    ready_ = ::read(ends[0], &answer, 1) == 1 && answer == 'y';
    ::close(ends[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }
  bool ready() const { return ready_; }
  void stop() {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    ::waitpid(pid_, &status, WUNTRACED);
  }
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

class MemoryCapacity : public testing::Test {
 protected:
  void SetUp() override {
    if (!folder_.made()) GTEST_SKIP() << "/dev/shm cannot be used here";
    options_ = memory_test_options(folder_.path());
    options_.memory_limits = [] { return std::vector<MemoryLimit>(); };
  }
  std::unique_ptr<Tier> open() {
    auto tier = open_memory(runtime_, options_);
    EXPECT_TRUE(tier.ok()) << tier.status().to_string();
    return std::move(tier).value();
  }
  std::size_t claims() {
    const fs::path path = instance_path(folder_.path()) + "/claims";
    return fs::exists(path) ? static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {})) : 0;
  }

  TestTmpfs folder_;
  FaultRuntime runtime_;
  MemoryOptions options_;
};

TEST_F(MemoryCapacity, TheSettingInTheWayIsNamed) {
  const auto refused = [&](std::uint64_t bytes) {
    const auto tier = open();
    const Status status = tier->reserve(kAttempt.operation, bytes).status();
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.to_string();
    EXPECT_EQ(claims(), 0U) << "nothing is left of it";
    return status;
  };
  EXPECT_EQ(*open()->available_bytes(), 64 * kMiB);
  Status status = refused(65 * kMiB);
  EXPECT_THAT(status.message(), HasSubstr("hot.capacity is 64MiB, of which 0B are used and 0B reserved"));
  EXPECT_THAT(status.message(), HasSubstr("cannot take 65MiB"));
  EXPECT_THAT(status.hint(), HasSubstr("--hot-capacity"));

  options_.memory_limits = [] {
    return std::vector<MemoryLimit>{{"/sys/fs/cgroup/memory.max", 100 * kMiB, 70 * kMiB}, {"/proc/meminfo", 0, 0}};
  };
  EXPECT_EQ(*open()->available_bytes(), 30 * kMiB);
  status = refused(31 * kMiB);
  EXPECT_THAT(status.message(), HasSubstr("/sys/fs/cgroup/memory.max allows 100MiB, of which 70MiB"));
  EXPECT_THAT(status.hint(), HasSubstr("memory limit of the cgroup"));
  EXPECT_EQ(put(*open(), payload(0), 31 * kMiB).code(), Code::kNoSpace) << "a put without a reservation too";

  options_.memory_limits = [] { return std::vector<MemoryLimit>{{"/proc/meminfo", 20 * kMiB, 0}}; };
  status = refused(21 * kMiB);
  EXPECT_THAT(status.message(), HasSubstr("/proc/meminfo allows 20MiB"));
  EXPECT_THAT(status.hint(), HasSubstr("memory of this machine"));

  options_.memory_limits = [] { return std::vector<MemoryLimit>(); };
  options_.capacity.reset();
  const auto usage = open()->usage();
  ASSERT_TRUE(usage.ok());
  std::error_code ignored;
  EXPECT_EQ(usage->capacity_bytes, fs::space(folder_.path(), ignored).capacity / 2);
  EXPECT_THAT(refused(fs::space(folder_.path(), ignored).capacity).message(), HasSubstr("half of the filesystem"));
}

TEST_F(MemoryCapacity, AProcessKeepsSomethingOfALimitOfMemory) {
  options_.process_reserve_bytes = 20 * kMiB;
  EXPECT_EQ(*open()->available_bytes(), 64 * kMiB) << "hot.capacity is no limit of memory";
  options_.memory_limits = [] {
    return std::vector<MemoryLimit>{{"/sys/fs/cgroup/memory.max", 100 * kMiB, 70 * kMiB}};
  };
  EXPECT_EQ(*open()->available_bytes(), 10 * kMiB);
  EXPECT_EQ(look_at_memory_place(options_)->room(0, 0).bytes, 10 * kMiB);
  const Status status = open()->check_fits(11 * kMiB);
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_THAT(status.message(), HasSubstr("70MiB are in use and 20MiB are left to this process"));
  options_.memory_limits = [] { return std::vector<MemoryLimit>{{"/sys/fs/cgroup/memory.max", 80 * kMiB, 70 * kMiB}}; };
  EXPECT_EQ(*open()->available_bytes(), 0U);
  EXPECT_EQ(look_at_memory_place(options_)->room(0, 0).bytes, 0U);
}

TEST_F(MemoryCapacity, ALockThatCannotBeHadIsAnError) {
  const auto tier = open();
  for (int skip = 0; skip < 2; ++skip) {  // the claim's, the file's
    runtime_.arm("tier.lock", ENOLCK, 1, skip);
    const Status status = put(*tier, payload(0), kMiB);
    EXPECT_EQ(status.code(), Code::kUnavailable) << skip << ": " << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr("lock"));
    EXPECT_EQ(tier->stat(payload(0)).code(), Code::kNotFound);
    EXPECT_EQ(claims(), 0U);
    runtime_.disarm();
    EXPECT_EQ(*tier->available_bytes(), 64 * kMiB);
  }
  ASSERT_TRUE(put(*tier, payload(0), kMiB).ok());
  runtime_.arm("tier.lock", ENOLCK);
  EXPECT_EQ(tier->try_lock_group(kAttempt.group, true).code(), Code::kUnavailable);
  runtime_.disarm();
  EXPECT_NE(*tier->try_lock_group(kAttempt.group, true), nullptr);
}

TEST(MemoryPlaceTest, TheLimitThatBindsIsTheOneThatIsNamed) {
  MemoryPlace place;
  place.filesystem_bytes = 100 * kMiB;
  place.free_bytes = 70 * kMiB;  // of 30 that are taken 10 are ours
  place.capacity_bytes = 50 * kMiB;
  place.capacity_is_set = true;
  Room room = place.room(10 * kMiB, 5 * kMiB);
  EXPECT_EQ(room.bytes, 35 * kMiB);
  EXPECT_THAT(room.limit, HasSubstr("hot.capacity is 50MiB, of which 10MiB are used and 5MiB"));
  EXPECT_THAT(room.hint, HasSubstr("raise hot.capacity"));

  place.free_bytes = 20 * kMiB;  // another user of the tmpfs
  room = place.room(10 * kMiB, 5 * kMiB);
  EXPECT_EQ(room.bytes, 15 * kMiB);
  EXPECT_THAT(room.limit, HasSubstr("are free and 70MiB are taken by others"));
  EXPECT_THAT(room.hint, HasSubstr("--shm-size"));
  EXPECT_THAT(room.hint, ::testing::Not(HasSubstr("raise hot.capacity")));

  place.free_bytes = 90 * kMiB;
  place.capacity_bytes = 100 * kMiB;  // all of it: raising it moves nothing
  EXPECT_THAT(place.room(10 * kMiB, 0).hint, HasSubstr("--shm-size"));

  place.limits.push_back({"/sys/fs/cgroup/memory.max", 64 * kMiB, 40 * kMiB});
  place.process_reserve_bytes = 4 * kMiB;
  room = place.room(10 * kMiB, 0);
  EXPECT_EQ(room.bytes, 20 * kMiB);
  EXPECT_THAT(room.limit, HasSubstr("memory.max"));
  EXPECT_THAT(room.hint, HasSubstr("memory limit of the cgroup"));
  const Status refused = room.check(21 * kMiB);
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_THAT(refused.hint(), HasSubstr("evict what is not needed, or raise the memory limit"));
  EXPECT_TRUE(room.check(20 * kMiB).ok());
}

TEST(MemoryPlaceTest, WhatIsAboveALimitHasToGoFirst) {
  MemoryPlace place;
  place.filesystem_bytes = 100 * kMiB;
  place.capacity_bytes = 100 * kMiB;
  EXPECT_EQ(place.room(90 * kMiB, 0).over_bytes, 0U) << "full is not above it";
  EXPECT_EQ(place.room(90 * kMiB, 0, 1).over_bytes, kPageBytes) << "in whole pages";
  EXPECT_EQ(place.room(90 * kMiB, 3 * kMiB).over_bytes, 3 * kMiB);

  place.capacity_bytes = 50 * kMiB;  // it was lowered
  Room room = place.room(90 * kMiB, 3 * kMiB);
  EXPECT_EQ(room.over_bytes, 43 * kMiB);
  EXPECT_THAT(room.limit, HasSubstr("hot.capacity is 50MiB"));

  // Of several that leave nothing the one that is exceeded most is named, since it is in the way longest.
  place.limits.push_back({"/sys/fs/cgroup/memory.max", 64 * kMiB, 90 * kMiB});
  place.process_reserve_bytes = 40 * kMiB;
  room = place.room(90 * kMiB, 3 * kMiB);
  EXPECT_EQ(room.bytes, 0U);
  EXPECT_EQ(room.over_bytes, 69 * kMiB);
  EXPECT_THAT(room.limit, HasSubstr("memory.max"));
}

TEST_F(MemoryCapacity, ASmallTmpfsRefusesWholeAndNamesItsSize) {
  const TestTmpfs mounted;
  if (::geteuid() != 0 || ::mount("tmpfs", mounted.path().c_str(), "tmpfs", 0, "size=64m") != 0) {
    GTEST_SKIP() << "a tmpfs cannot be mounted here";
  }
  {
    options_.path = mounted.path();
    options_.capacity = 1024 * kMiB;
    const auto tier = open();
    const Status status = tier->reserve(kAttempt.operation, 100 * kMiB).status();
    EXPECT_EQ(status.code(), Code::kNoSpace);
    EXPECT_THAT(status.message(), HasSubstr("its filesystem has 64MiB"));
    EXPECT_THAT(status.hint(), HasSubstr("--shm-size"));
    std::uint32_t index = 0;
    Status full;
    while (full.ok() && index < 20) full = put(*tier, payload(index++), 10 * kMiB);
    EXPECT_EQ(full.code(), Code::kNoSpace) << full.to_string();
    EXPECT_EQ(tier->list_attempt(kAttempt)->size(), index - 1);
    const auto objects = tier->list_attempt(kAttempt);
    ASSERT_TRUE(objects.ok());
    for (const ObjectStat& object : *objects) {
      const AddressRange range = AddressRange::reserve(object.bytes).value();
      ASSERT_TRUE(tier->map(object.name, object.bytes, range, 0).ok());
      std::uint64_t sum = 0;
      for (const std::byte value : range.view(0, object.bytes)) sum += std::to_integer<std::uint64_t>(value);
      EXPECT_GT(sum, 0U) << "every page of a full tmpfs can be touched";
    }
    // What somebody else puts into the filesystem after the claim was granted: the kernel's word is the last.
    ASSERT_TRUE(tier->remove_attempt(kAttempt).ok());
    auto reservation = tier->reserve(kAttempt.operation, 50 * kMiB);
    ASSERT_TRUE(reservation.ok());
    std::ofstream(mounted.path() + "/strange") << std::string(60 * kMiB, 'x');
    const Status late = put(*tier, payload(0), 20 * kMiB);
    EXPECT_EQ(late.code(), Code::kNoSpace);
    EXPECT_THAT(late.hint(), HasSubstr("hot.path"));
    EXPECT_EQ(tier->stat(payload(0)).code(), Code::kNotFound);
    fs::remove(mounted.path() + "/strange");
    EXPECT_TRUE(put(*tier, payload(0), 20 * kMiB).ok());
  }
  ::umount(mounted.path().c_str());
}

TEST_F(MemoryCapacity, ADeadProcessHoldsNothingAndAStoppedOneNobodyUp) {
  const auto tier = open();
  Child child([&](const Child::Ready& ready) {
    const auto own = open();
    const auto reservation = own->reserve(kAttempt.operation, 40 * kMiB);
    const bool is_put = reservation.ok() && put(*own, payload(0), 8 * kMiB).ok();
    const std::vector<std::byte> bytes(8 * kMiB, std::byte{1});
    const auto under_way = own->start_put(payload(1), bytes, hash::sha256(bytes));
    ready(is_put && under_way.ok());
  });
  ASSERT_TRUE(child.ready());
  EXPECT_EQ(*tier->available_bytes(), 24 * kMiB);
  child.stop();
  EXPECT_EQ(*tier->available_bytes(), 24 * kMiB);
  EXPECT_TRUE(put(*tier, payload(0, kOther), 20 * kMiB).ok()) << "nobody waits for a stopped process";
  runtime_.skip_sleeps();
  EXPECT_EQ(put(*tier, payload(1, kOther), 5 * kMiB).code(), Code::kNoSpace);
  EXPECT_EQ(tier->reserve(kOther.operation, 5 * kMiB).code(), Code::kNoSpace);
  EXPECT_TRUE(tier->reserve(kAttempt.operation, 32 * kMiB).ok()) << "who takes the operation over has its room";
  child.kill();
  EXPECT_EQ(*tier->available_bytes(), 36 * kMiB) << "what it put is there, what it claimed and began is not";
  EXPECT_EQ(claims(), 0U);
  EXPECT_EQ(tier->usage()->bytes, 28 * kMiB);
}

TEST_F(MemoryCapacity, AReservationIsUsedUpGivenBackAndReleased) {
  const auto tier = open();
  const auto other = open();
  auto reservation = tier->reserve(kAttempt.operation, 10 * kMiB);
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(*other->available_bytes(), 54 * kMiB);
  ASSERT_TRUE(put(*tier, payload(0), 4 * kMiB).ok());
  EXPECT_EQ(*other->available_bytes(), 54 * kMiB);
  {
    auto stream = tier->open_put(payload(1), 6 * kMiB, Digest{});
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(*other->available_bytes(), 54 * kMiB);
  }
  ASSERT_TRUE(put(*tier, payload(1), 6 * kMiB).ok()) << "an abandoned put gave its share back";
  EXPECT_EQ(*other->available_bytes(), 54 * kMiB);
  std::unique_ptr<PutStream> open_still = std::move(tier->open_put(payload(2), kMiB, Digest{})).value();
  reservation->reset();
  EXPECT_EQ(*other->available_bytes(), 53 * kMiB) << "a put under way keeps what it took";
  open_still.reset();
  EXPECT_EQ(*other->available_bytes(), 54 * kMiB);
  EXPECT_EQ(claims(), 0U);

  // Released while a put of its own is under way.
  auto second = tier->reserve(kAttempt.operation, 10 * kMiB);
  ASSERT_TRUE(second.ok());
  open_still = std::move(tier->open_put(payload(2), 2 * kMiB, Digest{})).value();
  second->reset();
  EXPECT_EQ(*other->available_bytes(), 52 * kMiB);
  open_still.reset();
  EXPECT_EQ(*other->available_bytes(), 54 * kMiB);
}

TEST_F(MemoryCapacity, WhatIsNoEntryOfTheIndexStays) {
  const auto tier = open();
  ASSERT_TRUE(put(*tier, payload(0), kMiB).ok());
  const fs::path content = instance_path(folder_.path()) + "/content";
  const fs::path entries = fs::directory_iterator(content)->path();
  for (const char* name : {"notes.txt", ".hidden"}) std::ofstream(entries / name) << "somebody's";
  EXPECT_TRUE(tier->usage().ok());
  EXPECT_TRUE(tier->reserve(kAttempt.operation, kMiB).ok());
  for (const char* name : {"notes.txt", ".hidden"}) EXPECT_TRUE(fs::exists(entries / name)) << name;
}

TEST_F(MemoryCapacity, UnusedContentTakesNoMemory) {
  const auto tier = open();
  ASSERT_TRUE(put(*tier, payload(0), 10 * kMiB).ok());
  const auto entries = tier->list_content();
  ASSERT_EQ(entries->size(), 1U);
  ASSERT_TRUE(*tier->link(payload(0, kOther), entries->front().sha256, 10 * kMiB));
  ASSERT_TRUE(tier->remove(payload(0)).ok());
  EXPECT_EQ(tier->list_content()->size(), 1U);
  ASSERT_TRUE(tier->remove_attempt(kOther).ok());
  EXPECT_EQ(tier->list_content()->size(), 0U);
  EXPECT_EQ(*tier->available_bytes(), 64 * kMiB);
  // A process that died between the two removals.
  ASSERT_TRUE(put(*tier, payload(0), 60 * kMiB).ok());
  runtime_.arm("tier.remove", EACCES, 1, 1);
  EXPECT_FALSE(tier->remove(payload(0)).ok());
  EXPECT_EQ(open()->list_content()->size(), 1U);
  EXPECT_TRUE(put(*open(), payload(1), 60 * kMiB).ok()) << "it is found unused by the next that looks for space";
}

TEST_F(MemoryCapacity, RemovalsDoNotReadTheIndexEachTime) {
  const auto tier = open();
  constexpr std::uint32_t kMany = 40;
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_TRUE(put(*tier, payload(i), 4096 + i).ok());
  const auto left = tier->list_content();
  ASSERT_TRUE(left.ok());
  for (const ContentEntry& entry : *left) ASSERT_TRUE(tier->remove_content(entry.sha256).ok());
  const std::uint64_t before = runtime_.passes("tier.list");
  for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_TRUE(tier->remove(payload(i)).ok());
  EXPECT_EQ(runtime_.passes("tier.list"), before) << "the last name of its bytes leaves nothing in the index";
}

TEST_F(MemoryCapacity, FailingStepsShowNothingAndMayBeRepeated) {
  const auto tier = open();
  const struct {
    const char* point;
    int error_number;
    Code code;
  } steps[] = {{"tier.claim", EACCES, Code::kUnauthorized},   {"tier.claim", ENOSPC, Code::kNoSpace},
               {"tier.claim_write", EIO, Code::kUnavailable}, {"tier.open_claim", EIO, Code::kUnavailable},
               {"tier.statvfs", EIO, Code::kUnavailable},     {"tier.open_tmp", EPERM, Code::kUnauthorized},
               {"tier.fallocate", ENOSPC, Code::kNoSpace},    {"tier.fallocate", ENOMEM, Code::kNoSpace},
               {"tier.write", ENOSPC, Code::kNoSpace},        {"tier.write", EIO, Code::kUnavailable},
               {"tier.close", EIO, Code::kUnavailable},       {"tier.link", EPERM, Code::kUnauthorized},
               {"tier.link", ENOSPC, Code::kNoSpace},         {"tier.mkdir", ENOSPC, Code::kNoSpace}};
  Child claimant([&](const Child::Ready& ready) {
    const auto own = open();
    const auto reservation = own->reserve(kOther.operation, kMiB);
    ready(reservation.ok());
  });
  ASSERT_TRUE(claimant.ready());
  for (const auto& step : steps) {
    runtime_.arm(step.point, step.error_number);
    const Status status = put(*tier, payload(0), 2 * kMiB);
    EXPECT_EQ(status.code(), step.code) << step.point << ": " << status.to_string();
    runtime_.disarm();
    EXPECT_EQ(tier->stat(payload(0)).code(), Code::kNotFound) << step.point;
    EXPECT_EQ(*tier->available_bytes(), 63 * kMiB) << step.point;
    EXPECT_EQ(claims(), 1U) << step.point;
  }
  // A refused content link costs sharing, nothing else.
  runtime_.arm("tier.content_link", EPERM);
  EXPECT_TRUE(put(*tier, payload(0), 2 * kMiB).ok());
  runtime_.disarm();
  EXPECT_EQ(tier->usage()->private_copies, 1U);
  EXPECT_EQ(*tier->available_bytes(), 61 * kMiB);
  runtime_.arm("tier.short_write", EIO);
  EXPECT_TRUE(put(*tier, payload(1), 2 * kMiB).ok()) << "a short write goes on";
}

TEST_F(MemoryCapacity, HolesAreNeverMapped) {
  const auto tier = open();
  ASSERT_TRUE(put(*tier, payload(0), kMiB).ok());
  const std::string object =
      instance_path(folder_.path()) + "/groups/aa/" + kAttempt.group + "/1-" + kAttempt.operation + "/p/00000001";
  std::ofstream(object).close();
  ASSERT_EQ(::truncate(object.c_str(), kMiB), 0);
  const AddressRange range = AddressRange::reserve(kMiB).value();
  const Status status = tier->map(payload(1), kMiB, range, 0);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("holes"));
  EXPECT_TRUE(tier->map(payload(0), kMiB, range, 0).ok());
  runtime_.arm("tier.map", ENOMEM);
  EXPECT_THAT(tier->map(payload(0), kMiB, range, 0).hint(), HasSubstr("vm.max_map_count"));
}

}  // namespace
}  // namespace steelyard::tiers
