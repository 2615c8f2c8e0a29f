#include "engine/llama/stream_memory.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "engine/llama/row_memory.h"
#include "engine/llama/stream_form.h"
#include "engine/llama/windowed_memory.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::int32_t kNoSequence = 0;  // in rows that are saved: libllama ignores it when it reads them

std::vector<std::byte> empty_partial(llama_context& context) {
  auto state = get_state(context, 0, StatePart::kPartial);
  KVKEEP_ASSERT(state.ok(), "an empty sequence has a state");
  return std::move(*state);
}

// Cuts `range` out of a piece of the sequence that has these chunks.
Result<std::size_t> cut(const RowLayout& layout, cache::RowPiece piece, TokenRange range, const MediaMap& media,
                        MutableByteSpan out) {
  if (media.cells(range) == 0) return std::size_t{0};
  piece.wanted = range;
  const std::size_t written = join_rows(layout, std::span(&piece, 1), kNoSequence, out, media);
  if (written != layout.bytes_of(media.cells(range)))
    return io_error("libllama did not give the rows that were computed");
  return written;
}

}  // namespace

bool can_have_own_cells(MemoryClass memory_class, const StateParts& parts) {
  if (memory_class == MemoryClass::kHybrid) return parts.window_tokens == 0;
  return memory_class == MemoryClass::kSliceable || memory_class == MemoryClass::kWindowed;
}

StreamMemory::StreamMemory(llama_context& context, const StateParts& parts, MemoryClass memory_class)
    : SequenceMemory(llama_n_seq_max(&context)),
      context_(context),
      memory_(llama_get_memory(&context)),
      streams_(llama_n_seq_max(&context)),
      ledger_(CellLedger::with_own_cells(llama_n_ctx_seq(&context), streams_)),
      rows_(*parts.rows),
      points_(memory_class == MemoryClass::kHybrid),
      least_point_bytes_(points_ ? parts.point_bytes : 0),
      empty_partial_(empty_partial(context)),
      has_point_(streams_, true) {
  KVKEEP_ASSERT(can_have_own_cells(memory_class, parts), "state of this class can be divided by streams");
  if (memory_class != MemoryClass::kWindowed) return;
  window_ = parts.window;
  window_tokens_ = parts.window_tokens;
}

cache::StateShape StreamMemory::shape() const {
  return {.cacheable = true, .window_tokens = window_tokens_, .points = points_};
}

Position StreamMemory::complete_from(SeqId seq) const {
  if (points_) return length(seq);
  if (!window_) return {};
  return window_complete_from(memory_, seq, length(seq), window_tokens_, media(seq)).value_or(length(seq));
}

bool StreamMemory::is_complete(SeqId seq) const {
  if (points_) return has_point_[index(seq)];
  return !window_ || window_complete_from(memory_, seq, length(seq), window_tokens_, media(seq)).has_value();
}

void StreamMemory::note_appended(SeqId seq, std::size_t tokens) {
  rows_read_.reset();
  const bool fits = ledger_.append(seq, tokens);
  KVKEEP_ASSERT(fits, "libllama found cells in the sequence's stream, so the ledger has them");
}

// ---- state out ----

Result<MutableByteSpan> StreamMemory::read(SeqId seq, StatePart part) {
  rows_read_.reset();
  const std::size_t size = state_size(context_, seq.value(), part);
  if (read_.size() < size) read_.resize(size);
  TRY_ASSIGN(const std::size_t written, get_state(context_, seq.value(), part, MutableByteSpan(read_).first(size)));
  return MutableByteSpan(read_).first(written);
}

// All rows of a sequence that is not empty. Valid until the next read. A capture saves several segments of a sequence
// that does not change meanwhile: it is read once.
Result<cache::RowPiece> StreamMemory::read_rows(SeqId seq) {
  if (rows_read_ && rows_read_->first == seq) return rows_read_->second;
  const std::size_t rest = state_size(context_, seq.value(), StatePart::kPartial) - kEnvelopeBytes;
  TRY_ASSIGN(const MutableByteSpan whole, read(seq, StatePart::kWhole));
  if (whole.size() < rest) return io_error("libllama gave less than a sequence's state");
  const auto stream = static_cast<std::uint32_t>(seq.value());
  TRY_ASSIGN(const ByteSpan rows, to_unified_form(whole.first(whole.size() - rest), streams_, stream));
  const TokenRange all{Position{}, length(seq)};
  if (rows.size() != rows_.bytes_of(media(seq).cells(all)))
    return io_error("libllama gave another number of rows than it holds");
  rows_read_.emplace(seq, cache::RowPiece{all, all, rows});
  return rows_read_->second;
}

// The window rows at the end of a sequence that is not empty. Valid until the next read.
Result<cache::RowPiece> StreamMemory::read_window(SeqId seq) {
  TRY_ASSIGN(const MutableByteSpan state, read(seq, StatePart::kPartial));
  TRY_ASSIGN(const ByteSpan rows, to_unified_form(state, streams_, static_cast<std::uint32_t>(seq.value())));
  const std::size_t count =
      (rows.size() - std::min<std::size_t>(rows.size(), window_->fixed_bytes())) / window_->bytes_per_token();
  const MediaMap& map = media(seq);
  TokenRange last{length(seq), length(seq)};
  if (count > map.cells({Position{}, last.end})) return io_error("libllama gave more window rows than a sequence has");
  while (map.cells(last) < count) last.begin = Position{} + (last.begin.value() - (count - map.cells(last)));
  return cache::RowPiece{last, last, rows};
}

Result<std::size_t> StreamMemory::save_rows(SeqId seq, TokenRange range, MutableByteSpan out) {
  KVKEEP_ASSERT(!range.empty() && range.end <= length(seq), "saved rows exist");
  KVKEEP_ASSERT(out.size() >= rows_bytes(range.size()), "the buffer takes the rows");
  TRY_ASSIGN(const cache::RowPiece all, read_rows(seq));
  return cut(rows_, all, range, media(seq), out);
}

Result<std::size_t> StreamMemory::save_window(SeqId seq, TokenRange range, MutableByteSpan out) {
  KVKEEP_ASSERT(!range.empty() && range.size() <= window_tokens_ && range.end <= length(seq), "a run of the window");
  KVKEEP_ASSERT(out.size() >= window_bytes(range.size()), "the buffer takes the window");
  TRY_ASSIGN(const cache::RowPiece last, read_window(seq));
  if (range.begin < last.stored.begin) return not_found("the window has moved past these rows");
  if (!media(seq).counts_alike(range)) return not_found("as many ids reach back less than the window");
  TRY(verify_rows(*window_, last.bytes, last.stored, media(seq)));
  return cut(*window_, last, range, media(seq), out);
}

std::uint64_t StreamMemory::point_bytes(SeqId seq) const {
  if (!points_) return 0;
  return std::max<std::uint64_t>(least_point_bytes_, state_size(context_, seq.value(), StatePart::kPartial));
}

Result<std::size_t> StreamMemory::save_point(SeqId seq, MutableByteSpan out) {
  if (!points_) return unsupported("no points");
  KVKEEP_ASSERT(is_complete(seq) && length(seq) > Position{0}, "a point is saved of a complete sequence");
  return get_state(context_, seq.value(), StatePart::kPartial, out);
}

// ---- state in ----

// Sets rows or window rows, joined from pieces, as that part of a sequence's state; what comes after rows is empty.
Status StreamMemory::set_joined(SeqId seq, const RowLayout& layout, StatePart part,
                                std::span<const cache::RowPiece> pieces, const MediaMap& media) {
  const std::size_t cells = media.cells({pieces.front().wanted.begin, pieces.back().wanted.end});
  if (cells == 0) return {};
  const std::size_t size = layout.bytes_of(cells);
  const ByteSpan rest = part == StatePart::kWhole ? ByteSpan(empty_partial_).subspan(kEnvelopeBytes) : ByteSpan();
  const std::size_t section = size + stream_form_extra(streams_);
  if (joined_.size() < section + rest.size()) joined_.resize(section + rest.size());
  const std::size_t joined = join_rows(layout, pieces, seq.value(), joined_, media);
  KVKEEP_ASSERT(joined == size, "joined rows have the size of their layout");
  to_stream_form(joined_, size, streams_);
  std::ranges::copy(rest, joined_.begin() + static_cast<std::ptrdiff_t>(section));
  return set_state(context_, seq.value(), part, ByteSpan(joined_).first(section + rest.size()));
}

Status StreamMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.empty()) return {};
  Status done = verify_pieces(rows_, length(seq), pieces);
  if (done && pieces.back().wanted.end - length(seq) > cells_available(seq)) {
    done = no_space("a sequence has " + std::to_string(llama_n_ctx_seq(&context_)) + " cells of its own");
  }
  if (done) done = append(seq, pieces);
  if (!done) clear(seq);
  return done;
}

// libllama replaces what is there, so the rows that are there are set again with the others.
Status StreamMemory::append(SeqId seq, std::span<const cache::RowPiece> pieces) {
  TRY_ASSIGN(MediaMap media, media_of(pieces.back()));
  media.truncate(pieces.back().wanted.end);  // what comes after it may be another prompt's
  std::vector<cache::RowPiece> all;
  if (length(seq) > Position{0}) {
    TRY_ASSIGN(const cache::RowPiece present, read_rows(seq));
    all.push_back(present);
  }
  all.insert(all.end(), pieces.begin(), pieces.end());
  TRY(set_joined(seq, rows_, StatePart::kWhole, all, media));
  note_appended(seq, pieces.back().wanted.end - pieces.front().wanted.begin);
  set_media(seq, std::move(media));
  has_point_[index(seq)] = false;
  return {};
}

Status StreamMemory::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (!shape().needs_points()) return unsupported("no points");
  KVKEEP_ASSERT(!pieces.empty() && pieces.back().wanted.end == length(seq), "a leaf lies where the sequence ends");
  Status done = points_ ? set_point(seq, pieces.front().bytes) : set_window(seq, pieces);
  if (!done) clear(seq);
  return done;
}

Status StreamMemory::set_window(SeqId seq, std::span<const cache::RowPiece> pieces) {
  const std::uint32_t begin = pieces.front().wanted.begin.value();
  KVKEEP_ASSERT(begin + std::min(window_tokens_, length(seq).value()) <= length(seq).value(), "the window is whole");
  TRY(verify_pieces(*window_, Position{begin}, pieces));
  return set_joined(seq, *window_, StatePart::kPartial, pieces, media(seq));
}

Status StreamMemory::set_point(SeqId seq, ByteSpan point) {
  if (Status set = set_state(context_, seq.value(), StatePart::kPartial, point); !set) {
    return set.error().kind == ErrorKind::kNoSpace ? set : damaged(set.error().message);
  }
  // The point is of another position or kind: libllama takes what it can read.
  const llama_pos last = llama_memory_seq_pos_max(memory_, seq.value());
  const bool at_end = llama_memory_seq_pos_min(memory_, seq.value()) == last && media(seq).may_end(length(seq), last);
  if (!at_end) return damaged("a point of another position");
  has_point_[index(seq)] = true;
  return {};
}

// ---- sequences ----

// The whole state goes over, with the window and the point; then the copy is cut as any sequence is. A window is that
// of the sequence's end, whatever more libllama holds: to copy an earlier one, the source is cut for a moment.
Status StreamMemory::fork(SeqId from, SeqId to, Position end) {
  KVKEEP_ASSERT(length(to) == Position{0} && end <= length(from), "a fork goes to an empty sequence");
  KVKEEP_ASSERT(!media(from).cuts(end), "a fork cuts no picture or sound");
  if (end == Position{0}) return {};
  if (window_ && end < length(from)) return fork_earlier_window(from, to, end);
  TRY_ASSIGN(const MutableByteSpan state, read(from, StatePart::kWhole));
  TRY(set_state(context_, to.value(), StatePart::kWhole, state));
  ledger_.fork(from, to, length(from));
  set_media(to, media(from));
  has_point_[index(to)] = has_point_[index(from)];
  return truncate(to, end) ? Status() : unsupported("libllama refused to cut a copied sequence");
}

Status StreamMemory::fork_earlier_window(SeqId from, SeqId to, Position end) {
  TRY_ASSIGN(const MutableByteSpan whole, read(from, StatePart::kWhole));
  read_.swap(joined_);  // so that the next read leaves `whole` as it is
  Status copied = unsupported("libllama refused to cut a sequence");
  if (llama_memory_seq_rm(memory_, from.value(), to_pos(from, end), -1)) {
    const auto cut = read(from, StatePart::kWhole);
    copied = cut ? set_state(context_, to.value(), StatePart::kWhole, *cut) : Status(cut.error());
  }
  const Status back = set_state(context_, from.value(), StatePart::kWhole, whole);
  KVKEEP_ASSERT(back.ok(), "a sequence's own cells take its own state");
  TRY(copied);
  ledger_.fork(from, to, end);
  set_media(to, media(from).prefix(end));
  return {};
}

bool StreamMemory::truncate(SeqId seq, Position end) {
  rows_read_.reset();
  KVKEEP_ASSERT(end <= length(seq), "a sequence is cut, not stretched");
  KVKEEP_ASSERT(!media(seq).cuts(end), "a cut goes through no picture or sound");
  if (points_ && end == length(seq)) return true;
  bool cut = end > Position{0};
  if (cut && points_) {
    has_point_[index(seq)] = false;  // libllama cuts a sequence that has no recurrent state
    cut = set_state(context_, seq.value(), StatePart::kPartial, empty_partial_).ok();
  }
  if (cut) cut = llama_memory_seq_rm(memory_, seq.value(), to_pos(seq, end), -1);
  cut ? ledger_.truncate(seq, end) : clear(seq);
  if (cut) set_media(seq, media(seq).prefix(end));
  return cut || end == Position{0};
}

void StreamMemory::clear(SeqId seq) {
  rows_read_.reset();
  llama_memory_seq_rm(memory_, seq.value(), -1, -1);
  ledger_.clear(seq);
  set_media(seq, {});
  has_point_[index(seq)] = true;
}

Status StreamMemory::shift(SeqId seq, TokenRange dropped) {
  rows_read_.reset();
  if (!can_shift()) return unsupported("libllama cannot move rows of this model to other positions");
  if (!media(seq).empty()) return unsupported("rows of a short sound or of a picture in a plane cannot move");
  return shift_rows(memory_, ledger_, seq, dropped);
}

void StreamMemory::drop_undecoded(SeqId seq) { points_ ? clear(seq) : static_cast<void>(truncate(seq, length(seq))); }

}  // namespace kvkeep::engine::llama
