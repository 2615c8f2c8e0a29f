#include "engine/llama/row_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {
namespace {

TokenRange wanted_range(std::span<const cache::RowPiece> pieces) {
  return {pieces.front().wanted.begin, pieces.back().wanted.end};
}

}  // namespace

RowMemory::RowMemory(llama_context& context, std::uint32_t conversations, RowLayout layout, RestoreCalls calls)
    : RowMemory(context, conversations, std::move(layout), {}, calls) {}

RowMemory::RowMemory(llama_context& context, std::uint32_t conversations, RowLayout layout, ByteSpan empty_rest,
                     RestoreCalls calls)
    : SequenceMemory(conversations),
      context_(context),
      memory_(llama_get_memory(&context)),
      ledger_(llama_n_ctx(&context), conversations),
      layout_(std::move(layout)),
      empty_rest_(empty_rest.begin(), empty_rest.end()),
      calls_(calls),
      scratch_(static_cast<llama_seq_id>(conversations)),
      joiner_(os::make_thread_executor("kvkeep-join")) {
  KVKEEP_ASSERT(llama_n_seq_max(&context) > conversations, "the context has a scratch sequence");
}

void RowMemory::note_appended(SeqId seq, std::size_t tokens) {
  const bool fits = ledger_.append(seq, tokens);
  KVKEEP_ASSERT(fits, "libllama found cells for the batch, so the ledger has them");
}

void RowMemory::copy_to_scratch(SeqId seq, TokenRange range) {
  llama_memory_seq_cp(memory_, seq.value(), scratch_, to_pos(seq, range.begin), to_pos(seq, range.end));
}

void RowMemory::empty_scratch() { llama_memory_seq_rm(memory_, scratch_, -1, -1); }

Result<std::size_t> RowMemory::save_rows(SeqId seq, TokenRange range, MutableByteSpan out) {
  KVKEEP_ASSERT(!range.empty() && range.end <= length(seq), "saved rows exist");
  KVKEEP_ASSERT(out.size() >= rows_bytes(range.size()), "the buffer takes the rows");
  if (media(seq).whole(range) != range) return save_part(seq, range, out);
  copy_to_scratch(seq, range);
  const auto written = read_scratch(media(seq).cells(range), out);
  empty_scratch();
  return written;
}

// libllama copies by positions, and a chunk in a plane has only one for all its cells.
Result<std::size_t> RowMemory::save_part(SeqId seq, TokenRange range, MutableByteSpan out) {
  const MediaMap& map = media(seq);
  if (map.cells(range) == 0) return std::size_t{0};
  const TokenRange whole = map.whole(range);
  const std::uint64_t bytes = state_bytes(map.cells(whole));
  if (chunks_.size() < bytes) chunks_.resize(bytes);
  copy_to_scratch(seq, whole);
  const auto written = read_scratch(map.cells(whole), chunks_);
  empty_scratch();
  if (!written) return written.error();
  const cache::RowPiece piece{whole, range, ByteSpan(chunks_).first(*written)};
  return join_rows(layout_, std::span(&piece, 1), scratch_, out, map);
}

Result<std::size_t> RowMemory::read_scratch(std::size_t cells, MutableByteSpan out) {
  TRY_ASSIGN(const std::size_t written, get_state(context_, scratch_, StatePart::kWhole, out));
  if (written != state_bytes(cells)) return io_error("libllama did not give the rows that were computed");
  return written - empty_rest_.size();
}

Status RowMemory::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  if (pieces.empty()) return {};
  Status done = restore_checked(seq, pieces);
  if (!done) clear(seq);
  return done;
}

Status RowMemory::restore_checked(SeqId seq, Pieces pieces) {
  TRY(check_pieces(seq, pieces));
  TRY_ASSIGN(MediaMap media, media_of(pieces.back()));
  media.truncate(pieces.back().wanted.end);  // what comes after it may be another prompt's
  std::vector<Step> steps = plan_steps(pieces, media);
  return restore_steps(seq, steps, media);
}

Status RowMemory::check_pieces(SeqId seq, Pieces pieces) const {
  TRY(verify_pieces(layout_, length(seq), pieces));
  const std::size_t tokens = wanted_range(pieces).size();
  if (tokens > ledger_.available()) {
    return no_space(std::to_string(tokens) + " cells are needed and " + std::to_string(ledger_.available()) +
                    " are free");
  }
  return {};
}

// Rows that are stored but not wanted also need cells for a moment. If a state has more parts after the rows, they must
// be copied to a buffer with room for those.
bool RowMemory::worth_setting_directly(const cache::RowPiece& piece, const MediaMap& media) const {
  return empty_rest_.empty() && media.empty() && piece.bytes.size() >= calls_.direct_bytes_per_cell * ledger_.total() &&
         piece.stored.size() <= ledger_.available() && piece.wanted.size() * 2 >= piece.stored.size();
}

std::vector<RowMemory::Step> RowMemory::plan_steps(Pieces pieces, const MediaMap& media) const {
  std::vector<Step> steps;
  for (std::size_t first = 0; first < pieces.size();) {
    std::size_t last = first;
    std::uint64_t bytes = 0;
    // A short first join, since no set runs meanwhile.
    const std::uint64_t limit = steps.empty() ? calls_.most_joined_bytes / 4 : calls_.most_joined_bytes;
    for (; last < pieces.size() && !worth_setting_directly(pieces[last], media); ++last) {
      bytes += layout_.bytes_of(pieces[last].wanted.size());
      if (last > first && bytes > limit) break;
    }
    last = std::max(last, first + 1);
    steps.push_back({pieces.subspan(first, last - first), {}});
    const cache::RowPiece& piece = pieces[first];
    const bool whole = last == first + 1 && (piece.wanted == piece.stored || worth_setting_directly(piece, media));
    if (whole && empty_rest_.empty()) steps.back().state = piece.bytes;
    first = last;
  }
  return steps;
}

void RowMemory::join_step(Step& step, std::size_t number, const MediaMap& media) {
  std::vector<std::byte>& joined = joined_[number % joined_.size()];
  const std::uint64_t bytes = state_bytes(media.cells(wanted_range(step.pieces)));
  if (joined.size() < bytes) joined.resize(bytes);
  const std::size_t written = join_rows(layout_, step.pieces, scratch_, joined, media);
  KVKEEP_ASSERT(written + empty_rest_.size() == bytes, "joined rows have the size of their layout");
  std::ranges::copy(empty_rest_, joined.begin() + static_cast<std::ptrdiff_t>(written));
  step.state = ByteSpan(joined).first(bytes);
}

// The scratch is emptied only once: libllama empties it before each set.
Status RowMemory::restore_steps(SeqId seq, std::span<Step> steps, const MediaMap& media) {
  const Status done = set_steps(seq, steps, media);
  empty_scratch();
  return done;
}

Status RowMemory::set_steps(SeqId seq, std::span<Step> steps, const MediaMap& media) {
  const auto is_joined = [&](const Step& step) {
    return step.state.empty() && media.cells(wanted_range(step.pieces)) > 0;
  };
  if (is_joined(steps.front())) join_step(steps.front(), 0, media);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool joins = i + 1 < steps.size() && is_joined(steps[i + 1]);
    if (joins) joiner_->post([this, &media, &next = steps[i + 1], i] { join_step(next, i + 1, media); });
    const Status set = set_rows(seq, steps[i], media);
    if (joins) joiner_->drain();  // also after a failure: the task reads the caller's pieces
    TRY(set);
  }
  return {};
}

Status RowMemory::set_rows(SeqId seq, const Step& step, const MediaMap& media) {
  const TokenRange wanted = wanted_range(step.pieces);
  if (!step.state.empty()) {
    const bool all = step.state.size() == state_bytes(media.cells(wanted));
    const llama_seq_id target = all && length(seq) == Position{0} ? seq.value() : scratch_;
    TRY(set_state(context_, target, StatePart::kWhole, step.state));
    // Only some of a chunk in a plane: no two positions say which, but then nothing else is in the scratch.
    const llama_pos begin = all ? -1 : media.to_library(wanted.begin);
    const llama_pos end = all ? -1 : media.to_library(wanted.end);
    if (target == scratch_) llama_memory_seq_cp(memory_, scratch_, seq.value(), begin, end);
  }
  note_appended(seq, wanted.size());
  set_media(seq, media.prefix(wanted.end));
  return {};
}

Status RowMemory::fork(SeqId from, SeqId to, Position end) {
  KVKEEP_ASSERT(length(to) == Position{0} && end <= length(from), "a fork goes to an empty sequence");
  KVKEEP_ASSERT(!media(from).cuts(end), "a fork cuts no picture or sound");
  if (end == Position{0}) return {};
  llama_memory_seq_cp(memory_, from.value(), to.value(), 0, to_pos(from, end));
  ledger_.fork(from, to, end);
  set_media(to, media(from).prefix(end));
  return {};
}

bool RowMemory::truncate(SeqId seq, Position end) {
  KVKEEP_ASSERT(end <= length(seq), "a sequence is cut, not stretched");
  KVKEEP_ASSERT(!media(seq).cuts(end), "a cut goes through no picture or sound");
  if (end == Position{0}) {
    clear(seq);
    return true;
  }
  if (!llama_memory_seq_rm(memory_, seq.value(), to_pos(seq, end), -1)) {
    clear(seq);
    return false;
  }
  ledger_.truncate(seq, end);
  set_media(seq, media(seq).prefix(end));
  return true;
}

Status RowMemory::shift(SeqId seq, TokenRange dropped) {
  if (!can_shift()) return unsupported("libllama cannot move rows of this model to other positions");
  if (!media(seq).empty()) return unsupported("rows of a short sound or of a picture in a plane cannot move");
  return shift_rows(memory_, ledger_, seq, dropped);
}

Status shift_rows(llama_memory_t memory, CellLedger& ledger, SeqId seq, TokenRange dropped) {
  KVKEEP_ASSERT(!dropped.empty() && dropped.end <= ledger.length(seq), "dropped rows exist");
  if (!llama_memory_seq_rm(memory, seq.value(), to_pos(dropped.begin), to_pos(dropped.end))) {
    return unsupported("libllama refused to drop rows from the middle of a sequence");
  }
  const auto distance = static_cast<llama_pos>(dropped.size());
  llama_memory_seq_add(memory, seq.value(), to_pos(dropped.end), to_pos(ledger.length(seq)), -distance);
  ledger.drop(seq, dropped);
  return {};
}

void RowMemory::clear(SeqId seq) {
  llama_memory_seq_rm(memory_, seq.value(), -1, -1);
  ledger_.clear(seq);
  set_media(seq, {});
}

}  // namespace kvkeep::engine::llama
