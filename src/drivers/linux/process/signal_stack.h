// Signal stack: a stack of its own for the handlers that a thread's accesses raise. Without one the kernel puts their
// frames below the stack pointer, which is not always a stack: compiled kernels (oneDNN's matrix products for AVX-512)
// keep memory of the heap there while they run, and what lies below it would be overwritten.
//
// For any thread. The stack is released when the thread ends.
#pragma once

namespace ebb {

// Does nothing where the calling thread has an alternate stack already, of ours or of the program's.
void ensure_signal_stack();

}  // namespace ebb
