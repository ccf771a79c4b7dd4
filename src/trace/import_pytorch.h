// Importer of PyTorch execution traces: the JSON that torch.profiler.ExecutionTraceObserver writes, schema 1.0 and
// later, also with the times that Chakra's linker adds to its nodes.
//
// Owned by the caller; one thread. Only one node of the file is in memory as JSON at a time.
#pragma once

#include "trace/byte_source.h"
#include "trace/import_graph.h"

namespace ebb {

// Throws Error with the name of the source if it is no such file, or one that names no tensor.
Import import_pytorch(PeekableSource& source);

}  // namespace ebb
