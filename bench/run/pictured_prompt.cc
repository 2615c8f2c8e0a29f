#include "bench/run/pictured_prompt.h"

#include <fmt/format.h>

#include <functional>

#include "bench/sessions/json_fields.h"
#include "bench/workloads/pictures.h"

namespace kvkeep::bench {
namespace {

constexpr char kPicture[] = "picture";  // the type of a part that has only a name

// Stands for the picture with that number while a template prints the messages. The workloads' words have no digits.
std::string word_of(std::size_t number) { return fmt::format("kvkeepbench{}picture", number); }

// Returns the messages without parts that name pictures: each is what `shown` makes of its name and its text.
Json shown_as(const Json& messages, const std::function<Json(const std::string& name, const Json& text)>& shown) {
  Json all = Json::array();
  for (const Json& message : messages) {
    all.push_back(message);
    const Json* content = field(message, "content");
    if (content == nullptr || !content->is_object()) continue;
    all.back()["content"] = shown(text_field(*content, kPicture), *field(*content, "text"));
  }
  return all;
}

}  // namespace

Json picture_message(std::string_view picture, std::string_view text) {
  return {{"role", "user"}, {"content", {{kPicture, picture}, {"text", text}}}};
}

Json with_files(const Json& messages) {
  return shown_as(messages, [](const std::string& name, const Json& text) {
    Json file = {{"type", "image_url"}, {"image_url", {{"url", picture_url(name)}}}};
    return Json::array({std::move(file), {{"type", "text"}, {"text", text}}});
  });
}

Result<PicturedPrompt> PicturedPrompt::read(ServerClient& client, const Json& messages) {
  PicturedPrompt prompt;
  const Json printed = shown_as(messages, [&](const std::string& name, const Json& text) -> Json {
    prompt.pictures_.push_back(name);
    return word_of(prompt.pictures_.size()) + text.get<std::string>();
  });
  TRY_ASSIGN(const std::string text, client.prompt_text(printed));
  std::size_t begin = 0;
  for (std::size_t number = 1; number <= prompt.pictures_.size(); ++number) {
    const std::string word = word_of(number);
    const std::size_t end = text.find(word, begin);
    if (end == std::string::npos) return unsupported(fmt::format("the template leaves out picture {}", number));
    TRY_ASSIGN(prompt.texts_.emplace_back(), client.tokenize_prompt(text.substr(begin, end - begin), number == 1));
    begin = end + word.size();
  }
  TRY_ASSIGN(prompt.texts_.emplace_back(), client.tokenize_prompt(text.substr(begin), prompt.pictures_.empty()));
  return prompt;
}

std::size_t PicturedPrompt::text_tokens() const {
  std::size_t tokens = 0;
  for (const std::vector<TokenId>& text : texts_) tokens += text.size();
  return tokens;
}

std::vector<TokenId> PicturedPrompt::ids(std::size_t picture_tokens) const {
  std::vector<TokenId> all = texts_.front();
  for (std::size_t i = 0; i < pictures_.size(); ++i) {
    const std::size_t hash = std::hash<std::string>()(pictures_[i]);
    for (std::size_t at = 0; at < picture_tokens; ++at) {
      all.push_back(-1 - static_cast<TokenId>((hash + at) % (std::size_t{1} << 30)));
    }
    all.insert(all.end(), texts_[i + 1].begin(), texts_[i + 1].end());
  }
  return all;
}

}  // namespace kvkeep::bench
