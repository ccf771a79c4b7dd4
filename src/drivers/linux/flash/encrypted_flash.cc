// See encrypted_flash.h.
#include "drivers/linux/flash/encrypted_flash.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"

namespace ebb {

Status EncryptedFlash::make(const Shape& shape, std::unique_ptr<RawFlash>& device,
                            std::unique_ptr<EncryptedFlash>& flash, std::string& reason) {
  std::unique_ptr<EncryptedFlash> made(new EncryptedFlash(shape, device->depth()));
  if (const Status status = BlockCipher::make(made->cipher_, reason); status != Status::kOk) return status;
  void* const table = ::mmap(nullptr, shape.extents * sizeof(Generation), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) {
    reason = "flash cannot be encrypted: there is no memory for its table; lift ulimit -v";
    return Status::kUnsupported;
  }
  made->generations_ = static_cast<Generation*>(table);
  made->device_ = std::move(device);
  flash = std::move(made);
  return Status::kOk;
}

EncryptedFlash::EncryptedFlash(const Shape& shape, std::uint32_t depth)
    : shape_(shape),
      process_(::getpid()),
      buffers_(shape.block_bytes, BlockBuffers::count_for(shape.block_bytes, depth)),
      slots_(depth),
      waiting_(depth) {}

EncryptedFlash::~EncryptedFlash() {
  RawCompletion completion;
  while (device_ != nullptr && in_flight_ > 0 && process_ == ::getpid()) {
    if (poll({&completion, 1}) == 0) wait(std::chrono::milliseconds(100));
  }
  device_.reset();
  if (generations_ != nullptr) ::munmap(generations_, shape_.extents * sizeof(Generation));
}

EncryptedFlash::Generation& EncryptedFlash::generation_of(std::uint64_t offset) {
  const std::uint64_t extent = offset / shape_.block_bytes;
  EBB_CHECK_LT(extent, shape_.extents);
  return generations_[extent];
}

Status EncryptedFlash::reserve(std::uint64_t bytes) {
  if (bytes / shape_.block_bytes > shape_.extents) return Status::kNoSpace;
  return device_->reserve(bytes);
}

void EncryptedFlash::submit(const RawRequest& request) {
  const auto free = std::ranges::find(slots_, false, &Slot::busy);
  EBB_CHECK(free != slots_.end());
  const auto slot = static_cast<std::uint32_t>(free - slots_.begin());
  *free = {request, 0, {}, true};
  ++in_flight_;
  if (!request.write) {
    RawRequest read = request;
    read.token = slot;
    device_->submit(read);
  } else if (buffers_.empty()) {
    waiting_.push(slot);
  } else {
    write(slot);
  }
}

void EncryptedFlash::write(std::uint32_t index) {
  Slot& slot = slots_[index];
  EBB_CHECK_EQ(slot.request.bytes.size(), shape_.block_bytes);
  slot.buffer = buffers_.take();
  slot.generation = ++last_generation_;
  cipher_->encrypt({slot.request.offset, slot.generation}, slot.request.bytes, slot.buffer);
  device_->submit({true, index, slot.request.offset, slot.buffer});
}

std::size_t EncryptedFlash::poll(std::span<RawCompletion> completions) {
  const std::size_t found = device_->poll(completions);
  for (RawCompletion& completion : completions.first(found)) completion = finish(completion);
  while (!waiting_.empty() && !buffers_.empty()) write(waiting_.pop());
  return found;
}

RawCompletion EncryptedFlash::finish(const RawCompletion& completion) {
  Slot& slot = slots_[completion.token];
  const RawRequest& request = slot.request;
  const bool ok = completion.status == Status::kOk;
  if (request.write) {
    buffers_.give_back(slot.buffer);
    if (ok) generation_of(request.offset).store(slot.generation, std::memory_order_release);
  } else if (ok) {
    decrypt(request, &BlockCipher::decrypt);
  }
  slot.busy = false;
  --in_flight_;
  return {request.token, completion.status};
}

Status EncryptedFlash::read_now(const RawRequest& request) {
  const Status status = device_->read_now(request);
  if (status == Status::kOk) decrypt(request, &BlockCipher::decrypt_anywhere);
  return status;
}

// What has never been written holds what the file system made of it, and nothing is told of it.
void EncryptedFlash::decrypt(const RawRequest& request, Decrypt how) {
  if (request.file != FilePlace::kNoFile) return;
  for (std::size_t at = 0; at < request.bytes.size(); at += shape_.block_bytes) {
    const std::uint64_t offset = request.offset + at;
    const std::uint64_t generation = generation_of(offset).load(std::memory_order_acquire);
    if (generation == 0) continue;
    const std::size_t bytes = std::min(shape_.block_bytes, request.bytes.size() - at);
    (*cipher_.*how)({offset, generation}, request.bytes.subspan(at, bytes));
  }
}

}  // namespace ebb
