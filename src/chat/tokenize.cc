#include "chat/tokenize.h"

#include <algorithm>
#include <string>

namespace kvkeep::chat {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\f\v";

// The spellings in plain text that are cut.
enum class Cut { kWhereFormed, kEverywhere };

bool has_marker(const MarkerSet& markers, const std::vector<TokenId>& tokens) {
  return std::ranges::any_of(tokens, [&](TokenId token) { return markers.contains(token); });
}

Result<std::vector<TokenId>> tokenize_cut(const Vocabulary& vocabulary, const MarkerSet& markers, std::string_view text,
                                          Cut cut) {
  std::vector<TokenId> tokens;
  std::size_t piece_begin = 0;
  const auto append = [&](std::size_t end) {
    const std::string_view piece = text.substr(piece_begin, end - piece_begin);
    const auto ids = piece_begin == 0 ? vocabulary.tokenize_text(piece) : vocabulary.tokenize_continuation(piece);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    piece_begin = end;
  };
  std::size_t at = 0;
  while (const auto match = markers.next(text, at)) {
    at = match->end;
    const Marker& marker = *match->marker;
    if (!marker.forms_from_text && cut == Cut::kWhereFormed) continue;
    if (marker.forms_from_text && marker.split_at == 0) {
      return unsupported("this model cannot read '" + marker.spelling + "' as text");
    }
    append(match->begin + std::max<std::size_t>(marker.split_at, 1));
  }
  append(text.size());
  return tokens;
}

std::string_view strip_before(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view strip_after(std::string_view text) { return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1); }

// Builds the ids of one prompt; holds text back until it reaches the marker after it.
class Assembler {
 public:
  Assembler(const MarkerSet& markers, const TokenizePiece& tokenize_piece, const MediaIds& media_ids)
      : markers_(markers), tokenize_piece_(tokenize_piece), media_ids_(media_ids) {}

  Status add(const PromptSpan& span) {
    if (span.kind == SpanKind::kMedia) return add_media(span.number);
    if (span.kind != SpanKind::kMarker) {
      text_ += span.text;
      return {};
    }
    const Marker* marker = markers_.find(span.marker);
    TRY(flush(marker != nullptr && marker->strips_before));
    tokens_.push_back(span.marker);
    strip_next_ = marker != nullptr && marker->strips_after;
    return {};
  }

  Status flush(bool strip_end) {
    std::string_view text = text_;
    if (strip_next_) text = strip_before(text);
    if (strip_end) text = strip_after(text);
    if (!text.empty()) {
      TRY_ASSIGN(const std::vector<TokenId> ids, tokenize_piece_(text));
      tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    }
    strip_next_ = false;
    text_.clear();
    return {};
  }

  Status add_media(std::size_t number) {
    TRY(flush(/*strip_end=*/false));
    TRY_ASSIGN(const std::vector<TokenId> ids, media_ids_(number));
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
    return {};
  }

  std::vector<TokenId> take() { return std::move(tokens_); }

 private:
  const MarkerSet& markers_;
  const TokenizePiece& tokenize_piece_;
  const MediaIds& media_ids_;
  std::vector<TokenId> tokens_;
  std::string text_;
  bool strip_next_ = false;
};

}  // namespace

Result<std::vector<TokenId>> tokenize_plain(const Vocabulary& vocabulary, const MarkerSet& markers,
                                            std::string_view text) {
  TRY_ASSIGN(std::vector<TokenId> tokens, tokenize_cut(vocabulary, markers, text, Cut::kWhereFormed));
  if (!has_marker(markers, tokens)) return tokens;
  // A merge with neighbouring text made the marker (seen with SentencePiece vocabularies): cut every spelling.
  TRY_ASSIGN(tokens, tokenize_cut(vocabulary, markers, text, Cut::kEverywhere));
  if (has_marker(markers, tokens)) return unsupported("this model cannot read a special token's spelling as text");
  return tokens;
}

Result<std::vector<TokenId>> tokenize_prompt(const Vocabulary& vocabulary, const MarkerSet& markers,
                                             const RenderedPrompt& prompt, const TokenizePiece& tokenize_piece,
                                             const MediaIds& media_ids) {
  Assembler assembler(markers, tokenize_piece, media_ids);
  for (const PromptSpan& span : prompt.spans) TRY(assembler.add(span));
  TRY(assembler.flush(/*strip_end=*/false));
  std::vector<TokenId> tokens = assembler.take();
  const auto bos = vocabulary.bos();
  if (vocabulary.add_bos() && bos && (tokens.empty() || tokens.front() != *bos)) tokens.insert(tokens.begin(), *bos);
  return tokens;
}

Result<std::vector<TokenId>> tokenize_prompt(const Vocabulary& vocabulary, const MarkerSet& markers,
                                             const RenderedPrompt& prompt) {
  return tokenize_prompt(vocabulary, markers, prompt,
                         [&](std::string_view text) { return tokenize_plain(vocabulary, markers, text); });
}

}  // namespace kvkeep::chat
