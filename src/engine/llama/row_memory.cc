#include "engine/llama/row_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvkeep::engine::llama {
namespace {

// Every set, copy and removal walks all cells of the memory, about 1.5 ns each in sum; joining costs one more copy of
// the bytes, at about 10 GB/s. So a piece is set from where it lies if it has more than this many bytes per cell.
constexpr std::uint64_t kDirectBytesPerCell = 16;
// One join is at most this long: it stays in the outer caches between the two copies.
constexpr std::size_t kMostJoinedBytes = std::size_t{4} << 20;

llama_pos to_pos(Position position) { return static_cast<llama_pos>(position.value()); }

std::uint8_t* as_libllama(MutableByteSpan bytes) { return reinterpret_cast<std::uint8_t*>(bytes.data()); }
const std::uint8_t* as_libllama(ByteSpan bytes) { return reinterpret_cast<const std::uint8_t*>(bytes.data()); }

TokenRange wanted_range(std::span<const cache::RowPiece> pieces) {
  return {pieces.front().wanted.begin, pieces.back().wanted.end};
}

Error with_reason(Error error, std::uint64_t mark) {
  if (const std::string reason = log_reason_since(mark); !reason.empty()) error.message += ": " + reason;
  return error;
}

}  // namespace

RowMemory::RowMemory(llama_context& context, std::uint32_t sequences, std::optional<RowLayout> layout)
    : context_(context),
      memory_(llama_get_memory(&context)),
      ledger_(llama_n_ctx(&context), sequences),
      layout_(std::move(layout)),
      scratch_(static_cast<llama_seq_id>(sequences)) {
  KVKEEP_ASSERT(!layout_ || llama_n_seq_max(&context) > sequences, "the context has a scratch sequence");
}

void RowMemory::note_appended(SeqId seq, std::size_t tokens) {
  const bool fits = ledger_.append(seq, tokens);
  KVKEEP_ASSERT(fits, "libllama found cells for the batch, so the ledger has them");
}

Result<std::size_t> RowMemory::save_rows(SeqId seq, TokenRange range, MutableByteSpan out) {
  if (!layout_) return unsupported("this model's rows cannot be sliced");
  KVKEEP_ASSERT(!range.empty() && range.end <= length(seq), "saved rows exist");
  const std::uint64_t bytes = layout_->bytes_of(range.size());
  KVKEEP_ASSERT(out.size() >= bytes, "the buffer takes the rows");
  const std::uint64_t mark = log_mark();
  llama_memory_seq_cp(memory_, seq.value(), scratch_, to_pos(range.begin), to_pos(range.end));
  const std::size_t written = llama_state_seq_get_data(&context_, as_libllama(out), out.size(), scratch_);
  llama_memory_seq_rm(memory_, scratch_, -1, -1);
  if (written != bytes) return with_reason(io_error("libllama did not give the rows that were computed"), mark);
  return written;
}

Status RowMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.empty()) return {};
  Status done = check_pieces(seq, pieces);
  if (done) done = restore_checked(seq, pieces);
  if (!done) clear(seq);
  return done;
}

Status RowMemory::check_pieces(SeqId seq, std::span<const cache::RowPiece> pieces) const {
  if (!layout_) return unsupported("this model's rows cannot be sliced");
  Position end = length(seq);
  for (const cache::RowPiece& piece : pieces) {
    KVKEEP_ASSERT(piece.wanted.begin == end && piece.wanted.begin < piece.wanted.end, "pieces follow one another");
    KVKEEP_ASSERT(piece.stored.begin <= piece.wanted.begin && piece.wanted.end <= piece.stored.end,
                  "what is wanted is stored");
    TRY(verify_rows(*layout_, piece.bytes, piece.stored));
    end = piece.wanted.end;
  }
  const std::size_t tokens = wanted_range(pieces).size();
  if (tokens > ledger_.available()) {
    return no_space(std::to_string(tokens) + " cells are needed and " + std::to_string(ledger_.available()) +
                    " are free");
  }
  return {};
}

// Rows that are stored but not wanted need cells for a moment, too.
bool RowMemory::worth_setting_directly(const cache::RowPiece& piece) const {
  return piece.bytes.size() >= kDirectBytesPerCell * ledger_.total() && piece.stored.size() <= ledger_.available() &&
         piece.wanted.size() * 2 >= piece.stored.size();
}

Status RowMemory::restore_checked(SeqId seq, std::span<const cache::RowPiece> pieces) {
  for (std::size_t first = 0; first < pieces.size();) {
    if (worth_setting_directly(pieces[first])) {
      TRY(set_rows(seq, pieces[first].bytes, pieces[first].wanted));
      ++first;
      continue;
    }
    std::size_t last = first;
    std::uint64_t bytes = 0;
    for (; last < pieces.size() && !worth_setting_directly(pieces[last]); ++last) {
      bytes += layout_->bytes_of(pieces[last].wanted.size());
      if (last > first && bytes > kMostJoinedBytes) break;
    }
    TRY(set_joined(seq, pieces.subspan(first, last - first)));
    first = last;
  }
  return {};
}

Status RowMemory::set_joined(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.size() == 1 && pieces.front().wanted == pieces.front().stored) {
    return set_rows(seq, pieces.front().bytes, pieces.front().wanted);  // nothing to join
  }
  const TokenRange wanted = wanted_range(pieces);
  const std::uint64_t bytes = layout_->bytes_of(wanted.size());
  if (joined_.size() < bytes) joined_.resize(bytes);
  const std::size_t written = join_rows(*layout_, pieces, scratch_, joined_);
  KVKEEP_ASSERT(written == bytes, "joined rows have the size of their layout");
  return set_rows(seq, ByteSpan(joined_).first(written), wanted);
}

Status RowMemory::set_rows(SeqId seq, ByteSpan rows, TokenRange wanted) {
  const std::uint64_t mark = log_mark();
  const std::size_t taken = llama_state_seq_set_data(&context_, as_libllama(rows), rows.size(), scratch_);
  if (taken != rows.size()) {
    llama_memory_seq_rm(memory_, scratch_, -1, -1);
    return with_reason(io_error("libllama refused rows"), mark);
  }
  llama_memory_seq_cp(memory_, scratch_, seq.value(), to_pos(wanted.begin), to_pos(wanted.end));
  llama_memory_seq_rm(memory_, scratch_, -1, -1);
  note_appended(seq, wanted.size());
  return {};
}

Status RowMemory::fork(SeqId from, SeqId to, Position end) {
  if (!layout_) return unsupported("this model's rows cannot be shared");
  KVKEEP_ASSERT(length(to) == Position{0} && end <= length(from), "a fork goes to an empty sequence");
  if (end == Position{0}) return {};
  llama_memory_seq_cp(memory_, from.value(), to.value(), 0, to_pos(end));
  ledger_.fork(from, to, end);
  return {};
}

bool RowMemory::truncate(SeqId seq, Position end) {
  KVKEEP_ASSERT(end <= length(seq), "a sequence is cut, not stretched");
  // Models of other classes may say yes and be left without state they need: they keep all or nothing.
  const bool possible = layout_ || end == length(seq);
  if (!possible || end == Position{0} || !llama_memory_seq_rm(memory_, seq.value(), to_pos(end), -1)) {
    clear(seq);
    return possible && end == Position{0};
  }
  ledger_.truncate(seq, end);
  return true;
}

void RowMemory::clear(SeqId seq) {
  llama_memory_seq_rm(memory_, seq.value(), -1, -1);
  ledger_.clear(seq);
}

}  // namespace kvkeep::engine::llama
