// The importers: a real PyTorch execution trace (two steps of a small MLP with Adam), and small ones made by hand.
#include "trace/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ebb/status.h"
#include "trace/summary.h"
#include "trace/tensor_values.h"
#include "trace_samples.h"

namespace ebb {
namespace {

constexpr const char* kPyTorchSample = "src/trace/test/data/mlp_adam.et.json.gz";

Import import(const std::string& text) {
  std::istringstream stream(text);
  return import_trace(stream, "x");
}

std::string complaint(const std::string& text) {
  try {
    static_cast<void>(import(text));
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

#define EXPECT_SAYS(said, what) EXPECT_NE((said).find(what), std::string::npos) << (said)

std::map<std::string, int> launches_by_op(const Trace& trace) {
  std::map<std::string, int> count;
  for (const Trace::Launch& launch : trace.launches) ++count[trace.ops[launch.op]];
  return count;
}

TEST(PyTorch, ARealTrainingStep) {
  const Import result = import_trace(kPyTorchSample);
  const Trace& trace = result.trace;
  EXPECT_EQ(check(trace), "");
  EXPECT_EQ(trace.source, "PyTorch execution trace 1.1.1-chakra.0.0.4");
  // Two linear layers of two steps; in the backward pass of the first no gradient of the input is wanted.
  std::map<std::string, int> count = launches_by_op(trace);
  EXPECT_EQ(count["aten::addmm"], 4);
  EXPECT_EQ(count["aten::mm"], 6);
  EXPECT_EQ(count["aten::native_layer_norm"], 2);
  EXPECT_EQ(count["aten::native_layer_norm_backward"], 2);
  for (const char* view :
       {"aten::t", "aten::view", "aten::as_strided", "aten::linear", "aten::empty", "aten::detach"}) {
    EXPECT_EQ(count[view], 0) << view;
  }
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[1], trace.launches.size());
  // Six parameters with two moments each. Scalars are left out: those that PyTorch wraps into a tensor for the time of
  // an operator come and go at one address, and look persistent.
  std::uint64_t persistent = 0;
  std::vector<std::uint64_t> sizes;
  for (const Trace::Tensor& tensor : trace.tensors) {
    if (!tensor.persistent || tensor.bytes <= sizeof(double)) continue;
    persistent += tensor.bytes;
    sizes.push_back(tensor.bytes);
  }
  EXPECT_EQ(persistent, std::uint64_t{3 * 4 * (64 * 128 + 128 + 128 + 128 + 128 * 10 + 10)});
  EXPECT_EQ(sizes.size(), 18u);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 4u * 64 * 128), 3);
  EXPECT_GE(result.notes.size(), 3u);
  const Summary summary = summarize(trace);
  EXPECT_GT(summary.peak_bytes, persistent);
  EXPECT_LT(summary.peak_bytes, summary.all.bytes);
}

std::string node(int id, int parent, const std::string& name, const std::string& in, const std::string& out,
                 const std::string& schema, const std::string& more = "") {
  return "{\"id\":" + std::to_string(id) + ",\"ctrl_deps\":" + std::to_string(parent) + ",\"name\":\"" + name +
         "\",\"inputs\":{\"values\":[" + in + "]},\"outputs\":{\"values\":[" + out + "]}" + more +
         ",\"attrs\":[{\"name\":\"op_schema\",\"type\":\"string\",\"value\":\"" + schema + "\"}]}";
}

std::string tensor(int storage) {
  return "[" + std::to_string(storage + 100) + "," + std::to_string(storage) + ",0,8,4,\"cpu\"]";
}

std::string trace_of(const std::vector<std::string>& nodes) {
  std::string text = "{\"schema\":\"1.1.1\",\"nodes\":[";
  for (const std::string& one : nodes) text += (text.back() == '[' ? "" : ",") + one;
  return text + "],\"finish_ts\":1}";
}

TEST(PyTorch, AReusedStorageIsAnotherTensor) {
  const std::string schema = "aten::relu(Tensor self) -> Tensor";
  const Import result = import(trace_of({node(2, 1, "aten::relu", tensor(1), tensor(2), schema),
                                         node(3, 1, "aten::relu", tensor(2), tensor(3), schema),
                                         node(4, 1, "aten::relu", tensor(3), tensor(2), schema)}));
  EXPECT_EQ(result.trace.launches.size(), 3u);
  EXPECT_EQ(result.trace.tensors.size(), 4u);
}

TEST(PyTorch, InPlaceOverwritesViewsAndTimes) {
  const Import result = import(trace_of({
      node(2, 1, "aten::add_", tensor(1) + ",[" + tensor(2) + "]", tensor(1),
           "aten::add_.Tensor(Tensor(a!) self, Tensor[] other, *, Scalar alpha=1) -> Tensor(a!)",
           ",\"exclusive_dur\":1.5"),
      node(3, 1, "aten::zero_", tensor(1), tensor(1), "aten::zero_(Tensor(a!) self) -> Tensor(a!)"),
      node(4, 1, "aten::t", tensor(1), tensor(1), "aten::t(Tensor(a) self) -> Tensor(a)"),
  }));
  const Trace& trace = result.trace;
  ASSERT_EQ(trace.launches.size(), 2u);
  EXPECT_EQ(trace.launches[0].ns, 1500u);
  EXPECT_EQ(trace.launches[0].reads, 2u);
  EXPECT_EQ(trace.launches[0].writes, 1u);
  EXPECT_EQ(trace.launches[1].ns, Trace::kUnknown);
  EXPECT_EQ(trace.launches[1].reads, 0u);
  EXPECT_EQ(trace.launches[1].writes, 1u);
}

TEST(PyTorch, AnOperatorWhoseCallsDoNotCoverItIsALaunchItself) {
  const Import result = import(trace_of({
      node(2, 1, "aten::native_layer_norm", tensor(1), tensor(2), "aten::native_layer_norm(Tensor input) -> Tensor"),
      node(3, 2, "aten::empty", "", tensor(2), "aten::empty(int[] size) -> Tensor"),
      node(4, 1, "aten::linear", tensor(2), tensor(4), "aten::linear(Tensor input) -> Tensor"),
      node(5, 4, "aten::mm", tensor(2), tensor(4), "aten::mm(Tensor self) -> Tensor"),
  }));
  EXPECT_EQ(result.trace.ops, (std::vector<std::string>{"aten::native_layer_norm", "aten::mm"}));
}

TEST(PyTorch, SaysWhatIsWrong) {
  EXPECT_SAYS(complaint("{\"nodes\":[{\"id\":1}"), "x: not valid JSON at byte");
  EXPECT_SAYS(complaint("{\"nodes\":[{}]}"), "a node without an \"id\"");
  EXPECT_SAYS(complaint("{\"nodes\":[]}"), "no operator names a tensor");
  EXPECT_SAYS(complaint("{\"a\":{\"nodes\":1}}"), "there are no \"nodes\"");
  EXPECT_SAYS(complaint("{\"nodes\":" + std::string(100, '[')), "nested more than 64 deep");
  EXPECT_SAYS(complaint(trace_of({node(1, 0, "x", "[1,2,18446744073709551615,3,4,\\\"cpu\\\"]", "", "")})), "x: ");
  EXPECT_SAYS(complaint(trace_of({node(1, 0, "x", "[1,2,18446744073709551615,3,4,\"cpu\"]", "", "")})),
              "node 1: storage 2 has more than 2^56 bytes");
  EXPECT_SAYS(complaint(trace_of({node(2, 3, "aten::relu", tensor(1), tensor(2), "f(Tensor a) -> Tensor"),
                                  node(3, 2, "aten::relu", tensor(1), tensor(2), "f(Tensor a) -> Tensor")})),
              "no operator touches a tensor");
}

TEST(PyTorch, StridesGiveTheSizeOfTheStorage) {
  std::uint64_t bytes = 0;
  EXPECT_TRUE(extent_bytes(0, 4096, 4, {32, 128}, {0, 1}, bytes));  // expanded
  EXPECT_EQ(bytes, 512u);
  EXPECT_TRUE(extent_bytes(10, 6, 4, {2, 3}, {100, 1}, bytes));
  EXPECT_EQ(bytes, 4u * 113);
  EXPECT_TRUE(extent_bytes(10, 6, 4, {}, {}, bytes));
  EXPECT_EQ(bytes, 64u);
  EXPECT_TRUE(extent_bytes(10, 0, 4, {}, {}, bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_FALSE(extent_bytes(~0ull, 6, 4, {2, 3}, {~0ull, 1}, bytes));
}

TEST(Python, ReadsWhatReprPrints) {
  EXPECT_EQ(parse_python("[[1, 2, 0, 8, 4, 'cpu'], None, (1,), [], True, -1.5, 'a\\'b', nan]").dump(),
            "[[1,2,0,8,4,\"cpu\"],null,[1],[],null,null,\"a\\\\'b\",null]");
  for (const char* bad : {"", "[", "[1", "'x", "[1]]", "[,]"}) EXPECT_TRUE(parse_python(bad).is_discarded()) << bad;
  EXPECT_TRUE(parse_python(std::string(1000, '[')).is_discarded());
}

// A message of the protobuf wire format, as et_def.proto has them.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string field(std::uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(std::uint64_t number, std::uint64_t value) { return varint(number << 3) + varint(value); }
std::string framed(const std::string& message) { return varint(message.size()) + message; }

std::string chakra_node(std::uint64_t id, std::uint64_t parent, const std::string& name, const std::string& in,
                        const std::string& out, const std::string& schema, std::uint64_t us) {
  return framed(field(1, id) + field(2, name) + field(3, 4) + field(4, varint(parent)) + field(7, us) +
                field(8, field(1, in) + field(2, std::string("[[8]]"))) + field(9, field(1, out)) +
                field(10, field(1, std::string("op_schema")) + field(29, schema)));
}

TEST(Chakra, NodesBecomeLaunches) {
  const std::string schema = "aten::add_(Tensor(a!) self, Tensor other) -> Tensor(a!)";
  const std::string both = "[[1, 11, 0, 8, 4, 'cuda:0'], [2, 12, 0, 8, 4, 'cuda:0']]";
  const std::string file = framed(field(1, std::string("0.0.4"))) +
                           chakra_node(5, 4, "aten::add_", both, "[[1, 11, 0, 8, 4, 'cuda:0']]", schema, 7) +
                           chakra_node(6, 5, "kernel", both, "[[1, 11, 0, 8, 4, 'cuda:0']]", schema, 9);
  const Import result = import(file);
  EXPECT_EQ(result.trace.source, "Chakra execution trace 0.0.4");
  ASSERT_EQ(result.trace.launches.size(), 1u);  // the kernel, which does all that the operator around it does
  EXPECT_EQ(result.trace.ops, std::vector<std::string>{"kernel"});
  EXPECT_EQ(result.trace.launches[0].ns, 9000u);
  EXPECT_EQ(result.trace.launches[0].reads, 2u);
  EXPECT_EQ(result.trace.launches[0].writes, 1u);
  EXPECT_EQ(result.trace.tensors[0].bytes, 32u);
}

TEST(Chakra, SaysWhatIsWrong) {
  const std::string metadata = framed(field(1, std::string("0.0.4")));
  EXPECT_SAYS(complaint(metadata), "x: no node names a tensor");
  EXPECT_SAYS(complaint(metadata + "\x7f\x08"), "the file ends inside message 2");
  EXPECT_SAYS(complaint(metadata + "\x02\x0f\x01"), "message 2 is damaged");
  EXPECT_SAYS(complaint(metadata + std::string(10, '\xff')), "message 2 is damaged");
}

TEST(Import, WhatIsNothingOfTheKind) {
  EXPECT_SAYS(complaint("hello\n"), "x:1: not valid JSON");
  EXPECT_SAYS(complaint(""), "x:1: the file is empty");
  EXPECT_SAYS(complaint("{\"traceEvents\":[]}"), "x:1: this is no ebb-trace");
}

}  // namespace
}  // namespace ebb
