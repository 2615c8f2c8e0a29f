#include "engine/llama/clone_trial.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/llama/clone_model.h"
#include "engine/llama/model_options.h"
#include "engine/llama/model_params.h"
#include "engine/llama/sequence_memory.h"
#include "engine/llama/state_parts.h"
#include "engine/llama/stream_memory.h"

namespace kvkeep::engine::llama {
namespace {

using Bytes = std::vector<std::byte>;

TokenRange position_range(std::uint32_t begin, std::uint32_t end) { return {Position{begin}, Position{end}}; }

// One context of a tiny clone with its memory: tokens that differ between positions and sequences, and state in a form
// that can be compared.
class TrialContext {
 public:
  static constexpr std::uint32_t kBatch = 64;
  static constexpr std::uint32_t kUbatch = 32;  // prefills go over several of these
  static constexpr std::uint32_t kConversations = 2;

  // Without a `finding`: by what the state's bytes look like.
  static Result<TrialContext> make(llama_model& model, const ModelOptions& options,
                                   std::optional<ClassFinding> finding);
  // With cells of its own for each sequence. `like` has the parts of the state.
  static Result<TrialContext> with_own_cells(llama_model& model, ModelOptions options, const TrialContext& like);

  SequenceMemory& memory() { return *memory_; }
  const ClassFinding& finding() const { return finding_; }
  const StateParts& parts() const { return parts_; }

  // Computes the positions `tokens` of the conversation numbered `text` in a sequence that ends at tokens.begin.
  Status prefill(SeqId seq, TokenRange tokens, std::int32_t text);

  // Returns the rows of a range in ascending order of positions; empty if the model has none.
  Result<Bytes> rows(SeqId seq, TokenRange range);
  Result<Bytes> window(SeqId seq, TokenRange range);
  Result<Bytes> point(SeqId seq);
  // Returns a point in the form in which sequence 0 would save it. Empties all sequences.
  Result<Bytes> as_of_first(ByteSpan point);

 private:
  TrialContext() = default;
  Status decode(SeqId seq, TokenRange tokens, std::int32_t text);

  ContextHandle context_;
  StateParts parts_;
  ClassFinding finding_;
  std::unique_ptr<SequenceMemory> memory_;
};

// Cells lie in any order; read one row at a time, they come in the order of their positions.
Bytes sorted(const RowLayout& layout, ByteSpan rows, TokenRange range) {
  std::vector<cache::RowPiece> pieces;
  for (Position at = range.begin; at < range.end; at = at + 1) pieces.push_back({range, {at, at + 1}, rows});
  Bytes out(layout.bytes_of(range.size()));
  join_rows(layout, pieces, 0, out);
  return out;
}

Result<TrialContext> TrialContext::make(llama_model& model, const ModelOptions& options,
                                        std::optional<ClassFinding> finding) {
  TRY_ASSIGN(llama_context_params params, make_context_params(options, kConversations + 1));
  const std::uint64_t mark = log_mark();
  TrialContext made;
  made.context_.reset(llama_init_from_model(&model, params));
  if (!made.context_) return io_error("no context: " + log_reason_since(mark));
  TRY_ASSIGN(made.parts_, learn_state_parts(*made.context_, {1, 2, 3}));
  made.finding_ = finding.value_or(ClassFinding{.memory_class = made.parts_.looks_like});
  made.memory_ = make_memory(*made.context_, kConversations, made.parts_, made.finding_);
  return made;
}

Result<TrialContext> TrialContext::with_own_cells(llama_model& model, ModelOptions options, const TrialContext& like) {
  options.own_cells = true;
  options.n_ctx = kConversations * *options.n_ctx;
  TRY_ASSIGN(llama_context_params params, make_context_params(options, kConversations));
  const std::uint64_t mark = log_mark();
  TrialContext made;
  made.context_.reset(llama_init_from_model(&model, params));
  if (!made.context_) return io_error("no context: " + log_reason_since(mark));
  made.parts_ = like.parts_;
  made.finding_ = like.finding_;
  made.memory_ = make_memory(*made.context_, kConversations, made.parts_, made.finding_, /*own_cells=*/true);
  return made;
}

// Computes at most a window per step, so that its rows can be saved before they slide off.
Status TrialContext::prefill(SeqId seq, TokenRange tokens, std::int32_t text) {
  for (Position at = tokens.begin; at < tokens.end;) {
    const Position end = std::min(at + kBatch, tokens.end);
    TRY(decode(seq, {at, end}, text));
    memory_->note_appended(seq, end - at);
    at = end;
  }
  return {};
}

Status TrialContext::decode(SeqId seq, TokenRange tokens, std::int32_t text) {
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(tokens.size()), 0, 1);
  batch.n_tokens = static_cast<std::int32_t>(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto position = static_cast<std::int32_t>(tokens.begin.value() + i);
    batch.token[i] = (position * position * 7 + position * 3 + text * 29) % kCloneVocabulary;
    batch.pos[i] = position;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = seq.value();
    batch.logits[i] = i + 1 == tokens.size() ? 1 : 0;
  }
  const std::uint64_t mark = log_mark();
  const std::int32_t code = llama_decode(context_.get(), batch);
  llama_batch_free(batch);
  if (code == 0) return {};
  return with_reason(io_error("the clone does not decode (" + std::to_string(code) + ")"), mark);
}

Result<Bytes> TrialContext::rows(SeqId seq, TokenRange range) {
  if (memory_->rows_bytes(1) == 0) return Bytes();
  Bytes bytes(memory_->rows_bytes(range.size()));
  TRY_ASSIGN(const std::size_t written, memory_->save_rows(seq, range, bytes));
  bytes.resize(written);
  TRY(verify_rows(*parts_.rows, bytes, range));
  return sorted(*parts_.rows, bytes, range);
}

Result<Bytes> TrialContext::window(SeqId seq, TokenRange range) {
  Bytes bytes(memory_->window_bytes(range.size()));
  TRY_ASSIGN(const std::size_t written, memory_->save_window(seq, range, bytes));
  bytes.resize(written);
  TRY(verify_rows(*parts_.window, bytes, range));
  return sorted(*parts_.window, bytes, range);
}

Result<Bytes> TrialContext::point(SeqId seq) {
  Bytes bytes(memory_->point_bytes(seq));
  TRY_ASSIGN(const std::size_t written, memory_->save_point(seq, bytes));
  bytes.resize(written);
  return bytes;
}

Result<Bytes> TrialContext::as_of_first(ByteSpan point) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(kConversations); ++i) memory_->clear(SeqId{i});
  const StatePart part = finding_.memory_class == MemoryClass::kHybrid ? StatePart::kPartial : StatePart::kWhole;
  TRY(set_state(*context_, 0, part, point));
  TRY_ASSIGN(Bytes again, get_state(*context_, 0, part));
  memory_->clear(SeqId{0});
  return again;
}

// Lines of the report; classes report their name.
constexpr std::string_view kCloned = "cloned";
constexpr std::string_view kCellsPerSequence = "cells per sequence";
constexpr std::string_view kCopiesWhole = "copies whole sequences";
constexpr std::string_view kOwnCells = "own cells";
constexpr std::array kClasses{MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                              MemoryClass::kRecurrent, MemoryClass::kOpaque};

Status try_parts(llama_model& clone, const ModelOptions& options, const TrialReport& report) {
  TRY_ASSIGN(const ClassFinding found, run_class_trial(clone, options, std::nullopt));
  report(to_string(found.memory_class));
  if (!options.own_cells) return {};
  TRY(try_own_cells(clone, options));
  report(kOwnCells);
  return {};
}

Result<KvType> kv_type_named(std::string_view name) {
  const auto found = std::ranges::find(kKvTypes, name, &std::pair<std::string_view, KvType>::first);
  if (found == kKvTypes.end()) return invalid("not a KV type: " + std::string(name));
  return found->second;
}

// Tries whole states first: some architectures end the process when sequences are copied.
Status try_whole(llama_model& clone, const ModelOptions& options, const TrialReport& report) {
  ClassFinding tried{.memory_class = MemoryClass::kOpaque};
  TRY(run_class_trial(clone, options, tried));
  report(to_string(tried.memory_class));
  TRY_ASSIGN(const bool cells_per_sequence, try_cells_per_sequence(clone, options));
  if (cells_per_sequence) report(kCellsPerSequence);
  tried.copies_whole = true;
  if (run_class_trial(clone, options, tried)) report(kCopiesWhole);
  return {};
}

constexpr SeqId kFirst{0};
constexpr SeqId kSecond{1};
constexpr std::int32_t kText = 1;
constexpr std::int32_t kOtherText = 2;

struct SavedRun {
  TokenRange range;
  Bytes bytes;
};

// The conversation's state, saved while it was computed.
struct Saved {
  std::vector<SavedRun> rows;
  std::vector<SavedRun> windows;
  std::map<std::uint32_t, Bytes> points;  // by position
};

// Cells of windowed layers, beyond what windows and a ubatch need: libllama rounds up.
constexpr std::uint32_t kSpareWindowCells = 256;

// Positions of the trial; none is a multiple of the ubatch.
struct Script {
  std::uint32_t window;
  std::uint32_t middle;  // restored like the end, but lies in the middle of a piece that was saved at once
  std::uint32_t end;
  std::uint32_t beyond;  // tokens computed after a restore: all window cells are reused, over several ubatches
  std::uint32_t cells() const { return 3 * (end + beyond) + 128; }
};

Script script_for(std::uint32_t window) {
  const std::uint32_t step = window + TrialContext::kUbatch + 6;
  const std::uint32_t spare = window == 0 ? 0 : kSpareWindowCells;
  return {.window = window, .middle = 70 + step, .end = 110 + 2 * step, .beyond = step + spare};
}

Result<Bytes> last_leaf_of(TrialContext& context, SeqId seq, const Script& script) {
  const cache::StateShape shape = context.memory().shape();
  const Position end = context.memory().length(seq);
  if (shape.points) return context.point(seq);
  if (shape.window_tokens == 0) return Bytes();
  return context.window(seq, {Position{end.value() - std::min(script.window, end.value())}, end});
}

Status differs(const Bytes& left, const Bytes& right, const char* what) {
  if (left == right) return {};
  return unsupported(what);
}

// --- computing and saving

Status save_run(TrialContext& source, TokenRange run, Saved& saved) {
  TRY_ASSIGN(Bytes rows, source.rows(kFirst, run));
  saved.rows.push_back({run, std::move(rows)});
  return {};
}

Status save_windows(TrialContext& source, TokenRange run, Saved& saved) {
  if (source.memory().shape().window_tokens == 0) return {};
  TRY_ASSIGN(Bytes window, source.window(kFirst, run));
  saved.windows.push_back({run, std::move(window)});
  return {};
}

Status compute(TrialContext& source, TokenRange run, Saved& saved) {
  const std::uint32_t window = source.memory().shape().window_tokens;
  const std::uint32_t step = window == 0 ? TrialContext::kBatch : std::min(TrialContext::kBatch, window);
  for (Position at = run.begin; at < run.end;) {
    const Position end = std::min(at + step, run.end);
    TRY(source.prefill(kFirst, {at, end}, kText));
    TRY(save_windows(source, {at, end}, saved));
    at = end;
  }
  TRY(save_run(source, run, saved));
  if (source.memory().shape().points) {
    TRY_ASSIGN(Bytes point, source.point(kFirst));
    saved.points[run.end.value()] = std::move(point);
  }
  return {};
}

// The source's cells do not lie in one run.
Result<Saved> compute_and_save(TrialContext& source, const Script& script) {
  Saved saved;
  TRY(compute(source, position_range(0, 41), saved));
  TRY(source.prefill(kSecond, position_range(0, 41), kOtherText));
  TRY(compute(source, position_range(41, script.middle), saved));
  TRY(compute(source, position_range(script.middle, script.end), saved));
  TRY_ASSIGN(const Bytes leaf, last_leaf_of(source, kFirst, script));
  TRY_ASSIGN(const Bytes rows, source.rows(kFirst, position_range(script.middle, script.end)));
  TRY(differs(rows, saved.rows.back().bytes, "saving changes rows"));
  TRY_ASSIGN(const Bytes again, last_leaf_of(source, kFirst, script));
  TRY(differs(leaf, again, "saving changes state"));
  TRY_ASSIGN(const Bytes other, source.rows(kSecond, position_range(0, 41)));
  const bool has_values = source.parts().rows && !source.parts().rows->k.empty();
  if (has_values && !other.empty() && other == saved.rows.front().bytes)
    return unsupported("rows do not depend on tokens");
  return saved;
}

// --- restoring

std::vector<cache::RowPiece> pieces_of(const std::vector<SavedRun>& runs, TokenRange wanted) {
  std::vector<cache::RowPiece> pieces;
  for (const SavedRun& run : runs) {
    const TokenRange part{std::max(run.range.begin, wanted.begin), std::min(run.range.end, wanted.end)};
    if (part.begin < part.end) pieces.push_back({run.range, part, run.bytes});
  }
  return pieces;
}

Status restore_last_leaf(TrialContext& target, SeqId seq, const Saved& saved, const Script& script) {
  SequenceMemory& memory = target.memory();
  const cache::StateShape shape = memory.shape();
  const Position at = memory.length(seq);
  if (!shape.needs_points()) return {};
  if (shape.points) {
    const cache::RowPiece point{{at, at}, {at, at}, saved.points.at(at.value())};
    TRY(memory.restore_point(seq, std::span(&point, 1)));
  } else {
    const Position begin{at.value() - std::min(script.window, at.value())};
    TRY(memory.restore_point(seq, pieces_of(saved.windows, {begin, at})));
  }
  return memory.is_complete(seq) ? Status() : unsupported("a restored sequence is not complete");
}

Status restore(TrialContext& target, SeqId seq, std::uint32_t end, const Saved& saved, const Script& script) {
  TRY(target.memory().restore_rows(seq, pieces_of(saved.rows, position_range(0, end))));
  return restore_last_leaf(target, seq, saved, script);
}

// Checks that the rows [0, end) of `seq` are the saved ones.
Status check_rows(TrialContext& target, SeqId seq, std::uint32_t end, const Saved& saved) {
  for (const SavedRun& run : saved.rows) {
    if (run.range.end.value() > end) continue;
    TRY_ASSIGN(const Bytes rows, target.rows(seq, run.range));
    TRY(differs(rows, run.bytes, "rows differ from saved ones"));
  }
  return {};
}

// Checks that the point of a sequence is the saved one. `mirror` brings points into a form that can be compared.
Status check_last_leaf(TrialContext& target, SeqId seq, TrialContext& mirror, const Saved& saved,
                       const Script& script) {
  const cache::StateShape shape = target.memory().shape();
  const Position at = target.memory().length(seq);
  TRY_ASSIGN(Bytes leaf, last_leaf_of(target, seq, script));
  if (shape.points) {
    TRY_ASSIGN(leaf, mirror.as_of_first(leaf));
    TRY_ASSIGN(const Bytes expected, mirror.as_of_first(saved.points.at(at.value())));
    TRY(differs(expected, saved.points.at(at.value()), "a point changes on its way through the memory"));
    return differs(leaf, expected, "a restored point differs from the saved one");
  }
  if (shape.window_tokens == 0) return {};
  const Position begin{at.value() - std::min(script.window, at.value())};
  for (const cache::RowPiece& piece : pieces_of(saved.windows, {begin, at})) {
    if (piece.wanted != piece.stored) continue;
    TRY_ASSIGN(const Bytes window, target.window(seq, piece.stored));
    TRY(differs(window, {piece.bytes.begin(), piece.bytes.end()}, "a restored window differs from the saved one"));
  }
  return {};
}

// Window rows within a point come in the order of their cells, which is another order once cells were `reused`;
// libllama also returns a row more than needed while it is still there. So such points are compared only before that.
Status check(TrialContext& target, SeqId seq, TrialContext& mirror, const Saved& saved, const Script& script,
             bool reused = false) {
  TRY(check_rows(target, seq, target.memory().length(seq).value(), saved));
  if (reused && script.window > 0 && target.memory().shape().points) return {};
  return check_last_leaf(target, seq, mirror, saved, script);
}

// Decodes more tokens; state that was there keeps its bytes.
Status go_on(TrialContext& target, SeqId seq, std::int32_t text, const Saved& saved, const Script& script) {
  const std::uint32_t at = target.memory().length(seq).value();
  TRY(target.prefill(seq, position_range(at, at + script.beyond), text));
  return check_rows(target, seq, at, saved);
}

Status try_restores(TrialContext& target, TrialContext& mirror, const Saved& saved, const Script& script) {
  for (const std::uint32_t end : {script.end, script.middle}) {
    TRY(restore(target, kFirst, end, saved, script));
    TRY(check(target, kFirst, mirror, saved, script));
    TRY(go_on(target, kFirst, kText, saved, script));
    target.memory().clear(kFirst);
  }
  return {};
}

// Forks at the end and in the middle; source and fork then decode different tokens.
Status try_forks(TrialContext& target, TrialContext& mirror, const Saved& saved, const Script& script) {
  SequenceMemory& memory = target.memory();
  TRY(restore(target, kFirst, script.end, saved, script));
  TRY(memory.fork(kFirst, kSecond, Position{script.end}));
  if (!memory.is_complete(kSecond)) return unsupported("a fork of a sequence's end is not complete");
  TRY(check(target, kSecond, mirror, saved, script));
  TRY(go_on(target, kSecond, kOtherText, saved, script));
  if (!memory.is_complete(kFirst)) return unsupported("a sequence loses its state while another is computed");
  TRY(check(target, kFirst, mirror, saved, script, true));
  TRY(go_on(target, kFirst, kText, saved, script));
  memory.clear(kSecond);
  TRY(memory.fork(kFirst, kSecond, Position{script.middle}));
  TRY(go_on(target, kFirst, kText, saved, script));
  TRY(restore_last_leaf(target, kSecond, saved, script));
  TRY(check(target, kSecond, mirror, saved, script, true));
  return go_on(target, kSecond, kOtherText, saved, script);
}

Status try_cuts(TrialContext& target, TrialContext& mirror, const Saved& saved, const Script& script) {
  SequenceMemory& memory = target.memory();
  memory.clear(kFirst);
  memory.clear(kSecond);
  TRY(restore(target, kSecond, script.end, saved, script));
  if (!memory.truncate(kSecond, Position{script.middle})) return unsupported("a sequence cannot be cut");
  TRY(restore_last_leaf(target, kSecond, saved, script));
  TRY(check(target, kSecond, mirror, saved, script));
  return go_on(target, kSecond, kText, saved, script);
}

// A sequence that is cut where the memory calls it complete has the saved rows.
Status try_complete_cut(TrialContext& source, TrialContext& mirror, const Saved& saved, const Script& script) {
  SequenceMemory& memory = source.memory();
  const Position least = std::max(memory.complete_from(kFirst), Position{script.middle});
  const Position cut{(least.value() + script.end) / 2};
  if (!memory.truncate(kFirst, cut) || !memory.is_complete(kFirst))
    return unsupported("a cut sequence is not complete");
  if (!memory.shape().points) TRY(check(source, kFirst, mirror, saved, script));
  return go_on(source, kFirst, kText, saved, script);
}

void set_sizes(ModelOptions& options, std::uint32_t cells) {
  options.own_cells = false;
  options.n_ctx = cells;
  options.n_batch = TrialContext::kBatch;
  options.n_ubatch = TrialContext::kUbatch;
  options.threads = 1;
}

}  // namespace

std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape, TrialKind kind) {
  const char* flash = options.flash_attention == false ? "off" : "auto";
  return {options.path,
          std::string(to_string(options.type_k)),
          std::string(to_string(options.type_v)),
          flash,
          std::string(to_string(shape)),
          kind == TrialKind::kParts ? "parts" : "whole",
          options.own_cells || options.choose_cells ? "own" : "pool"};
}

Status run_clone_trial(const std::vector<std::string>& arguments, const TrialReport& report) {
  if (arguments.size() != 7) return invalid("a class test takes seven arguments");
  start_library();
  ModelOptions options;
  TRY_ASSIGN(options.type_k, kv_type_named(arguments[1]));
  TRY_ASSIGN(options.type_v, kv_type_named(arguments[2]));
  if (arguments[3] == "off") options.flash_attention = false;
  options.own_cells = arguments[6] == "own";
  const CloneShape shape = arguments[4] == to_string(CloneShape::kNarrow) ? CloneShape::kNarrow : CloneShape::kMatched;
  TRY_ASSIGN(const ModelHandle clone, make_clone(arguments[0], shape));
  report(kCloned);
  return arguments[5] == "parts" ? try_parts(*clone, options, report) : try_whole(*clone, options, report);
}

TrialOutcome read_trial_report(std::string_view lines) {
  TrialOutcome outcome;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line == kCloned) outcome.cloned = true;
    if (line == kCellsPerSequence) outcome.finding.cells_per_sequence = true;
    if (line == kCopiesWhole) outcome.finding.copies_whole = true;
    if (line == kOwnCells) outcome.finding.own_cells = true;
    for (const MemoryClass found : kClasses) {
      if (line == to_string(found)) outcome.finding.memory_class = found;
    }
  }
  return outcome;
}

Result<ClassFinding> run_class_trial(llama_model& clone, ModelOptions options, std::optional<ClassFinding> finding) {
  const Script script = script_for(window_tokens_of(clone));
  set_sizes(options, script.cells());
  TRY_ASSIGN(TrialContext source, TrialContext::make(clone, options, finding));
  const MemoryClass tried = source.finding().memory_class;
  if (tried == MemoryClass::kOpaque && !finding) return unsupported("the state's parts are not known");
  TRY_ASSIGN(const Saved saved, compute_and_save(source, script));
  TRY_ASSIGN(TrialContext target, TrialContext::make(clone, options, finding));
  TRY_ASSIGN(TrialContext mirror, TrialContext::make(clone, options, finding));
  TRY(try_restores(target, mirror, saved, script));
  TRY(try_forks(target, mirror, saved, script));
  TRY(try_cuts(target, mirror, saved, script));
  TRY(try_complete_cut(source, mirror, saved, script));
  return source.finding();
}

// State goes from each layout into the other.
Status try_own_cells(llama_model& clone, ModelOptions options) {
  const Script script = script_for(window_tokens_of(clone));
  set_sizes(options, script.cells());
  TRY_ASSIGN(TrialContext pool, TrialContext::make(clone, options, std::nullopt));
  if (!can_have_own_cells(pool.finding().memory_class, pool.parts())) {
    return unsupported("state of this kind cannot be divided by sequences");
  }
  TRY_ASSIGN(TrialContext mirror, TrialContext::make(clone, options, std::nullopt));
  TRY_ASSIGN(TrialContext own, TrialContext::with_own_cells(clone, options, pool));
  TRY_ASSIGN(const Saved of_own, compute_and_save(own, script));
  TRY(try_restores(pool, mirror, of_own, script));
  TRY(try_complete_cut(own, mirror, of_own, script));
  own.memory().clear(kFirst);
  own.memory().clear(kSecond);
  TRY_ASSIGN(const Saved of_pool, compute_and_save(pool, script));
  TRY(try_restores(own, mirror, of_pool, script));
  TRY(try_forks(own, mirror, of_pool, script));
  return try_cuts(own, mirror, of_pool, script);
}

Result<bool> try_cells_per_sequence(llama_model& clone, ModelOptions options) {
  constexpr std::uint32_t kCells = 256;
  set_sizes(options, kCells);
  TRY_ASSIGN(TrialContext context, TrialContext::make(clone, options, ClassFinding{MemoryClass::kOpaque}));
  TRY(context.prefill(kFirst, position_range(0, kCells - 8), kText));
  return context.prefill(kSecond, position_range(0, kCells - 8), kOtherText).ok();
}

}  // namespace kvkeep::engine::llama
