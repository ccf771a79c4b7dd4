// ProcessMirror::launch: a kernel on the software device. Its memory accesses go through a small cache of pages with a
// mask of what was stored; a miss is a fault record, served through the mirror, and the access replays.
#include <algorithm>
#include <array>
#include <bitset>
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
            std::memcpy(line.data.data() + offset, from.data() + at, bytes);
            for (std::size_t i = 0; i < bytes; ++i) line.stored.set(offset + i);
          });
  }
  std::uint64_t add(std::uint64_t* address, std::uint64_t value) override {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    give_up(line_of(at / kPageBytes), at / kPageBytes);
    std::uint64_t before = 0;
    expect({at, sizeof value, true}, mirror_.add(device_, address, value, before));
    return before;
  }

  void check(const Use& use) {
    const auto begin = reinterpret_cast<std::uintptr_t>(use.data);
    const bool written = use.kind != Use::Kind::kReads;
    expect({begin, use.bytes, written}, mirror_.check_span(begin, use.bytes, written));
  }
  void flush() {
    for (Line& line : lines_) write_back(line);
  }
  std::uint64_t faults() const { return faults_; }

 private:
  static constexpr std::size_t kLines = 64;
  struct Line {
    std::uint64_t page = 0;  // 0: empty
    bool writable = false;
    std::array<std::byte, kPageBytes> data;
    std::bitset<kPageBytes> stored;
  };

  Line& line_of(std::uint64_t page) { return lines_[page % kLines]; }

  template <typename Use>
  void visit(std::uintptr_t address, std::size_t bytes, bool write, Use use) {
    for (std::size_t done = 0; done < bytes;) {
      const std::uintptr_t at = address + done;
      const std::size_t offset = at % kPageBytes;
      const std::size_t part = std::min(bytes - done, kPageBytes - offset);
      Line& line = line_of(at / kPageBytes);
      // Replayed until the translation is there; service() ends the launch where it cannot be.
      while (line.page != at / kPageBytes || (write && !line.writable)) service({at, part, write}, line);
      use(line, done, offset, part);
      done += part;
    }
  }

  void service(const FaultRecord& fault, Line& line) {
    ++faults_;
    const std::uint64_t page = fault.address / kPageBytes;
    if (fault.write) expect(fault, mirror_.check_span(fault.address, fault.bytes, true));
    if (line.page == page) {
      line.writable = true;
      return;
    }
    write_back(line);
    line.page = 0;
    expect(fault, mirror_.read(device_, reinterpret_cast<void*>(page * kPageBytes), line.data));
    line.page = page;
    line.writable = fault.write;
  }

  void give_up(Line& line, std::uint64_t page) {
    if (line.page != page) return;
    write_back(line);
    line.page = 0;
  }

  void write_back(Line& line) {
    if (line.page == 0 || line.stored.none()) return;
    for (std::size_t at = 0; at < kPageBytes;) {
      if (!line.stored.test(at)) {
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < kPageBytes && line.stored.test(end)) ++end;
      const std::uintptr_t address = line.page * kPageBytes + at;
      const auto from = std::span<const std::byte>(line.data).subspan(at, end - at);
      line.stored.reset(at);
      expect({address, end - at, true}, mirror_.write(device_, reinterpret_cast<void*>(address), from));
      at = end;
    }
    line.stored.reset();
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
  view.flush();
  return {view.faults()};
}

}  // namespace ebb
