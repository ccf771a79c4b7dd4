// Use: what a launch declares about memory, of streams (ebb/stream.h) and of devices on process memory (ebb/mirror.h).
// Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ebb {

// Bytes that a launch uses, and how.
struct Use {
  enum class Kind : std::uint8_t { kReads, kWrites, kUpdates, kOverwrites };
  Kind kind = Kind::kReads;
  const void* data = nullptr;
  std::size_t bytes = 0;
  // What Runtime::allocate() returned, if `data` lies inside it: lets the policy learn from one iteration to the next.
  const void* allocation = nullptr;
};

// Elements of type T; of void, bytes.
template <typename T>
constexpr std::size_t bytes_of(std::size_t count) {
  if constexpr (std::is_void_v<T>) {
    return count;
  } else {
    return count * sizeof(T);
  }
}

template <typename T>
Use reads(const T* data, std::size_t count, const void* allocation = nullptr) {
  return {Use::Kind::kReads, data, bytes_of<T>(count), allocation};
}
// Writes some or all of it, and reads none.
template <typename T>
Use writes(T* data, std::size_t count, const void* allocation = nullptr) {
  return {Use::Kind::kWrites, data, bytes_of<T>(count), allocation};
}
// Reads and writes it.
template <typename T>
Use updates(T* data, std::size_t count, const void* allocation = nullptr) {
  return {Use::Kind::kUpdates, data, bytes_of<T>(count), allocation};
}
// Writes all of it before it reads any: the content until then need not be fetched, and is undefined from the call of
// launch() on, also if the launch should not come to run.
template <typename T>
Use overwrites(T* data, std::size_t count, const void* allocation = nullptr) {
  return {Use::Kind::kOverwrites, data, bytes_of<T>(count), allocation};
}
template <typename T>
Use reads(std::span<T> data, const void* allocation = nullptr) {
  return reads(data.data(), data.size(), allocation);
}
template <typename T>
Use writes(std::span<T> data, const void* allocation = nullptr) {
  return writes(data.data(), data.size(), allocation);
}
template <typename T>
Use updates(std::span<T> data, const void* allocation = nullptr) {
  return updates(data.data(), data.size(), allocation);
}
template <typename T>
Use overwrites(std::span<T> data, const void* allocation = nullptr) {
  return overwrites(data.data(), data.size(), allocation);
}

}  // namespace ebb
