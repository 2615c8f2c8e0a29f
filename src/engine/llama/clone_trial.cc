#include "engine/llama/clone_trial.h"

#include <algorithm>
#include <array>

#include "engine/llama/model_params.h"
#include "engine/llama/row_memory.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::uint32_t kContext = 512;
constexpr std::uint32_t kBatch = 64;
constexpr std::uint32_t kUbatch = 32;  // prefills go over several of these
constexpr std::uint32_t kConversations = 2;
constexpr SeqId kFirst{0};
constexpr SeqId kSecond{1};
constexpr Position kEnd{150};

TokenRange range(std::uint32_t begin, std::uint32_t end) { return {Position{begin}, Position{end}}; }
// Cuts in the middle of ubatches.
constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 3> kPieces{{{0, 40}, {40, 110}, {110, 150}}};

// One context on the clone, and its rows.
class Trial {
 public:
  static Result<Trial> make(llama_model& model, const ModelOptions& options) {
    TRY_ASSIGN(llama_context_params params, make_context_params(options, kConversations + 1));
    const std::uint64_t mark = log_mark();
    Trial trial;
    trial.context_.reset(llama_init_from_model(&model, params));
    if (!trial.context_) return unsupported("no context: " + log_reason_since(mark));
    TRY(trial.decode(kFirst, range(0, 2)));
    std::vector<std::byte> rows(llama_state_seq_get_size(trial.context_.get(), kFirst.value()));
    auto* bytes = reinterpret_cast<std::uint8_t*>(rows.data());
    const std::size_t size = llama_state_seq_get_data(trial.context_.get(), bytes, rows.size(), kFirst.value());
    llama_memory_clear(llama_get_memory(trial.context_.get()), true);
    TRY_ASSIGN(RowLayout layout, learn_layout(ByteSpan(rows).first(size)));
    trial.layout_ = layout;
    trial.rows_ = std::make_unique<RowMemory>(*trial.context_, kConversations, std::move(layout));
    return trial;
  }

  RowMemory& rows() { return *rows_; }
  const RowLayout& layout() const { return layout_; }

  // Tokens differ between sequences and positions.
  Status prefill(SeqId seq, TokenRange tokens) {
    for (Position at = tokens.begin; at < tokens.end;) {
      const Position end = std::min(at + kBatch, tokens.end);
      TRY(decode(seq, {at, end}));
      rows_->note_appended(seq, end - at);
      at = end;
    }
    return {};
  }

  Result<std::vector<std::byte>> save(SeqId seq, TokenRange tokens) {
    std::vector<std::byte> bytes(rows_->rows_bytes(tokens.size()));
    TRY(rows_->save_rows(seq, tokens, bytes));
    TRY(verify_rows(layout_, bytes, tokens));
    return bytes;
  }

 private:
  Trial() = default;

  Status decode(SeqId seq, TokenRange tokens) {
    llama_batch batch = llama_batch_init(static_cast<std::int32_t>(tokens.size()), 0, 1);
    batch.n_tokens = static_cast<std::int32_t>(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto position = static_cast<std::int32_t>(tokens.begin.value() + i);
      batch.token[i] = (position * position * 7 + position * 3 + seq.value() * 29) % kCloneVocabulary;
      batch.pos[i] = position;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = seq.value();
      batch.logits[i] = i + 1 == tokens.size() ? 1 : 0;
    }
    const std::int32_t code = llama_decode(context_.get(), batch);
    llama_batch_free(batch);
    if (code != 0) return unsupported("the clone does not decode");
    return {};
  }

  ContextHandle context_;
  RowLayout layout_;
  std::unique_ptr<RowMemory> rows_;
};

std::vector<std::byte> cut(const RowLayout& layout, ByteSpan rows, TokenRange stored, TokenRange wanted) {
  const cache::RowPiece piece{stored, wanted, rows};
  std::vector<std::byte> out(layout.bytes_of(wanted.size()));
  join_rows(layout, std::span(&piece, 1), static_cast<std::int32_t>(kConversations), out);
  return out;
}

// A source whose cells do not lie in one run, saved whole and in pieces.
struct Saved {
  std::vector<std::byte> whole;
  std::vector<std::vector<std::byte>> pieces;
};

Result<Saved> save_from(Trial& source) {
  TRY(source.prefill(kFirst, range(0, 70)));
  TRY(source.prefill(kSecond, range(0, 40)));
  TRY(source.prefill(kFirst, range(70, 150)));
  Saved saved;
  TRY_ASSIGN(saved.whole, source.save(kFirst, range(0, 150)));
  for (const auto& [begin, end] : kPieces) {
    TRY_ASSIGN(auto bytes, source.save(kFirst, range(begin, end)));
    saved.pieces.push_back(std::move(bytes));
  }
  TRY_ASSIGN(const auto again, source.save(kFirst, range(0, 150)));
  if (again != saved.whole) return unsupported("saving rows changes them");
  TRY_ASSIGN(const auto other, source.save(kSecond, range(0, 40)));
  if (other == saved.pieces.front()) return unsupported("rows do not depend on tokens");
  return saved;
}

Status restore_pieces(Trial& target, const Saved& saved) {
  for (std::size_t i = 0; i < kPieces.size(); ++i) {
    const TokenRange tokens = range(kPieces[i].first, kPieces[i].second);
    const cache::RowPiece piece{tokens, tokens, saved.pieces[i]};
    TRY(target.rows().restore_rows(kSecond, std::span(&piece, 1)));
  }
  return {};
}

// Other pieces than stored, a cut at the end, and going on from there.
Status try_target(Trial& target, const Saved& saved) {
  TRY(restore_pieces(target, saved));
  TRY_ASSIGN(const auto back, target.save(kSecond, {Position{0}, kEnd}));
  if (back != saved.whole) return unsupported("restored rows differ from saved ones");
  if (!target.rows().truncate(kSecond, Position{100})) return unsupported("a sequence cannot be cut");
  TRY_ASSIGN(const auto head, target.save(kSecond, range(0, 100)));
  if (head != cut(target.layout(), saved.whole, {Position{0}, kEnd}, range(0, 100))) {
    return unsupported("cutting a sequence changes what stays");
  }
  TRY(target.rows().fork(kSecond, kFirst, Position{60}));
  TRY_ASSIGN(const auto forked, target.save(kFirst, range(0, 60)));
  if (forked != cut(target.layout(), saved.whole, {Position{0}, kEnd}, range(0, 60))) {
    return unsupported("a fork does not share rows");
  }
  TRY(target.prefill(kFirst, range(60, 130)));
  return target.prefill(kSecond, range(100, 130));
}

}  // namespace

std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape) {
  const char* flash = options.flash_attention == FlashAttention::kOff ? "off" : "auto";
  return {options.path, options.type_k, options.type_v, flash, std::string(to_string(shape))};
}

Status run_clone_trial(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) return invalid("a class test takes five arguments");
  start_library();
  ModelOptions options;
  options.type_k = arguments[1];
  options.type_v = arguments[2];
  options.flash_attention = arguments[3] == "off" ? FlashAttention::kOff : FlashAttention::kAuto;
  options.n_ctx = kContext;
  options.n_batch = kBatch;
  options.n_ubatch = kUbatch;
  options.threads = 1;
  const CloneShape shape = arguments[4] == to_string(CloneShape::kNarrow) ? CloneShape::kNarrow : CloneShape::kMatched;
  TRY_ASSIGN(const ModelHandle model, make_clone(arguments[0], shape));
  TRY_ASSIGN(Trial source, Trial::make(*model, options));
  TRY_ASSIGN(const Saved saved, save_from(source));
  TRY_ASSIGN(Trial target, Trial::make(*model, options));
  return try_target(target, saved);
}

}  // namespace kvkeep::engine::llama
