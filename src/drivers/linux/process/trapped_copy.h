// trapped_copy: memcpy where either side may vanish meanwhile: an access that would kill the thread ends the copy
// instead. For memory that was there a moment ago; faster than the copies of the kernel (read_process()), which look up
// every page.
//
// Any thread; neither allocates nor waits, except for who serves a page that is missing in a watched range. A handler
// of ours for SIGSEGV and SIGBUS stands in front of the program's from make_trap() on; where it does not stand first,
// or the thread blocks these signals, nothing is copied.
#pragma once

#include <cstddef>

namespace ebb {

// Before the first copy; may be repeated.
void make_trap();

// False: nothing, or a part of unknown size, has been copied. Copies may be repeated by other means.
bool trapped_copy(void* to, const void* from, std::size_t bytes);

}  // namespace ebb
