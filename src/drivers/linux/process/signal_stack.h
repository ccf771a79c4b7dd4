// Signal stack: a stack of its own for the handlers that a thread's accesses raise. Without one the kernel puts their
// frames below the stack pointer, which is not always a stack: compiled kernels (oneDNN's matrix products for AVX-512)
// keep memory of the heap there while they run, and what lies below it would be overwritten.
//
// For the calling thread, and where it has no alternate stack already, of ours or of the program's.
#pragma once

#include <ucontext.h>

namespace ebb {

// It is released when the thread ends.
void ensure_signal_stack();

// In a handler: the thread has it once the handler has returned, when the kernel takes over what stands there. It stays
// until the process ends.
void give_signal_stack(ucontext_t& interrupted);

}  // namespace ebb
