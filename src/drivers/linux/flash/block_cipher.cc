// See block_cipher.h.
#include "drivers/linux/flash/block_cipher.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kTweakBytes = 16;
using TweakBytes = std::array<unsigned char, kTweakBytes>;

// Its halves differ, as XTS demands.
constexpr auto kNoKey = [] {
  std::array<unsigned char, 64> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<unsigned char>(i);
  return key;
}();

TweakBytes bytes_of(const BlockCipher::Tweak& tweak) {
  TweakBytes bytes;
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<unsigned char>(tweak.offset >> (8 * i));
    bytes[8 + i] = static_cast<unsigned char>(tweak.generation >> (8 * i));
  }
  return bytes;
}

// In a library context of our own: that of the program ends with its atexit handlers, and blocks move after that. One
// for all ciphers, and never freed. Null: there is no such cipher.
const LibCrypto::Cipher* fetch_cipher(const LibCrypto& crypto) {
  static LibCrypto::Library* const library = crypto.new_library();
  static const LibCrypto::Cipher* const cipher =
      library == nullptr ? nullptr : crypto.fetch(library, BlockCipher::kName, nullptr);
  return cipher;
}

}  // namespace

Status BlockCipher::make(std::unique_ptr<BlockCipher>& cipher, std::string& reason) {
  std::unique_ptr<BlockCipher> made(new BlockCipher);
  if (const Status status = LibCrypto::load(made->crypto_, reason); status != Status::kOk) return status;
  if (!made->set_up(reason)) return Status::kUnsupported;
  cipher = std::move(made);
  return Status::kOk;
}

bool BlockCipher::set_up(std::string& reason) {
  void* const page = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    reason = "flash cannot be encrypted: there is no memory for a key";
    return false;
  }
  key_ = static_cast<unsigned char*>(page);
  static_cast<void>(::mlock(page, kPageBytes));  // as far as ulimit -l allows
  ::madvise(page, kPageBytes, MADV_DONTDUMP);
  if (::getentropy(key_, kKeyBytes) != 0 || std::equal(key_, key_ + kKeyBytes / 2, key_ + kKeyBytes / 2)) {
    reason = "flash cannot be encrypted: the system has no random numbers (getrandom)";
    return false;
  }
  const LibCrypto::Cipher* const cipher = fetch_cipher(crypto_);
  moving_ = crypto_.new_context();
  reading_ = crypto_.new_context();
  const bool ready = cipher != nullptr && moving_ != nullptr && reading_ != nullptr &&
                     crypto_.init(moving_, cipher, nullptr, nullptr, nullptr, 0) == 1 && forget(moving_) &&
                     crypto_.init(reading_, cipher, nullptr, nullptr, nullptr, 0) == 1 && forget(reading_);
  if (!ready) reason = "flash cannot be encrypted: this libcrypto has no AES-256-XTS; install the one of OpenSSL 3";
  return ready;
}

BlockCipher::~BlockCipher() {
  if (moving_ != nullptr) crypto_.free_context(moving_);
  if (reading_ != nullptr) crypto_.free_context(reading_);
  if (key_ == nullptr) return;
  ::explicit_bzero(key_, kKeyBytes);
  ::munmap(key_, kPageBytes);
}

bool BlockCipher::forget(Context* context) {
  const TweakBytes none{};
  return crypto_.init(context, nullptr, nullptr, kNoKey.data(), none.data(), 1) == 1;
}

void BlockCipher::encrypt(const Tweak& tweak, std::span<const std::byte> from, std::span<std::byte> to) {
  turn(moving_, true, tweak, from, to);
}

void BlockCipher::decrypt(const Tweak& tweak, std::span<std::byte> bytes) { turn(moving_, false, tweak, bytes, bytes); }

// Who had it when a process forked is no thread of the child.
void BlockCipher::decrypt_anywhere(const Tweak& tweak, std::span<std::byte> bytes) {
  const pid_t self = ::getpid();
  for (;;) {
    pid_t reader = reader_.load(std::memory_order_relaxed);
    if (reader != self && reader_.compare_exchange_weak(reader, self, std::memory_order_acquire)) break;
    ::sched_yield();
  }
  turn(reading_, false, tweak, bytes, bytes);
  reader_.store(0, std::memory_order_release);
}

void BlockCipher::turn(Context* context, bool encrypt, const Tweak& tweak, std::span<const std::byte> from,
                       std::span<std::byte> to) {
  EBB_CHECK_EQ(from.size(), to.size());
  const auto* const source = reinterpret_cast<const unsigned char*>(from.data());
  auto* const target = reinterpret_cast<unsigned char*>(to.data());
  const unsigned char* key = key_;
  for (std::size_t done = 0; done < from.size(); key = nullptr) {
    const TweakBytes unit = bytes_of({tweak.offset + done, tweak.generation});
    const auto bytes = static_cast<int>(std::min(kUnitBytes, from.size() - done));
    int written = 0;
    EBB_CHECK_EQ(crypto_.init(context, nullptr, nullptr, key, unit.data(), encrypt ? 1 : 0), 1);
    EBB_CHECK_EQ(crypto_.update(context, target + done, &written, source + done, bytes), 1);
    EBB_CHECK_EQ(written, bytes);
    done += static_cast<std::size_t>(bytes);
  }
  EBB_CHECK(forget(context));
}

}  // namespace ebb
