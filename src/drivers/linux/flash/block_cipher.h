// BlockCipher: AES-256 in XTS mode, by libcrypto, with a key of its own that ends with the process: drawn when it is
// made, written nowhere.
//
// The key lies in a page that is locked and left out of core dumps. What libcrypto derives from it is in its heap only
// while bytes are being turned; afterwards that of a number without meaning is in its place.
//
// encrypt() and decrypt() are for the one thread that submits and polls; decrypt_anywhere() for any, one after another,
// also in a forked child, whatever thread of its parent was in it. None of them allocates.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "drivers/linux/flash/libcrypto.h"
#include "ebb/status.h"

namespace ebb {

class BlockCipher {
 public:
  // As much is turned with one tweak at most. XTS allows 16 MiB; setting a tweak takes as long as some 100 bytes.
  static constexpr std::size_t kUnitBytes = std::size_t{1} << 20;

  // What makes equal bytes differ: where they are on the device, and the how-manieth write they came with.
  struct Tweak {
    std::uint64_t offset = 0;
    std::uint64_t generation = 0;
  };

  // kUnsupported, with the remedy: no libcrypto, no random numbers, no memory.
  static Status make(std::unique_ptr<BlockCipher>& cipher, std::string& reason);
  ~BlockCipher();
  BlockCipher(const BlockCipher&) = delete;
  BlockCipher& operator=(const BlockCipher&) = delete;

  // Multiples of 16 bytes. `to` is as large as `from`.
  void encrypt(const Tweak& tweak, std::span<const std::byte> from, std::span<std::byte> to);
  void decrypt(const Tweak& tweak, std::span<std::byte> bytes);
  void decrypt_anywhere(const Tweak& tweak, std::span<std::byte> bytes);

  static constexpr const char* kName = "AES-256-XTS";

 private:
  static constexpr std::size_t kKeyBytes = 64;  // two of AES-256
  using Context = LibCrypto::Context;

  BlockCipher() = default;
  bool set_up(std::string& reason);
  void turn(Context* context, bool encrypt, const Tweak& tweak, std::span<const std::byte> from,
            std::span<std::byte> to);
  bool forget(Context* context);

  LibCrypto crypto_;
  unsigned char* key_ = nullptr;  // in a page of its own
  Context* moving_ = nullptr;
  Context* reading_ = nullptr;
  std::atomic<pid_t> reader_{0};  // the process of which a thread has reading_; 0: none
};

}  // namespace ebb
