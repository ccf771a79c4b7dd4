// libcufile_soft.so: what `ebb doctor` asks of cuFile. It can be opened once at a time, and twice in all.
//
// Not for threads.
#include <cstddef>

#define EBB_SOFT __attribute__((visibility("default")))

namespace {

struct Answer {
  int error, cuda_error;
};
struct Properties {
  unsigned major, minor;
  std::size_t poll_bytes, direct_bytes_max;
  unsigned status, control;
  unsigned features, device_cache, buffer_cache, pinned, batch, timeout;
};

constexpr int kDriverNotInitialized = 5001;
constexpr int kDriverAlreadyOpen = 5026;
bool g_open = false;
int g_opened = 0;

}  // namespace

extern "C" {

EBB_SOFT Answer cuFileDriverOpen() {
  if (g_open) return {kDriverAlreadyOpen, 0};
  if (++g_opened > 2) return {kDriverNotInitialized, 0};
  g_open = true;
  return {0, 0};
}

EBB_SOFT Answer cuFileDriverClose() {
  g_open = false;
  return {0, 0};
}

EBB_SOFT Answer cuFileDriverGetProperties(Properties* properties) {
  if (!g_open) return {kDriverNotInitialized, 0};
  *properties = {2, 17, 4, 16384, 1U << 4, 1U << 1, 0, 131072, 1024, 33554432, 128, 0};
  return {0, 0};
}

}  // extern "C"
