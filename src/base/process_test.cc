#include "base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "base/unique_fd.h"

namespace steelyard::process {
namespace {

constexpr std::int64_t kS = 1'000'000'000;

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A child that runs `body` and then lives until it is told to end.
class Child {
 public:
  explicit Child(const std::function<void(int report)>& body) {
    std::array<int, 2> report{};
    std::array<int, 2> hold{};
    EXPECT_EQ(pipe2(report.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(hold.data(), O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(report[0]);
      close(hold[1]);
      body(report[1]);
      char byte = 0;
      close(report[1]);
      [[maybe_unused]] const ssize_t got = read(hold[0], &byte, 1);
      _exit(0);
    }
    close(report[1]);
    close(hold[0]);
    report_ = report[0];
    hold_ = hold[1];
  }
  ~Child() {
    release();
    reap();
    close(report_);
  }
  pid_t pid() const { return pid_; }
  template <typename T>
  T report() {
    T value{};
    EXPECT_EQ(read(report_, &value, sizeof value), static_cast<ssize_t>(sizeof value));
    return value;
  }
  void release() {
    if (hold_ >= 0) close(hold_);
    hold_ = -1;
  }
  void reap() {
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int report_ = -1;
  int hold_ = -1;
};

template <typename T>
void send(int fd, const T& value) {
  if (write(fd, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) _exit(3);
}

ProcessIdentity self() { return identify_self("boot"); }

/// The identity that a child would give itself.
ProcessIdentity of(pid_t pid) {
  ProcessIdentity identity = self();
  identity.pid = pid;
  identity.start_ticks = parse_stat(file_text("/proc/" + std::to_string(pid) + "/stat"))->start_ticks;
  return identity;
}

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kS + now.tv_nsec;
}

TEST(TimeOffsets, Parse) {
  EXPECT_EQ(parse_time_offsets("monotonic        1000         0\nboottime            -1         500000000\n"),
            (TimeOffsets{1000 * kS, -kS + 500'000'000}));
  EXPECT_EQ(parse_time_offsets("1 2 3\n7 4 5"), (TimeOffsets{2 * kS + 3, 4 * kS + 5}));
  EXPECT_EQ(parse_time_offsets(""), TimeOffsets());
  EXPECT_EQ(parse_time_offsets("\n\nmonotonic\nmonotonic x y\nmonotonic 1\nmonotonic 1 2 3\nother 5 5\n"),
            TimeOffsets());
  EXPECT_EQ(parse_time_offsets("monotonic 9223372036854775807 0\n"), TimeOffsets());
}

TEST(TimeOffsets, AllNamespacesOfAHostAgree) {
  const std::int64_t before = monotonic_ns() - own_time_offsets().monotonic_ns;
  int made = 1;
  Child outer([&](int report) {
    std::int64_t corrected = -1;
    if (unshare(CLONE_NEWTIME) == 0) {
      std::ofstream("/proc/self/timens_offsets") << "monotonic 1000 0\nboottime 2000 5\n";
      // The maker itself stays outside: only its children are in the new namespace.
      const bool maker_outside = own_time_offsets().monotonic_ns != 1000 * kS;
      const pid_t inner = fork();
      if (inner == 0) {
        const TimeOffsets offsets = own_time_offsets();
        if (maker_outside && offsets.monotonic_ns == 1000 * kS && offsets.boottime_ns == 2000 * kS + 5) {
          corrected = monotonic_ns() - offsets.monotonic_ns;
        }
        send(report, 0);
        send(report, corrected);
        _exit(0);
      }
      waitpid(inner, nullptr, 0);
    } else {
      send(report, 1);
      send(report, corrected);
    }
  });
  made = outer.report<int>();
  const auto corrected = outer.report<std::int64_t>();
  if (made != 0) GTEST_SKIP() << "no right to make a time namespace";
  EXPECT_GE(corrected, before);
  EXPECT_LE(corrected, monotonic_ns() - own_time_offsets().monotonic_ns);
}

TEST(ProvablyGone, ProcessesOfAnotherTimeNamespaceAreJudgedByTheSameTicks) {
  const ProcessIdentity judge = self();
  struct Seen {
    int made = 1;
    std::int64_t pid = 0;
    std::uint64_t start_ticks = 0;
    bool judge_gone = true;
  };
  Child outer([&](int report) {
    Seen seen;
    if (unshare(CLONE_NEWTIME) != 0) return send(report, seen);
    std::ofstream("/proc/self/timens_offsets") << "boottime 2000 5\n";
    if (fork() == 0) {
      const ProcessIdentity own = identify_self("boot");
      seen = {0, own.pid, own.start_ticks, provably_gone(judge, own)};
      send(report, seen);
      pause();
      _exit(0);
    }
  });
  const auto seen = outer.report<Seen>();
  if (seen.made != 0) GTEST_SKIP() << "no right to make a time namespace";
  EXPECT_FALSE(seen.judge_gone);
  ProcessIdentity inner = judge;
  inner.pid = seen.pid;
  inner.start_ticks = seen.start_ticks;
  EXPECT_FALSE(provably_gone(inner, judge));
  kill(static_cast<pid_t>(seen.pid), SIGKILL);
  // Its parent does not collect it, so it stays a zombie until the parent ends.
  while (!provably_gone(inner, judge)) std::this_thread::yield();
}

TEST(ParseStat, FieldsAndHostileNames) {
  const std::string fields = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 5 18 114659 20 21";
  EXPECT_EQ(parse_stat("42 (name)" + fields), (ProcessStat{42, 'S', 5, 114659}));
  EXPECT_EQ(parse_stat("42 (a) R 1 2 (\n)) Z)" + fields + "\n"), (ProcessStat{42, 'S', 5, 114659}));
  for (const char* text : {"", "42", "42 (name)", "42 (name) S 1 2", "x (name) S", "42 name S 1 2 3"}) {
    EXPECT_EQ(parse_stat(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_stat("42 (n) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 5 18 x 20"), std::nullopt);
  const auto own = parse_stat(file_text("/proc/self/stat"));
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->pid, getpid());
}

TEST(ProcFolder, BelongsToThePidNamespaceOrNot) {
  EXPECT_TRUE(shows_own_pid_namespace("Name:\tx\nNStgid:\t7\nNSpid:\t7\nNSpgid:\t7\n", 7));
  EXPECT_FALSE(shows_own_pid_namespace("Name:\tx\nNSpid:\t700\t7\n", 7));
  EXPECT_FALSE(shows_own_pid_namespace("Name:\tx\nNSpid:\t8\n", 7));
  EXPECT_FALSE(shows_own_pid_namespace("Name:\tx\n", 7));
}

TEST(ProvablyGone, ALiveChildIsNot) {
  const Child child([](int) {});
  EXPECT_FALSE(provably_gone(of(child.pid()), self()));
  EXPECT_FALSE(provably_gone(self(), self()));
}

TEST(ProvablyGone, AStoppedChildIsNot) {
  const Child child([](int) {});
  const ProcessIdentity identity = of(child.pid());
  kill(child.pid(), SIGSTOP);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WNOWAIT), 0);
  EXPECT_FALSE(provably_gone(identity, self()));
  kill(child.pid(), SIGCONT);
}

TEST(ProvablyGone, AZombieAndACollectedChildAre) {
  Child child([](int) {});
  const ProcessIdentity identity = of(child.pid());
  child.release();
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(provably_gone(identity, self()));
  child.reap();
  EXPECT_TRUE(provably_gone(identity, self()));
}

TEST(ProvablyGone, AZombieLeaderWithRunningThreadsIsNot) {
  const Child child([](int) {
    std::thread([] { pause(); }).detach();
    syscall(SYS_exit, 0);  // ends this thread alone
  });
  const std::string path = "/proc/" + std::to_string(child.pid()) + "/stat";
  ProcessStat stat;
  for (;;) {
    stat = parse_stat(file_text(path)).value_or(ProcessStat{});
    if (stat.state == 'Z') break;
    std::this_thread::yield();
  }
  ProcessIdentity identity = self();
  identity.pid = child.pid();
  identity.start_ticks = stat.start_ticks;
  EXPECT_FALSE(provably_gone(identity, self()));
  kill(child.pid(), SIGKILL);
}

TEST(ProvablyGone, AReusedPidIsKnownByItsStartTime) {
  const Child child([](int) {});
  ProcessIdentity before = of(child.pid());
  before.start_ticks -= 2;
  EXPECT_TRUE(provably_gone(before, self()));
  ProcessIdentity rounded = of(child.pid());
  rounded.start_ticks -= 1;
  EXPECT_FALSE(provably_gone(rounded, self()));
}

TEST(ProvablyGone, NothingIsProvedAcrossBootsOrPidNamespacesOrWithoutFacts) {
  ProcessIdentity gone;
  {
    Child child([](int) {});
    gone = of(child.pid());
  }
  ASSERT_TRUE(provably_gone(gone, self()));
  ProcessIdentity other = gone;
  other.boot_id = "another boot";
  EXPECT_FALSE(provably_gone(other, self()));
  other = gone;
  other.pid_namespace += 1;
  EXPECT_FALSE(provably_gone(other, self()));
  other = gone;
  other.pid = 0;
  EXPECT_FALSE(provably_gone(other, self()));
  other.pid = -1;
  EXPECT_FALSE(provably_gone(other, self()));
  other.pid = (std::int64_t{1} << 32) + gone.pid;
  EXPECT_FALSE(provably_gone(other, self()));

  const Child alive([](int) {});
  ProcessIdentity unknown_start = of(alive.pid());
  unknown_start.start_ticks = 0;
  EXPECT_FALSE(provably_gone(unknown_start, self()));

  ProcessIdentity no_boot = self();
  no_boot.boot_id.clear();
  gone.boot_id.clear();
  EXPECT_FALSE(provably_gone(gone, no_boot));
}

TEST(FlockPids, OfTheFileAndNotOfThoseThatWait) {
  constexpr std::string_view kText =
      "1: FLOCK  ADVISORY  WRITE 21 00:1b:131 0 EOF\n"
      "1: -> FLOCK  ADVISORY  WRITE 22 00:1b:131 0 EOF\n"
      "2: FLOCK  ADVISORY  READ 23 00:1b:132 0 EOF\n"
      "3: POSIX  ADVISORY  READ 24 00:1b:131 0 EOF\n"
      "4: FLOCK  ADVISORY  READ 25 00:1b:131 0 EOF\n"
      "5: FLOCK  ADVISORY  READ 25 00:1b:131 0 EOF\n"
      "6: FLOCK  ADVISORY  READ 0 00:1b:131 0 EOF\n"
      "7: FLOCK\n";
  EXPECT_EQ(parse_flock_pids(kText, makedev(0, 0x1b), 131), (std::vector<std::int64_t>{21, 25}));
  EXPECT_TRUE(parse_flock_pids("", makedev(0, 0x1b), 131).empty());
}

TEST(FlockHolders, NamesThisProcess) {
  const UniqueFd file(open("/tmp", O_TMPFILE | O_RDWR, 0600));
  if (!file.valid()) GTEST_SKIP() << "no file without a name here";
  ASSERT_EQ(flock(file.get(), LOCK_EX), 0);
  struct stat found {};
  ASSERT_EQ(fstat(file.get(), &found), 0);
  const auto holders = flock_holders(found.st_dev, found.st_ino);
  if (holders.empty()) GTEST_SKIP() << "/proc/locks does not show it here";
  EXPECT_EQ(holders, (std::vector<LockHolder>{{getpid(), false}}));
}

}  // namespace
}  // namespace steelyard::process
