// Importer of Chakra execution traces (MLCommons, schema 0.0.4, .et): protocol buffers, each preceded by its length:
// one GlobalMetadata, then Nodes. Reads the few fields that matter with a wire reader of its own.
//
// Owned by the caller; one thread. One message of the file is in memory at a time.
#pragma once

#include <string_view>

#include "trace/byte_source.h"
#include "trace/import_graph.h"

namespace ebb {

// Whether a file that begins like this may be one.
bool looks_like_chakra(std::string_view beginning);

// Throws Error with the name of the source if it is no such file, or one that names no tensor.
Import import_chakra(PeekableSource& source);

}  // namespace ebb
