#include "server/routes/rerank_prompt.h"

#include <algorithm>
#include <utility>

#include "chat/tokenize.h"

namespace kvkeep::server {
namespace {

constexpr std::string_view kQuery = "{query}";
constexpr std::string_view kDocument = "{document}";

// The template's own words, in which spellings of markers are markers.
void add_words(std::string_view words, const chat::MarkerSet& markers, chat::RenderedPrompt& prompt) {
  std::size_t at = 0;
  while (const auto match = markers.next(words, at)) {
    if (match->begin > at) prompt.spans.push_back({.text = std::string(words.substr(at, match->begin - at))});
    prompt.spans.push_back({chat::SpanKind::kMarker, match->marker->id, match->marker->spelling});
    at = match->end;
  }
  if (at < words.size()) prompt.spans.push_back({.text = std::string(words.substr(at))});
}

}  // namespace

RerankPrompt::RerankPrompt(engine::RerankFormat format, const Vocabulary& vocabulary, const chat::LongText& long_text)
    : format_(std::move(format)),
      vocabulary_(vocabulary),
      long_text_(long_text),
      markers_(vocabulary, format_.source) {}

Result<std::vector<TokenId>> RerankPrompt::ids(std::string_view query, std::string_view document,
                                               const std::function<bool()>& gone) const {
  if (!format_.source.empty()) return rendered(query, document, gone);
  std::vector<TokenId> ids = format_.before;
  const auto append = [&ids](const std::vector<TokenId>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  TRY_ASSIGN(const std::vector<TokenId> asked, plain(query, gone));
  append(asked);
  append(format_.between);
  TRY_ASSIGN(const std::vector<TokenId> answer, plain(document, gone));
  append(answer);
  append(format_.after);
  return ids;
}

Result<std::vector<TokenId>> RerankPrompt::plain(std::string_view text, const std::function<bool()>& gone) const {
  if (text.empty()) return std::vector<TokenId>{};
  return long_text_.in_parts(
      text, [this](std::string_view part) { return chat::tokenize_plain(vocabulary_, markers_, part); }, gone,
      chat::kPartBytes);
}

Result<std::vector<TokenId>> RerankPrompt::rendered(std::string_view query, std::string_view document,
                                                    const std::function<bool()>& gone) const {
  chat::RenderedPrompt prompt;
  std::string_view rest = format_.source;
  while (!rest.empty()) {
    const std::size_t asked = rest.find(kQuery);
    const std::size_t answer = rest.find(kDocument);
    const std::size_t next = std::min(asked, answer);
    add_words(rest.substr(0, next), markers_, prompt);
    if (next == std::string_view::npos) break;
    const bool is_query = next == asked;
    prompt.spans.push_back({chat::SpanKind::kMessageText, -1, std::string(is_query ? query : document)});
    rest.remove_prefix(next + (is_query ? kQuery : kDocument).size());
  }
  return chat::tokenize_prompt(vocabulary_, markers_, prompt, [&](std::string_view text) { return plain(text, gone); });
}

}  // namespace kvkeep::server
