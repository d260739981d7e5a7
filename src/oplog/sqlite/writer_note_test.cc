#include "oplog/sqlite/writer_note.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace steelyard::oplog::sqlite {
namespace {

class WriterNoteTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "writer-note-XXXXXX").native();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    folder_fd_ = UniqueFd(open(pattern.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string base() const { return (folder_ / "catalog").native(); }
  void write(const std::string& text) const { std::ofstream(base() + ".turn") << text; }

  std::filesystem::path folder_;
  UniqueFd folder_fd_;
};

TEST_F(WriterNoteTest, IsThereWhileSomebodyWrites) {
  WriterNote writer(real_runtime(), folder_fd_.get(), "catalog");
  WriterNote reader(real_runtime(), folder_fd_.get(), "catalog");
  EXPECT_EQ(reader.find_holder(), std::nullopt);
  writer.put();
  const auto holder = reader.find_holder();
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->process, real_runtime().self());
  EXPECT_LE(holder->since_mono_ms, real_runtime().mono_ms());
  writer.take_back();
  EXPECT_EQ(reader.find_holder(), std::nullopt);
}

TEST_F(WriterNoteTest, SaysWhoWritesNow) {
  WriterNote one(real_runtime(), folder_fd_.get(), "catalog");
  WriterNote two(real_runtime(), folder_fd_.get(), "catalog");
  write("");
  WriterNote::Holder other{real_runtime().self(), 5};
  other.process.host = std::string(100, 'h');  // a longer note than ours
  for (int i = 0; i < 3; ++i) {
    for (WriterNote* writer : {&one, &two}) {
      std::fstream(base() + ".turn", std::ios::in | std::ios::out) << WriterNote::encode(other);
      ASSERT_EQ(one.find_holder(), other);
      writer->put();
      const auto holder = two.find_holder();
      ASSERT_TRUE(holder.has_value());
      EXPECT_EQ(holder->process, real_runtime().self());
      writer->take_back();
      EXPECT_EQ(one.find_holder(), std::nullopt);
    }
  }
}

TEST_F(WriterNoteTest, OfTheDeadAndOfAnEarlierStartCountsAsNone) {
  WriterNote note(real_runtime(), folder_fd_.get(), "catalog");
  WriterNote::Holder holder{real_runtime().self(), 5};
  holder.process.start_ticks += 1'000'000;  // the pid is ours, so that one is gone
  write(WriterNote::encode(holder));
  EXPECT_EQ(note.find_holder(), std::nullopt);
  holder.process = real_runtime().self();
  holder.process.boot_id = "another";
  write(WriterNote::encode(holder));
  EXPECT_EQ(note.find_holder(), std::nullopt);
  holder.process = real_runtime().self();
  holder.process.host = "elsewhere";  // of the same boot: a container
  write(WriterNote::encode(holder) + "what a longer one left\n");
  EXPECT_EQ(note.find_holder(), holder);
}

TEST_F(WriterNoteTest, WhatIsNoNoteNamesNobody) {
  for (const char* text :
       {"", "+", "+\n", "-h\tb\t1\t2\t3\t4\n", "+h\tb\t1\t2\t3\n", "+h\tb\t1\t2\t3\t4", "+h\tb\t1\t2\t3\t4\t5\n",
        "+h\tb\t1\t-2\t3\t4\n", "+h\tb\tx\t2\t3\t4\n", "+\tb\t1\t2\t3\t4\n"}) {
    EXPECT_EQ(WriterNote::parse(text), std::nullopt) << text;
  }
  EXPECT_TRUE(WriterNote::parse("+h\tb\t1\t2\t3\t4\n").has_value());
}

}  // namespace
}  // namespace steelyard::oplog::sqlite
