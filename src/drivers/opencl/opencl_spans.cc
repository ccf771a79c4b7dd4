// See opencl_spans.h.
#include "drivers/opencl/opencl_spans.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>

#include "ebb/device.h"

namespace ebb::opencl {
namespace {

std::string hex(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIxPTR, reinterpret_cast<std::uintptr_t>(address));
  return text;
}

// "launch of the OpenCL kernel 'scale' failed: "
[[noreturn]] void refuse(const LaunchFacts& facts, Status status, const std::string& why) {
  throw Error(status, "launch of the OpenCL kernel '" + facts.kernel.function() + "' failed: " + why);
}

std::string ordinal(std::size_t argument) { return "argument " + std::to_string(argument); }

void check_kinds(const LaunchFacts& facts, std::span<const OpenClArgument> arguments) {
  const std::vector<Parameter>& parameters = facts.kernel.parameters();
  if (parameters.size() != arguments.size()) {
    refuse(facts, Status::kInvalid,
           "it has " + std::to_string(parameters.size()) + " parameters, and got " + std::to_string(arguments.size()) +
               " arguments");
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Parameter::Kind kind = parameters[i].kind;
    const bool is_use = arguments[i].use() != nullptr;
    if (kind == Parameter::Kind::kLocal) {
      refuse(facts, Status::kInvalid, ordinal(i) + " is __local memory; declare that inside the kernel");
    }
    if ((kind == Parameter::Kind::kMemory && !is_use) || (kind == Parameter::Kind::kNumber && is_use)) {
      refuse(facts, Status::kInvalid,
             ordinal(i) + (is_use ? " is a number in the kernel, and got memory"
                                  : " is a pointer in the kernel, and got a number; pass reads(), writes(), updates() "
                                    "or overwrites() of what it points to"));
    }
  }
}

void check_range(const LaunchFacts& facts, const Use& use, std::size_t argument) {
  const auto begin = reinterpret_cast<std::uintptr_t>(use.data);
  if (use.data == nullptr) {
    refuse(facts, Status::kInvalid, ordinal(argument) + " is " + format_size(use.bytes) + " at a null pointer");
  }
  if (use.bytes > std::numeric_limits<std::uintptr_t>::max() - begin) {
    refuse(facts, Status::kInvalid,
           ordinal(argument) + " is " + format_size(use.bytes) +
               ", more than there are addresses after the pointer; check the count");
  }
}

// Adds the use to the span that begins there, or makes one.
int add(Spans& spans, const Use& use, std::size_t alignment) {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(use.data));
  auto found =
      std::find_if(spans.list.begin(), spans.list.end(), [&](const Span& span) { return span.begin == begin; });
  const bool reads = use.kind != Use::Kind::kOverwrites;
  const bool writes = use.kind != Use::Kind::kReads;
  if (found == spans.list.end()) {
    Span span;
    span.begin = begin;
    span.bytes = use.bytes;
    span.reads = reads;
    span.writes = writes;
    span.allocation = use.allocation != nullptr ? use.allocation : use.data;
    span.alignment = alignment;
    spans.list.push_back(std::move(span));
    return static_cast<int>(spans.list.size()) - 1;
  }
  // What one overwrites, another of a different size may read or leave as it was.
  found->reads = found->reads || reads || found->bytes != use.bytes;
  found->writes = found->writes || writes;
  found->bytes = std::max(found->bytes, use.bytes);
  found->alignment = std::max(found->alignment, alignment);
  return static_cast<int>(found - spans.list.begin());
}

// Whether the process itself might do what the launch says it will.
void check_memory(const LaunchFacts& facts, const ProcessMap& map, Span& span) {
  const Access access = span.access();
  if (facts.runtime != nullptr && facts.runtime->manages(span.begin)) {
    if (dynamic_cast<DeviceRuntime*>(facts.runtime) != nullptr) {
      refuse(facts, Status::kInvalid, "its memory is that of a Runtime on a GPU, which OpenCL does not reach");
    }
    span.managed = true;
    if (facts.runtime->lost({&access, 1})) {
      refuse(facts, Status::kCorrupt,
             "flash has lost a part of the " + format_size(span.bytes) + " at " + hex(span.begin) + " that it " +
                 (span.reads ? "reads" : "writes"));
    }
    return;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(span.begin);
  const std::string found = map.complaint(begin, span.bytes, span.writes);
  if (found.empty()) return;
  refuse(facts, Status::kInvalid,
         std::string("it ") + (span.writes ? "writes " : "reads ") + std::to_string(span.bytes) + " bytes at " +
             hex(span.begin) + ", of which " + found + "; pass memory that is mapped so until the launch is over" +
             (facts.runtime == nullptr ? ", and with managed memory its Runtime" : ""));
}

bool is_aligned(const Span& span, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(span.begin) % alignment == 0;
}

// The way of the device, unless this piece of memory cannot take it.
OpenClPath path_of(const LaunchFacts& facts, const Span& span) {
  const bool is_fit = is_aligned(span, span.alignment);
  if (!is_fit) return OpenClPath::kStaged;  // a buffer of the device's has any type's alignment
  if (facts.path == OpenClPath::kHostPointer && !facts.device.is_cpu &&
      !is_aligned(span, facts.device.alignment_bytes)) {
    return OpenClPath::kStaged;
  }
  return facts.path;
}

// Two buffers over the same bytes are undefined in OpenCL: those that are only read are copied, others refused.
void settle_overlaps(const LaunchFacts& facts, std::vector<Span>& spans) {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const bool overlap = spans[k].begin < spans[i].end() && spans[i].begin < spans[k].end();
      const bool by_pointer = spans[i].path == OpenClPath::kSystemSvm && spans[k].path == OpenClPath::kSystemSvm;
      if (!overlap || by_pointer) continue;
      if (spans[i].writes || spans[k].writes) {
        refuse(facts, Status::kInvalid,
               "arguments at " + hex(spans[k].begin) + " and " + hex(spans[i].begin) +
                   " overlap, and one of them is written; pass the memory once, and the offset as a number");
      }
      if (spans[i].path == OpenClPath::kHostPointer) spans[i].path = OpenClPath::kStaged;
    }
  }
}

// A device that is no CPU pins what it uses where it is; of managed memory it may have half.
void bound_pinned(const LaunchFacts& facts, std::vector<Span>& spans) {
  if (facts.device.is_cpu || facts.runtime == nullptr) return;
  std::uint64_t managed_bytes = 0;
  for (const Span& span : spans) managed_bytes += span.managed ? span.bytes : 0;
  if (managed_bytes <= facts.runtime->stats().budget_bytes / 2) return;
  for (Span& span : spans) {
    if (span.managed) span.path = OpenClPath::kStaged;
  }
}

}  // namespace

Access Span::access() const {
  Access access;
  access.data = begin;
  access.bytes = bytes;
  access.allocation = allocation;
  access.written = writes;
  access.overwritten = !reads;
  return access;
}

Spans spans_of(const LaunchFacts& facts, const ProcessMap& map, std::span<const OpenClArgument> arguments) {
  check_kinds(facts, arguments);
  Spans spans;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Use* const use = arguments[i].use();
    spans.of_argument.push_back(Spans::kNone);
    if (use == nullptr || use->bytes == 0) continue;
    check_range(facts, *use, i);
    spans.of_argument.back() = add(spans, *use, facts.kernel.parameters()[i].alignment);
  }
  for (Span& span : spans.list) {
    check_memory(facts, map, span);
    span.path = path_of(facts, span);
  }
  bound_pinned(facts, spans.list);
  settle_overlaps(facts, spans.list);
  for (const Span& span : spans.list) {
    if (span.path == OpenClPath::kSystemSvm || span.bytes <= facts.device.buffer_bytes_max) continue;
    refuse(facts, Status::kNoMemory,
           "an argument has " + format_size(span.bytes) + ", and '" + facts.device.name + "' takes at most " +
               format_size(facts.device.buffer_bytes_max) + "; split the launch");
  }
  return spans;
}

}  // namespace ebb::opencl
