// EncryptedFlash: a flash device over another one, which gets nothing but cipher text. What is written goes by way of a
// bounded number of buffers, so that a frame stays what it is; what is read is decrypted where it arrived, before its
// completion is polled. What is read from files of the program's passes through: they are as the program has them.
//
// Each write has a number of its own, the generation, which is kept by extent and told to nobody: equal blocks differ
// on the device, and so do two writes of one block. The table is shared with forked children, which read what was
// written for them after the fork. Checksums are above (move/checked_flash.h), and of what the program knows.
//
// The thread that submits and polls does the work, the mover: encryption as it submits, decryption as it polls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bounded_queue.h"
#include "drivers/linux/flash/block_cipher.h"
#include "port/block_buffers.h"
#include "port/raw_flash.h"

namespace ebb {

class EncryptedFlash final : public RawFlash {
 public:
  struct Shape {
    std::size_t block_bytes = 0;  // of every write, and of every read in the store
    std::uint32_t extents = 0;    // most that there will be
  };

  // kUnsupported, with the remedy; `device` is then left as it was.
  static Status make(const Shape& shape, std::unique_ptr<RawFlash>& device, std::unique_ptr<EncryptedFlash>& flash,
                     std::string& reason);
  ~EncryptedFlash() override;

  // Memory that its buffers may take.
  static std::uint64_t buffer_bytes(std::size_t block_bytes, std::uint32_t depth) {
    return std::uint64_t{BlockBuffers::count_for(block_bytes, depth)} * block_bytes;
  }

  std::uint32_t depth() const override { return device_->depth(); }
  void submit(const RawRequest& request) override;
  std::size_t poll(std::span<RawCompletion> completions) override;
  void wait(std::chrono::nanoseconds timeout) override { device_->wait(timeout); }
  void wake() override { device_->wake(); }
  Status reserve(std::uint64_t bytes) override;
  Status read_now(const RawRequest& request) override;

 private:
  using Generation = std::atomic<std::uint64_t>;
  struct Slot {
    RawRequest request;
    std::uint64_t generation = 0;
    std::span<std::byte> buffer;
    bool busy = false;
  };

  EncryptedFlash(const Shape& shape, std::uint32_t depth);
  void write(std::uint32_t slot);
  RawCompletion finish(const RawCompletion& completion);
  Generation& generation_of(std::uint64_t offset);
  using Decrypt = void (BlockCipher::*)(const BlockCipher::Tweak& tweak, std::span<std::byte> bytes);
  void decrypt(const RawRequest& request, Decrypt how);

  const Shape shape_;
  const pid_t process_;
  std::unique_ptr<BlockCipher> cipher_;
  std::unique_ptr<RawFlash> device_;
  Generation* generations_ = nullptr;  // by extent, of what is there
  std::uint64_t last_generation_ = 0;
  BlockBuffers buffers_;
  std::vector<Slot> slots_;              // their numbers are the device's tokens
  BoundedQueue<std::uint32_t> waiting_;  // writes without a buffer
  std::uint32_t in_flight_ = 0;
};

}  // namespace ebb
