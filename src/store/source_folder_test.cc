#include "store/source_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace steelyard::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SourceFolder : public ::testing::Test {
 protected:
  SourceFolder() {
    std::string name = (fs::temp_directory_path() / "source-folder-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
    fs::permissions(top_, fs::perms(0755));
    root_ = top_ / "source";
    fs::create_directory(root_);
  }
  ~SourceFolder() override {
    std::error_code ignored;
    fs::remove_all(top_, ignored);
  }

  static void write(const fs::path& path, const std::string& content = "x") {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  void put(const std::string& path, const std::string& content = "x") { write(root_ / path, content); }
  void link(const std::string& path, const fs::path& target) {
    fs::create_directories((root_ / path).parent_path());
    fs::create_symlink(target, root_ / path);
  }
  std::vector<std::string> paths(bool follow_links = false) {
    const auto tree = scan_source(root_, follow_links);
    EXPECT_TRUE(tree.ok()) << tree.status().to_string();
    std::vector<std::string> paths;
    if (!tree.ok()) return paths;
    for (const TreeFile& file : tree->files) paths.push_back(file.path);
    return paths;
  }
  Status refusal(bool follow_links = false) {
    const auto tree = scan_source(root_, follow_links);
    EXPECT_FALSE(tree.ok());
    return tree.status();
  }
  SourceTree scan(bool follow_links = false) {
    auto tree = scan_source(root_, follow_links);
    EXPECT_TRUE(tree.ok()) << tree.status().to_string();
    return tree.ok() ? std::move(*tree) : SourceTree();
  }

  fs::path top_;
  fs::path root_;
};

TEST_F(SourceFolder, ListsEveryRegularFileInOrder) {
  put("model.safetensors", "abc");
  put("sub/deep/x.json");
  put(".hidden", "");
  put("with space\nand control", "y");
  put("é😀", "z");
  fs::create_directory(root_ / "empty");
  const SourceTree tree = scan();
  std::vector<std::string> listed;
  for (const formats::SourceFile& file : tree.listing()) listed.push_back(fmt::format("{}={}", file.path, file.bytes));
  EXPECT_THAT(listed, ElementsAre(".hidden=0", "model.safetensors=3", "sub/deep/x.json=1", "with space\nand control=1",
                                  "é😀=1"));
  ASSERT_NE(tree.find("sub/deep/x.json"), nullptr);
  EXPECT_EQ(tree.find("sub"), nullptr);
}

TEST_F(SourceFolder, GitAndHubCacheAreNotEvenLookedAt) {
  put("a.bin");
  put(".git/config");
  put(".cache/huggingface/x");
  ASSERT_EQ(::mkfifo((root_ / ".git/fifo").c_str(), 0600), 0);
  EXPECT_THAT(paths(), ElementsAre("a.bin"));
}

TEST_F(SourceFolder, LinksInsideAreFollowed) {
  put("real/a.bin", "12");
  link("b.bin", "real/a.bin");
  link("chain", "b.bin");
  link("folder", "real");
  link("absolute.bin", root_ / "real/a.bin");
  EXPECT_THAT(paths(), ElementsAre("absolute.bin", "b.bin", "chain", "folder/a.bin", "real/a.bin"));
  const SourceTree tree = scan();
  EXPECT_EQ(tree.find("chain")->facts, tree.find("real/a.bin")->facts);
}

TEST_F(SourceFolder, TheSourceItselfMayBeALink) {
  put("a.bin");
  link("b.bin", "a.bin");
  fs::create_directory_symlink(root_, top_ / "alias");
  const auto tree = scan_source(top_ / "alias", false);
  ASSERT_TRUE(tree.ok()) << tree.status().to_string();
  EXPECT_EQ(tree->files.size(), 2U);
}

TEST_F(SourceFolder, LinkThatLeavesIsRefusedUnlessAskedFor) {
  write(top_ / "outside/a.bin");
  write(top_ / "source-too/a.bin");
  link("a.bin", "../outside/a.bin");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("source/a.bin: the link leaves the source: it leads to "));
  EXPECT_THAT(status.message(), HasSubstr("outside/a.bin"));
  EXPECT_THAT(status.hint(), HasSubstr("--follow-links"));
  EXPECT_THAT(paths(true), ElementsAre("a.bin"));
  // A folder whose name only begins like the source's is outside.
  fs::remove(root_ / "a.bin");
  link("a.bin", "../source-too/a.bin");
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
}

TEST_F(SourceFolder, LinkToAFolderThatLeavesIsRefused) {
  write(top_ / "outside/a.bin");
  link("sub", "../outside");
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  EXPECT_THAT(paths(true), ElementsAre("sub/a.bin"));
}

TEST_F(SourceFolder, DanglingLink) {
  put("a.bin");
  link("sub/b.bin", "../nowhere/x");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("source/sub/b.bin: the link leads to nothing (../nowhere/x)"));
  EXPECT_EQ(refusal(true).code(), Code::kCorrupt);
}

TEST_F(SourceFolder, LinkCycles) {
  link("a", "b");
  link("b", "a");
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  EXPECT_THAT(refusal().message(), HasSubstr("a link cycle"));
}

TEST_F(SourceFolder, LinkToAFolderAbove) {
  put("sub/deep/a.bin");
  link("sub/deep/up", "..");
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
  EXPECT_THAT(refusal().message(), HasSubstr("source/sub/deep/up: a link cycle"));
  EXPECT_EQ(refusal(true).code(), Code::kCorrupt);
}

TEST_F(SourceFolder, FoldersThatLinkToEachOther) {
  put("a/x.bin");
  put("b/y.bin");
  link("a/b", "../b");
  link("b/a", "../a");
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
}

TEST_F(SourceFolder, FifoSocketAndDevice) {
  ASSERT_EQ(::mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  EXPECT_THAT(refusal().message(), HasSubstr("source/pipe: a fifo"));
  link("link", "pipe");
  fs::rename(root_ / "pipe", top_ / "pipe");
  fs::remove(root_ / "link");
  link("link", top_ / "pipe");
  EXPECT_THAT(refusal(true).message(), HasSubstr("source/link: a fifo"));
  fs::remove(root_ / "link");
  link("null", "/dev/null");
  EXPECT_THAT(refusal(true).message(), HasSubstr("source/null: a device"));
  fs::remove(root_ / "null");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un address {};
  address.sun_family = AF_UNIX;
  const std::string path = (root_ / "sock").string();
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const struct sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  EXPECT_THAT(refusal().message(), HasSubstr("source/sock: a socket"));
}

TEST_F(SourceFolder, NameThatIsNotUtf8) {
  put("bad\xff.bin");
  const Status status = refusal();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("source/bad\\xff.bin: the name is not UTF-8"));
}

TEST_F(SourceFolder, WhatMayNotBeRead) {
  put("a.bin");
  put("sub/b.bin");
  fs::permissions(root_, fs::perms(0755));
  fs::permissions(root_ / "a.bin", fs::perms(0000));
  // As root permissions mean nothing: look with another user's eyes.
  const bool root = ::geteuid() == 0;
  const auto as_user = [&] {
    if (root) ::setfsuid(65534);
    const auto tree = scan_source(root_, false);
    if (root) ::setfsuid(0);
    return tree.status();
  };
  EXPECT_EQ(as_user().code(), Code::kUnauthorized);
  EXPECT_THAT(as_user().message(), HasSubstr("source/a.bin"));
  fs::permissions(root_ / "a.bin", fs::perms(0644));
  EXPECT_TRUE(as_user().ok()) << as_user().to_string();
  fs::permissions(root_ / "sub", fs::perms(0000));
  EXPECT_EQ(as_user().code(), Code::kUnauthorized);
  EXPECT_THAT(as_user().message(), HasSubstr("source/sub"));
  fs::permissions(root_ / "sub", fs::perms(0755));
}

TEST_F(SourceFolder, LongNamesAndDeepTrees) {
  const std::string name(255, 'n');
  put(name + "/" + name);
  // Deeper than any one path the kernel takes, made one level at a time.
  constexpr int kLevels = 25;
  const std::string level(200, 'd');
  int folder = ::open(root_.c_str(), O_RDONLY | O_DIRECTORY);
  std::string deep;
  for (int i = 0; i < kLevels; ++i) {
    ASSERT_EQ(::mkdirat(folder, level.c_str(), 0755), 0);
    const int next = ::openat(folder, level.c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_GE(next, 0);
    ::close(folder);
    folder = next;
    deep += level + "/";
  }
  const int file = ::openat(folder, "leaf.bin", O_WRONLY | O_CREAT, 0644);
  ASSERT_EQ(::write(file, "deep", 4), 4);
  ::close(file);
  ::close(folder);
  deep += "leaf.bin";
  ASSERT_GT(deep.size(), 4096U);
  const SourceTree tree = scan();
  ASSERT_EQ(tree.files.size(), 2U);
  ASSERT_NE(tree.find(deep), nullptr);
  const auto text = source_reader(tree)(deep, 1, 3);
  ASSERT_TRUE(text.ok()) << text.status().to_string();
  EXPECT_EQ(*text, "eep");
}

TEST_F(SourceFolder, MoreFoldersThanAreKeptOpen) {
  for (int i = 0; i < 300; ++i) put(fmt::format("f{:03}/x.bin", i));
  const std::vector<std::string> listed = paths();
  ASSERT_EQ(listed.size(), 300U);
  EXPECT_EQ(listed[299], "f299/x.bin");
}

TEST_F(SourceFolder, SingleFileAndWhatIsNone) {
  put("model.safetensors", "abcd");
  const auto tree = scan_source(root_ / "model.safetensors", false);
  ASSERT_TRUE(tree.ok());
  EXPECT_FALSE(tree->is_folder);
  ASSERT_EQ(tree->files.size(), 1U);
  EXPECT_EQ(tree->files[0].path, "model.safetensors");
  EXPECT_EQ(*source_reader(*tree)("model.safetensors", 1, 2), "bc");

  EXPECT_EQ(scan_source("", false).code(), Code::kInvalidArgument);
  const auto absent = scan_source(root_ / "absent", false);
  EXPECT_EQ(absent.code(), Code::kNotFound);
  EXPECT_THAT(absent.status().message(), HasSubstr("source/absent"));
  fs::create_symlink("nowhere", top_ / "dangling");
  EXPECT_EQ(scan_source(top_ / "dangling", false).code(), Code::kCorrupt);
  ASSERT_EQ(::mkfifo((top_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(scan_source(top_ / "pipe", false).code(), Code::kInvalidArgument);
}

/// `hub/models--org--name` with one snapshot of links into its blobs.
class HubSnapshot : public SourceFolder {
 protected:
  HubSnapshot() {
    repository_ = top_ / "hub/models--org--big--name";
    root_ = repository_ / "snapshots/abc123";
    write(repository_ / "blobs/0001", "weights");
    write(repository_ / "blobs/0002", "{}");
    link("model.safetensors", "../../blobs/0001");
    link("1_Pooling/config.json", "../../../blobs/0002");
  }
  fs::path repository_;
};

TEST_F(HubSnapshot, LinksIntoItsOwnBlobsAreFollowed) {
  EXPECT_THAT(paths(), ElementsAre("1_Pooling/config.json", "model.safetensors"));
  EXPECT_EQ(*source_reader(scan())("model.safetensors", 0, 7), "weights");
}

TEST_F(HubSnapshot, LinksElsewhereInTheRepositoryOrToAnotherAreRefused) {
  write(repository_ / "refs/main", "abc123");
  link("ref", "../../refs/main");
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  fs::remove(root_ / "ref");
  write(top_ / "hub/models--org--other/blobs/0001", "x");
  link("other", "../../../models--org--other/blobs/0001");
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
}

TEST_F(HubSnapshot, BlobsThatAreALinkAreNotTrusted) {
  fs::rename(repository_ / "blobs", top_ / "moved");
  fs::create_directory_symlink(top_ / "moved", repository_ / "blobs");
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  EXPECT_EQ(paths(true).size(), 2U);
}

TEST_F(HubSnapshot, DeletedBlobIsADanglingLink) {
  fs::remove(repository_ / "blobs/0001");
  EXPECT_EQ(refusal().code(), Code::kCorrupt);
}

TEST_F(HubSnapshot, TheWholeRepositoryIsRefusedNamingASnapshot) {
  const fs::path snapshot = root_;
  root_ = repository_;
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  EXPECT_THAT(refusal().hint(), HasSubstr(snapshot.string())) << "the only one";
  fs::create_directory(repository_ / "snapshots/def456");
  EXPECT_THAT(refusal().hint(), HasSubstr("snapshots/abc123, or "));
  EXPECT_THAT(refusal().hint(), HasSubstr("snapshots/def456"));
  write(repository_ / "refs/main", "abc123\n");
  EXPECT_EQ(refusal().hint().find("def456"), std::string::npos) << refusal().hint();
  EXPECT_THAT(refusal().message(), HasSubstr("each file twice"));
  EXPECT_THAT(refusal().hint(), HasSubstr(snapshot.string()));
  fs::remove_all(repository_ / "blobs");
  EXPECT_EQ(refusal().code(), Code::kCorrupt) << "a folder of that name alone is no such repository; its links dangle";
}

TEST_F(HubSnapshot, ItsFolderOfSnapshotsIsRefusedNamingThem) {
  root_ = repository_ / "snapshots";
  EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
  EXPECT_THAT(refusal().hint(), HasSubstr((root_ / "abc123").string()));
  EXPECT_EQ(refusal().hint().find("--follow-links"), std::string::npos) << refusal().hint();
}

TEST_F(HubSnapshot, AWholeCacheIsRefusedNamingItsModels) {
  write(top_ / "hub/models--gpt2/snapshots/fed/model.safetensors", "x");
  write(top_ / "hub/version.txt", "1");
  const fs::path cache = top_ / "hub";
  for (const fs::path& root : {cache, top_}) {  // what holds the cache as `hub` too
    root_ = root;
    EXPECT_EQ(refusal().code(), Code::kInvalidArgument);
    EXPECT_THAT(refusal().message(), HasSubstr("gpt2, org/big--name"));
    EXPECT_THAT(refusal().hint(), HasSubstr((cache / "models--gpt2/snapshots/fed").string()));
    EXPECT_THAT(refusal().hint(), HasSubstr((repository_ / "snapshots/abc123").string()));
  }
  // A checkpoint with a cache beside its weights is a checkpoint.
  fs::create_directory(top_ / "own");
  fs::rename(top_ / "hub/models--gpt2", top_ / "own/models--gpt2");
  write(top_ / "own/model.safetensors", "x");
  root_ = top_ / "own";
  EXPECT_THAT(paths(), ElementsAre("model.safetensors", "models--gpt2/snapshots/fed/model.safetensors"));
}

TEST_F(HubSnapshot, DefaultName) {
  DefaultName name = default_name(root_);
  EXPECT_EQ(name.resource_id, "org/big--name");
  EXPECT_EQ(name.revision, "abc123");
  EXPECT_EQ(name.hub_ref, std::nullopt);
  write(repository_ / "refs/pr/1", "abc123\n");
  write(repository_ / "refs/old", "def");
  EXPECT_EQ(default_name(root_.string() + "/").hub_ref, "pr/1");
  write(repository_ / "refs/main", "abc123");
  EXPECT_EQ(default_name(root_).hub_ref, "main");
  EXPECT_EQ(default_name(root_ / "model.safetensors").resource_id, "model.safetensors");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  EXPECT_EQ(default_name(".").resource_id, "org/big--name");
  fs::current_path(repository_);
  EXPECT_EQ(default_name("snapshots/abc123").revision, "abc123");
  fs::current_path(before);
}

TEST_F(SourceFolder, DefaultNameIsTheBaseName) {
  EXPECT_EQ(default_name(root_).resource_id, "source");
  EXPECT_EQ(default_name(root_).revision, "main");
  EXPECT_EQ(default_name(root_.string() + "//").resource_id, "source");
  EXPECT_EQ(default_name("/data/a@b#1").resource_id, "a@b#1");
  EXPECT_EQ(default_name("lone").resource_id, "lone");
  put("sub/x");
  EXPECT_EQ(default_name(root_ / "sub/..").resource_id, "source");
  EXPECT_EQ(default_name("/x/models--gpt2/snapshots/absent").resource_id, "absent");
  put("models--gpt2/snapshots/S/x");
  EXPECT_EQ(default_name(root_ / "models--gpt2/snapshots/S").resource_id, "gpt2");
}

TEST_F(SourceFolder, AChangeWhileReadIsFound) {
  put("a.bin", "12345678");
  put("b.bin", "12345678");
  const SourceTree tree = scan();
  const TreeFile& a = *tree.find("a.bin");
  auto fd = open_source_file(tree, a);
  ASSERT_TRUE(fd.ok());
  EXPECT_TRUE(unchanged(tree, a, fd->get()).ok());

  put("a.bin", "123");
  const Status shorter = unchanged(tree, a, fd->get());
  EXPECT_EQ(shorter.code(), Code::kCorrupt);
  EXPECT_THAT(shorter.message(), HasSubstr("source/a.bin: it changed while it was read: it had 8 bytes and has 3"));
  std::array<std::byte, 8> bytes{};
  const Status read = read_source_file(tree, a, fd->get(), 0, bytes);
  EXPECT_EQ(read.code(), Code::kCorrupt);
  EXPECT_THAT(read.message(), HasSubstr("source/a.bin: it changed while it was read: it ends at byte 3, wanted 8"));
  EXPECT_EQ(open_source_file(tree, a).code(), Code::kCorrupt);

  put("c.bin", "12345678");
  fs::rename(root_ / "c.bin", root_ / "b.bin");
  EXPECT_THAT(open_source_file(tree, *tree.find("b.bin")).status().message(), HasSubstr("another file stands there"));
  fs::remove(root_ / "b.bin");
  EXPECT_THAT(source_reader(tree)("b.bin", 0, 1).status().message(), HasSubstr("source/b.bin: it changed"));
}

TEST_F(SourceFolder, AnOverwriteOfTheSameSizeIsFoundByItsTimes) {
  put("a.bin", "12345678");
  const SourceTree tree = scan();
  const std::array<struct timespec, 2> times = {{{1, 0}, {1, 0}}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (root_ / "a.bin").c_str(), times.data(), 0), 0);
  EXPECT_THAT(open_source_file(tree, *tree.find("a.bin")).status().message(), HasSubstr("its times of change differ"));
}

TEST_F(SourceFolder, AFolderExchangedForALinkElsewhereIsNotReadThrough) {
  put("sub/a.bin", "mine");
  write(top_ / "outside/a.bin", "them");
  const SourceTree tree = scan();
  fs::remove_all(root_ / "sub");
  link("sub", "../outside");
  EXPECT_EQ(source_reader(tree)("sub/a.bin", 0, 4).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace steelyard::store
