// ProcessMirror::launch: a kernel on the software device. Its translations are a small cache of pages; a miss is a
// fault record, served through the mirror. What is stored goes to memory at once: kept back, it could land in what has
// taken the place of the page. What has been loaded may be used again until the mirror has heard of a change to a
// mapping.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "mirror/process_mirror.h"

namespace ebb {
namespace {

struct FaultRecord {
  std::uintptr_t address;
  std::size_t bytes;
  bool write;
};

std::string describe(std::size_t device, const FaultRecord& fault, const MirrorResult& result) {
  char text[256];
  ProcessMap map;
  const std::string there = ProcessMap::open(map) == Status::kOk ? map.describe(result.address) : "";
  const char* remedy = "pass memory that is mapped, and lives as long as the launch";
  if (result.error == MirrorError::kPermission) remedy = "make it writable (mprotect), or do not write there";
  if (result.error == MirrorError::kBusy) remedy = "its fault handler does not answer: serve it, or wait longer";
  if (result.error == MirrorError::kNotMigratable) remedy = "atomics need private memory";
  if (result.error == MirrorError::kNoMemory) remedy = "the device's memory is full: give the mirror more device_bytes";
  if (result.error == MirrorError::kBadRange) remedy = "atomics need aligned, private memory";
  std::snprintf(text, sizeof text, "launch on device %zu failed (%s): %s of %zu bytes at 0x%" PRIxPTR ", ", device,
                name(result.error), fault.write ? "write" : "read", fault.bytes, result.address);
  return text + there + "; " + remedy;
}

class LaunchView final : public DeviceView {
 public:
  LaunchView(ProcessMirror& mirror, std::size_t device) : mirror_(mirror), device_(device), lines_(kLines) {}

  void read(const void* from, std::span<std::byte> to) override {
    visit(reinterpret_cast<std::uintptr_t>(from), to.size(), false,
          [&](Line& line, std::size_t at, std::size_t offset, std::size_t bytes) {
            std::memcpy(to.data() + at, line.data.data() + offset, bytes);
          });
  }
  void write(void* to, std::span<const std::byte> from) override {
    visit(reinterpret_cast<std::uintptr_t>(to), from.size(), true,
          [&](Line& line, std::size_t at, std::size_t offset, std::size_t bytes) {
            const auto part = from.subspan(at, bytes);
            const std::uintptr_t address = line.page * kPageBytes + offset;
            expect({address, bytes, true}, mirror_.write(device_, reinterpret_cast<void*>(address), part));
            std::memcpy(line.data.data() + offset, part.data(), bytes);
          });
  }
  std::uint64_t add(std::uint64_t* address, std::uint64_t value) override {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (Line& line = line_of(at / kPageBytes); line.page == at / kPageBytes) line.page = 0;
    std::uint64_t before = 0;
    expect({at, sizeof value, true}, mirror_.add(device_, address, value, before));
    return before;
  }

  void check(const Use& use) {
    const auto begin = reinterpret_cast<std::uintptr_t>(use.data);
    const bool written = use.kind != Use::Kind::kReads;
    expect({begin, use.bytes, written}, mirror_.check_span(begin, use.bytes, written));
  }
  std::uint64_t faults() const { return faults_; }

 private:
  static constexpr std::size_t kLines = 64;
  struct Line {
    std::uint64_t page = 0;      // 0: empty
    std::uint64_t sequence = 0;  // of the mirror, before it was filled
    bool writable = false;
    std::array<std::byte, kPageBytes> data;
  };

  Line& line_of(std::uint64_t page) { return lines_[page % kLines]; }

  template <typename Use>
  void visit(std::uintptr_t address, std::size_t bytes, bool write, Use use) {
    for (std::size_t done = 0; done < bytes;) {
      const std::uintptr_t at = address + done;
      const std::size_t offset = at % kPageBytes;
      const std::size_t part = std::min(bytes - done, kPageBytes - offset);
      Line& line = line_of(at / kPageBytes);
      const bool valid = line.page == at / kPageBytes && line.sequence == mirror_.sequence();
      // Ends the launch where there can be no translation.
      if (!valid || (write && !line.writable)) service({at, part, write}, line, valid);
      use(line, done, offset, part);
      done += part;
    }
  }

  void service(const FaultRecord& fault, Line& line, bool valid) {
    ++faults_;
    if (fault.write) expect(fault, mirror_.check_span(fault.address, fault.bytes, true));
    if (!valid) {
      const std::uint64_t page = fault.address / kPageBytes;
      line.page = 0;
      line.sequence = mirror_.sequence();
      expect(fault, mirror_.read(device_, address_of(page), line.data));
      line.page = page;
    }
    line.writable = fault.write;
  }

  void expect(const FaultRecord& fault, const MirrorResult& result) const {
    if (!result.ok()) throw Error(Status::kInvalid, describe(device_, fault, result));
  }

  ProcessMirror& mirror_;
  const std::size_t device_;
  std::vector<Line> lines_;
  std::uint64_t faults_ = 0;
};

}  // namespace

LaunchReport ProcessMirror::launch(std::size_t device, const Kernel& kernel, std::span<const Use> uses) {
  check_device(device);
  LaunchView view(*this, device);
  for (const Use& use : uses) view.check(use);
  kernel(view);
  return {view.faults()};
}

}  // namespace ebb
