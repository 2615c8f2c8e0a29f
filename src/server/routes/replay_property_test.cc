// Exact replay with real templates and the real reader: random conversations, whose turns are sampled in odd ways, end
// in every way, and come back in a client's words or edited. A naive rule, which knows the sampled tokens, judges them.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

#include "base/test_seed.h"
#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "server/routes/exact_replay.h"
#include "server/routes/prompt.h"
#include "server/routes/replay_service_test.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;

enum class End { kTemplates, kOther, kLength, kStop };

class Talk {
 public:
  Talk(const std::string& source, std::uint64_t seed) : random_(seed) {
    serve_template(service_, vocabulary_, source, chat::tools::detect_format(source), files_, executor_);
    EXPECT_FALSE(service_.turn_openings.assistant.empty());
  }

  // Adds a question, a turn sampled for it, and the next question, and checks that one's prompt.
  void turn() {
    messages_.push_back({{"role", "user"}, {"content", words() + "?"}});
    const std::vector<TokenId> asked = prompt_of(messages_, true);
    const std::string told = spaced(words());
    const bool odd = pick(6) == 0;  // a marker in the middle of a text
    const End end = static_cast<End>(pick(4));
    std::vector<TokenId> said = spelled(told);
    if (odd)
      said.insert(said.begin() + static_cast<std::ptrdiff_t>(said.size() / 2), *vocabulary_->id_of("<tool_call>"));
    record(asked, said, end);
    const bool edited = pick(4) == 0;
    std::string echo = vocabulary_->text_of(said, true);
    if (pick(2) == 0) echo = trimmed(echo);
    if (edited) echo += " really";
    messages_.push_back({{"role", "assistant"}, {"content", echo}});
    ordered_json next = messages_;
    next.push_back({{"role", "user"}, {"content", "next"}});
    check(asked, said, /*keeps_sampled=*/!edited && !odd, prompt_of(next, true), prompt_of(next, false));
  }

 private:
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  std::string words() {
    static const std::vector<std::string> kWords = {"hello", "the world", "call", "think", "a\nb", "<|", "user", "x"};
    std::string text;
    for (std::size_t count = pick(5) + 1; count > 0; --count) text += kWords[pick(kWords.size())] + " ";
    return trimmed(text) + std::to_string(++serial_);
  }
  std::string spaced(const std::string& text) {
    return std::string(pick(3), ' ') + text + std::string(pick(2), '\n') + std::string(pick(2), ' ');
  }
  static std::string trimmed(const std::string& text) {
    const std::size_t begin = text.find_first_not_of(" \n");
    return text.substr(begin, text.find_last_not_of(" \n") + 1 - begin);
  }
  // Sometimes as the tokenizer has it, sometimes one token per byte.
  std::vector<TokenId> spelled(const std::string& text) {
    if (pick(2) == 0) return vocabulary_->tokenize(text, {});
    std::vector<TokenId> ids;
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  std::vector<TokenId> prompt_of(const ordered_json& messages, bool replays) {
    std::unique_ptr<TurnKeeper> turns = std::move(service_.turns);
    if (replays) service_.turns = std::move(turns);
    chat::RenderInput input;
    input.messages = messages;
    api::PromptSource source = std::move(input);
    std::vector<TokenId> ids = read_prompt(service_, source).value().ids;
    if (!replays) service_.turns = std::move(turns);
    return ids;
  }
  void record(const std::vector<TokenId>& asked, const std::vector<TokenId>& said, End end) {
    TurnRecorder recorder(service_, asked);
    for (const TokenId id : said) recorder.add_token(id);
    if (end == End::kTemplates) recorder.add_token(*vocabulary_->id_of("<|im_end|>"));
    if (end == End::kOther) recorder.add_token(*vocabulary_->id_of("</s>"));
    if (end == End::kStop) {
      for (const char byte : std::string("STOP")) recorder.add_token(byte);
    }
    recorder.finish(end == End::kStop ? "STOP" : "");
  }
  // The naive rule: a turn that says the same is in the prompt as it was sampled, after the prompt that it answered,
  // with the template's end; outside turns of the assistant the prompt is the same as without replay.
  void check(const std::vector<TokenId>& asked, const std::vector<TokenId>& said, bool keeps_sampled,
             const std::vector<TokenId>& prompt, const std::vector<TokenId>& plain) {
    std::vector<TokenId> head = asked;
    head.insert(head.end(), said.begin(), said.end());
    head.push_back(*vocabulary_->id_of("<|im_end|>"));
    EXPECT_EQ(common_prefix(prompt, head) == head.size(), keeps_sampled) << vocabulary_->text_of(prompt, true);
    EXPECT_EQ(outside(prompt), outside(plain)) << "only turns of the assistant change";
    const TokenId marker = *vocabulary_->id_of("<tool_call>");
    EXPECT_EQ(std::ranges::count(prompt, marker), 0) << "a marker where the client knows text";
  }
  // The ids without those between an assistant's opening and the end after it.
  std::vector<TokenId> outside(const std::vector<TokenId>& ids) const {
    std::vector<TokenId> rest;
    const std::vector<TokenId>& opening = service_.turn_openings.assistant;
    for (std::size_t at = 0; at < ids.size(); ++at) {
      rest.push_back(ids[at]);
      const auto here = TokenSpan(ids).subspan(at);
      if (here.size() < opening.size() || !std::ranges::equal(here.first(opening.size()), opening)) continue;
      at += opening.size();
      while (at < ids.size() && !vocabulary_->is_end_of_generation(ids[at])) ++at;
      if (at < ids.size()) rest.push_back(ids[at]);
    }
    return rest;
  }

  std::mt19937_64 random_;
  int serial_ = 0;
  sim::SimFileSystem files_;
  sim::SimExecutor executor_;
  const std::shared_ptr<chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>();
  Service service_;
  ordered_json messages_ = ordered_json::array();
};

class ReplayProperties : public ::testing::TestWithParam<const char*> {};

TEST_P(ReplayProperties, ReturnedTurnsAreAsSampledAndNothingElseChanges) {
  std::ifstream file(std::string(KVKEEP_TEMPLATES) + "/" + GetParam());
  std::stringstream source;
  source << file.rdbuf();
  ASSERT_FALSE(source.str().empty());
  const std::uint64_t seed = test_seed();
  for (std::uint64_t story = 0; story < 40; ++story) {
    Talk talk(source.str(), seed + story);
    for (int turn = 0; turn < 6; ++turn) talk.turn();
    ASSERT_FALSE(HasFailure()) << "story " << story << " of seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ReplayProperties,
                         ::testing::Values("qwen3.jinja", "qwen3_coder.jinja", "hermes.jinja"));

}  // namespace
}  // namespace kvkeep::server
