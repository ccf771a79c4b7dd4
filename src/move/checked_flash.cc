// See checked_flash.h.
#include "move/checked_flash.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace ebb {
namespace {

constexpr std::size_t kDirectBytes = 4096;  // O_DIRECT reads whole ones

bool all_zero(std::span<const std::byte> bytes) {
  return bytes[0] == std::byte{} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

// What has been read is whole: beyond the end of a file it is zeros.
void settle(const FlashRequest& request, std::span<std::byte> bytes) {
  if (!request.place.valid()) return;
  const std::span<std::byte> beyond = bytes.subspan(request.place.bytes);
  if (!beyond.empty()) std::memset(beyond.data(), 0, beyond.size());
}

}  // namespace

// In the store, or to be read from a file, of which as much is asked for as may be past the page cache.
RawRequest CheckedFlash::raw(const FlashRequest& request, std::span<std::byte> bytes) const {
  const FilePlace& place = request.place;
  if (!place.valid()) {
    const bool write = request.kind == FlashRequest::Kind::kWrite;
    return {write, request.token, request.extent.value() * std::uint64_t{block_bytes_}, bytes};
  }
  const std::size_t asked = (place.bytes + kDirectBytes - 1) / kDirectBytes * kDirectBytes;
  return {false, request.token, place.offset, bytes.first(std::min(asked, bytes.size())), place.file, place.bytes};
}

CheckedFlash::CheckedFlash(std::unique_ptr<RawFlash> device, BackingMemory& memory, std::size_t block_bytes,
                           const SourceFiles* files, Proof proof)
    : device_(std::move(device)),
      memory_(memory),
      block_bytes_(block_bytes),
      files_(files),
      requests_(device_->depth()),
      proof_(proof),
      buffers_(block_bytes, proof == Proof::kContent ? BlockBuffers::count_for(block_bytes, device_->depth()) : 0),
      compared_(device_->depth()),
      waiting_comparison_(device_->depth()) {
  zeros_ = digest(std::vector<std::byte>(block_bytes));
  unmoved_.reserve(device_->depth());
  arrived_.resize(device_->depth());
}

void CheckedFlash::submit(std::span<const FlashRequest> requests) {
  for (const FlashRequest& request : requests) {
    EBB_CHECK_LT(request.token, requests_.size());
    FlashRequest& kept = requests_[request.token];
    kept = request;
    const std::span<std::byte> bytes = memory_.home(request.frame);
    if (request.kind == FlashRequest::Kind::kWrite) {
      submit_write(kept, bytes);
    } else if (request.has_expected && request.expected == zeros_) {
      std::memset(bytes.data(), 0, bytes.size());
      unmoved_.push_back({request.token, Status::kOk, false, zeros_, true});
    } else {
      device_->submit(raw(request, bytes));
    }
  }
}

void CheckedFlash::submit_write(FlashRequest& request, std::span<std::byte> bytes) {
  if (request.place.read_only && request.has_expected) {
    unmoved_.push_back({request.token, Status::kOk, true, request.expected, false});
    return;
  }
  const Digest now = digest(bytes);
  const bool alike = request.has_expected && now == request.expected;
  const bool compared = proof_ == Proof::kContent;
  if (alike && compared && now != zeros_) {
    waiting_comparison_.push(request.token);
    compare_waiting();
  } else if (alike && (!compared || all_zero(bytes))) {
    unmoved_.push_back({request.token, Status::kOk, true, now, false});
  } else {
    write(request, bytes, now);
  }
}

// What differs from its copy.
void CheckedFlash::write(FlashRequest& request, std::span<std::byte> bytes, const Digest& now) {
  const bool zeros = now == zeros_ && all_zero(bytes);
  if (request.place.valid()) {
    unmoved_.push_back({request.token, Status::kOk, false, now, false, true});
  } else if (now == zeros_) {
    // What only has the digest of zeros would be read back as zeros: it stays in memory.
    unmoved_.push_back({request.token, zeros ? Status::kOk : Status::kIoError, false, now, zeros});
  } else {
    request.expected = now;
    device_->submit(raw(request, bytes));
  }
}

void CheckedFlash::compare_waiting() {
  while (!waiting_comparison_.empty() && !buffers_.empty()) {
    const std::uint32_t token = waiting_comparison_.pop();
    FlashRequest read = requests_[token];
    read.kind = FlashRequest::Kind::kRead;
    read.extent = read.copy;
    compared_[token] = buffers_.take();
    device_->submit(raw(read, compared_[token]));
  }
}

void CheckedFlash::settle_comparison(const RawCompletion& arrived) {
  FlashRequest& request = requests_[arrived.token];
  const std::span<std::byte> copy = std::exchange(compared_[arrived.token], {});
  const std::span<std::byte> bytes = memory_.home(request.frame);
  settle(request, copy);
  const bool same = arrived.status == Status::kOk && std::memcmp(copy.data(), bytes.data(), bytes.size()) == 0;
  buffers_.give_back(copy);
  if (same) {
    unmoved_.push_back({request.token, Status::kOk, true, request.expected, false});
  } else {
    write(request, bytes, request.expected);
  }
}

// Asked after the reading: a change shows in a file's times before it shows in its bytes.
bool CheckedFlash::is_as_before(const FlashRequest& request) {
  constexpr std::uint32_t kCheckedAllTheSame = 16;
  return request.place.valid() && request.has_expected && files_ != nullptr && ++trusted_ % kCheckedAllTheSame != 0 &&
         files_->same_as_opened(request.place.file);
}

// What was read again is other than it was, and for the program to see: so it would with the kernel's mappings.
bool CheckedFlash::has_changed(const FlashRequest& request) const {
  return request.place.valid() && files_ != nullptr && files_->changed(request.place.file);
}

FlashCompletion CheckedFlash::settle_arrival(const RawCompletion& arrived) {
  const FlashRequest& request = requests_[arrived.token];
  FlashCompletion completion{request.token, arrived.status, false, request.expected, false};
  if (request.kind == FlashRequest::Kind::kRead && completion.status == Status::kOk) {
    settle(request, memory_.home(request.frame));
    if (is_as_before(request)) return completion;
    completion.digest = digest(memory_.home(request.frame));
    const bool other = request.has_expected && completion.digest != request.expected;
    if (other && !has_changed(request)) completion.status = Status::kCorrupt;
  }
  return completion;
}

std::size_t CheckedFlash::take_unmoved(std::span<FlashCompletion> completions) {
  std::size_t found = 0;
  while (found < completions.size() && !unmoved_.empty()) {
    completions[found++] = unmoved_.back();
    unmoved_.pop_back();
  }
  return found;
}

std::size_t CheckedFlash::poll(std::span<FlashCompletion> completions) {
  std::size_t found = take_unmoved(completions);
  const std::size_t arrived =
      device_->poll(std::span(arrived_).first(std::min(arrived_.size(), completions.size() - found)));
  for (const RawCompletion& each : std::span(arrived_).first(arrived)) {
    if (compared_[each.token].empty()) {
      completions[found++] = settle_arrival(each);
    } else {
      settle_comparison(each);
    }
  }
  compare_waiting();
  return found + take_unmoved(completions.subspan(found));
}

void CheckedFlash::wait(std::chrono::nanoseconds timeout) {
  if (unmoved_.empty()) device_->wait(timeout);
}

Status CheckedFlash::read_now(const FlashRequest& request, std::span<std::byte> buffer) {
  if (request.has_expected && request.expected == zeros_) {
    std::memset(buffer.data(), 0, buffer.size());
    return Status::kOk;
  }
  if (const Status status = device_->read_now(raw(request, buffer)); status != Status::kOk) return status;
  settle(request, buffer);
  const bool other = request.has_expected && digest(buffer) != request.expected;
  return other && !has_changed(request) ? Status::kCorrupt : Status::kOk;
}

}  // namespace ebb
