// See trace_samples.h.
#include "trace_samples.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ebb/status.h"
#include "trace/json_line.h"

namespace ebb {
namespace {

std::string random_name(Rng& rng) {
  static constexpr std::array<const char*, 8> kParts{"conv", "\"quoted\"", "\\", "ü", "日本", "\n", "a b", "\x7f"};
  std::string name;
  for (std::uint64_t i = rng.below(4); i-- > 0;) name += kParts[rng.below(kParts.size())];
  return name;
}

std::uint64_t random_size(Rng& rng) {
  if (rng.chance(1, 8)) return rng.chance(1, 2) ? 0 : Trace::kBytesMax / 4096;
  return rng.below(std::uint64_t{1} << rng.between(1, 40));
}

std::vector<Trace::Tensor> random_tensors(Rng& rng, std::uint32_t launches) {
  std::vector<Trace::Tensor> tensors(rng.below(40));
  const bool sparse = rng.chance(1, 3);
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    Trace::Tensor& tensor = tensors[i];
    tensor.id = sparse ? i * 107374182u + static_cast<std::uint32_t>(rng.below(100)) : i;
    tensor.kind = static_cast<Trace::Kind>(rng.below(kTraceKinds));
    tensor.persistent = rng.chance(1, 4);
    tensor.mapped = tensor.persistent && rng.chance(1, 2);
    tensor.bytes = random_size(rng);
    if (tensor.persistent || !rng.chance(1, 3)) continue;
    const auto from = static_cast<std::uint32_t>(rng.below(launches + 1));
    const auto to = static_cast<std::uint32_t>(rng.between(from, launches));
    if (rng.chance(2, 3)) tensor.allocated_before = from;
    if (rng.chance(2, 3)) tensor.freed_before = to;
  }
  return tensors;
}

bool usable(const Trace::Tensor& tensor, std::uint32_t launch) {
  return (tensor.allocated_before == Trace::kNone || tensor.allocated_before <= launch) && tensor.freed_before > launch;
}

void add_launch(Trace& trace, Rng& rng, std::uint32_t index) {
  std::string name = random_name(rng);
  const auto found = std::find(trace.ops.begin(), trace.ops.end(), name);
  Trace::Launch launch;
  launch.op = static_cast<std::uint32_t>(found - trace.ops.begin());
  if (found == trace.ops.end()) trace.ops.push_back(std::move(name));
  launch.first_use = static_cast<std::uint32_t>(trace.uses.size());
  for (std::uint32_t* count : {&launch.reads, &launch.writes}) {
    for (std::uint64_t i = rng.below(4); i-- > 0 && !trace.tensors.empty();) {
      const auto tensor = static_cast<std::uint32_t>(rng.below(trace.tensors.size()));
      if (!usable(trace.tensors[tensor], index)) continue;
      trace.uses.push_back(tensor);
      ++*count;
    }
  }
  launch.sync = rng.chance(1, 4);
  if (rng.chance(2, 3)) launch.ns = rng.below(std::uint64_t{1} << rng.between(1, 50));
  trace.launches.push_back(launch);
}

}  // namespace

Trace random_trace(Rng& rng) {
  Trace trace;
  trace.model = random_name(rng);
  trace.source = random_name(rng);
  trace.device = random_name(rng);
  trace.batch = rng.chance(1, 2) ? rng.below(4096) : 0;
  for (const OriginKey& each : kOriginKeys) {
    if (rng.chance(1, 2)) trace.origin.*each.value = rng.below(Trace::kHeaderMax + 1);
  }
  const auto launches = static_cast<std::uint32_t>(rng.chance(1, 8) ? 0 : rng.below(60));
  trace.tensors = random_tensors(rng, launches);
  for (std::uint32_t i = 0; i < launches; ++i) {
    if (i > 0 && rng.chance(1, 10)) trace.steps.push_back(i);
    add_launch(trace, rng, i);
  }
  if (launches > 0 && rng.chance(1, 2)) trace.steps.push_back(launches);
  trace.sequence = rng.chance(1, 2) && (trace.steps.empty() ? 0 : trace.steps.back()) == launches;
  for (std::uint32_t i = 0; i < trace.tensors.size(); ++i) {
    Trace::Tensor& tensor = trace.tensors[i];
    const bool used = std::find(trace.uses.begin(), trace.uses.end(), i) != trace.uses.end();
    if (!used && tensor.allocated_before == Trace::kNone) tensor.freed_before = Trace::kNone;
    tensor.continues = i > 0 && tensor.lives_as(trace.tensors[i - 1]) && rng.chance(1, 2);
  }
  return trace;
}

bool same(const Trace& left, const Trace& right) {
  const auto tensor = [](const Trace::Tensor& a, const Trace::Tensor& b) {
    return a.id == b.id && a.kind == b.kind && a.continues == b.continues && a.bytes == b.bytes && a.lives_as(b);
  };
  const auto launch = [](const Trace::Launch& a, const Trace::Launch& b) {
    return a.op == b.op && a.first_use == b.first_use && a.reads == b.reads && a.writes == b.writes && a.ns == b.ns &&
           a.sync == b.sync;
  };
  return left.model == right.model && left.source == right.source && left.device == right.device &&
         left.batch == right.batch && left.origin == right.origin && left.ops == right.ops && left.uses == right.uses &&
         left.steps == right.steps && left.sequence == right.sequence &&
         std::ranges::equal(left.tensors, right.tensors, tensor) &&
         std::ranges::equal(left.launches, right.launches, launch);
}

TemporaryDirectory::TemporaryDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "ebb-trace-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr) throw Error(Status::kIoError, path_ + " cannot be made");
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace ebb
