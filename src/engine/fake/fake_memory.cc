#include "engine/fake/fake_memory.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace kvkeep::engine::fake {

namespace {

constexpr std::uint32_t kMagic = 0x5741464BU;  // "KFAW": this engine's rows
constexpr std::uint32_t kWindowMagic = kMagic + 1;
constexpr std::uint32_t kPointMagic = kMagic + 2;

// The header of saved rows, of window rows (of 8 bytes each) and of points (where count is of bytes). It has positions,
// as libllama does per cell.
struct SavedHeader {
  std::uint32_t magic;
  std::uint32_t row_bytes;
  std::uint32_t begin;
  std::uint32_t count;
};
static_assert(sizeof(SavedHeader) == 16);

Result<SavedHeader> read_header(ByteSpan bytes, std::uint32_t magic) {
  SavedHeader header;
  if (bytes.size() < sizeof header) return damaged("too short for a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) return damaged("not state of this kind");
  return header;
}

StateOptions state_options_of(const FakeOptions& options) {
  return {options.memory_class,  options.model_seed,   options.row_bytes,
          options.window_tokens, options.window_slack, options.state_bytes};
}

CellLedger ledger_of(const FakeOptions& options, bool own_cells) {
  if (!own_cells) return {options.cells, options.sequences};
  const std::uint32_t sequences = options.own_sequences > 0 ? options.own_sequences : options.sequences;
  return CellLedger::with_own_cells(options.cells / sequences, sequences);
}

}  // namespace

FakeMemory::FakeMemory(const FakeOptions& options, FaultCountdown& faults)
    : options_(options),
      state_options_(state_options_of(options)),
      faults_(faults),
      own_cells_(options.own_cells),
      ledger_(ledger_of(options, own_cells_)),
      rows_(std::size_t{options.cells} * options.row_bytes),
      sequences_(options.sequences, SequenceState(state_options_)) {
  KVKEEP_ASSERT(options_.row_bytes >= 8 && options_.state_bytes >= 8, "rows and states are long enough to differ");
}

void FakeMemory::lay_out(bool own_cells) {
  KVKEEP_ASSERT(cells_used() == 0, "the memory is made anew while no sequence holds any of it");
  own_cells_ = own_cells;
  ledger_ = ledger_of(options_, own_cells);
  sequences_.assign(ledger_.sequence_count(), SequenceState(state_options_));
}

MutableByteSpan FakeMemory::row_of(std::uint32_t cell) {
  if (!state_options_.has_rows()) return {};
  return MutableByteSpan(rows_).subspan(std::size_t{cell} * options_.row_bytes, options_.row_bytes);
}

cache::StateShape FakeMemory::shape() const {
  const StateOptions& options = state_options_;
  const bool opaque = options_.memory_class == MemoryClass::kOpaque;
  return {.cacheable = options_.memory_class != MemoryClass::kUncached,
          .window_tokens = options.has_window() ? options.window_tokens : 0,
          .points = options.has_state() || opaque,
          .whole_points = opaque};
}

// ---- rows ----

std::uint64_t FakeMemory::rows_bytes(std::size_t tokens) const {
  return state_options_.has_rows() ? sizeof(SavedHeader) + tokens * options_.row_bytes : 0;
}

Result<std::size_t> FakeMemory::save_rows(SeqId seq, TokenRange range, MutableByteSpan out) {
  ++counters_.save_calls;
  if (on_save_) on_save_(range.size());
  if (!shape().cacheable) return unsupported("rows of this model cannot be saved");
  KVKEEP_ASSERT(range.begin <= range.end && range.end <= length(seq), "saved rows exist");
  KVKEEP_ASSERT(out.size() >= rows_bytes(range.size()), "rows fit their buffer");
  if (faults_.fires(&FakeFaults::fail_save)) return io_error("save failed on demand");
  if (rows_bytes(1) == 0) return std::size_t{0};
  const SavedHeader header{kMagic, options_.row_bytes, range.begin.value(), static_cast<std::uint32_t>(range.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::byte* at = out.data() + sizeof header;
  for (const std::uint32_t cell : ledger_.cells(seq).subspan(range.begin.value(), range.size())) {
    const ByteSpan row = row_of(cell);
    std::memcpy(at, row.data(), row.size());
    if (state_of(seq).spoiled()) *at ^= std::byte{1};
    at += row.size();
  }
  return static_cast<std::size_t>(at - out.data());
}

Status FakeMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  Status status;
  if (!shape().cacheable) status = unsupported("rows of this model cannot be restored");
  if (status.ok() && faults_.fires(&FakeFaults::fail_restore)) status = damaged("restore failed on demand");
  if (on_restore_ && !pieces.empty()) on_restore_(pieces.back().wanted.end - pieces.front().wanted.begin);
  for (const cache::RowPiece& piece : pieces) {
    if (!status.ok()) break;
    status = append_piece(seq, piece);
  }
  if (!status.ok()) clear(seq);
  return status;
}

Status FakeMemory::append_piece(SeqId seq, const cache::RowPiece& piece) {
  const auto& [stored, wanted, bytes, prompt] = piece;
  KVKEEP_ASSERT(stored.begin <= wanted.begin && wanted.begin <= wanted.end && wanted.end <= stored.end,
                "wanted rows are stored");
  KVKEEP_ASSERT(wanted.begin == length(seq), "pieces come without gap");
  SavedHeader header{kMagic, options_.row_bytes, stored.begin.value(), static_cast<std::uint32_t>(stored.size())};
  if (rows_bytes(1) > 0) {
    TRY_ASSIGN(header, read_header(bytes, kMagic));
    if (header.row_bytes != options_.row_bytes) return damaged("not rows of this model");
  }
  if (header.count != stored.size() || bytes.size() != rows_bytes(stored.size()))
    return damaged("rows of another length");
  const std::size_t first = wanted.begin - stored.begin;
  if (!ledger_.append(seq, wanted.size())) return no_space("too few cells for restored rows");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const MutableByteSpan row = row_of(ledger_.cells(seq)[wanted.begin.value() + i]);
    if (!row.empty())
      std::ranges::copy(bytes.subspan(sizeof header + (first + i) * row.size(), row.size()), row.begin());
    state_of(seq).add_row(static_cast<std::uint32_t>(header.begin + first + i), row);
  }
  counters_.rows_restored += wanted.size();
  return {};
}

// ---- what rows cannot give ----

std::uint64_t FakeMemory::window_bytes(std::size_t tokens) const {
  return state_options_.has_window() ? sizeof(SavedHeader) + tokens * sizeof(std::uint64_t) : 0;
}

Result<std::size_t> FakeMemory::save_window(SeqId seq, TokenRange range, MutableByteSpan out) {
  KVKEEP_ASSERT(!range.empty() && range.size() <= shape().window_tokens && range.end <= length(seq), "a window's rows");
  KVKEEP_ASSERT(out.size() >= window_bytes(range.size()), "window rows fit their buffer");
  const auto rows = state_of(seq).window(range.begin.value(), range.end.value());
  if (rows.empty()) return not_found("window rows have slid off");
  const SavedHeader header{kWindowMagic, 8, range.begin.value(), static_cast<std::uint32_t>(range.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, rows.data(), rows.size() * sizeof rows[0]);
  if (state_of(seq).spoiled()) out[sizeof header] ^= std::byte{1};
  return sizeof header + rows.size() * sizeof rows[0];
}

std::uint64_t FakeMemory::point_bytes(SeqId seq) const {
  return shape().points ? sizeof(SavedHeader) + state_of(seq).point_bytes() : 0;
}

Result<std::size_t> FakeMemory::save_point(SeqId seq, MutableByteSpan out) {
  KVKEEP_ASSERT(shape().points && length(seq) > Position{0}, "there is a point to save");
  KVKEEP_ASSERT(out.size() >= point_bytes(seq), "a point fits its buffer");
  const std::vector<std::byte> state = state_of(seq).point();
  const SavedHeader header{kPointMagic, 1, length(seq).value(), static_cast<std::uint32_t>(state.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::ranges::copy(state, out.begin() + sizeof header);
  if (state_of(seq).spoiled()) out[sizeof header] ^= std::byte{1};
  return sizeof header + state.size();
}

Status FakeMemory::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  KVKEEP_ASSERT(shape().needs_points() && !pieces.empty(), "there is a point to restore");
  Status status;
  if (faults_.fires(&FakeFaults::fail_point)) status = damaged("restore of a point failed on demand");
  if (on_restore_) on_restore_(0);
  if (status.ok()) status = shape().points ? set_point(seq, pieces.front().bytes) : set_windows(seq, pieces);
  if (!status.ok()) clear(seq);
  return status;
}

Status FakeMemory::set_windows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  const std::size_t needed = std::min<std::size_t>(options_.window_tokens, length(seq).value());
  KVKEEP_ASSERT(pieces.back().wanted.end == length(seq) && pieces.front().wanted.begin + needed <= length(seq),
                "the pieces cover the last window");
  std::vector<std::uint64_t> window;
  for (const auto& [stored, wanted, bytes, prompt] : pieces) {
    TRY_ASSIGN(const SavedHeader header, read_header(bytes, kWindowMagic));
    if (header.count != stored.size() || bytes.size() != window_bytes(header.count)) return damaged("another length");
    std::vector<std::uint64_t> rows(header.count);
    std::memcpy(rows.data(), bytes.data() + sizeof header, rows.size() * sizeof rows[0]);
    const std::size_t first = wanted.begin - stored.begin;
    for (std::size_t i = 0; i < wanted.size(); ++i) window.push_back(rows[first + i]);
  }
  state_of(seq).set_window(pieces.front().wanted.begin.value(), window);
  return {};
}

Status FakeMemory::set_point(SeqId seq, ByteSpan bytes) {
  TRY_ASSIGN(const SavedHeader header, read_header(bytes, kPointMagic));
  const ByteSpan state = bytes.subspan(sizeof header);
  const bool trail = shape().whole_points;
  if (header.count != state.size() || (!trail && state.size() != options_.state_bytes))
    return damaged("another length");
  state_of(seq).set_point(state);
  return {};
}

// ---- sequences ----

Status FakeMemory::fork(SeqId from, SeqId to, Position end) {
  if (faults_.fires(&FakeFaults::fail_fork)) return no_space("fork failed on demand");
  ++counters_.forks;
  ledger_.fork(from, to, end);
  for (std::size_t i = 0; own_cells_ && i < end.value(); ++i) {
    std::ranges::copy(row_of(ledger_.cells(from)[i]), row_of(ledger_.cells(to)[i]).begin());
  }
  state_of(to) = state_of(from).cut(end.value());
  return {};
}

bool FakeMemory::truncate(SeqId seq, Position end) {
  if (!options_.truncatable) {
    clear(seq);
    return false;
  }
  ledger_.truncate(seq, end);
  state_of(seq) = state_of(seq).cut(end.value());
  return true;
}

void FakeMemory::clear(SeqId seq) {
  ledger_.clear(seq);
  state_of(seq) = SequenceState(state_options_);
}

Status FakeMemory::shift(SeqId seq, TokenRange dropped) {
  if (!can_shift()) return unsupported("rows of this model cannot move");
  if (faults_.fires(&FakeFaults::fail_shift)) return unsupported("shift refused on demand");
  KVKEEP_ASSERT(!dropped.empty() && dropped.end <= length(seq), "dropped rows exist");
  ++counters_.shifts;
  ledger_.drop(seq, dropped);
  state_of(seq) = state_of(seq).cut(dropped.begin.value());
  const auto cells = ledger_.cells(seq);
  for (std::size_t at = dropped.begin.value(); at < cells.size(); ++at) {
    const MutableByteSpan row = row_of(cells[at]);
    std::uint64_t first = 0;
    std::memcpy(&first, row.data(), sizeof first);
    first = mix(first, dropped.size());
    std::memcpy(row.data(), &first, sizeof first);
    state_of(seq).add_row(static_cast<std::uint32_t>(at), row);
  }
  return {};
}

std::uint64_t FakeMemory::append(SeqId seq, TokenId token) {
  KVKEEP_ASSERT(ledger_.append(seq, 1), "cells were counted before");
  const MutableByteSpan computed = row_of(ledger_.cells(seq).back());
  state_of(seq).compute_row(token, computed);
  state_of(seq).decode(token, computed);
  return state_of(seq).value();
}

}  // namespace kvkeep::engine::fake
