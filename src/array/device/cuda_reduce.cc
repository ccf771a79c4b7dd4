// See cuda_reduce.h.
#include "array/device/cuda_reduce.h"

#include <algorithm>
#include <vector>

#include "array/device/cuda_launch.h"
#include "array/device/placement.h"
#include "array/pass/reduction.h"
#include "array/source/source.h"

namespace ebb::array {
namespace {

constexpr std::int64_t kThreadsAim = 1 << 16;   // what a GPU has running at a time, about
constexpr std::int64_t kElementsOfAThread = 8;  // at least, if a result has so many
constexpr std::int64_t kTablesPart = 8;         // accumulators in chunks take at most this part of device memory

// Of the space: results [row, row + rows) · inner, elements [from, from + length) of each.
struct Piece {
  std::int64_t row, rows, from, length;
};

class CudaReduce {
 public:
  CudaReduce(CudaStream& stream, const Node& node, const Target& target)
      : stream_(stream),
        target_(target),
        elements_(node.inputs.front()->dtype()),
        order_(reduce_order(node.inputs.front()->shape->sizes, node.dims)),
        accumulators_(node.reduce, elements_),
        source_(generate_reduce(node.reduce, node.inputs.front(), order_)) {
    for (NodePtr& operand : source_.operands) operand = moved(operand, target.storage->device);
    const auto result_bytes =
        order_.outputs() * static_cast<std::int64_t>(accumulators_.words() * sizeof(std::uint64_t));
    const auto budget = static_cast<std::int64_t>(stream.runtime()->stats().budget_bytes);
    chunks_ = std::min({kThreadsAim / std::max<std::int64_t>(order_.outputs(), 1), budget / kTablesPart / result_bytes,
                        order_.reduced / kElementsOfAThread});
    chunks_ = std::max<std::int64_t>(chunks_, 1);
    tables_ = allocate_storage(static_cast<std::size_t>(result_bytes * chunks_), target.storage->device);
  }

  bool cut() {
    if (parameter_bytes(source_) > kParameterBytesMax) return false;
    Piece piece{0, order_.outer, 0, order_.reduced};
    while (piece.row < order_.outer) {
      piece.rows = std::min(piece.rows, order_.outer - piece.row);
      piece.length = std::min(piece.length, order_.reduced - piece.from);
      if (!shorten(piece)) return false;
      pieces_.push_back(piece);
      piece.from += piece.length;
      if (piece.from < order_.reduced) continue;
      piece.row += piece.rows;
      piece.from = 0;
    }
    return true;
  }

  void run() {
    const auto kernel = stream_.compile(source_.text, "ebb_reduce");
    for (const Piece& piece : pieces_) start(*kernel, piece);
    const std::size_t table = words_of_table();
    std::vector<std::uint64_t> totals(table * static_cast<std::size_t>(chunks_));
    stream_.copy_out(std::as_writable_bytes(std::span(totals)), tables_->data);
    const auto results = static_cast<std::size_t>(order_.outputs());
    for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
      accumulators_.merge(totals.data() + static_cast<std::size_t>(chunk) * table, results, totals.data());
    }
    std::vector<std::byte> values(results * size_of(target_.shape->dtype));
    accumulators_.store(totals.data(), results, {values.data(), target_.shape, nullptr}, 0);
    stream_.copy_in(target_.data, values);
  }

 private:
  std::size_t words_of_table() const { return static_cast<std::size_t>(order_.outputs()) * accumulators_.words(); }
  std::int64_t first_of(const Piece& piece) const { return (piece.row * order_.reduced + piece.from) * order_.inner; }
  std::uint64_t* totals_of(const Piece& piece) const {
    return static_cast<std::uint64_t*>(tables_->data) +
           static_cast<std::size_t>(piece.row * order_.inner) * accumulators_.words();
  }

  // Until two such launches fit; a piece of several rows has all their elements.
  bool shorten(Piece& piece) const {
    while (!stream_.fits(accesses_of(piece), 2)) {
      if (piece.rows > 1) {
        piece.rows = (piece.rows + 1) / 2;
      } else if (piece.length * order_.inner > kPieceMin && piece.length > 1) {
        piece.length = (piece.length + 1) / 2;
      } else {
        return stream_.fits(accesses_of(piece), 1);
      }
    }
    return true;
  }

  std::vector<Access> accesses_of(const Piece& piece) const {
    std::vector<Access> accesses;
    const std::int64_t elements = piece.rows * piece.length * order_.inner;
    for (std::size_t k = 0; k < source_.operands.size(); ++k)
      add_access(source_, k, first_of(piece), elements, accesses);
    const std::size_t results = static_cast<std::size_t>(piece.rows * order_.inner) * accumulators_.words();
    const std::size_t words = chunks_ == 1 ? results : words_of_table() * static_cast<std::size_t>(chunks_);
    accesses.push_back({chunks_ == 1 ? totals_of(piece) : tables_->data, words * sizeof(std::uint64_t), tables_->data,
                        0, true, false});
    return accesses;
  }

  void start(const CudaKernel& kernel, const Piece& piece) {
    const std::int64_t first = first_of(piece), count = piece.rows * order_.inner * chunks_;
    const auto stride = static_cast<std::int64_t>(words_of_table());
    const std::uint64_t begin = accumulators_.start();
    const std::uint64_t* const totals = totals_of(piece);
    std::vector<const void*> parameters{&first,   &count,  source_.layout.data(), &piece.length, &order_.inner,
                                        &chunks_, &stride, &piece.from,           &begin,        &totals};
    const std::vector<const void*> pointers = pointers_of(source_, first);
    for (std::size_t k = 0; k < pointers.size(); ++k) {
      parameters.push_back(source_.reads[k] == KernelSource::Reads::kByValue ? pointers[k] : &pointers[k]);
    }
    stream_.launch(kernel, grid_of(count), parameters, accesses_of(piece));
  }

  CudaStream& stream_;
  const Target& target_;
  const DType elements_;
  const ReduceOrder order_;
  const Accumulators accumulators_;
  KernelSource source_;
  std::int64_t chunks_ = 1;
  StoragePtr tables_;
  std::vector<Piece> pieces_;
};

}  // namespace

bool reduce_on_device(const NodePtr& node, const Target& target) {
  if (node->inputs.front()->shape->count == 0) return false;  // results of nothing: there is nothing to launch
  CudaReduce reduce(*target.storage->device, *node, target);
  if (!reduce.cut()) return false;
  reduce.run();
  return true;
}

}  // namespace ebb::array
