// See import.h.
#include "trace/import.h"

#include <string_view>
#include <utility>

#include "ebb/status.h"
#include "trace/import_chakra.h"
#include "trace/import_pytorch.h"
#include "trace/reader.h"

namespace ebb {
namespace {

constexpr std::size_t kPeekBytes = std::size_t{1} << 16;

Import import_any(PeekableSource& source) {
  const std::string_view beginning = source.peek(kPeekBytes);
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  const bool object = first != std::string_view::npos && beginning[first] == '{';
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  // An ebb-trace, and whatever is nearest to one: its reader knows best what to say about it.
  const bool own = line.find("\"ebb-trace\"") != std::string_view::npos;
  const bool pytorch = object && !own && beginning.find("\"nodes\"") != std::string_view::npos;
  const bool chakra = !object && looks_like_chakra(beginning);
  if (!pytorch && !chakra) return {read_trace(source), {}};
  Import import = pytorch ? import_pytorch(source) : import_chakra(source);
  if (import.trace.launches.empty()) {
    throw Error(Status::kInvalid, source.name() + ": no operator touches a tensor; record a whole iteration");
  }
  if (const std::string wrong = check(import.trace); !wrong.empty()) {
    throw Error(Status::kInvalid, source.name() + ": cannot be a trace: " + wrong);
  }
  return import;
}

}  // namespace

Import import_trace(const std::string& path) {
  PeekableSource source(open_source(path), path == "-" ? "standard input" : path);
  return import_any(source);
}

Import import_trace(std::istream& stream, const std::string& name) {
  PeekableSource source(open_source(stream, name), name);
  return import_any(source);
}

}  // namespace ebb
