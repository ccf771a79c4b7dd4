// Thread stacks: a signal stack (signal_stack.h) for each thread of the process, whoever makes it.
//   Threads that are made from now on begin with one: libebb_calls.so sees to it where the process has it; elsewhere
//   pthread_create() is redirected in the libraries that are loaded (calls/imports.h).
//   Threads that there are get theirs in a handler of SIGURG, which is sent to those that sleep: what computes may have
//   a stack pointer that is no stack at this very moment.
//
// Any thread. What is done once is done for the process and for the children that it forks.
#pragma once

namespace ebb {

// Waits for threads that compute, for a tenth of a second at most. Again: does nothing.
void give_threads_signal_stacks();

// Whether each thread has one that was there then, or that libraries make which were loaded then.
bool threads_have_signal_stacks();

}  // namespace ebb
