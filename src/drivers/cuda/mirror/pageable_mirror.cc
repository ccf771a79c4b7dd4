// See pageable_mirror.h.
#include "drivers/cuda/mirror/pageable_mirror.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "base/clock.h"
#include "drivers/cuda/mirror/managed_memory.h"
#include "drivers/linux/process/reservation.h"

namespace ebb::cuda {
namespace {

constexpr std::size_t kKernelsMax = 256;

}  // namespace

// An event behind all that the stream has been given. Made before a kernel is started, so that little can fail after.
class PageableMirror::Mark {
 public:
  explicit Mark(const PageableMirror& mirror) : mirror_(mirror) {
    mirror_.check(mirror_.gpu_.api.event_create(&event_, kEventWithoutTiming), "an event (cuEventCreate)");
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() {
    const Current current(mirror_.gpu_.api, mirror_.gpu_.context);
    static_cast<void>(mirror_.gpu_.api.event_destroy(event_));
  }
  void record() {
    mirror_.check(mirror_.gpu_.api.event_record(event_, mirror_.stream_), "a mark in its stream (cuEventRecord)");
  }
  void wait() const { mirror_.wait(event_); }

 private:
  const PageableMirror& mirror_;
  Event event_ = nullptr;
};

PageableMirror::PageableMirror(const CudaMirrorOptions& options) : options_(options), process_(::getpid()) {
  if (options.launch_timeout.count() <= 0) {
    throw Error(Status::kInvalid, "CudaMirrorOptions::launch_timeout: give more than 0 ms");
  }
  if (ProcessMap::open(map_) != Status::kOk) {
    throw Error(Status::kUnsupported, "without /proc, memory cannot be checked before a kernel starts; mount it");
  }
  try {
    make();
  } catch (...) {
    release();
    throw;
  }
}

PageableMirror::~PageableMirror() {
  // A child has none of the driver's threads, and a lost GPU may still use memory.
  bool is_over = ::getpid() == process_;
  try {
    if (is_over) synchronize();
  } catch (const Error&) {
    is_over = false;
  }
  if (is_over) {
    release();
  } else {
    leave();
  }
}

void PageableMirror::make() {
  std::string reason;
  Status status = gpu_.find(options_.cuda_library, options_.device, reason);
  if (status != Status::kOk) throw Error(status, reason);
  if (!gpu_.pageable_access) {
    throw Error(Status::kUnsupported,
                "the GPU '" + gpu_.name +
                    "' does not reach the process's own memory (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS is 0): "
                    "that takes NVIDIA's driver 535 or later with the open kernel modules on Linux 6.1.24 or later "
                    "with HMM, or a Grace Hopper; ebb::Mirror's software devices and ebb::DeviceRuntime do without");
  }
  status = Compiler::make(options_.nvrtc_library, gpu_.capability, compiler_, reason);
  if (status != Status::kOk) throw Error(status, reason);
  status = gpu_.enter(reason);
  if (status != Status::kOk) throw Error(status, reason);
  const Current current(gpu_.api, gpu_.context);
  check(gpu_.api.stream_create(&stream_, kStreamNonBlocking), "a stream (cuStreamCreate)");
}

void PageableMirror::release() {
  if (gpu_.context == nullptr) return;
  {
    const Current current(gpu_.api, gpu_.context);
    kernels_.clear();
    running_.clear();
    if (stream_ != nullptr) static_cast<void>(gpu_.api.stream_destroy(stream_));
  }
  gpu_.let_go();
}

void PageableMirror::leave() {
  for (const auto& [source, kernel] : kernels_) kernel->leave();
  for (const auto& kernel : running_) kernel->leave();
}

void PageableMirror::check_usable() const {
  if (::getpid() != process_) {
    throw Error(Status::kUnsupported,
                "this is a forked child, which cannot use the GPU of its parent: start workers with spawn or "
                "forkserver, and open a CudaMirror there");
  }
  if (is_given_up_) {
    throw Error(Status::kIoError, "the GPU '" + gpu_.name +
                                      "' has failed, or did not end a kernel in time, and is given up; restart " +
                                      "the program");
  }
}

void PageableMirror::check(Result result, const char* what) const {
  if (result == kSuccess) return;
  std::string hint;
  if (is_fatal(result)) {
    is_given_up_ = true;
    if (result == kIllegalAddress || result == kLaunchFailed) {
      hint = "; a kernel touched what no launch declared, or what was unmapped before synchronize() returned";
    }
    hint += "; CUDA is of no use in this process any more: restart the program";
  }
  const Status status = result == kOutOfMemory ? Status::kNoMemory : Status::kIoError;
  throw Error(status, std::string("the GPU refuses ") + what + ": " + gpu_.api.text(result) + hint);
}

void PageableMirror::wait(Event event) const {
  const Current current(gpu_.api, gpu_.context);
  Result result = kNotReady;
  if (!look_until_over(options_.launch_timeout, [&] { return (result = gpu_.api.event_query(event)) != kNotReady; })) {
    is_given_up_ = true;
    throw Error(Status::kIoError, "the GPU '" + gpu_.name + "' has not finished what it was given in " +
                                      std::to_string(options_.launch_timeout.count()) +
                                      " ms: a kernel hangs; its memory must not be freed, restart the program");
  }
  check(result, "to finish its work");
}

std::shared_ptr<CudaKernel> PageableMirror::compile(const std::string& source, const std::string& function) {
  check_usable();
  const std::string key = function + '\n' + source;
  const Lock lock(mutex_);
  if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second;
  const Current current(gpu_.api, gpu_.context);
  if (kernels_.size() >= kKernelsMax) kernels_.clear();  // those that run are kept by running_
  const auto kernel = std::make_shared<LoadedKernel>(gpu_.api, gpu_.context, this, function);
  const char* call = "";
  const Result result = kernel->load(compiler_.compile(source), function, call);
  check(result, call);
  kernels_.emplace(key, kernel);
  return kernel;
}

std::shared_ptr<LoadedKernel> PageableMirror::ours(const CudaKernel& kernel) const {
  const auto* const loaded = dynamic_cast<const LoadedKernel*>(&kernel);
  if (loaded == nullptr || loaded->maker != this) {
    throw Error(Status::kInvalid, "a kernel was compiled by somebody else: compile it with the mirror that runs it");
  }
  return std::const_pointer_cast<LoadedKernel>(loaded->shared_from_this());
}

void PageableMirror::start(const std::shared_ptr<LoadedKernel>& kernel, CudaGrid grid,
                           std::span<const void* const> parameters) {
  running_.insert(kernel);
  check(kernel->start(stream_, grid, parameters), "a kernel (cuLaunchKernel)");
}

void PageableMirror::launch(const CudaKernel& kernel, CudaGrid grid, std::span<const void* const> parameters,
                            std::span<const Use> uses, Runtime* runtime) {
  check_usable();
  const std::shared_ptr<LoadedKernel> loaded = ours(kernel);
  const LaunchFacts facts{loaded->name, runtime};
  const std::vector<Access> managed = check_uses(facts, map_, uses);
  if (grid.blocks == 0 || grid.threads == 0) return;
  const Current current(gpu_.api, gpu_.context);
  if (managed.empty()) {
    const Lock lock(mutex_);
    return start(loaded, grid, parameters);
  }
  const Lock one_at_a_time(launch_mutex_);
  ManagedMemory memory(facts, map_, managed);
  Mark end(*this);
  {
    const Lock lock(mutex_);
    start(loaded, grid, parameters);
    memory.keep();  // until it is known that the kernel is over
    end.record();
  }
  end.wait();
  memory.end();
}

bool PageableMirror::migrate(const void* data, std::size_t bytes, Device to) {
  check_usable();
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (begin % kPageBytes != 0 || bytes % kPageBytes != 0 || begin + bytes < begin) {
    throw Error(Status::kInvalid, "migration of " + std::to_string(bytes) + " bytes at " + hex(data) +
                                      ": give whole pages of 4 KiB that are mapped");
  }
  if (bytes == 0) return true;
  if (const std::string found = map_.complaint(begin, bytes, false); !found.empty()) {
    throw Error(Status::kInvalid, "migration of " + std::to_string(bytes) + " bytes at " + hex(data) + ", of which " +
                                      found + "; give whole pages of 4 KiB that are mapped");
  }
  const Lock lock(mutex_);
  const Current current(gpu_.api, gpu_.context);
  const Result result = gpu_.api.move_pages(begin, bytes, to, stream_);
  if (is_fatal(result)) check(result, "to move pages (cuMemPrefetchAsync)");
  return result == kSuccess;
}

void PageableMirror::synchronize() {
  check_usable();
  const Current current(gpu_.api, gpu_.context);
  std::set<std::shared_ptr<LoadedKernel>> over;
  Mark end(*this);
  {
    const Lock lock(mutex_);
    end.record();
    over = std::exchange(running_, {});
  }
  try {
    end.wait();
  } catch (...) {
    const Lock lock(mutex_);
    running_.merge(over);
    throw;
  }
  // By now another thread may have started one of them again, which is in running_.
}

std::string PageableMirror::description() const {
  return "CUDA mirror: " + gpu_.name + ", on the process's memory by " +
         (gpu_.host_page_tables ? "the host's page tables (ATS)" : "HMM");
}

}  // namespace ebb::cuda

namespace ebb {

std::shared_ptr<CudaMirror> CudaMirror::open(const CudaMirrorOptions& options) {
  return std::make_shared<cuda::PageableMirror>(options);
}

}  // namespace ebb
