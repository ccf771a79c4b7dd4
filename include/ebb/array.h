// Array: n-dimensional arrays with lazily combined operators.
//
//   ebb::Array x = ebb::normal({1000, 1000}, /*seed=*/1);
//   ebb::Array y = ebb::exp(x * 2.0 + 1.0) / ebb::sum(x, {1}, true);   // nothing has run yet
//   y.evaluate();                                                       // one pass over x, one for the sum
//
// An Array is a cheap handle. Elementwise operators build an expression; evaluate(), data() and whatever needs values
// run it, as few passes as possible (docs/design/0009-combined-operators.md). Shapes and types are checked when the
// expression is built: an Error says what is wrong before anything has run. Slices, transposes and broadcasts are views
// that share memory; assign() writes through a view and everything that reads the old values is evaluated before.
//
// Memory comes from the Runtime given to use_runtime(), and is then bounded by its budget; without one, from malloc.
// Threads: different threads may use different handles at the same time, also to one array; evaluation is serialised.
// A single handle follows the rule of a std::shared_ptr.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ebb/array/types.h"
#include "ebb/dtype.h"
#include "ebb/runtime.h"
#include "ebb/status.h"
#include "ebb/units.h"

namespace ebb {

namespace array {
struct Node;
struct TadLayout;
}  // namespace array

// A slice as in Python: start, stop and step, any of them absent; the step may be negative.
struct Slice {
  std::optional<std::int64_t> start, stop, step;
};

class OpenClDevice;
class Stream;
class TensorsAlong;

class Array {
 public:
  Array();              // a 0-d f32 zero
  Array(double value);  // NOLINT: a 0-d f64; in an operator it takes the other side's float type
  explicit Array(std::shared_ptr<array::Node> node) : node_(std::move(node)) {}

  DType dtype() const;
  const Dims& shape() const;
  const Dims& strides() const;  // in elements; of a lazy array: those it will have
  int rank() const { return static_cast<int>(shape().size()); }
  std::int64_t size() const;  // elements
  std::int64_t size(int dim) const;
  bool is_lazy() const;
  bool is_contiguous() const;

  // Runs what is still only an expression. Idempotent; if it throws, the array is as before and may be tried again.
  const Array& evaluate() const;
  // The same in a stream, without waiting: the passes are queued as launches that declare what they use, which is
  // fetched ahead of their turn. Expressions go on from the array meanwhile; only who needs its values waits:
  // evaluate(), data(), item(), views, or a write to memory that is still read. If a launch fails, the stream tells so,
  // and the array is lazy again.
  const Array& evaluate(Stream& stream) const;
  // The first element, after evaluate(); elements are strides() apart. Owned by the array and its views. Throws
  // Error(kInvalid) for an array on a GPU.
  const void* data() const;
  template <typename T>
  const T* data_as() const {
    require_type(dtype_of<T>());
    return static_cast<const T*>(data());
  }
  // All elements in C order.
  template <typename T>
  std::vector<T> to_vector() const;
  // The only element, converted.
  double item() const;
  std::int64_t item_int() const;
  std::string to_string() const;

  // Views: no copy of an evaluated array, negative steps included. A lazy array is evaluated first.
  Array slice(int dim, const Slice& range) const;
  Array select(int dim, std::int64_t index) const;  // drops the dimension
  Array permute(const Dims& order) const;
  Array transpose() const;          // swaps the last two dimensions
  Array reshape(Dims shape) const;  // one size may be -1; copies only if strides do not allow a view
  Array expand_dims(int dim) const;
  Array squeeze(const Dims& dims) const;
  Array broadcast_to(const Dims& shape) const;
  Array flip(const Dims& dims) const;
  Array diagonal(std::int64_t offset = 0) const;  // of the last two dimensions

  Array astype(DType dtype) const;
  Array copy() const;        // new memory, C order
  Array contiguous() const;  // itself if it is in C order, else a copy
  // Writes `value`, broadcast and converted to this type, into the memory that this array is a view of.
  void assign(const Array& value);

  // Tensors along dimensions (TAD): the sub-tensors that span `dims`, one for each index of the other dimensions, in C
  // order of those. The layout is computed once per shape and cached.
  TensorsAlong along(const Dims& dims) const;
  Array tensor_along_dimension(std::int64_t index, const Dims& dims) const;

  const std::shared_ptr<array::Node>& node() const { return node_; }

  Array& operator+=(const Array& other);
  Array& operator-=(const Array& other);
  Array& operator*=(const Array& other);
  Array& operator/=(const Array& other);

 private:
  void require_type(DType dtype) const;
  void copy_out(DType dtype, void* out) const;

  std::shared_ptr<array::Node> node_;
};

// What Array::along() gives: cheap, and valid on its own.
class TensorsAlong {
 public:
  TensorsAlong(Array array, const Dims& dims);
  std::int64_t count() const;              // how many
  const Dims& shape() const;               // of each
  Array operator[](std::int64_t i) const;  // the i-th, a view

 private:
  Array array_;
  std::shared_ptr<const array::TadLayout> layout_;
};

template <typename T>
std::vector<T> Array::to_vector() const {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(size()));
    copy_out(DType::kBool, bytes.data());
    return {bytes.begin(), bytes.end()};
  } else {
    std::vector<T> out(static_cast<std::size_t>(size()));
    copy_out(dtype_of<T>(), out.data());
    return out;
  }
}

// ---- memory and caches

// New arrays get their memory from `runtime` (null: from malloc again). Arrays that exist keep theirs, and keep their
// runtime alive. With a DeviceRuntime they lie on its GPU, and passes run there (docs/cuda.md, "Arrays"): data()
// throws, to_vector() copies; throws Error(kUnsupported) with the remedy where there is no compiler for kernels.
void use_runtime(std::shared_ptr<Runtime> runtime);
// Elementwise passes over at least `elements_min` elements run on this OpenCL device (ebb/opencl/device.h) where it
// gives the bits of the CPU in arithmetic, comparisons and conversions, and the bounds of docs/array.md in functions;
// other passes, reductions, and what the device has no memory for, on the CPU, as does everything in a forked child.
// Null: all on the CPU again.
inline constexpr std::int64_t kOpenClElementsMin = 1 << 18;
void use_opencl(std::shared_ptr<OpenClDevice> device, std::int64_t elements_min = kOpenClElementsMin);
// Threads that passes run on, the caller's included. 0: as many as this process may use.
void set_array_threads(int threads);

struct ArrayStats {
  CacheStats shapes;            // immutable shape information, shared by all arrays of a shape
  CacheStats programs;          // combined operators
  CacheStats tads;              // tensor-along-dimension layouts
  std::uint64_t passes = 0;     // passes over data since the start of the process
  std::uint64_t operators = 0;  // elementwise operators that ran in them
  std::uint64_t forced = 0;     // evaluations because an expression had reached a limit
  std::uint64_t on_device = 0;  // of those passes: on an OpenCL device or a GPU
};
ArrayStats array_stats();

void set_combine_limits(const CombineLimits& limits);  // operators = 1: nothing is combined
CombineLimits combine_limits();

// The pass of a lazy elementwise expression as the source of a kernel `ebb_pass`, for a device (use_opencl() runs it);
// its arguments are described in src/array/source/source.h. CUDA C is to be compiled with --fmad=false.
std::string kernel_source(const Array& a, Dialect dialect);

// ---- creation. Shapes are lists of sizes; every function throws Error(kInvalid) for nonsense.
Array empty(const Dims& shape, DType dtype = DType::kF32);  // uninitialised
Array full(const Dims& shape, double value, DType dtype = DType::kF32);
// A 0-d constant for use in expressions: costs no memory and no pass, and cannot be assigned to.
Array scalar(double value, DType dtype = DType::kF32);
Array scalar_int(std::int64_t value, DType dtype = DType::kI64);
Array full_int(const Dims& shape, std::int64_t value, DType dtype = DType::kI64);
inline Array zeros(const Dims& shape, DType dtype = DType::kF32) { return full(shape, 0.0, dtype); }
inline Array ones(const Dims& shape, DType dtype = DType::kF32) { return full(shape, 1.0, dtype); }
Array arange(double start, double stop, double step = 1.0, DType dtype = DType::kI64);
Array linspace(double start, double stop, std::int64_t count, bool endpoint = true, DType dtype = DType::kF32);
Array eye(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0, DType dtype = DType::kF32);
Array from_memory(const void* data, const Dims& shape, DType dtype);  // a copy of C-ordered elements
template <typename T>
Array from_vector(const std::vector<T>& values, const Dims& shape) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements in memory; use unsigned char and astype");
  if (shape.empty() ? values.size() != 1 : false)
    throw Error(Status::kInvalid, "from_vector: a 0-d array has one value");
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  if (count != static_cast<std::int64_t>(values.size())) {
    throw Error(Status::kInvalid, "from_vector: " + std::to_string(values.size()) + " values do not fill the shape");
  }
  return from_memory(values.data(), shape, dtype_of<T>());
}
// An array over memory of somebody else; `owner` keeps it alive.
Array from_foreign(void* data, const Dims& shape, const Dims& strides, DType dtype, std::shared_ptr<void> owner);
// Writes and reads .npy (format 1.0 and 2.0, numpy.lib.format); bf16 cannot be stored.
void save_npy(const std::string& path, const Array& array);
Array load_npy(const std::string& path);

// Random numbers from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11, section 4):
// element i of stream `stream` depends only on `seed`, `stream` and i.
Array uniform(const Dims& shape, std::uint64_t seed, std::uint64_t stream = 0, DType dtype = DType::kF32);  // [0, 1)
Array normal(const Dims& shape, std::uint64_t seed, std::uint64_t stream = 0, DType dtype = DType::kF32);
Array random_integers(std::int64_t low, std::int64_t high, const Dims& shape, std::uint64_t seed,
                      std::uint64_t stream = 0, DType dtype = DType::kI64);  // [low, high)

// ---- elementwise operators: broadcast as in NumPy, types as in promote(); lazy
Array unary(Op op, const Array& a);
Array binary(Op op, const Array& a, const Array& b);
Array where(const Array& condition, const Array& a, const Array& b);
Array clip(const Array& a, const Array& low, const Array& high);

inline Array operator+(const Array& a, const Array& b) { return binary(Op::kAdd, a, b); }
inline Array operator-(const Array& a, const Array& b) { return binary(Op::kSubtract, a, b); }
inline Array operator*(const Array& a, const Array& b) { return binary(Op::kMultiply, a, b); }
inline Array operator/(const Array& a, const Array& b) { return binary(Op::kDivide, a, b); }
inline Array operator-(const Array& a) { return unary(Op::kNegative, a); }
inline Array operator<(const Array& a, const Array& b) { return binary(Op::kLess, a, b); }
inline Array operator<=(const Array& a, const Array& b) { return binary(Op::kLessEqual, a, b); }
inline Array operator>(const Array& a, const Array& b) { return binary(Op::kGreater, a, b); }
inline Array operator>=(const Array& a, const Array& b) { return binary(Op::kGreaterEqual, a, b); }
inline Array equal(const Array& a, const Array& b) { return binary(Op::kEqual, a, b); }
inline Array not_equal(const Array& a, const Array& b) { return binary(Op::kNotEqual, a, b); }
inline Array maximum(const Array& a, const Array& b) { return binary(Op::kMaximum, a, b); }
inline Array minimum(const Array& a, const Array& b) { return binary(Op::kMinimum, a, b); }
inline Array pow(const Array& a, const Array& b) { return binary(Op::kPow, a, b); }
inline Array exp(const Array& a) { return unary(Op::kExp, a); }
inline Array log(const Array& a) { return unary(Op::kLog, a); }
inline Array sqrt(const Array& a) { return unary(Op::kSqrt, a); }
inline Array square(const Array& a) { return unary(Op::kSquare, a); }
inline Array abs(const Array& a) { return unary(Op::kAbs, a); }
inline Array sin(const Array& a) { return unary(Op::kSin, a); }
inline Array cos(const Array& a) { return unary(Op::kCos, a); }
inline Array tanh(const Array& a) { return unary(Op::kTanh, a); }
inline Array sigmoid(const Array& a) { return unary(Op::kSigmoid, a); }
inline Array erf(const Array& a) { return unary(Op::kErf, a); }
Array relu(const Array& a);
Array gelu(const Array& a);  // the exact one, with erf

// ---- reductions over `dims` (empty: all); lazy, combined with the elementwise expression that they reduce
// kSum and kProd of integers give i64 or u64, of f16 and bf16 their own type from an f64 sum. kMin and kMax give NaN if
// there is one, and need an element. kArgMin and kArgMax take one dimension or all; the first of equals.
Array reduce(Reduce kind, const Array& a, const Dims& dims, bool keep_dims);
inline Array sum(const Array& a, const Dims& dims = {}, bool keep = false) {
  return reduce(Reduce::kSum, a, dims, keep);
}
inline Array prod(const Array& a, const Dims& dims = {}, bool keep = false) {
  return reduce(Reduce::kProd, a, dims, keep);
}
inline Array min(const Array& a, const Dims& dims = {}, bool keep = false) {
  return reduce(Reduce::kMin, a, dims, keep);
}
inline Array max(const Array& a, const Dims& dims = {}, bool keep = false) {
  return reduce(Reduce::kMax, a, dims, keep);
}
inline Array any(const Array& a, const Dims& dims = {}, bool keep = false) {
  return reduce(Reduce::kAny, a, dims, keep);
}
inline Array all(const Array& a, const Dims& dims = {}, bool keep = false) {
  return reduce(Reduce::kAll, a, dims, keep);
}
Array mean(const Array& a, const Dims& dims = {}, bool keep = false);
Array variance(const Array& a, const Dims& dims = {}, double correction = 0.0, bool keep = false);
Array norm(const Array& a, const Dims& dims = {}, bool keep = false);  // Euclidean
Array argmin(const Array& a, std::optional<int> dim = {}, bool keep = false);
Array argmax(const Array& a, std::optional<int> dim = {}, bool keep = false);
Array cumulative(Reduce kind, const Array& a, int dim);  // kSum, kProd, kMin or kMax
Array softmax(const Array& a, int dim = -1);
Array log_softmax(const Array& a, int dim = -1);
// (a - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension.
Array layer_norm(const Array& a, const Array& weight, const Array& bias, double epsilon = 1e-5);

// ---- linear algebra. Floating types in f32 (oneDNN) or f64, integers in 64 bits.
Array matmul(const Array& a, const Array& b);  // shapes as numpy.matmul: vectors, matrices, batches that broadcast
// Cross-correlation, NCHW input and OIHW weight; f32.
struct Conv2d {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
Array conv2d(const Array& input, const Array& weight, const Array* bias = nullptr, const Conv2d& options = {});

// ---- indexing and joining
Array take(const Array& a, const Array& indices, int dim);        // rows `indices` (1-d) of dimension `dim`
Array take_along(const Array& a, const Array& indices, int dim);  // numpy.take_along_axis
Array scatter(const Array& a, const Array& indices, const Array& updates, int dim, bool add = false);
Array concatenate(const std::vector<Array>& arrays, int dim = 0);
Array stack(const std::vector<Array>& arrays, int dim = 0);
std::vector<Array> nonzero(const Array& a);                            // one i64 vector per dimension
Array masked_select(const Array& a, const Array& mask);                // elements where `mask`, as a vector
void masked_assign(Array& a, const Array& mask, const Array& values);  // values: 0-d, or one for each true element
Array sort(const Array& a, int dim = -1, bool descending = false);
Array argsort(const Array& a, int dim = -1, bool descending = false);  // stable
Array searchsorted(const Array& sorted, const Array& values, bool right = false);

}  // namespace ebb
