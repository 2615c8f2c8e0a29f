#include "bench/run/pictured_prompt.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bench/run/contestant.h"
#include "bench/run/server_client.h"
#include "bench/sessions/json_fields.h"
#include "bench/workloads/pictures.h"

namespace kvkeep::bench {
namespace {

constexpr char kPicture[] = "picture";  // the type of a part that has only a name
constexpr TokenId kBeforePicture = -1;  // stands for the token that libmtmd puts before each picture

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
    if (picture_tokens > 0) all.push_back(kBeforePicture);
    for (std::size_t at = 1; at < picture_tokens; ++at) {
      all.push_back(kBeforePicture - 1 - static_cast<TokenId>((hash + at) % (std::size_t{1} << 30)));
    }
    all.insert(all.end(), texts_[i + 1].begin(), texts_[i + 1].end());
  }
  return all;
}

// ---- the time of a turn after known pictures ----

namespace {

constexpr std::size_t kPictures = 6;
constexpr std::uint32_t kContextTokens = 16'384;
constexpr std::uint32_t kSystemTokens = 900;
constexpr std::uint32_t kCaptionTokens = 30;  // of the text of a message with a picture
constexpr std::uint32_t kNewTokens = 150;     // of the turn that is measured, as in the workloads
constexpr Goal kAsFastAsText{.kind = Goal::Kind::kAtMost, .value = 1.1};

// A turn, asked again and again with new words.
struct KnownConversation {
  std::string name;
  Json messages = Json::array();
  std::uint64_t known_tokens = 0;  // of the prompt before the new words
  std::vector<double> ttft_ms = {};
};

class KnownPictures {
 public:
  KnownPictures(const KnownPicturesOptions& options, ServerClient& client,
                const std::function<void(std::size_t done, std::size_t of)>& progress)
      : options_(options), client_(client), progress_(progress) {}

  Result<std::vector<PartFigures>> measure() {
    KnownConversation shown{.name = "shown"};
    KnownConversation told{.name = "told"};
    TRY(fill(shown, 0));
    TRY_ASSIGN(const std::size_t picture_tokens, learn(shown));
    TRY(fill(told, picture_tokens));
    TRY(learn(told));
    std::vector<double> ratios;
    for (std::size_t pair = 0; pair < options_.pairs; ++pair) {
      // Both go first as often, so that what the first one leaves in caches of the processor favours neither.
      KnownConversation* const first = pair % 2 == 0 ? &shown : &told;
      TRY(ask(*first, pair));
      TRY(ask(first == &shown ? told : shown, pair));
      ratios.push_back(shown.ttft_ms.back() / told.ttft_ms.back());
    }
    const std::string turn = fmt::format("TTFT of a turn after {} known pictures", kPictures);
    return std::vector{summarize(turn, "ms", shown.ttft_ms),
                       summarize("TTFT of a turn after text of as many tokens", "ms", told.ttft_ms),
                       summarize(turn + " / after text of as many tokens", "ratio", std::move(ratios),
                                 options_.has_goal ? std::optional(kAsFastAsText) : std::nullopt)};
  }

 private:
  // Makes six turns, each with a picture, or with text of as many tokens if that number is given.
  Status fill(KnownConversation& conversation, std::size_t picture_tokens) {
    TRY_ASSIGN(const std::string system, client_.text("system", kSystemTokens));
    conversation.messages.push_back(chat_message("system", system));
    for (std::size_t i = 1; i <= kPictures; ++i) {
      TRY_ASSIGN(std::string words, client_.text(fmt::format("caption {}", i), kCaptionTokens));
      if (picture_tokens > 0) {
        TRY_ASSIGN(const std::string told, client_.text(fmt::format("told {}", i), picture_tokens));
        words = told + " " + words;
      }
      conversation.messages.push_back(picture_tokens > 0 ? chat_message("user", words)
                                                         : picture_message(fmt::format("known {}", i), words));
      conversation.messages.push_back(chat_message("assistant", "Seen."));
    }
    return {};
  }

  // Lets the server compute all of it; returns the tokens of a picture.
  Result<std::size_t> learn(KnownConversation& conversation) {
    TRY_ASSIGN(const PicturedPrompt prompt, PicturedPrompt::read(client_, conversation.messages));
    TRY_ASSIGN(const Exchange reply, send(conversation.messages, conversation.name + " learnt"));
    const std::uint64_t all = reply.facts.prompt_tokens.value_or(0);
    if (all <= prompt.text_tokens() && prompt.pictures() > 0) {
      return unsupported("the reply's prompt_tokens leave no room for pictures");
    }
    conversation.known_tokens = all;
    return prompt.pictures() == 0 ? 0 : (all - prompt.text_tokens()) / prompt.pictures();
  }

  Status ask(KnownConversation& conversation, std::size_t pair) {
    const std::string label = fmt::format("{} {}", conversation.name, pair);
    TRY_ASSIGN(const std::string words, client_.text(label, kNewTokens));
    Json messages = conversation.messages;
    messages.push_back(chat_message("user", words));
    TRY_ASSIGN(const Exchange reply, send(messages, label));
    // The prompt that taught the server ended with the opening of a reply, which stands elsewhere now.
    constexpr std::uint64_t kReplyOpening = 16;
    const std::uint64_t cached = reply.facts.cached_tokens.value_or(0);
    if (cached + kReplyOpening < conversation.known_tokens) {
      return unsupported(fmt::format("{}: {} tokens were known, not {}", label, cached, conversation.known_tokens));
    }
    conversation.ttft_ms.push_back(reply.ttft_ms);
    return {};
  }

  Result<Exchange> send(const Json& messages, const std::string& label) {
    Exchange reply = client_.chat(with_files(messages), 1);
    if (!reply.answered()) return unsupported(fmt::format("{}: {}", label, reply.failure()));
    progress_(++done_, 2 + 2 * options_.pairs);
    return reply;
  }

  const KnownPicturesOptions& options_;
  ServerClient& client_;
  const std::function<void(std::size_t done, std::size_t of)>& progress_;
  std::size_t done_ = 0;
};

}  // namespace

Result<std::vector<PartFigures>> measure_known_pictures(
    const BenchOptions& bench, const KnownPicturesOptions& options,
    const std::function<void(std::size_t done, std::size_t of)>& progress, Interrupt& interrupt) {
  Workload sizes;  // only of the context, which holds both conversations
  sizes.context_tokens = kContextTokens;
  TRY_ASSIGN(const Served served, Served::start(bench, sizes, {"--mmproj", bench.projector}, interrupt));
  TRY_ASSIGN(const auto client,
             ServerClient::make({.base_url = served.process->base_url(), .keeps_connection = true}, interrupt));
  KnownPictures pictures(options, *client, progress);
  auto figures = pictures.measure();
  TRY(interrupt.check());
  return figures;
}

}  // namespace kvkeep::bench
