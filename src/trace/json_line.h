// JsonLine: the keys of one line that the format knows, each with what kind of value it had, so that the reader judges
// a value only where its key means something. Everything else in the line has been checked to be JSON, and dropped.
//
// Owned by the reader, reused from line to line; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/trace.h"

namespace ebb {

class JsonLine {
 public:
  enum class Key : std::uint8_t {
    kFormat,
    kVersion,
    kModel,
    kBatch,
    kSource,
    kDevice,
    kDeviceBytes,
    kHostBytes,
    kDeviceLinkBps,
    kFlashReadBps,
    kFlashWriteBps,
    kFlashTotalBps,
    kLaunchHostNs,
    kSyncHostNs,
    kSequence,  // header
    kTensor,
    kBytes,
    kKind,
    kPersistent,
    kMapped,
    kContinues,  // tensor
    kLaunch,
    kOp,
    kNs,
    kSync,
    kReads,
    kWrites,  // launch
    kAlloc,
    kFree,
    kMark,
    kNone,  // unknown
  };
  static constexpr std::size_t kKeys = static_cast<std::size_t>(Key::kNone);
  static const char* text(Key key);

  enum class Type : std::uint8_t {
    kAbsent,
    kNull,
    kBoolean,
    kWhole,
    kNegative,
    kFraction,
    kHuge,
    kString,
    kArray,
    kObject,
  };
  struct Value {
    Type type = Type::kAbsent;
    std::uint64_t number = 0;  // of a whole number; of a boolean 0 or 1
    std::string text;          // of a string; of a number as it was written
    // Of an array: its whole numbers, and the first thing in it that is not one.
    std::vector<std::uint64_t> numbers;
    Type stranger = Type::kAbsent;
    std::string stranger_text;
  };

  // "" or what is wrong with the line: not JSON, not an object, a known key given twice.
  std::string parse(std::string_view line);

  const Value& at(Key key) const { return values_[static_cast<std::size_t>(key)]; }
  Value& at(Key key) { return values_[static_cast<std::size_t>(key)]; }
  // Given, and not null.
  bool has(Key key) const { return at(key).type > Type::kNull; }
  bool any() const;
  void clear();

 private:
  std::array<Value, kKeys> values_;
};

// The keys of a header that say on which machine the trace was recorded.
struct OriginKey {
  JsonLine::Key key;
  std::uint64_t Trace::Origin::*value;
};
inline constexpr std::array<OriginKey, 8> kOriginKeys{{
    {JsonLine::Key::kDeviceBytes, &Trace::Origin::device_bytes},
    {JsonLine::Key::kHostBytes, &Trace::Origin::host_bytes},
    {JsonLine::Key::kDeviceLinkBps, &Trace::Origin::device_link_bps},
    {JsonLine::Key::kFlashReadBps, &Trace::Origin::flash_read_bps},
    {JsonLine::Key::kFlashWriteBps, &Trace::Origin::flash_write_bps},
    {JsonLine::Key::kFlashTotalBps, &Trace::Origin::flash_total_bps},
    {JsonLine::Key::kLaunchHostNs, &Trace::Origin::launch_host_ns},
    {JsonLine::Key::kSyncHostNs, &Trace::Origin::sync_host_ns},
}};

// "-5", "\"x\"", "a list": a value as errors name it.
std::string describe(JsonLine::Type type, const std::string& text);

}  // namespace ebb
