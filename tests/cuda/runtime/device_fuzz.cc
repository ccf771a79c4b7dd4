// The fuzzer of DeviceRuntime on the software driver: random allocations, launches in several streams, frees and
// iterations, compared with a model in ordinary memory; no data may be wrong, nothing unordered, nothing left.
//
//   cuda_fuzz --seed N --runs N
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "gpu_program.h"

namespace ebb {
namespace {

constexpr std::size_t kStreams = 3;
constexpr int kSteps = 150;

// A tensor, what it holds, and the stream that used it last: the program itself orders streams that share a tensor.
struct Tensor {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t seed = 0;
  std::vector<std::uint64_t> written;  // per part of kPart bytes: seed of what is there, 0: nothing yet
  std::size_t stream = 0;
};

constexpr std::size_t kPart = 16 * 1024;

class Fuzz {
 public:
  explicit Fuzz(std::uint64_t seed) : rng_(seed) {
    soft::reset();
    frames_ = static_cast<std::uint32_t>(rng_.between(8, 20));
    Options options =
        gpu_options(frames_, static_cast<std::uint32_t>(rng_.chance(1, 4) ? 0 : rng_.between(1, 24)), "8MiB");
    options.policy = rng_.chance(1, 2) ? "foresight" : "window";
    options.device_strict = rng_.chance(1, 8);
    options.device_notes = rng_.chance(1, 2);
    runtime_ = DeviceRuntime::open(options);
    for (void*& stream : streams_) EBB_CHECK(soft::new_stream(&stream) == 0);
  }

  void run() {
    for (int i = 0; i < kSteps; ++i) step();
    while (!tensors_.empty()) {
      look(tensors_.size() - 1);
      free(tensors_.size() - 1);
    }
    runtime_->synchronize();
    EBB_CHECK_EQ(wrong_.load(), 0u);
    EBB_CHECK_EQ(runtime_->stats().live_bytes, 0u);
    runtime_.reset();
    for (void* stream : streams_) EBB_CHECK(soft::delete_stream(stream) == 0);
    const std::vector<std::string> violations = soft::take_violations();
    for (const std::string& violation : violations) std::fprintf(stderr, "%s\n", violation.c_str());
    EBB_CHECK(violations.empty());
    EBB_CHECK_EQ(soft::live().total(), 0u);
  }

 private:
  void step() {
    const std::uint64_t dice = rng_.below(100);
    if (dice < 18) {
      allocate();
    } else if (dice < 22) {
      if (Tensor tensor; make_there(tensor)) tensors_.push_back(tensor);
    } else if (tensors_.empty()) {
      return;
    } else if (dice < 36) {
      free(rng_.below(tensors_.size()));
    } else if (dice < 64) {
      launch(true);
    } else if (dice < 90) {
      launch(false);
    } else if (dice < 96) {
      runtime_->step();
    } else {
      runtime_->synchronize();
    }
  }

  void allocate() {
    Tensor tensor;
    const std::size_t most = rng_.chance(1, 3) ? frames_ / 2 * kGpuBlock : 2 * kGpuBlock;
    tensor.bytes = rng_.chance(1, 3) ? kPart : rng_.between(1, most / kPart) * kPart;
    try {
      tensor.data = static_cast<std::byte*>(runtime_->allocate(tensor.bytes));
    } catch (const Error& error) {
      EBB_CHECK(error.status() == Status::kNoMemory);
      return;
    }
    tensor.written.assign(tensor.bytes / kPart, 0);
    tensor.stream = rng_.below(kStreams);
    tensors_.push_back(tensor);
  }

  // A tensor that is there at once, written by a kernel that nobody announces. False: there is no room.
  bool make_there(Tensor& tensor) {
    tensor.bytes = rng_.between(1, kGpuBlock / kPart) * kPart;
    tensor.stream = rng_.below(kStreams);
    void* const stream = streams_[tensor.stream];
    try {
      tensor.data = static_cast<std::byte*>(runtime_->allocate_on(stream, tensor.bytes));
    } catch (const Error& error) {
      EBB_CHECK(error.status() == Status::kNoMemory);
      return false;
    }
    tensor.written.assign(tensor.bytes / kPart, 0);
    start(tensor, stream, {tensor.data, tensor.bytes, true}, true);
    const void* const data = tensor.data;
    runtime_->unpin_on(stream, {&data, 1});
    return true;
  }

  // In any stream, after what used it last.
  void move_to(Tensor& tensor, std::size_t stream) {
    if (tensor.stream != stream) EBB_CHECK(soft::order(streams_[tensor.stream], streams_[stream]) == 0);
    tensor.stream = stream;
  }

  void free(std::size_t which) {
    Tensor& tensor = tensors_[which];
    runtime_->deallocate_on(tensor.data, streams_[tensor.stream]);
    tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  // A kernel over some parts of some tensors, which fit into memory together.
  void launch(bool write) {
    const std::size_t stream = rng_.below(kStreams);
    const std::uint64_t most = rng_.between(1, 3);
    std::vector<Access> accesses;
    std::vector<soft::Touch> touches;
    std::vector<std::size_t> used;
    std::size_t blocks = 0;
    for (std::uint64_t i = 0; i < most; ++i) {
      const std::size_t which = rng_.below(tensors_.size());
      Tensor& tensor = tensors_[which];
      const std::size_t needed = tensor.bytes / kGpuBlock + 2;
      if (blocks + needed > frames_ - 3 || std::find(used.begin(), used.end(), which) != used.end()) continue;
      blocks += needed;
      used.push_back(which);
      move_to(tensor, stream);
      Access access;
      access.data = tensor.data;
      access.bytes = tensor.bytes;
      access.allocation = rng_.chance(3, 4) ? tensor.data : nullptr;
      accesses.push_back(access);
      touches.push_back({tensor.data, tensor.bytes, write});
    }
    if (used.empty()) return;
    const std::uint64_t ticket = runtime_->announce_on(streams_[stream], rng_.below(8), accesses);
    EBB_CHECK_NE(ticket, 0u);
    // Kernels of their own for each tensor, some of them after a launch inside this one.
    for (std::size_t i = 0; i < used.size(); ++i) start(tensors_[used[i]], streams_[stream], touches[i], write);
    // As an operator does: makes something while it runs, which may outlive it.
    Tensor made;
    const bool makes = rng_.chance(1, 4) && make_there(made);
    runtime_->retire(ticket);
    if (makes) tensors_.push_back(made);
  }

  void start(Tensor& tensor, void* stream, const soft::Touch& touch, bool write) {
    for (std::size_t part = 0; part < tensor.written.size(); ++part) {
      if (write && !rng_.chance(2, 3)) continue;
      std::byte* const data = tensor.data + part * kPart;
      const soft::Touch one{data, kPart, touch.write};
      if (write) {
        const std::uint64_t seed = rng_.next() | 1;
        tensor.written[part] = seed;
        EBB_CHECK(soft::launch(stream, {&one, 1}, [=] { write_words(data, kPart, seed); }) == 0);
      } else if (const std::uint64_t seed = tensor.written[part]; seed != 0) {
        auto* const wrong = &wrong_;
        EBB_CHECK(soft::launch(stream, {&one, 1}, [=] { check_words(data, kPart, seed, 0, wrong); }) == 0);
      }
    }
  }

  void look(std::size_t which) {
    Tensor& tensor = tensors_[which];
    const Access access{tensor.data, tensor.bytes, tensor.data};
    const std::uint64_t ticket = runtime_->announce_on(streams_[tensor.stream], 50, {&access, 1});
    start(tensor, streams_[tensor.stream], {tensor.data, tensor.bytes, false}, false);
    runtime_->retire(ticket);
  }

  Rng rng_;
  std::uint32_t frames_ = 0;
  std::shared_ptr<DeviceRuntime> runtime_;
  std::array<void*, kStreams> streams_{};
  std::vector<Tensor> tensors_;
  std::atomic<std::uint64_t> wrong_{0};
};

}  // namespace
}  // namespace ebb

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t runs = 20;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    (option == "--seed" ? seed : runs) = std::strtoull(argv[i + 1], nullptr, 10);
  }
  for (std::uint64_t i = 0; i < runs; ++i) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed + i));
    std::fflush(stdout);
    ebb::Fuzz(seed + i).run();
  }
  return 0;
}
