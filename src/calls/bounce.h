// Bounce: memory that is not managed, through which the kernel reaches what is. Taken for one call and given back; a
// few of the usual size are kept. No lock and no malloc: calls that need one may be made in signal handlers.
#pragma once

#include <cstddef>

namespace ebb::calls {

class Bounce {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;  // of the usual size: stays in a core's cache

  // At least this much.
  static Bounce take(std::size_t wanted);
  // Pages that nobody had before and nobody will have after: for calls that keep references to them.
  static Bounce fresh(std::size_t wanted);
  void give_back();  // may be repeated

  char* data() const { return data_; }  // null: there was no memory
  std::size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool reusable_ = false;
};

}  // namespace ebb::calls
