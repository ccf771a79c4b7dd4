// See timelines.h.
#include "runtime/device/timelines.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/clock.h"

namespace ebb {
namespace {

// A kernel that runs for longer than this is taken to hang.
constexpr std::chrono::minutes kWaitMax{30};

constexpr std::uint64_t kSpinNs = 300'000;

// Events that there are from the start: with them, marks never fail for want of one.
constexpr std::size_t kEventsMin = 16;

}  // namespace

Status Timelines::make(GpuDevice& device, std::unique_ptr<Timelines>& timelines) {
  std::unique_ptr<Timelines> made(new Timelines(device));
  while (made->free_.size() < kEventsMin) {
    GpuDevice::Event event = nullptr;
    if (const Status status = device.make_event(event); status != Status::kOk) return status;
    made->free_.push_back(event);
  }
  timelines = std::move(made);
  return Status::kOk;
}

Timelines::Timelines(GpuDevice& device) : device_(device), lines_(3) {
  lines_.reserve(Fences::kLinesMax);
  lines_[kIn].stream = device.copy_stream(GpuDevice::Copy::kIn);
  lines_[kOut].stream = device.copy_stream(GpuDevice::Copy::kOut);
  lines_[kNote].stream = device.copy_stream(GpuDevice::Copy::kNote);
}

Timelines::~Timelines() {
  for (Line& line : lines_) {
    for (const Mark& mark : line.outstanding) device_.destroy_event(mark.event);
  }
  for (const GpuDevice::Event event : free_) device_.destroy_event(event);
}

std::uint32_t Timelines::line_of(GpuDevice::Stream stream) {
  for (std::uint32_t i = kNote + 1; i < lines_.size(); ++i) {
    if (lines_[i].stream != stream) continue;
    lines_[i].used = ++uses_;
    return i;
  }
  return take_line(stream);
}

std::uint32_t Timelines::take_line(GpuDevice::Stream stream) {
  std::uint32_t taken = static_cast<std::uint32_t>(lines_.size());
  if (taken < Fences::kLinesMax) {
    lines_.emplace_back();
  } else {
    // What its stream was given last has to be over: then all its numbers are done, and mean nothing any more.
    taken = kNone;
    for (std::uint32_t i = kNote + 1; i < lines_.size(); ++i) {
      if (lines_[i].held == 0 && (taken == kNone || lines_[i].used < lines_[taken].used)) taken = i;
    }
    if (taken == kNone) return kNone;
    Fences rest;
    rest.add(taken, lines_[taken].marked);
    static_cast<void>(wait_here(rest));
    lines_[taken].waited = {};
  }
  lines_[taken].stream = stream;
  lines_[taken].used = ++uses_;
  return taken;
}

bool Timelines::hold(std::uint32_t line) {
  std::uint32_t held = 0;
  for (const Line& other : lines_) held += other.held > 0 ? 1 : 0;
  // One is left for who only marks.
  if (lines_[line].held == 0 && held + 4 >= Fences::kLinesMax) return false;
  ++lines_[line].held;
  return true;
}

void Timelines::let_go(std::uint32_t line) {
  EBB_CHECK_LT(0u, lines_[line].held);
  --lines_[line].held;
}

Status Timelines::mark(std::uint32_t index, std::uint64_t& mark) {
  Line& line = lines_[index];
  mark = line.marked;
  if (line.outstanding.size() >= kMarksMax) {
    Fences oldest;
    oldest.add(index, line.outstanding[kMarksMax / 2].number);
    if (const Status status = wait_here(oldest); status != Status::kOk) return status;
  }
  GpuDevice::Event event = nullptr;
  if (const Status status = take_event(event); status != Status::kOk) return status;
  if (const Status status = device_.record(event, line.stream); status != Status::kOk) {
    free_.push_back(event);
    return status;
  }
  mark = ++line.marked;
  line.outstanding.push_back({mark, event});
  return Status::kOk;
}

// Where the device gives no more events, those that there are come back.
Status Timelines::take_event(GpuDevice::Event& event) {
  if (free_.empty() && device_.make_event(event) == Status::kOk) return Status::kOk;
  if (free_.empty()) poll();
  for (std::uint32_t i = 0; i < lines_.size() && free_.empty(); ++i) {
    if (lines_[i].outstanding.empty()) continue;
    Fences oldest;
    oldest.add(i, lines_[i].outstanding.front().number);
    if (const Status status = wait_here(oldest); status != Status::kOk) return status;
  }
  EBB_CHECK(!free_.empty());
  event = free_.back();
  free_.pop_back();
  return Status::kOk;
}

Status Timelines::wait(std::uint32_t index, const Fences& fences) {
  Line& line = lines_[index];
  for (std::uint32_t i = 0; i < lines_.size(); ++i) {
    const Line& other = lines_[i];
    if (i == index || fences[i] <= other.done || fences[i] <= line.waited[i]) continue;
    const auto found = std::lower_bound(other.outstanding.begin(), other.outstanding.end(), fences[i],
                                        [](const Mark& mark, std::uint64_t number) { return mark.number < number; });
    EBB_CHECK(found != other.outstanding.end());
    if (const Status status = device_.wait(line.stream, found->event); status != Status::kOk) return status;
    line.waited[i] = found->number;
  }
  return Status::kOk;
}

void Timelines::poll(Line& line) {
  while (!line.outstanding.empty()) {
    const Mark& oldest = line.outstanding.front();
    if (device_.query(oldest.event) != Status::kOk) return;
    line.done = oldest.number;
    free_.push_back(oldest.event);
    line.outstanding.pop_front();
  }
}

void Timelines::poll() {
  for (Line& line : lines_) poll(line);
}

bool Timelines::done(const Fences& fences) {
  if (!device_.failure().empty()) return true;
  for (std::uint32_t i = 0; i < lines_.size(); ++i) {
    if (fences[i] > lines_[i].done) poll(lines_[i]);
    if (fences[i] > lines_[i].done) return !device_.failure().empty();
  }
  return true;
}

bool Timelines::known_done(const Fences& fences) const {
  for (std::uint32_t i = 0; i < lines_.size(); ++i) {
    if (fences[i] > lines_[i].done) return !device_.failure().empty();
  }
  return true;
}

Status Timelines::wait_here(const Fences& fences) {
  if (!done(fences)) {
    ++host_waits_;
    const std::uint64_t start = monotonic_ns();
    // What is left is mostly a copy or two: a thread that sleeps comes back when they have long been over.
    bool over = false;
    while (!over && monotonic_ns() - start < kSpinNs) over = done(fences);
    if (!over) over = look_until_over(kWaitMax, [&] { return done(fences); });
    host_wait_ns_ += monotonic_ns() - start;
    if (!over) return Status::kBusy;
  }
  return device_.failure().empty() ? Status::kOk : Status::kIoError;
}

Fences Timelines::all() const {
  Fences fences;
  for (std::uint32_t i = 0; i < lines_.size(); ++i) fences.add(i, lines_[i].marked);
  return fences;
}

}  // namespace ebb
