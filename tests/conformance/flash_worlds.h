// The implementations of RawFlash, each in a world of its own with buffers that it accepts, for the suite that runs on
// all of them. Another one needs a name here and a branch in make_flash_world(). Used by one thread.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "drivers/linux/flash/encrypted_flash.h"
#include "drivers/linux/flash/flash_file.h"
#include "drivers/linux/flash/thread_flash.h"
#include "drivers/uring/uring_flash.h"
#include "sim/sim_flash.h"

namespace ebb::conformance {

enum class FlashDriver { kUring, kThreads, kSim, kEncryptedUring, kEncryptedThreads };

inline const char* name(FlashDriver driver) {
  constexpr std::array kNames{"Uring", "Threads", "Sim", "EncryptedUring", "EncryptedThreads"};
  return kNames.at(static_cast<std::size_t>(driver));
}
inline bool encrypts(FlashDriver driver) {
  return driver == FlashDriver::kEncryptedUring || driver == FlashDriver::kEncryptedThreads;
}
inline FlashDriver beneath(FlashDriver driver) {
  return driver == FlashDriver::kEncryptedUring     ? FlashDriver::kUring
         : driver == FlashDriver::kEncryptedThreads ? FlashDriver::kThreads
                                                    : driver;
}

struct FlashWorld {
  static constexpr std::uint32_t kDepth = 16;
  static constexpr std::size_t kBytes = 64 * 1024;  // of a buffer, of which there are kDepth

  virtual ~FlashWorld() = default;
  std::span<std::byte> buffer(std::uint32_t i) const { return buffers.subspan(i * kBytes, kBytes); }

  std::unique_ptr<RawFlash> flash;
  std::span<std::byte> buffers;  // one after the other, aligned as O_DIRECT demands
  int fd = -1;  // the file behind it, to look at past the driver; -1: there is none, and time is virtual
};

struct FileWorld final : FlashWorld {
  FileWorld() { buffers = {static_cast<std::byte*>(std::aligned_alloc(4096, kDepth * kBytes)), kDepth * kBytes}; }
  ~FileWorld() override {
    flash.reset();
    std::free(buffers.data());
    if (fd >= 0) ::close(fd);
  }
};

struct SimWorld final : FlashWorld {
  SimWorld() : memory({kBytes, kDepth, 1, 1}, plan, nth, log) {
    for (std::uint32_t i = 0; i < kDepth; ++i) static_cast<void>(memory.create(FrameIndex(i)));
    buffers = {memory.home(FrameIndex(0)).data(), kDepth * kBytes};
    SimFlash::Config config;
    config.block_bytes = kBytes;
    config.depth = kDepth;
    flash = std::make_unique<SimFlash>(config, plan, nth, memory, clock, log);
  }
  ~SimWorld() override { flash.reset(); }

  FaultPlan plan;
  NthFault nth;
  EventLog log;
  VirtualClock clock;
  SimMemory memory;
};

// Null with the reason where this machine lacks what the driver needs.
inline std::unique_ptr<FlashWorld> make_flash_world(FlashDriver driver, std::string& reason) {
  if (driver == FlashDriver::kSim) return std::make_unique<SimWorld>();
  auto world = std::make_unique<FileWorld>();
  try {
    FlashFile file = FlashFile::open(default_flash_directory());
    world->fd = ::dup(file.fd());
    if (beneath(driver) == FlashDriver::kUring) {
      std::unique_ptr<UringFlash> flash;
      if (UringFlash::make(file, FlashWorld::kDepth, flash) != Status::kOk) reason = "io_uring is not to be had here";
      world->flash = std::move(flash);
    } else {
      std::unique_ptr<ThreadFlash> flash;
      if (ThreadFlash::make(file, FlashWorld::kDepth, flash) != Status::kOk) reason = "no threads are to be had here";
      world->flash = std::move(flash);
    }
    std::unique_ptr<EncryptedFlash> encrypted;
    if (world->flash != nullptr && encrypts(driver)) {
      constexpr EncryptedFlash::Shape kShape{FlashWorld::kBytes, 1024};
      static_cast<void>(EncryptedFlash::make(kShape, world->flash, encrypted, reason));
      world->flash = std::move(encrypted);  // none where there is no libcrypto
    }
  } catch (const Error& error) {
    reason = error.what();
  }
  if (world->flash == nullptr) return nullptr;
  return world;
}

}  // namespace ebb::conformance
