// PassStore: what is written is what is read, and nothing is believed that another user may have written.
#include "runtime/passes/pass_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ebb {
namespace {

namespace fs = std::filesystem;

class PassStoreTest : public testing::Test {
 protected:
  PassStoreTest() {
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    store_ = PassStore(root_ + "/cache/passes");
  }
  ~PassStoreTest() override { fs::remove_all(root_); }

  static StoredPass some(std::uint32_t launches = 3) {
    StoredPass stored{4096, {"one", "two"}, {}};
    for (std::uint32_t i = 0; i < launches; ++i) {
      const auto first = static_cast<std::uint32_t>(stored.pass.uses.size());
      stored.pass.uses.push_back({{0, i * 4096, 10000}, 0, 1});
      stored.pass.uses.push_back({{1, i * 8192, 9000}, 1, 2});
      stored.pass.launches.push_back({~std::uint64_t{0} - i, 5000, first, 2});
    }
    return stored;
  }
  std::string path() const { return root_ + "/cache/passes/one.json"; }
  void write(const std::string& text) const { std::ofstream(path()) << text; }

  std::string root_ = testing::TempDir() + "/ebb-passes-XXXXXX";
  PassStore store_{""};
};

TEST_F(PassStoreTest, ReadsBackWhatItWrote) {
  EXPECT_FALSE(store_.load("one"));
  store_.save(some());
  const auto read = store_.load("one");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->files, some().files);
  EXPECT_EQ(read->block_bytes, 4096u);
  EXPECT_TRUE(read->pass.same_as(some().pass));
  EXPECT_EQ(read->pass.launches.front().ns, 5000u);
  EXPECT_FALSE(store_.load("two"));
  struct stat status {};
  ASSERT_EQ(::stat((root_ + "/cache/passes").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  // Written anew, and nothing is left beside it.
  store_.save(some(5));
  EXPECT_EQ(store_.load("one")->pass.launches.size(), 5u);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ + "/cache/passes"), {}), 1);
}

TEST_F(PassStoreTest, WhatOthersMayHaveWrittenIsNotBelieved) {
  store_.save(some());
  fs::permissions(path(), fs::perms::group_write, fs::perm_options::add);
  EXPECT_FALSE(store_.load("one"));
  fs::permissions(path(), fs::perms::group_write, fs::perm_options::remove);
  EXPECT_TRUE(store_.load("one"));
  fs::rename(path(), root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", path());
  EXPECT_FALSE(store_.load("one"));
  if (::geteuid() != 0) return;
  fs::remove(path());
  fs::rename(root_ + "/elsewhere", path());
  ASSERT_EQ(::chown(path().c_str(), 65534, 65534), 0);
  EXPECT_FALSE(store_.load("one"));
}

TEST_F(PassStoreTest, DamageIsNoIteration) {
  store_.save(some());
  std::string whole;
  std::getline(std::ifstream(path()), whole);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    EXPECT_FALSE(store_.load("one")) << length;
  }
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string text = whole;
    text.replace(text.find(what), what.size(), by);
    write(text);
    return store_.load("one").has_value();
  };
  EXPECT_TRUE(with("4096", "8192"));
  EXPECT_FALSE(with("\"version\":1", "\"version\":2"));
  EXPECT_FALSE(with("[\"one\",\"two\"]", "[\"one\"]"));
  EXPECT_FALSE(with("[\"one\",\"two\"]", "7"));
  EXPECT_FALSE(with("5000", "\"soon\""));
  EXPECT_FALSE(with("[[0,0,10000,0,1],[1,0,9000,1,2]]", "[]"));
  write(std::string(PassStore::kBytesMax + 1, ' '));
  EXPECT_FALSE(store_.load("one"));
}

TEST_F(PassStoreTest, TheOldestGiveWay) {
  StoredPass stored = some();
  for (std::size_t i = 0; i < PassStore::kFilesMax + 5; ++i) {
    stored.files[0] = "file" + std::to_string(i);
    store_.save(stored);
  }
  const auto count = std::distance(fs::directory_iterator(root_ + "/cache/passes"), {});
  EXPECT_EQ(static_cast<std::size_t>(count), PassStore::kFilesMax);
  EXPECT_TRUE(store_.load("file" + std::to_string(PassStore::kFilesMax + 4)));
  EXPECT_FALSE(store_.load("file0"));
}

TEST_F(PassStoreTest, WithoutARoomForItNothingHappens) {
  std::ofstream(root_ + "/cache") << "a file";
  store_.save(some());
  EXPECT_FALSE(store_.load("one"));
}

}  // namespace
}  // namespace ebb
