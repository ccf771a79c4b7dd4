// CompletedCalls: tells libebb_calls.so (src/calls), where this process has it, of memory whose absent parts a system
// call cannot wait for, and of addresses that only their runtime may map anew. Without the library nothing happens, and
// the kernel's answer is the program's. One owner a range; not inside a signal handler.
#pragma once

#include <cstddef>
#include <utility>

namespace ebb {

// `call` comes before _exit() ends the process, where the library is there. It may be called in a signal handler.
void before_end_of_process(void (*call)());

class CompletedCalls {
 public:
  CompletedCalls() = default;
  // `absent_fails`: a system call on what is absent there fails. `ours`: the program may not change the mapping.
  CompletedCalls(const void* begin, std::size_t bytes, bool absent_fails, bool ours);
  ~CompletedCalls() { end(); }
  CompletedCalls(CompletedCalls&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)) {}
  CompletedCalls& operator=(CompletedCalls&& other) noexcept {
    end();
    begin_ = std::exchange(other.begin_, nullptr);
    return *this;
  }

  // Whether calls on this range are completed: the process has the library.
  bool active() const { return begin_ != nullptr; }
  const void* begin() const { return begin_; }

  // For a description: what becomes of a system call on an absent block.
  const char* text() const;

 private:
  void end();

  const void* begin_ = nullptr;
};

}  // namespace ebb
