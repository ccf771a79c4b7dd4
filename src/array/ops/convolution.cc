// conv2d: oneDNN's convolution where it is built in, else loops that are plain and slow.
#include <cstring>

#include "array/ops/operands.h"
#include "array/pass/executor.h"

#ifdef EBB_ARRAY_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace ebb {
namespace {

using array::invalid;

// Sizes of one convolution: n images of c channels, h × w; o channels out, kernel kh × kw, output oh × ow.
struct Sizes {
  std::int64_t n, c, h, w, o, kh, kw, oh, ow;
};

std::int64_t output_size(std::int64_t size, std::int64_t kernel, const Conv2d& options) {
  return (size + 2 * options.padding - options.dilation * (kernel - 1) - 1) / options.stride + 1;
}

Sizes checked(const Array& input, const Array& weight, const Array* bias, const Conv2d& options) {
  if (input.rank() != 4 || weight.rank() != 4) invalid("conv2d", "input must be NCHW and weight OIHW, both 4-d");
  if (options.stride < 1 || options.dilation < 1 || options.padding < 0 || options.groups < 1) {
    invalid("conv2d", "stride, dilation and groups must be at least 1, padding at least 0");
  }
  Sizes s{
      input.size(0), input.size(1), input.size(2), input.size(3), weight.size(0), weight.size(2), weight.size(3), 0, 0};
  if (s.c != weight.size(1) * options.groups || s.o % options.groups != 0) {
    invalid("conv2d", "weight " + array::to_text(weight.shape()) + " does not fit input " +
                          array::to_text(input.shape()) + " in " + std::to_string(options.groups) + " groups");
  }
  if (bias != nullptr && bias->shape() != Dims{s.o}) invalid("conv2d", "bias must have one element per output channel");
  if (s.kh < 1 || s.kw < 1 || s.h + 2 * options.padding < options.dilation * (s.kh - 1) + 1 ||
      s.w + 2 * options.padding < options.dilation * (s.kw - 1) + 1) {
    invalid("conv2d", "the kernel is larger than the padded input");
  }
  s.oh = output_size(s.h, s.kh, options);
  s.ow = output_size(s.w, s.kw, options);
  return s;
}

#ifdef EBB_ARRAY_ONEDNN
// The layouts that oneDNN prefers are used inside; input and output are reordered.
void convolve(const Array& input, const Array& weight, const Array& result, const Sizes& s, const Conv2d& options) {
  using Tag = dnnl::memory::format_tag;
  using Memory = dnnl::memory;
  constexpr auto f32 = Memory::data_type::f32;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const Memory::dims in{s.n, s.c, s.h, s.w}, out{s.n, s.o, s.oh, s.ow};
  const bool grouped = options.groups > 1;
  const Memory::dims filter = grouped
                                  ? Memory::dims{options.groups, s.o / options.groups, s.c / options.groups, s.kh, s.kw}
                                  : Memory::dims{s.o, s.c, s.kh, s.kw};
  const Memory::dims strides{options.stride, options.stride}, padding{options.padding, options.padding};
  const Memory::dims dilation{options.dilation - 1, options.dilation - 1};
  const auto any = [&](const Memory::dims& dims) { return Memory::desc(dims, f32, Tag::any); };
  const dnnl::convolution_forward::desc description(dnnl::prop_kind::forward_inference,
                                                    dnnl::algorithm::convolution_auto, any(in), any(filter), any(out),
                                                    strides, dilation, padding, padding);
  const dnnl::convolution_forward::primitive_desc primitive(description, engine);
  const auto plain = [&](const Memory::dims& dims, Tag tag, const Array& a) {
    return Memory({dims, f32, tag}, engine, const_cast<std::byte*>(a.node()->data()));
  };
  const Memory user_in = plain(in, Tag::nchw, input), user_out = plain(out, Tag::nchw, result);
  const Memory user_filter = plain(filter, grouped ? Tag::goihw : Tag::oihw, weight);
  const auto reordered = [&](const Memory& from, const Memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    Memory to(wanted, engine);
    dnnl::reorder(from, to).execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return to;
  };
  const Memory source = reordered(user_in, primitive.src_desc());
  const Memory weights = reordered(user_filter, primitive.weights_desc());
  Memory target = user_out;
  if (primitive.dst_desc() != user_out.get_desc()) target = Memory(primitive.dst_desc(), engine);
  dnnl::convolution_forward(primitive).execute(
      stream, {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, target}});
  if (primitive.dst_desc() != user_out.get_desc()) {
    dnnl::reorder(target, user_out).execute(stream, {{DNNL_ARG_FROM, target}, {DNNL_ARG_TO, user_out}});
  }
  stream.wait();
}
#else
// One output channel of one image a task.
void convolve(const Array& input, const Array& weight, const Array& result, const Sizes& s, const Conv2d& options) {
  const auto* const x = reinterpret_cast<const float*>(input.node()->data());
  const auto* const k = reinterpret_cast<const float*>(weight.node()->data());
  auto* const y = reinterpret_cast<float*>(const_cast<std::byte*>(result.node()->data()));
  const std::int64_t per_group = s.c / options.groups;
  const auto at = [&](std::int64_t n, std::int64_t o, std::int64_t row, std::int64_t column) {
    float total = 0;
    const std::int64_t first = o / (s.o / options.groups) * per_group;
    for (std::int64_t c = 0; c < per_group; ++c) {
      for (std::int64_t i = 0; i < s.kh; ++i) {
        const std::int64_t h = row * options.stride - options.padding + i * options.dilation;
        if (h < 0 || h >= s.h) continue;
        for (std::int64_t j = 0; j < s.kw; ++j) {
          const std::int64_t w = column * options.stride - options.padding + j * options.dilation;
          if (w < 0 || w >= s.w) continue;
          total += x[((n * s.c + first + c) * s.h + h) * s.w + w] * k[((o * per_group + c) * s.kh + i) * s.kw + j];
        }
      }
    }
    return total;
  };
  array::run_tasks(s.n * s.o, [&](std::int64_t task) {
    for (std::int64_t i = 0; i < s.oh * s.ow; ++i) {
      y[task * s.oh * s.ow + i] = at(task / s.o, task % s.o, i / s.ow, i % s.ow);
    }
  });
}
#endif

}  // namespace

namespace {

Array conv2d_here(const Array& input, const Array& weight, const Array* bias, const Conv2d& options) {
  const Sizes s = checked(input, weight, bias, options);
  const DType type = promote(input.dtype(), weight.dtype());
  if (!is_float(type) || type == DType::kF64) invalid("conv2d", std::string("computes in float32, not ") + name(type));
  const Array x = input.astype(DType::kF32).contiguous().evaluate();
  const Array k = weight.astype(DType::kF32).contiguous().evaluate();
  const Array result = empty({s.n, s.o, s.oh, s.ow}, DType::kF32);
  if (result.size() == 0) return result.astype(type);
  if (s.c == 0) return full(result.shape(), 0.0, type);
  convolve(x, k, result, s, options);
  if (bias == nullptr) return result.astype(type);
  return (result + bias->astype(DType::kF32).reshape({s.o, 1, 1})).astype(type);
}

}  // namespace

Array conv2d(const Array& input, const Array& weight, const Array* bias, const Conv2d& options) {
  if (bias == nullptr) {
    return array::run_on_host([&](const Array& x, const Array& k) { return conv2d_here(x, k, nullptr, options); },
                              input, weight);
  }
  return array::run_on_host(
      [&](const Array& x, const Array& k, const Array& b) { return conv2d_here(x, k, &b, options); }, input, weight,
      *bias);
}

}  // namespace ebb
