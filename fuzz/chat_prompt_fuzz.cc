// Conversations through real templates to token ids: markers are where the template's own words spell them, and nowhere
// else. The first byte chooses the template, the rest is the body of a chat request.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/render.h"
#include "chat/tokenize.h"
#include "request_checks.h"
#include "server/api/openai/chat.h"

namespace kvkeep::chat {
namespace {

// A template and a vocabulary with all that looks like a marker in it.
struct Model {
  explicit Model(const std::string& source) : vocabulary(specials_of(source)), markers(vocabulary, source) {
    auto made = make_chat_template(source, {.bos = "<s>", .eos = "</s>"});
    KVKEEP_ASSERT(made, "the templates of the tests parse");
    chat_template = std::move(made).value();
  }

  static std::vector<SpecialToken> specials_of(std::string_view source) {
    std::set<std::string> spellings;
    for (std::size_t at = source.find('<'); at != std::string_view::npos; at = source.find('<', at + 1)) {
      const std::size_t end = source.find('>', at);
      if (end == std::string_view::npos || end - at > 40) continue;
      const std::string_view spelling = source.substr(at, end + 1 - at);
      if (spelling.find_first_of(" '\"\\{}\n", 1) == std::string_view::npos) spellings.emplace(spelling);
    }
    std::vector<SpecialToken> tokens = FakeVocabulary::standard_special();
    for (const SpecialToken& token : tokens) spellings.erase(token.spelling);
    for (const std::string& spelling : spellings) tokens.push_back({.id = 0, .spelling = spelling, .control = true});
    return tokens;
  }

  FakeVocabulary vocabulary;
  MarkerSet markers;
  std::unique_ptr<ChatTemplate> chat_template;
};

const Model& model(std::size_t number) {
  static const std::vector<std::unique_ptr<Model>> models = [] {
    std::map<std::string, std::string> sources;  // in a fixed order
    for (const auto& entry : std::filesystem::directory_iterator(KVKEEP_TEMPLATES)) {
      std::ifstream file(entry.path());
      sources[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
    }
    std::vector<std::unique_ptr<Model>> made;
    for (const auto& [name, source] : sources) made.push_back(std::make_unique<Model>(source));
    return made;
  }();
  return *models[number % models.size()];
}

void check(const Model& one, const RenderInput& input) {
  const auto prompt = render_prompt(*one.chat_template, one.markers, input);
  if (!prompt) return fuzz::check_refusal(prompt.error());
  std::vector<TokenId> expected;
  for (const PromptSpan& span : prompt->spans) {
    if (span.kind != SpanKind::kMarker) continue;
    const Marker* marker = one.markers.find(span.marker);
    KVKEEP_ASSERT(marker != nullptr && marker->spelling == span.text, "a marker is one");
    expected.push_back(span.marker);
  }
  const auto ids = tokenize_prompt(one.vocabulary, one.markers, *prompt);
  if (!ids) return fuzz::check_refusal(ids.error());
  std::vector<TokenId> found;
  for (const TokenId id : *ids) {
    if (one.markers.contains(id)) found.push_back(id);
  }
  KVKEEP_ASSERT(found == expected, "no text becomes a marker");
  KVKEEP_ASSERT(one.vocabulary.text_of(*ids, true) == prompt->text(), "the ids spell the prompt");
}

}  // namespace
}  // namespace kvkeep::chat

KVKEEP_FUZZ_TARGET(chat_prompt)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  fuzz::Input input(data, size);
  const auto number = input.number<std::uint8_t>();
  const auto request = server::api::parse_chat(std::string(fuzz::text_of(input.rest())), fuzz::request_defaults());
  if (request) chat::check(chat::model(number), std::get<chat::RenderInput>(request->prompt));
  return 0;
}
