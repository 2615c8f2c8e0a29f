#include "engine/llama/row_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvkeep::engine::llama {
namespace {

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

RowMemory::RowMemory(llama_context& context, std::uint32_t sequences, std::optional<RowLayout> layout,
                     RestoreCalls calls)
    : context_(context),
      memory_(llama_get_memory(&context)),
      ledger_(llama_n_ctx(&context), sequences),
      layout_(std::move(layout)),
      calls_(calls),
      scratch_(static_cast<llama_seq_id>(sequences)),
      joiner_(os::make_thread_executor("kvkeep-join")) {
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
  if (done) {
    std::vector<Step> steps = plan_steps(pieces);
    done = restore_steps(seq, steps);
  }
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
  return piece.bytes.size() >= calls_.direct_bytes_per_cell * ledger_.total() &&
         piece.stored.size() <= ledger_.available() && piece.wanted.size() * 2 >= piece.stored.size();
}

std::vector<RowMemory::Step> RowMemory::plan_steps(Pieces pieces) const {
  std::vector<Step> steps;
  for (std::size_t first = 0; first < pieces.size();) {
    std::size_t last = first;
    std::uint64_t bytes = 0;
    // Nothing is set while the first is joined: it is short.
    const std::uint64_t limit = steps.empty() ? calls_.most_joined_bytes / 4 : calls_.most_joined_bytes;
    for (; last < pieces.size() && !worth_setting_directly(pieces[last]); ++last) {
      bytes += layout_->bytes_of(pieces[last].wanted.size());
      if (last > first && bytes > limit) break;
    }
    last = std::max(last, first + 1);
    steps.push_back({pieces.subspan(first, last - first), {}});
    const cache::RowPiece& piece = pieces[first];
    const bool whole = last == first + 1 && (piece.wanted == piece.stored || worth_setting_directly(piece));
    if (whole) steps.back().rows = piece.bytes;
    first = last;
  }
  return steps;
}

void RowMemory::join_step(Step& step, std::size_t number) {
  std::vector<std::byte>& joined = joined_[number % joined_.size()];
  const std::uint64_t bytes = layout_->bytes_of(wanted_range(step.pieces).size());
  if (joined.size() < bytes) joined.resize(bytes);
  const std::size_t written = join_rows(*layout_, step.pieces, scratch_, joined);
  KVKEEP_ASSERT(written == bytes, "joined rows have the size of their layout");
  step.rows = ByteSpan(joined).first(written);
}

// The scratch is emptied once: libllama does it itself before each set.
Status RowMemory::restore_steps(SeqId seq, std::span<Step> steps) {
  const Status done = set_steps(seq, steps);
  llama_memory_seq_rm(memory_, scratch_, -1, -1);
  return done;
}

Status RowMemory::set_steps(SeqId seq, std::span<Step> steps) {
  if (steps.front().rows.empty()) join_step(steps.front(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool joins = i + 1 < steps.size() && steps[i + 1].rows.empty();
    if (joins) joiner_->post([this, &next = steps[i + 1], i] { join_step(next, i + 1); });
    const Status set = set_rows(seq, steps[i]);
    if (joins) joiner_->drain();  // also after a failure: the task reads the caller's pieces
    TRY(set);
  }
  return {};
}

Status RowMemory::set_rows(SeqId seq, const Step& step) {
  const TokenRange wanted = wanted_range(step.pieces);
  const bool all = step.rows.size() == layout_->bytes_of(wanted.size());
  const llama_seq_id target = all && length(seq) == Position{0} ? seq.value() : scratch_;
  const std::uint64_t mark = log_mark();
  const std::size_t taken = llama_state_seq_set_data(&context_, as_libllama(step.rows), step.rows.size(), target);
  if (taken != step.rows.size()) {
    llama_memory_seq_rm(memory_, target, -1, -1);
    return with_reason(io_error("libllama refused rows"), mark);
  }
  if (target == scratch_) {
    llama_memory_seq_cp(memory_, scratch_, seq.value(), to_pos(wanted.begin), to_pos(wanted.end));
  }
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
