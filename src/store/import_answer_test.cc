// What an import says once it has published.
#include <gtest/gtest.h>

#include <cstring>

#include "formats/identity.h"
#include "oplog/forwarding.h"
#include "oplog/open.h"
#include "store/open_store.h"
#include "tiers/simulated.h"

namespace steelyard::store {
namespace {

/// A log that cannot be read any more once it has made `writes` appends.
class LogThatGoesSilent final : public oplog::ForwardingLog {
 public:
  LogThatGoesSilent(std::unique_ptr<oplog::OpLog> inner, int writes)
      : ForwardingLog(*inner), owned_(std::move(inner)), left_(writes) {}
  Result<std::uint64_t> write(const Prepare& prepare) override {
    --left_;
    return inner_.write(prepare);
  }
  Status view(const std::function<Status(const oplog::StateView& view)>& read) override {
    if (left_ <= 0) return {Code::kUnavailable, "the log cannot be read"};
    return inner_.view(read);
  }

 private:
  std::unique_ptr<oplog::OpLog> owned_;
  int left_;
};

/// One file, `config.json`, with two bytes.
class OneFile final : public Source {
 public:
  const std::vector<formats::SourceFile>& files() const override { return files_; }
  Result<std::unique_ptr<OpenSource>> open(const std::string& /*path*/) override {
    class Open final : public OpenSource {
      Status read(std::uint64_t offset, ByteSpan into) override {
        std::memcpy(into.data(), "{}" + offset, into.size());
        return {};
      }
      Status check_unchanged() override { return {}; }
    };
    return std::unique_ptr<OpenSource>(std::make_unique<Open>());
  }
  std::vector<std::pair<std::string, std::string>> facts() const override { return {}; }

 private:
  std::vector<formats::SourceFile> files_{{"config.json", 2}};
};

/// One log that two stores use.
class SharedLog final : public oplog::ForwardingLog {
 public:
  explicit SharedLog(std::shared_ptr<oplog::OpLog> inner) : ForwardingLog(*inner), owned_(std::move(inner)) {}

 private:
  std::shared_ptr<oplog::OpLog> owned_;
};

/// The real runtime of a process that everybody can see is gone.
class GoneProcess final : public Runtime {
 public:
  GoneProcess() : self_(real_runtime().self()) { self_.start_ticks += 1'000'000; }
  std::int64_t mono_ms() override { return real_runtime().mono_ms(); }
  std::int64_t mono_ns() override { return real_runtime().mono_ns(); }
  std::int64_t wall_ms() override { return real_runtime().wall_ms(); }
  const std::string& epoch() override { return real_runtime().epoch(); }
  void fill_random(ByteSpan out) override { real_runtime().fill_random(out); }
  void sleep_ms(std::int64_t duration_ms) override { real_runtime().sleep_ms(duration_ms); }
  std::unique_ptr<Event> make_event() override { return real_runtime().make_event(); }
  std::unique_ptr<Task> spawn(std::string_view name, std::function<void()> body) override {
    return real_runtime().spawn(name, std::move(body));
  }
  const ProcessIdentity& self() override { return self_; }
  bool provably_gone(const ProcessIdentity& process) override { return real_runtime().provably_gone(process); }

 protected:
  int point_armed(const char* /*name*/) override { return 0; }

 private:
  ProcessIdentity self_;
};

/// A file that planning can look at; the read after that does something, and fails then.
class FailingFile final : public Source {
 public:
  explicit FailingFile(std::function<void()> before) : before_(std::move(before)) {}
  const std::vector<formats::SourceFile>& files() const override { return files_; }
  Result<std::unique_ptr<OpenSource>> open(const std::string& /*path*/) override {
    class Open final : public OpenSource {
     public:
      Open(const std::function<void()>& before, bool look) : before_(before), look_(look) {}
      Status read(std::uint64_t /*offset*/, ByteSpan into) override {
        if (look_) {
          std::memset(into.data(), ' ', into.size());
          return {};
        }
        before_();
        return {Code::kUnavailable, "its folder was removed"};
      }
      Status check_unchanged() override { return {}; }

     private:
      const std::function<void()>& before_;
      const bool look_;
    };
    return std::unique_ptr<OpenSource>(std::make_unique<Open>(before_, opened_++ == 0));
  }
  std::vector<std::pair<std::string, std::string>> facts() const override { return {}; }

 private:
  std::vector<formats::SourceFile> files_{{"tokens.txt", 2}};
  std::function<void()> before_;
  int opened_ = 0;
};

class Quiet final : public Observer {
 public:
  void progress(const Progress& /*progress*/) override {}
  void warning(const std::string& /*message*/) override {}
};

TEST(ImportAnswer, IsSuccessWhenThePublishedRevisionCannotBeAskedAbout) {
  Runtime& runtime = real_runtime();
  const auto disk = std::make_shared<tiers::SimulatedDisk>(1);
  StoreParts parts;
  parts.cold = std::move(tiers::open_simulated(runtime, disk)).value();
  // The beginning of the epoch, Begin, Commit.
  parts.log = std::make_unique<LogThatGoesSilent>(oplog::open_memory(runtime), 3);
  parts.open_source = [](const std::string&, bool) {
    return Result<std::unique_ptr<Source>>(std::make_unique<OneFile>());
  };
  const auto store = make_store(runtime, {}, std::move(parts));
  ImportRequest request;
  request.target.ref.resource_id = "model";
  request.checkpoint.allow_empty = true;
  const CancelFlag cancel{false};
  Quiet quiet;
  const auto answer = store->import(request, quiet, cancel);
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->record.availability, metadata::Availability::kReady);
  EXPECT_EQ(answer->active_leases, 0U);
  EXPECT_FALSE(store->list({}).ok()) << "the log had gone silent by then";
}

TEST(ImportAnswer, AWriterThatWasTakenOverSaysSoWhateverItMeetsFirst) {
  const auto disk = std::make_shared<tiers::SimulatedDisk>(1);
  const std::shared_ptr<oplog::OpLog> log = oplog::open_memory(real_runtime());
  const CancelFlag cancel{false};
  ImportRequest request;
  request.target.ref.resource_id = "model";
  request.target.ref.weight_generation = 1;
  request.checkpoint.allow_empty = true;
  const auto make = [&](Runtime& runtime, std::function<std::unique_ptr<Source>()> source) {
    StoreParts parts;
    parts.cold = std::move(tiers::open_simulated(runtime, disk)).value();
    parts.log = std::make_unique<SharedLog>(log);
    parts.open_source = [source](const std::string&, bool) { return Result<std::unique_ptr<Source>>(source()); };
    return make_store(runtime, {}, std::move(parts));
  };
  bool take_over = false;
  const auto other = make(real_runtime(), [] { return std::make_unique<OneFile>(); });
  GoneProcess gone;
  const auto late = make(gone, [&] {
    return std::make_unique<FailingFile>([&] {
      if (!take_over) return;
      Quiet ignored;
      EXPECT_TRUE(other->import(request, ignored, cancel).ok());
    });
  });
  Quiet quiet;
  const auto alone = late->import(request, quiet, cancel);
  EXPECT_EQ(alone.code(), Code::kUnavailable) << "still the writer: the failure is its own";
  take_over = true;
  const auto taken_over = late->import(request, quiet, cancel);
  EXPECT_EQ(taken_over.code(), Code::kStaleGeneration) << taken_over.status().to_string();
  EXPECT_NE(taken_over.status().hint().find("another writer took this import over"), std::string::npos);
}

TEST(ImportAnswer, ImportAgainHelpsAfterLinkedBytesWereFoundDamaged) {
  Runtime& runtime = real_runtime();
  const auto disk = std::make_shared<tiers::SimulatedDisk>(1);
  StoreParts parts;
  parts.cold = std::move(tiers::open_simulated(runtime, disk)).value();
  parts.log = oplog::open_memory(runtime);
  parts.open_source = [](const std::string&, bool) {
    return Result<std::unique_ptr<Source>>(std::make_unique<OneFile>());
  };
  const auto store = make_store(runtime, {}, std::move(parts));
  ImportRequest request;
  request.target.ref.resource_id = "model";
  request.checkpoint.allow_empty = true;
  request.verify_after_write = true;
  const CancelFlag cancel{false};
  Quiet quiet;
  const auto first = store->import(request, quiet, cancel);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  const std::string group = formats::payload_group_digest(first->record.identity).hex();
  ASSERT_TRUE(disk->rot({{group, 1}, tiers::ObjectKind::kPayload, 0}, 0));

  const auto second = store->import(request, quiet, cancel);
  EXPECT_EQ(second.code(), Code::kCorrupt) << "it linked the damaged bytes, and read them back";
  const auto third = store->import(request, quiet, cancel);
  ASSERT_TRUE(third.ok()) << third.status().to_string();
  EXPECT_EQ(third->record.identity.weight_generation, 2);
  EXPECT_EQ(third->written_bytes, 2U) << "written anew rather than linked";
}

}  // namespace
}  // namespace steelyard::store
