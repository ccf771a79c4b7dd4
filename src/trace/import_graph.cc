// See import_graph.h.
#include "trace/import_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "ebb/status.h"

namespace ebb {
namespace {

// Overwrite their first argument without reading it.
constexpr std::array kOverwrites{"aten::copy_",    "aten::fill_",      "aten::zero_",      "aten::normal_",
                                 "aten::uniform_", "aten::random_",    "aten::bernoulli_", "aten::exponential_",
                                 "aten::set_data", "aten::log_normal_"};
// Change what a tensor is, not what is in memory.
constexpr std::array kMetadata{"aten::resize_",     "aten::set_",       "aten::detach_",  "aten::requires_grad_",
                               "aten::squeeze_",    "aten::unsqueeze_", "aten::t_",       "aten::transpose_",
                               "aten::as_strided_", "aten::resize_as_", "aten::_set_conj"};

template <std::size_t N>
bool is_one_of(const std::array<const char*, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Only the shape of the arguments matters to these.
bool reads_no_content(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_") || name.ends_with("_like");
}

// Which arguments of a schema are written: those with a '!' in their type.
std::vector<bool> written_arguments(std::string_view schema) {
  std::vector<bool> written;
  const std::size_t open = schema.find('(');
  if (open == std::string_view::npos) return written;
  int depth = 0;
  bool keyword_mark = true;  // the bare '*' between arguments is none itself
  bool mutated = false;
  for (const char c : schema.substr(open + 1)) {
    if (depth == 0 && (c == ',' || c == ')')) {
      if (!keyword_mark) written.push_back(mutated);
      keyword_mark = true;
      mutated = false;
      if (c == ')') break;
      continue;
    }
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    mutated |= c == '!';
    keyword_mark &= c == ' ' || c == '*';
  }
  return written;
}

void sort_unique(std::vector<std::uint64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

std::vector<std::uint64_t> storages(const std::vector<std::vector<TensorRef>>& values) {
  std::vector<std::uint64_t> all;
  for (const auto& value : values) {
    for (const TensorRef& tensor : value) all.push_back(tensor.storage);
  }
  sort_unique(all);
  return all;
}

bool contains(const std::vector<std::uint64_t>& sorted, std::uint64_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

// What an operator itself does to memory, in storages.
struct Accesses {
  std::vector<std::uint64_t> reads, writes;
};

Accesses accesses_of(const OperatorNode& node, bool leaf) {
  Accesses accesses;
  const std::vector<std::uint64_t> given = storages(node.inputs);
  const std::vector<std::uint64_t> made = storages(node.outputs);
  if (node.opaque) {
    accesses.reads = given;
    accesses.writes = made;
    accesses.writes.insert(accesses.writes.end(), given.begin(), given.end());
    sort_unique(accesses.writes);
    return accesses;
  }
  if (is_one_of(kMetadata, node.name)) return accesses;
  if (node.schema.empty() && (!leaf || made.empty())) return accesses;  // a scope around operators
  std::vector<bool> written = written_arguments(node.schema);
  if (node.schema.empty() && node.name.ends_with('_')) written = {true};
  const bool mutates = std::find(written.begin(), written.end(), true) != written.end();
  const bool makes = std::any_of(made.begin(), made.end(), [&](std::uint64_t s) { return !contains(given, s); });
  if (!mutates && !makes && !made.empty()) return accesses;  // a view
  const bool overwrites = is_one_of(kOverwrites, node.name);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool is_written = i < written.size() && written[i];
    for (const TensorRef& tensor : node.inputs[i]) {
      if (is_written) accesses.writes.push_back(tensor.storage);
      if (!(is_written && overwrites) && !reads_no_content(node.name)) accesses.reads.push_back(tensor.storage);
    }
  }
  const bool leaves_empty = node.name.starts_with("aten::empty") || node.name.starts_with("aten::new_empty");
  for (const std::uint64_t storage : made) {
    if (!leaves_empty && !contains(given, storage)) accesses.writes.push_back(storage);
  }
  sort_unique(accesses.reads);
  sort_unique(accesses.writes);
  return accesses;
}

class GraphImporter {
 public:
  explicit GraphImporter(std::vector<OperatorNode> nodes) : nodes_(std::move(nodes)) {}

  Import run() {
    link();
    for (const std::size_t root : roots_) walk(root);
    find_persistent();
    drop_unused();
    take_notes();
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kNoNode = static_cast<std::size_t>(-1);
  struct Place {
    std::size_t first_child = kNoNode, next_sibling = kNoNode;
    bool reached = false;
  };
  struct Life {
    Trace::LaunchIndex first = Trace::kNone, last = 0;
    bool read_first = false;
    bool written = false;
  };
  struct Frame {
    std::size_t node = 0;
    std::size_t next_child = kNoNode;
    std::vector<std::uint64_t> fresh;  // storages whose life began with this operator
    std::set<std::uint32_t> touched;   // tensors that launches inside it touched
  };

  // Children in the order of their ids, which profilers give out as operators begin. Nodes on a cycle, and the second
  // node of an id, hang on nothing and are left out.
  void link() {
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    const auto same = [](const auto& a, const auto& b) { return a.id == b.id; };
    nodes_.erase(std::unique(nodes_.begin(), nodes_.end(), same), nodes_.end());
    places_.resize(nodes_.size());
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const std::uint64_t parent = nodes_[i].parent;
      const auto found = std::lower_bound(nodes_.begin(), nodes_.end(), parent,
                                          [](const auto& node, std::uint64_t id) { return node.id < id; });
      if (found == nodes_.end() || found->id != parent || parent == nodes_[i].id) {
        roots_.push_back(i);
        continue;
      }
      Place& above = places_[static_cast<std::size_t>(found - nodes_.begin())];
      places_[i].next_sibling = std::exchange(above.first_child, i);
    }
    std::reverse(roots_.begin(), roots_.end());
  }

  void walk(std::size_t root) {
    enter(root);
    while (!stack_.empty()) {
      Frame& frame = stack_.back();
      if (frame.next_child == kNoNode) {
        leave();
        continue;
      }
      const std::size_t child = frame.next_child;
      frame.next_child = places_[child].next_sibling;
      enter(child);
    }
  }

  void enter(std::size_t index) {
    const OperatorNode& node = nodes_[index];
    ++walked_;
    Frame frame{index, places_[index].first_child, {}, {}};
    const std::vector<std::uint64_t> given = storages(node.inputs);
    for (const std::uint64_t storage : storages(node.outputs)) {
      // Of a storage that an operator around this one returns, this one makes the content but not a new life.
      if (contains(given, storage) || fresh_depth_[storage] > 0) continue;
      frame.fresh.push_back(storage);
      ++fresh_depth_[storage];
      begin_life(storage);
    }
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const auto& value : *values) {
        for (const TensorRef& tensor : value) grow(tensor);
      }
    }
    stack_.push_back(std::move(frame));
  }

  void leave() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    const OperatorNode& node = nodes_[frame.node];
    launch(node, places_[frame.node].first_child == kNoNode, frame.touched);
    for (const std::uint64_t storage : frame.fresh) --fresh_depth_[storage];
    if (node.name.starts_with("Optimizer.step")) mark_step();
    if (stack_.empty()) return;
    // The smaller set into the larger: cheap however operators are nested.
    std::set<std::uint32_t>& above = stack_.back().touched;
    if (above.size() < frame.touched.size()) above.swap(frame.touched);
    above.merge(frame.touched);
  }

  void mark_step() {
    Trace& trace = result_.trace;
    const auto here = static_cast<Trace::LaunchIndex>(trace.launches.size());
    if (here > (trace.steps.empty() ? 0 : trace.steps.back())) trace.steps.push_back(here);
  }

  std::uint32_t begin_life(std::uint64_t storage) {
    const auto tensor = static_cast<std::uint32_t>(lives_.size());
    lives_.emplace_back();
    result_.trace.tensors.emplace_back();
    current_[storage] = tensor;
    return tensor;
  }
  std::uint32_t tensor_of(std::uint64_t storage) {
    const auto found = current_.find(storage);
    return found == current_.end() ? begin_life(storage) : found->second;
  }
  void grow(const TensorRef& tensor) {
    std::uint64_t& bytes = result_.trace.tensors[tensor_of(tensor.storage)].bytes;
    bytes = std::max(bytes, tensor.bytes);
  }

  void launch(const OperatorNode& node, bool leaf, std::set<std::uint32_t>& touched) {
    const Accesses accesses = accesses_of(node, leaf);
    std::vector<std::uint32_t> reads, writes;
    for (const std::uint64_t storage : accesses.reads) reads.push_back(tensor_of(storage));
    for (const std::uint64_t storage : accesses.writes) writes.push_back(tensor_of(storage));
    const auto is_new = [&](std::uint32_t tensor) { return !touched.contains(tensor); };
    if (std::none_of(reads.begin(), reads.end(), is_new) && std::none_of(writes.begin(), writes.end(), is_new)) return;
    Trace& trace = result_.trace;
    const bool too_long = trace.uses.size() + reads.size() + writes.size() > Trace::kUsesMax;
    if (too_long || trace.launches.size() >= Trace::kLinesMax) {
      throw Error(Status::kInvalid, "the recording is longer than a trace can be; record fewer iterations");
    }
    const auto index = static_cast<Trace::LaunchIndex>(trace.launches.size());
    trace.launches.push_back({op(node.name), static_cast<std::uint32_t>(trace.uses.size()),
                              static_cast<std::uint32_t>(reads.size()), static_cast<std::uint32_t>(writes.size()),
                              node.ns});
    for (const std::uint32_t tensor : reads) use(tensor, index, false);
    for (const std::uint32_t tensor : writes) use(tensor, index, true);
    touched.insert(reads.begin(), reads.end());
    touched.insert(writes.begin(), writes.end());
  }

  void use(std::uint32_t tensor, Trace::LaunchIndex launch, bool writes) {
    result_.trace.uses.push_back(tensor);
    Life& life = lives_[tensor];
    if (life.first == Trace::kNone) {
      life.first = launch;
      life.read_first = !writes;
    }
    life.last = launch;
    life.written |= writes;
  }

  std::uint32_t op(const std::string& name) {
    Trace& trace = result_.trace;
    const auto [found, is_new] = ops_.try_emplace(name, static_cast<std::uint32_t>(trace.ops.size()));
    if (is_new) trace.ops.push_back(name);
    return found->second;
  }

  void find_persistent() {
    Trace& trace = result_.trace;
    const std::size_t launches = trace.launches.size();
    const std::vector<Trace::LaunchIndex>& steps = trace.steps;
    const std::size_t first_end = steps.empty() ? launches : steps.front();
    const std::size_t last_begin = steps.size() < 2 ? 0 : steps[steps.size() - 2];
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      const Life& life = lives_[i];
      if (life.first == Trace::kNone || !life.read_first) continue;
      const bool spans = life.first < first_end && life.last >= last_begin;
      const bool stays = steps.size() >= 2 || life.written || std::uint64_t{life.last} * 2 >= launches;
      trace.tensors[i].persistent = spans && stays;
      persistent_ += spans && stays ? 1 : 0;
    }
  }

  // Storages that were only passed around, and the lives that a temporary's address had.
  void drop_unused() {
    Trace& trace = result_.trace;
    std::vector<std::uint32_t> renamed(lives_.size(), Trace::kNone);
    std::vector<Trace::Tensor> kept;
    for (std::uint32_t i = 0; i < lives_.size(); ++i) {
      if (lives_[i].first == Trace::kNone) continue;
      renamed[i] = static_cast<std::uint32_t>(kept.size());
      kept.push_back(trace.tensors[i]);
      kept.back().id = renamed[i];
    }
    for (Trace::TensorIndex& used : trace.uses) used = renamed[used];
    trace.tensors = std::move(kept);
  }

  void take_notes() {
    const Trace& trace = result_.trace;
    std::vector<std::string>& notes = result_.notes;
    const auto unknown = static_cast<std::size_t>(std::count_if(
        trace.launches.begin(), trace.launches.end(), [](const auto& launch) { return launch.ns == Trace::kUnknown; }));
    if (unknown > 0) {
      notes.push_back(std::to_string(unknown) + " of " + std::to_string(trace.launches.size()) +
                      " launches have no duration");
    }
    notes.emplace_back("what tensors are for is not recorded: all are of kind other");
    notes.push_back(std::to_string(persistent_) + " of " + std::to_string(trace.tensors.size()) +
                    " tensors are taken to be persistent: read before they are written, and still used at the end");
    notes.emplace_back("sizes are what operators touched of a storage; births and deaths are first and last launches");
    if (trace.steps.empty()) notes.emplace_back("no optimizer step is recorded: all launches count as one iteration");
    if (walked_ < nodes_.size()) {
      notes.push_back(std::to_string(nodes_.size() - walked_) + " operators that contain each other are left out");
    }
  }

  std::vector<OperatorNode> nodes_;
  std::vector<Place> places_;
  std::vector<std::size_t> roots_;
  std::vector<Frame> stack_;
  std::size_t walked_ = 0;
  std::map<std::uint64_t, std::uint32_t> current_;      // tensor that a storage is now
  std::map<std::uint64_t, std::uint32_t> fresh_depth_;  // operators being walked that return it as new
  std::map<std::string, std::uint32_t> ops_;
  std::vector<Life> lives_;  // by tensor
  std::size_t persistent_ = 0;
  Import result_;
};

}  // namespace

bool extent_bytes(std::uint64_t offset, std::uint64_t elements, std::uint64_t element_bytes,
                  const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& strides,
                  std::uint64_t& bytes) {
  bytes = 0;
  if (elements == 0 || element_bytes == 0) return true;
  __extension__ using Wide = unsigned __int128;
  Wide span = elements;
  if (!shape.empty() && shape.size() == strides.size()) {
    span = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0) return true;
      span += Wide{shape[i] - 1} * strides[i];
      if (span > Trace::kBytesMax) return false;
    }
  }
  const Wide last = Wide{offset} + span;
  if (last > Trace::kBytesMax || last * element_bytes > Trace::kBytesMax) return false;
  bytes = static_cast<std::uint64_t>(last) * element_bytes;
  return true;
}

Import import_graph(std::vector<OperatorNode> nodes) { return GraphImporter(std::move(nodes)).run(); }

}  // namespace ebb
