// The store through the public headers alone: what callbacks, threads, leases and errors do at this edge.
#include "steelyard/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "api/test_store.h"
#include "steelyard/log.h"

namespace steelyard {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ApiStoreTest, WhatWasImportedIsListedReadMaterialisedAndDeleted) {
  const Store store = open();
  make_source();
  ImportRequest wanted = request();
  wanted.labels = {{"b", "2"}, {"a", "1"}};
  const auto report = store.import(wanted);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->files, 3U);
  EXPECT_EQ(report->tensors, 2U);
  const Revision& revision = report->revision;
  EXPECT_EQ(report->written_bytes + report->reused_bytes, revision.logical_bytes);
  EXPECT_EQ(revision.identity, (Identity{"default", "default", "m", "main", 1}));
  EXPECT_EQ(format_ref(revision.identity), "m@main#1");
  EXPECT_EQ(*parse_ref("m@main#1"), revision.identity.ref());
  EXPECT_EQ(name_of(revision.availability), "READY");
  EXPECT_EQ(name_of(revision.residency), "COLD");
  EXPECT_THAT(revision.labels, ElementsAre(std::pair("a", "1"), std::pair("b", "2")));
  EXPECT_GT(revision.created_at_ms, 0);

  ListQuery all;
  all.labels = {{"a", "1"}};
  EXPECT_EQ(store.list(all)->revisions.size(), 1U);
  all.states = {Availability::kImporting};
  EXPECT_THAT(store.list(all)->revisions, IsEmpty());
  const auto found = store.inspect(ref_);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->files.size(), 3U);
  EXPECT_EQ(found->files[1].path, "model.safetensors");
  EXPECT_TRUE(found->files[1].weights);
  EXPECT_EQ(found->tensors, 2U);
  EXPECT_EQ(found->cold_objects, revision.payload_objects + 1);

  {
    const auto opened = store.open_revision(ref_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    for (std::size_t i = 0; i < opened->file_count(); ++i) {
      EXPECT_EQ(read_all(*opened->open_file(opened->file(i).path)), read(at("src/" + opened->file(i).path)));
    }
    EXPECT_EQ(opened->open_file("config").code(), Code::kNotFound);
    EXPECT_EQ(opened->manifest().tensor_count(), 2U);
  }
  EXPECT_THAT(*store.leases(), IsEmpty());
  const auto checked = store.verify(ref_);
  ASSERT_TRUE(checked.ok()) << checked.status().to_string();
  EXPECT_THAT(checked->problems, IsEmpty());
  const auto made = store.materialize(ref_, at("out"));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ(tree(at("out")), tree(at("src")));
  const auto usage = store.usage();
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->tiers.at(0).name, "cold");
  EXPECT_EQ(usage->revisions.at(0).exclusive_bytes + usage->revisions.at(0).shared_bytes, revision.logical_bytes);

  const auto deleted = store.delete_revision(ref_);
  ASSERT_TRUE(deleted.ok()) << deleted.status().to_string();
  EXPECT_EQ(deleted->identity, revision.identity);
  EXPECT_FALSE(deleted->already_deleted);
  const auto again = store.delete_revision(revision.identity.ref());
  ASSERT_TRUE(again.ok()) << "a repeat is success";
  EXPECT_EQ(again->identity, revision.identity);
  EXPECT_TRUE(again->already_deleted);
  EXPECT_EQ(store.open_revision(ref_).code(), Code::kNotFound);
  EXPECT_TRUE(store.gc().ok());
  EXPECT_TRUE(store.reconcile()->failed.empty());
}

TEST_F(ApiStoreTest, TensorsAreReadWhereverTheyBegin) {
  const Store store = open();
  imported(store);
  const auto opened = store.open_revision(ref_);
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  ASSERT_EQ(opened->tensor_count(), 2U);
  EXPECT_EQ(opened->find_tensor("c"), std::nullopt);
  std::uint64_t begin = 0;
  for (const std::string id : {"a", "b"}) {
    const std::size_t index = *opened->find_tensor(id);
    const TensorInfo info = opened->tensor(index);
    std::string bytes(info.bytes, '\0');
    ASSERT_TRUE(opened->read_tensor(index, 0, std::as_writable_bytes(std::span(bytes))).ok());
    EXPECT_EQ(bytes, tensors_.substr(begin, info.bytes));
    begin += info.bytes;
    // The same bytes by way of the file.
    ASSERT_TRUE(info.file.has_value());
    const File file = *opened->open_file(opened->file(*info.file).path);
    std::string again(info.bytes, '\0');
    ASSERT_TRUE(file.read(info.file_offset, std::as_writable_bytes(std::span(again))).ok());
    EXPECT_EQ(again, bytes);
    ASSERT_TRUE(opened->read_tensor(index, info.bytes - 3, std::as_writable_bytes(std::span(again).first(3))).ok());
    EXPECT_EQ(again.substr(0, 3), bytes.substr(bytes.size() - 3));
  }
  const TensorInfo b = opened->tensor(*opened->find_tensor("b"));
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
}

TEST_F(ApiStoreTest, ARangeThatLeavesTheFileIsRefused) {
  const Store store = open();
  imported(store);
  const OpenRevision opened = *store.open_revision(ref_);
  const File file = *opened.open_file("config.json");
  std::byte few[4];
  EXPECT_TRUE(file.read(0, std::span(few, 2)).ok());
  EXPECT_TRUE(file.read(2, {}).ok());
  for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{3}, UINT64_MAX}) {
    const Status refused = file.read(offset, std::span(few, 2));
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("config.json"), HasSubstr("2 bytes")));
  }
  EXPECT_EQ(opened.read_tensor(1, 22, few).code(), Code::kInvalidArgument);
}

TEST_F(ApiStoreTest, ProgressKeepsItsTotalsAndNeverGoesBack) {
  const Store store = open();
  make_source();
  struct Event {
    std::string phase;
    Progress at;
  };
  std::vector<Event> events;
  std::atomic<int> inside{0};
  Hooks hooks;
  hooks.progress = [&](const Progress& progress) {
    EXPECT_EQ(inside.fetch_add(1), 0) << "one call at a time";
    events.push_back({std::string(progress.phase), progress});
    inside.fetch_sub(1);
  };
  const auto check = [&events](std::string_view phase, std::uint64_t bytes) {
    ASSERT_FALSE(events.empty());
    const Event* before = nullptr;
    std::vector<std::string> phases;
    for (const Event& event : events) {
      if (phases.empty() || phases.back() != event.phase) {
        EXPECT_EQ(std::ranges::count(phases, event.phase), 0) << "a phase comes once";
        phases.push_back(event.phase);
      } else {
        EXPECT_EQ(event.at.bytes_total, before->at.bytes_total);
        EXPECT_EQ(event.at.files_total, before->at.files_total);
        EXPECT_GE(event.at.bytes_done, before->at.bytes_done);
        EXPECT_GE(event.at.files_done, before->at.files_done);
      }
      before = &event;
    }
    EXPECT_EQ(events.back().phase, phase);
    EXPECT_EQ(events.back().at.bytes_done, bytes);
    EXPECT_EQ(events.back().at.bytes_total, bytes);
    EXPECT_EQ(events.back().at.files_done, events.back().at.files_total);
    events.clear();
  };
  const auto report = store.import(request(), hooks);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  check("import", report->revision.logical_bytes);
  ASSERT_TRUE(store.verify(ref_, hooks).ok());
  ASSERT_FALSE(events.empty());
  check("verify", events.back().at.bytes_total);
  ASSERT_TRUE(store.materialize(ref_, at("out"), {}, hooks).ok());
  check("materialize", report->revision.logical_bytes);
}

TEST_F(ApiStoreTest, AnImportThatTheCallbackCancelsIsResumedByTheSameCall) {
  const Store store = open();
  make_source();
  for (const bool at_the_end : {false, true}) {
    ref_.resource_id = at_the_end ? "end" : "begin";
    Cancellation cancel;
    Hooks hooks;
    hooks.cancel = &cancel;
    hooks.progress = [&](const Progress& progress) {
      if (progress.phase == "import" && (!at_the_end || progress.bytes_done == progress.bytes_total)) cancel.cancel();
    };
    const auto stopped = store.import(request(), hooks);
    ASSERT_EQ(stopped.code(), Code::kUnavailable) << stopped.status().to_string();
    EXPECT_THAT(stopped.status().message(), HasSubstr("was interrupted"));
    EXPECT_EQ(store.open_revision(ref_).code(), Code::kNotFound) << "nothing is visible";
    // The writer token was given back: nobody waits for it.
    const auto resumed = store.import(request());
    ASSERT_TRUE(resumed.ok()) << resumed.status().to_string();
    EXPECT_EQ(resumed->revision.identity.weight_generation, 1);
    if (at_the_end) {
      EXPECT_EQ(resumed->written_bytes, 0U) << "what was stored is linked";
    }
  }
}

TEST_F(ApiStoreTest, AnotherThreadMayCancel) {
  const Store store = open();
  make_source();
  Cancellation cancel;
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false;
  bool cancelled = false;
  Hooks hooks;
  hooks.cancel = &cancel;
  hooks.progress = [&](const Progress&) {
    std::unique_lock lock(mutex);
    started = true;
    changed.notify_all();
    changed.wait(lock, [&] { return cancelled; });
  };
  std::thread other([&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return started; });
    cancel.cancel();
    cancelled = true;
    changed.notify_all();
  });
  EXPECT_EQ(store.import(request(), hooks).code(), Code::kUnavailable);
  other.join();
  EXPECT_TRUE(store.import(request()).ok());

  EXPECT_EQ(store.verify(ref_, {.cancel = &cancel}).code(), Code::kUnavailable) << "it stays set";
  EXPECT_EQ(store.materialize(ref_, at("out"), {}, {.cancel = &cancel}).code(), Code::kUnavailable);
  EXPECT_FALSE(fs::exists(at("out")));
}

TEST_F(ApiStoreTest, ThreadsReadOneFileBesideEachOther) {
  // Less memory than threads: one pair of buffers, for which they take turns.
  options_.jobs = 1;
  const Store store = open();
  imported(store);
  const std::string wanted = read(at("src/old.bin"));
  const File file = *store.open_revision(ref_)->open_file("old.bin");
  constexpr std::size_t kThreads = 6;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t turn = 0; turn < 20; ++turn) {
        const std::uint64_t offset = (t * 977 + turn * 262147) % (wanted.size() - 300'000);
        std::string found(300'000 - t, '\0');
        if (!file.read(offset, std::as_writable_bytes(std::span(found))).ok() ||
            found != std::string_view(wanted).substr(offset, found.size())) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ApiStoreTest, ThreadsUseOneStoreForEverything) {
  const Store store = open();
  make_source();
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::vector<std::string> errors(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto work = [&]() -> Status {
        ImportRequest mine = request();
        mine.target = Ref{"m", "r" + std::to_string(t), std::nullopt};
        if (const auto made = store.import(mine); !made.ok()) return made.status();
        const auto opened = store.open_revision(*mine.target);
        if (!opened.ok()) return opened.status();
        std::string bytes(opened->file(0).bytes, '\0');
        const auto file = opened->open_file(opened->file(0).path);
        if (Status read = file->read(0, std::as_writable_bytes(std::span(bytes))); !read.ok()) return read;
        if (const auto checked = store.verify(*mine.target); !checked.ok()) return checked.status();
        return store.list().status();
      };
      errors[static_cast<std::size_t>(t)] = work().to_string();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, Status().to_string());
  EXPECT_EQ(store.list()->revisions.size(), static_cast<std::size_t>(kThreads));
}

TEST_F(ApiStoreTest, DamageNamesFileObjectAndBlock) {
  const Store store = open();
  imported(store);
  const OpenRevision opened = *store.open_revision(ref_);
  // The second object of the tensors: the first block of it is bad.
  damage(std::string_view(tensors_).substr(kMiB, 64));
  const File file = *opened.open_file("model.safetensors");
  std::string bytes(file.size(), '\0');
  const Status corrupt = file.read(0, std::as_writable_bytes(std::span(bytes)));
  ASSERT_EQ(corrupt.code(), Code::kCorrupt) << corrupt.to_string();
  EXPECT_THAT(corrupt.message(), AllOf(HasSubstr("reading model.safetensors: object weights/default/m/main/1/payload/"),
                                       HasSubstr("block at 0"), HasSubstr("expected xxh3 ")));
  const Status tensor = opened.read_tensor(0, kMiB, std::as_writable_bytes(std::span(bytes).first(10)));
  EXPECT_EQ(tensor.code(), Code::kCorrupt);
  EXPECT_THAT(tensor.message(), HasSubstr("reading tensor a of model.safetensors: object "));
  // What is intact is still read, here and by whoever asks for a degraded revision.
  EXPECT_EQ(read_all(*opened.open_file("old.bin")), read(at("src/old.bin")));
  EXPECT_TRUE(opened.read_tensor(0, 0, std::as_writable_bytes(std::span(bytes).first(kMiB))).ok());
  EXPECT_EQ(store.inspect(ref_)->revision.damaged_count, 1U) << "whoever meets damage records it";
  EXPECT_EQ(store.open_revision(ref_).code(), Code::kNotReady);
  EXPECT_EQ(read_all(*store.open_revision(ref_, {.allow_degraded = true})->open_file("config.json")), "{}");
  const auto checked = store.verify(ref_);
  ASSERT_TRUE(checked.ok()) << checked.status().to_string();
  ASSERT_EQ(checked->problems.size(), 1U);
  EXPECT_EQ(checked->problems[0].file, "model.safetensors");
  EXPECT_EQ(name_of(checked->problems[0].kind), "object_checksum");

  const auto repaired = store.repair(ref_, {.source = at("src")});
  ASSERT_TRUE(repaired.ok()) << repaired.status().to_string();
  EXPECT_EQ(repaired->restored_objects, 1U);
  EXPECT_EQ(repaired->revision.availability, Availability::kReady);
  EXPECT_EQ(read_all(file), read(at("src/model.safetensors")));
}

TEST_F(ApiStoreTest, ADeleteUnderAnOpenFileNamesWhoReads) {
  const Store store = open();
  const Revision revision = imported(store);
  auto file = store.open_revision(ref_, {.holder = "engine 7"})->open_file("old.bin");
  ASSERT_TRUE(file.ok());
  for (const auto wait_ms : {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
    const auto refused = store.delete_revision(ref_, {.wait_ms = wait_ms});
    EXPECT_EQ(refused.code(), Code::kBusy);
    EXPECT_THAT(refused.status().message(), HasSubstr("engine 7"));
    EXPECT_EQ(read_all(*file), read(at("src/old.bin")));
    const Availability now = store.inspect(revision.identity.ref())->revision.availability;
    EXPECT_EQ(now, wait_ms ? Availability::kDeleting : Availability::kReady);
  }
  EXPECT_EQ(store.open_revision(revision.identity.ref()).code(), Code::kNotReady) << "no new lease while it goes";
  file = Status(Code::kNotFound, "closed");
  EXPECT_TRUE(store.delete_revision(revision.identity.ref()).ok());
}

TEST_F(ApiStoreTest, LeasesAreHeldAndHandedOn) {
  const Store store = open();
  const Revision revision = imported(store);
  {
    const auto held = store.hold(ref_, {.holder = "engine"});
    ASSERT_TRUE(held.ok()) << held.status().to_string();
    EXPECT_TRUE(held->check().ok());
    EXPECT_EQ(held->revision().identity, revision.identity);
    const auto live = *store.leases(ref_);
    ASSERT_EQ(live.size(), 1U);
    EXPECT_EQ(live[0].lease_id, held->lease_id());
    EXPECT_EQ(live[0].holder, "engine");
    EXPECT_EQ(store.delete_revision(ref_).code(), Code::kBusy);
  }
  EXPECT_THAT(*store.leases(), IsEmpty()) << "given back";

  const auto lease = store.acquire_lease(ref_, {.holder = "h", .ttl_ms = 5'000}, "n");
  ASSERT_TRUE(lease.ok()) << lease.status().to_string();
  EXPECT_EQ(lease->identity, revision.identity);
  EXPECT_LE(lease->left_ms, 5'000);
  EXPECT_EQ(store.acquire_lease(ref_, {.holder = "h", .ttl_ms = 5'000}, "n")->lease_id, lease->lease_id);
  EXPECT_GT(store.renew_lease(lease->lease_id, 60'000)->left_ms, 5'000);
  EXPECT_EQ(store.renew_lease(lease->lease_id, 1).code(), Code::kInvalidArgument);
  EXPECT_TRUE(store.release_lease(lease->lease_id).ok());
  EXPECT_TRUE(store.release_lease(lease->lease_id).ok());
  EXPECT_THAT(*store.leases(ref_), IsEmpty());
}

TEST_F(ApiStoreTest, HandlesKeepTheStoreOpen) {
  std::optional<Store> store = open();
  imported(*store);
  std::optional<OpenRevision> opened = *store->open_revision(ref_);
  const File file = *opened->open_file("old.bin");
  opened.reset();
  store.reset();
  EXPECT_EQ(read_all(file), read(at("src/old.bin")));
}

/// A daemon opens its store and goes to another folder.
TEST_F(ApiStoreTest, ARelativePathIsThatOfTheMomentOfOpening) {
  make_source();
  fs::create_directories(at("elsewhere/store"));
  fs::create_directories(at("elsewhere/cold"));
  const fs::path before = fs::current_path();
  fs::current_path(root_.path());
  options_.path = "store";
  options_.cold_path = "cold";
  const auto opened = Store::open(options_, OpenMode::kCreate);
  fs::current_path(at("elsewhere"));
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const Store& store = *opened;
  const auto made = store.import(request());
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  // Several at once: each needs a connection of its own.
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto page = store.list();
        EXPECT_TRUE(page.ok() && page->revisions.size() == 1) << page.status().to_string();
        const auto lease = store.acquire_lease(ref_);
        EXPECT_TRUE(lease.ok()) << lease.status().to_string();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store.materialize(ref_, at("store/out")).code(), Code::kInvalidArgument);
  EXPECT_EQ(store.materialize(ref_, at("cold/out")).code(), Code::kInvalidArgument);
  fs::current_path(before);
  EXPECT_THAT(tree(at("elsewhere")), IsEmpty());
}

TEST_F(ApiStoreTest, OpenedForReadingItChangesNothing) {
  imported(open());
  const Store store = open(OpenMode::kRead);
  EXPECT_TRUE(store.read_only());
  for (const Status& refused :
       {store.import(request()).status(), store.delete_revision(ref_).status(), store.abort_import(ref_).status(),
        store.repair(ref_).status(), store.reconcile().status(), store.gc().status()}) {
    EXPECT_EQ(refused.code(), Code::kUnauthorized) << refused.to_string();
    EXPECT_THAT(refused.message(), HasSubstr("opened for reading"));
  }
  const auto garbage = store.gc(/*dry_run=*/true);
  ASSERT_TRUE(garbage.ok()) << garbage.status().to_string();
  EXPECT_EQ(garbage->objects, 0U);
  EXPECT_TRUE(store.verify(ref_)->problems.empty());
  const auto opened = store.open_revision(ref_);
  EXPECT_EQ(store.leases()->size(), 1U) << "who reads is protected all the same";
}

TEST_F(ApiStoreTest, AStoreWithoutWritePermissionIsRead) {
  imported(open());
  fs::permissions(root_.path(), fs::perms::all);
  for (const auto& entry : fs::recursive_directory_iterator(at("store"))) {
    fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0555) : fs::perms(0444));
  }
  fs::permissions(at("store"), fs::perms(0555));
  // A process of its own: root would ignore the modes.
  const pid_t child = fork();
  if (child == 0) {
    const auto look = [&]() -> int {
      if (geteuid() == 0 && setuid(65534) != 0) return 1;
      if (Store::open(options_, OpenMode::kWrite).code() != Code::kUnauthorized) return 2;
      const auto store = Store::open(options_, OpenMode::kRead);
      if (!store.ok() || !store->read_only()) return 3;
      const auto opened = store->open_revision(ref_);
      if (!opened.ok() || read_all(*opened->open_file("old.bin")) != read(at("src/old.bin"))) return 4;
      if (!store->verify(ref_).ok() || !store->list().ok() || !store->inspect(ref_).ok()) return 5;
      return store->hold(ref_).code() == Code::kUnauthorized ? 0 : 6;
    };
    _exit(look());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const auto& entry : fs::recursive_directory_iterator(at("store"))) {
    if (entry.is_directory()) fs::permissions(entry.path(), fs::perms(0755));
  }
  fs::permissions(at("store"), fs::perms(0755));
}

TEST_F(ApiStoreTest, WhatIsNoStoreIsNotOpened) {
  EXPECT_EQ(Store::open(options_, OpenMode::kRead).code(), Code::kNotFound);
  EXPECT_EQ(Store::open(options_, OpenMode::kWrite).code(), Code::kNotFound);
  EXPECT_FALSE(fs::exists(at("store")));
  write(at("store/notes.txt"), "mine");
  const auto foreign = Store::open(options_, OpenMode::kCreate);
  EXPECT_EQ(foreign.code(), Code::kInvalidArgument);
  EXPECT_THAT(foreign.status().message(), AllOf(HasSubstr(at("store")), HasSubstr("notes.txt")));
  EXPECT_EQ(tree(at("store")).size(), 1U);
  write(at("file"), "");
  options_.path = at("file");
  EXPECT_EQ(Store::open(options_, OpenMode::kCreate).code(), Code::kInvalidArgument);
}

TEST_F(ApiStoreTest, OptionsAndNamesAgainstTheRulesAreRefused) {
  const StoreOptions good = options_;
  const auto refused = [&](std::string_view name) {
    const auto opened = Store::open(options_, OpenMode::kCreate);
    EXPECT_EQ(opened.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(opened.status().message(), HasSubstr(std::string(name)));
    options_ = good;
  };
  options_.path = "";
  refused("path");
  options_.io_memory = 1;
  refused("io_memory");
  options_.jobs = 257;
  refused("jobs");
  options_.lease_ttl_ms = 1;
  refused("lease_ttl_ms");
  options_.gc_grace_ms = -1;
  refused("gc_grace_ms");
  options_.namespace_id = "..";
  refused("namespace");
  options_.tenant_id = "_t";
  refused("tenant");

  const Store store = open();
  make_source();
  EXPECT_EQ(store.inspect(Ref{}).code(), Code::kInvalidArgument);
  EXPECT_EQ(store.inspect(Ref{"m", "main", 0}).code(), Code::kInvalidArgument);
  ImportRequest bad = request();
  bad.labels = {{"k", "1"}, {"k", "2"}};
  EXPECT_THAT(store.import(bad).status().message(), HasSubstr("label k is given twice"));
  bad = request();
  bad.chunk_bytes = 1;
  EXPECT_EQ(store.import(bad).code(), Code::kInvalidArgument);
  bad = request();
  bad.wait_ms = -1;
  EXPECT_EQ(store.import(bad).code(), Code::kInvalidArgument);
  EXPECT_EQ(store.list({.limit = 0}).code(), Code::kInvalidArgument);
}

TEST_F(ApiStoreTest, AnImportIsNamedAfterItsSource) {
  const Store store = open();
  make_source();
  ImportRequest unnamed = request();
  unnamed.target.reset();
  EXPECT_EQ(store.import(unnamed)->revision.identity.ref(), (Ref{"src", "main", 1}));
}

TEST_F(ApiStoreTest, ACancelledImportIsAborted) {
  const Store store = open();
  make_source();
  Cancellation cancel;
  cancel.cancel();
  EXPECT_EQ(store.import(request(), {.cancel = &cancel}).code(), Code::kUnavailable);
  EXPECT_EQ(store.list({.states = {Availability::kImporting}})->revisions.size(), 1U);
  EXPECT_EQ(store.abort_import(ref_)->weight_generation, 1);
  EXPECT_THAT(store.list({.states = {Availability::kImporting}})->revisions, IsEmpty());
}

TEST_F(ApiStoreTest, PagesGoOnWhereTheOneBeforeEnded) {
  const Store store = open();
  make_source();
  std::vector<std::string> wanted;
  for (int i = 0; i < 3; ++i) {
    ref_.revision = "r" + std::to_string(i);
    wanted.push_back(format_ref(store.import(request())->revision.identity));
  }
  std::vector<std::string> found;
  ListQuery query{.limit = 2};
  do {
    const auto page = store.list(query);
    ASSERT_TRUE(page.ok()) << page.status().to_string();
    for (const Revision& revision : page->revisions) found.push_back(format_ref(revision.identity));
    query.page_token = page->next_page_token;
  } while (!query.page_token.empty());
  EXPECT_EQ(found, wanted);
}

TEST_F(ApiStoreTest, ALostCatalogIsRebuilt) {
  Identity identity = imported(open()).identity;
  for (const char* name : {"catalog.db", "catalog.db-wal", "catalog.db-shm"}) fs::remove(at("store/") + name);
  EXPECT_EQ(Store::open(options_, OpenMode::kRead).code(), Code::kUnavailable);
  const auto report = recover_store(options_);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  ASSERT_EQ(report->recovered.size(), 1U);
  EXPECT_EQ(report->recovered[0].identity, identity);
  EXPECT_TRUE(open().verify(ref_)->problems.empty());
  EXPECT_EQ(recover_store(options_).code(), Code::kConflict);
}

TEST_F(ApiStoreTest, WarningsReachTheirCallback) {
  make_source();
  std::vector<std::string> said;
  Hooks hooks;
  hooks.warning = [&said](std::string_view message) { said.emplace_back(message); };
  ImportRequest wanted = request();
  wanted.exclude = {"no such file"};
  const auto report = open().import(wanted, hooks);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_THAT(said, ElementsAre(HasSubstr("'no such file' matches no file")));
}

}  // namespace
}  // namespace steelyard
