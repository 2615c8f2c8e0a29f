#include "engine/cell_ledger.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace kvkeep::engine {

CellLedger::CellLedger(std::uint32_t cells_total, std::uint32_t sequence_count)
    : CellLedger(1, cells_total, sequence_count) {}

CellLedger CellLedger::with_own_cells(std::uint32_t cells_each, std::uint32_t sequence_count) {
  return {sequence_count, cells_each, sequence_count};
}

CellLedger::CellLedger(std::uint32_t pools, std::uint32_t cells_each, std::uint32_t sequence_count)
    : references_(std::size_t{pools} * cells_each, 0), free_(pools, Cells(cells_each)), sequences_(sequence_count) {
  for (std::uint32_t i = 0; i < pools; ++i) {
    std::iota(free_[i].rbegin(), free_[i].rend(), i * cells_each);  // low cells first, as libllama places them
  }
}

std::uint32_t CellLedger::available() const {
  std::size_t cells = 0;
  for (const Cells& free : free_) cells += free.size();
  return static_cast<std::uint32_t>(cells);
}

std::uint32_t CellLedger::owned(SeqId seq) const {
  const auto held = cells(seq);
  return static_cast<std::uint32_t>(
      std::count_if(held.begin(), held.end(), [this](std::uint32_t cell) { return references_[cell] == 1; }));
}

std::span<const std::uint32_t> CellLedger::cells(SeqId seq) const {
  KVKEEP_ASSERT(seq.value() >= 0 && static_cast<std::size_t>(seq.value()) < sequences_.size(), "sequence exists");
  return sequences_[static_cast<std::size_t>(seq.value())];
}

std::vector<std::uint32_t>& CellLedger::sequence(SeqId seq) {
  KVKEEP_ASSERT(seq.value() >= 0 && static_cast<std::size_t>(seq.value()) < sequences_.size(), "sequence exists");
  return sequences_[static_cast<std::size_t>(seq.value())];
}

bool CellLedger::append(SeqId seq, std::size_t count) {
  auto& held = sequence(seq);
  Cells& free = free_[pool(seq)];
  if (count > free.size()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    references_[free.back()] = 1;
    held.push_back(free.back());
    free.pop_back();
  }
  return true;
}

void CellLedger::fork(SeqId from, SeqId to, Position end) {
  auto& target = sequence(to);
  KVKEEP_ASSERT(from != to && target.empty(), "a fork goes into an empty sequence");
  KVKEEP_ASSERT(end <= length(from), "a fork shares positions that exist");
  if (pool(from) != pool(to)) {
    KVKEEP_ASSERT(append(to, end.value()), "all sequences have as many cells");
    return;
  }
  const auto shared = cells(from).first(end.value());
  target.assign(shared.begin(), shared.end());
  for (const std::uint32_t cell : target) ++references_[cell];
}

void CellLedger::release(SeqId seq, std::uint32_t cell) {
  if (--references_[cell] == 0) free_[pool(seq)].push_back(cell);
}

void CellLedger::truncate(SeqId seq, Position end) {
  auto& held = sequence(seq);
  KVKEEP_ASSERT(end <= length(seq), "truncation does not lengthen");
  while (held.size() > end.value()) {
    release(seq, held.back());
    held.pop_back();
  }
}

void CellLedger::drop(SeqId seq, TokenRange dropped) {
  auto& held = sequence(seq);
  KVKEEP_ASSERT(dropped.begin <= dropped.end && dropped.end <= length(seq), "dropped positions exist");
  const auto begin = held.begin() + dropped.begin.value();
  const auto end = held.begin() + dropped.end.value();
  const bool own = std::all_of(end, held.end(), [this](std::uint32_t cell) { return references_[cell] == 1; });
  KVKEEP_ASSERT(own, "cells of another sequence stay where they are");
  for (auto cell = begin; cell != end; ++cell) release(seq, *cell);
  held.erase(begin, end);
}

}  // namespace kvkeep::engine
