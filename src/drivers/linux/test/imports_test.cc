// Functions that the libraries of a process import, redirected to others, and libebb_calls brought into a process that
// runs already.
#include "calls/imports.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "calls/table.h"
#include "handler_child.h"

namespace ebb::calls {
namespace {

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
constinit Create g_create = nullptr;
constinit std::atomic<int> g_created{0};

int counted_create(pthread_t* made, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  ++g_created;
  return g_create(made, attributes, run, argument);
}

TEST(ImportsTest, LibrariesCallWhatTheyAreRedirectedTo) {
  g_create = reinterpret_cast<Create>(::dlsym(RTLD_DEFAULT, "pthread_create"));
  ASSERT_NE(g_create, nullptr);
  const Import counted{"pthread_create", reinterpret_cast<const void*>(&counted_create)};
  ImportRedirection there;
  const std::size_t libraries = there.redirect({&counted, 1});
  EXPECT_GE(libraries, 1u);
  EXPECT_EQ(there.redirect({&counted, 1}), 0u) << "none has been loaded since";
  std::thread([] {}).join();  // the C++ library makes it
  EXPECT_EQ(g_created, 1);
  const Import own{"pthread_create", reinterpret_cast<const void*>(g_create)};
  EXPECT_EQ(ImportRedirection().redirect({&own, 1}), libraries);
  std::thread([] {}).join();
  EXPECT_EQ(g_created, 1);
}

TEST(ImportsTest, WhatNobodyCallsIsNowhere) {
  const Import none{"no function has this name", reinterpret_cast<const void*>(&counted_create)};
  EXPECT_EQ(ImportRedirection().redirect({&none, 1}), 0u);
}

std::atomic<int> g_begun{0};

// Of a program that has loaded the library late: its own calls and those of other libraries.
int stands_before() {
  void* const library = ::dlopen(EBB_CALLS, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return 1;
  const auto stand = reinterpret_cast<StandBefore>(::dlsym(library, kStandBeforeName));
  const auto begins = reinterpret_cast<SetThreadBegins>(::dlsym(library, kThreadBeginsName));
  const auto add = reinterpret_cast<Register>(::dlsym(library, kRegisterName));
  constexpr std::size_t kBytes = 1 << 16;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || add(memory, kBytes, kOurs) != 0) return 2;
  begins([] { ++g_begun; });
  std::thread([] {}).join();
  if (g_begun != 0) return 3;
  if (::mremap(memory, kBytes, 2 * kBytes, MREMAP_MAYMOVE) == MAP_FAILED) return 4;  // nobody has refused it

  if (stand() < 2) return 5;
  if (stand() != 0) return 6;
  std::thread([] {}).join();
  if (g_begun != 1) return 7;
  void* const ours = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ours == MAP_FAILED || add(ours, kBytes, kOurs) != 0) return 8;
  return ::mremap(ours, kBytes, 2 * kBytes, MREMAP_MAYMOVE) == MAP_FAILED ? 0 : 9;
}

TEST(ImportsTest, ALibraryThatCameLateStandsBefore) {
  if (kNoHandlers != nullptr) GTEST_SKIP() << "a sanitizer stands before these functions, too";
  ends(0, &stands_before);
}

}  // namespace
}  // namespace ebb::calls
