// See mapped_files.h.
#include "core/mapped_files.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace ebb {

Status MappedFiles::map(std::int32_t file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t& first,
                        bool shared) {
  const std::uint64_t unit = state_.config.block_bytes;
  const std::uint64_t count = (bytes + unit - 1) / unit;
  if (bytes == 0 || count > state_.table.size()) return Status::kNoMemory;
  if (!budget_.has_places(0, 2 * count) || !budget_.tables_fit(2 * count)) return Status::kNoMemory;
  if (!budget_.prepare(2 * count)) return Status::kBusy;
  stale_.reserve(state_.mapped_blocks + count);
  const auto range = state_.heaps.allocate(count * unit, ++state_.serial);
  if (!range) return Status::kNoMemory;
  const BlockRange blocks = state_.blocks_of(range->offset, range->bytes);
  if (const Status status = state_.engine.vacate(blocks); status != Status::kOk) {
    static_cast<void>(state_.heaps.free(range->offset));
    return status;
  }
  state_.engine.retain(blocks);
  first = blocks.first.value() * unit;
  const Mapping mapping{range->offset, ++serial_, blocks, file, offset, bytes, shared, blocks.count, {}};
  state_.extents.files().keep(file);
  for (BlockIndex i = blocks.first; i != blocks.end(); i = i.next()) state_.engine.map(i, place_in(mapping, i));
  budget_.tables_grew(true);
  state_.stamp(blocks);
  ++state_.allocations;
  state_.note_peak();
  mappings_.emplace(first, mapping);
  state_.policy.mapped(serial_, bytes, blocks);
  state_.mapped_blocks += blocks.count;
  return Status::kOk;
}

void MappedFiles::unmap(BlockRange blocks) {
  const std::uint64_t unit = state_.config.block_bytes;
  Mapping* const mapping = mapping_at(blocks.first.value() * unit);
  EBB_CHECK(mapping != nullptr && blocks.count <= mapping->mapped);
  state_.engine.release(blocks);
  mapping->mapped -= blocks.count;
  state_.mapped_blocks -= blocks.count;
  if (mapping->mapped > 0) return;
  forget_stale(mapping->blocks);
  state_.policy.freed(mapping->serial);
  for (const auto& [place, part] : mapping->parts) state_.policy.freed(part.serial);
  static_cast<void>(state_.heaps.free(mapping->heap_offset));
  state_.extents.files().let_go(mapping->file);
  mappings_.erase(mapping->blocks.first.value() * unit);
}

const MappedFiles::Mapping* MappedFiles::mapping_at(std::uint64_t offset) const {
  const auto after = mappings_.upper_bound(offset);
  if (after == mappings_.begin()) return nullptr;
  const auto& [first, mapping] = *std::prev(after);
  return offset < first + mapping.blocks.count * state_.config.block_bytes ? &mapping : nullptr;
}

BlockRange MappedFiles::find(std::uint64_t offset) const {
  const Mapping* const mapping = mapping_at(offset);
  return mapping == nullptr ? BlockRange{} : mapping->blocks;
}

FilePlace MappedFiles::place_in(const Mapping& mapping, BlockIndex block) const {
  const std::uint64_t unit = state_.config.block_bytes;
  const std::uint64_t before = (block.value() - mapping.blocks.first.value()) * unit;
  return {mapping.file, mapping.offset + before, static_cast<std::uint32_t>(std::min(unit, mapping.bytes - before)),
          mapping.shared};
}

FilePlace MappedFiles::place_of(BlockIndex block) const {
  const Mapping* const mapping = mapping_at(block.value() * state_.config.block_bytes);
  return mapping == nullptr || state_.table[block].live == 0 ? FilePlace{} : place_in(*mapping, block);
}

MappedFiles::Kinds MappedFiles::kinds(std::uint64_t offset, std::uint64_t bytes) const {
  Kinds kinds;
  for (const std::uint64_t end = offset + bytes; offset < end;) {
    const Mapping* const mapping = mapping_at(offset);
    (mapping == nullptr ? kinds.other : mapping->shared ? kinds.shared : kinds.files) = true;
    const auto after = mappings_.upper_bound(offset);
    const std::uint64_t next = after == mappings_.end() ? end : after->first;
    offset = mapping == nullptr ? next : mapping->blocks.end().value() * state_.config.block_bytes;
  }
  return kinds;
}

bool MappedFiles::renew(BlockIndex block) {
  const FilePlace place = place_of(block);
  return !place.valid() || state_.engine.renew(block, place);
}

void MappedFiles::forget_stale(BlockRange blocks) {
  std::erase_if(stale_, [&](BlockIndex block) { return block >= blocks.first && block < blocks.end(); });
}

// What the program has of a private mapping stays as it is: it may have been written to.
void MappedFiles::note_changed(std::int32_t file) {
  for (const auto& [first, mapping] : mappings_) {
    if (mapping.file != file || !mapping.shared) continue;
    forget_stale(mapping.blocks);
    for (BlockIndex i = mapping.blocks.first; i != mapping.blocks.end(); i = i.next()) stale_.push_back(i);
  }
}

bool MappedFiles::renew_stale() {
  return std::erase_if(stale_, [&](BlockIndex block) { return renew(block); }) > 0;
}

std::map<std::uint64_t, FilePart> MappedFiles::parts_in_files() const {
  std::map<std::uint64_t, FilePart> parts;
  for (const auto& [first, mapping] : mappings_) {
    for (const auto& [place, part] : mapping.parts) {
      parts[part.serial] = {mapping.file, mapping.offset + (place.first - first), place.second};
    }
  }
  return parts;
}

bool MappedFiles::is_part(const Touch& touch, const FilePart& part) const {
  const Mapping* const mapping = mapping_at(touch.blocks.first.value() * state_.config.block_bytes);
  if (mapping == nullptr || mapping->file != part.file || part.offset < mapping->offset) return false;
  const std::uint64_t first = mapping->blocks.first.value() * state_.config.block_bytes;
  const auto found = mapping->parts.find({first + (part.offset - mapping->offset), part.bytes});
  return found != mapping->parts.end() && found->second.serial == touch.allocation;
}

std::uint64_t MappedFiles::find(const FilePart& part) const {
  const Mapping* best = nullptr;
  std::uint64_t found = kNowhere;
  for (const auto& [first, mapping] : mappings_) {
    if (mapping.file != part.file || part.offset < mapping.offset || part.bytes > mapping.bytes ||
        part.offset - mapping.offset > mapping.bytes - part.bytes) {
      continue;
    }
    const auto rank = [](const Mapping& each) { return std::pair(!each.parts.empty(), each.serial); };
    if (best != nullptr && rank(mapping) < rank(*best)) continue;
    best = &mapping;
    found = first + (part.offset - mapping.offset);
  }
  return found;
}

const MappedFiles::Part* MappedFiles::part_of(std::uint64_t offset, std::uint64_t bytes) {
  if (mappings_.empty()) return nullptr;
  Mapping* const mapping = mapping_at(offset);
  if (mapping == nullptr) return nullptr;
  // The largest of those that begin nearest before it.
  const auto after = mapping->parts.upper_bound({offset, ~std::uint64_t{0}});
  if (after != mapping->parts.begin()) {
    const auto& [place, part] = *std::prev(after);
    if (offset + bytes <= place.first + place.second) return &part;
  }
  Part& part = mapping->parts[{offset, bytes}];
  part = {++serial_, bytes};
  state_.policy.mapped(part.serial, bytes, state_.blocks_of(offset, bytes));
  return &part;
}

}  // namespace ebb
