// Memory of the host under a kernel: what a GPU with access to pageable memory would find there. A fault of such a GPU
// is served by the kernel, but cannot wait for anybody's userfaultfd.
//
// Any thread; nothing is remembered.
#pragma once

#include "soft_driver.h"

namespace ebb::soft {

// Whether the whole of it can be touched at this moment.
bool host_accessible(const Touch& touch);

}  // namespace ebb::soft
