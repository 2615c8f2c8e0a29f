#include "server/routes/exact_replay.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "chat/text_streams.h"
#include "chat/tokenize.h"
#include "chat/tools/reply_parser.h"
#include "chat/turns.h"

namespace kvkeep::server {
namespace {

using chat::tools::DeltaKind;
using nlohmann::ordered_json;

// Longer turns are not read.
constexpr std::size_t kMostTurnTokens = 1 << 18;
// A thought to render, to see whether the template would write it.
constexpr const char* kSomeThought = "kvkeepsomethought";

// Collects the meaning of a turn.
class ReplayReading {
 public:
  void add(const chat::tools::ReplyDelta& delta) {
    const bool goes_on = std::exchange(last_, delta.kind) == delta.kind;
    switch (delta.kind) {
      case DeltaKind::kText: append(meaning_.text, meaning_.text_breaks, delta.text, goes_on); break;
      case DeltaKind::kReasoning: append(meaning_.reasoning, meaning_.reasoning_breaks, delta.text, goes_on); break;
      case DeltaKind::kCallBegin:
        meaning_.calls.push_back({delta.call_name, chat::read_arguments("")});  // until the call ends, it equals none
        arguments_.clear();
        break;
      case DeltaKind::kCallArguments: arguments_ += delta.text; break;
      case DeltaKind::kCallEnd: meaning_.calls.back().arguments = chat::read_arguments(arguments_); break;
    }
  }
  chat::TurnMeaning take() { return std::move(meaning_); }

 private:
  static void append(std::string& text, std::vector<std::size_t>& breaks, const std::string& more, bool goes_on) {
    if (!goes_on && !text.empty()) breaks.push_back(text.size());
    text += more;
  }

  chat::TurnMeaning meaning_;
  std::string arguments_;
  std::optional<DeltaKind> last_;
};

std::optional<chat::TurnMeaning> read_turn(const Service& service, const chat::tools::ToolSet& tools, TokenSpan ids,
                                           std::string_view behind) {
  if (ids.size() > kMostTurnTokens) return std::nullopt;
  chat::tools::ReplyParser parser(service.reply_format, tools, {.calls = true});
  chat::Utf8Stream utf8;
  ReplayReading reading;
  const auto add = [&](const std::vector<chat::tools::ReplyDelta>& deltas) {
    for (const auto& delta : deltas) reading.add(delta);
  };
  for (const TokenId id : ids) {
    if (service.vocabulary->is_end_of_generation(id)) return std::nullopt;  // more than one turn
    const bool is_marker = service.markers->contains(id);
    const std::string piece = service.vocabulary->piece(id, true);
    if (is_marker) add(parser.feed(utf8.finish(), false));
    add(parser.feed(is_marker ? piece : utf8.feed(piece), is_marker));
  }
  add(parser.feed(utf8.finish() + std::string(behind), false));
  add(parser.finish());
  return reading.take();
}

// Clients that got thoughts as text send them back as text.
bool has_thoughts(const ordered_json& content, const std::string& close) {
  if (close.empty()) return false;
  if (content.is_string()) return content.get_ref<const std::string&>().find(close) != std::string::npos;
  if (!content.is_array()) return false;
  return std::ranges::any_of(content, [&](const ordered_json& part) {
    return part.is_object() && part.contains("text") && has_thoughts(part["text"], close);
  });
}

std::vector<chat::EchoedMessage> echoed_messages(const ordered_json& messages, const std::string& close) {
  std::vector<chat::EchoedMessage> echoed;
  for (const ordered_json& message : messages) {
    if (message.value("role", "") != "assistant") continue;
    chat::EchoedMessage one;
    const auto reasoning = message.find("reasoning_content");
    const bool sent = reasoning != message.end() && reasoning->is_string() && !reasoning->get<std::string>().empty();
    one.has_reasoning = sent || (message.contains("content") && has_thoughts(message["content"], close));
    if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array()) {
      for (const ordered_json& call : *calls) {
        const auto id = call.find("id");
        one.call_ids.push_back(id != call.end() && id->is_string() ? id->get<std::string>() : std::string());
      }
    }
    echoed.push_back(std::move(one));
  }
  return echoed;
}

// Puts each thought into the assistant's message that it belongs to.
chat::RenderInput with_thoughts(chat::RenderInput input, const std::vector<chat::Replayed::Thought>& thoughts) {
  std::size_t number = 0;
  auto thought = thoughts.begin();
  for (ordered_json& message : input.messages) {
    if (message.value("role", "") != "assistant") continue;
    if (thought != thoughts.end() && thought->message == number) {
      message["reasoning_content"] = thought->text;
      ++thought;
    }
    ++number;
  }
  return input;
}

// Turns a prompt as it was rendered into one as it was sampled. Renders the messages at most twice more, however many
// there are: to see where the template would write thinking, and with the thoughts that belong there.
class Replaying {
 public:
  Replaying(const Service& service, const chat::RenderInput& input, const Render& render, const Tenant& tenant)
      : service_(service),
        key_(prefix_key(service.fingerprint, tenant)),
        input_(input),
        render_(render),
        tools_(input.tools),
        messages_(echoed_messages(input.messages, service.reply_format.thinking_close.spelling())) {}

  Prompt run(Prompt rendered) {
    chat::Replayed replayed = replay_learning(rendered.ids);
    if (replayed.lacks_thoughts && learn_where_thoughts_are_written()) {
      const std::vector<chat::Replayed::Thought> thoughts = replay(rendered.ids).thoughts;
      // With its thoughts the prompt may be too long for the context.
      if (auto again = thoughts.empty() ? std::nullopt : render(thoughts)) {
        for (chat::EchoedMessage& message : messages_) message.would_have_reasoning = false;
        chat::Replayed with = replay(again->ids);
        if (with.matched > replayed.matched) {
          replayed = std::move(with);
          rendered = *std::move(again);
        }
      }
    }
    move_parts(rendered, replayed.ids);
    rendered.ids = std::move(replayed.ids);
    rendered.tokens_min = rendered.ids.size();
    return rendered;
  }

 private:
  // Turns that another server sampled may be in the shared tier. Where turns are replaced, the places of those after
  // them are others, so it is asked twice.
  chat::Replayed replay_learning(TokenSpan ids) const {
    chat::Replayed replayed = replay(ids);
    for (int round = 0; round < 2 && service_.turns->shares(); ++round) {
      if (!service_.turns->learn(places_of(replayed.ids))) break;
      replayed = replay(ids);
    }
    return replayed;
  }

  // The hashes under which the turns of a prompt would be remembered, without the one that it opens.
  std::vector<PrefixHash> places_of(TokenSpan prompt) const {
    std::vector<PrefixHash> places;
    std::vector<Position> openings = chat::find_turns(prompt, service_.turn_openings).assistant;
    if (!openings.empty()) openings.pop_back();
    PrefixHasher hasher(key_);
    for (const Position at : openings) {
      hasher.append(prompt.subspan(hasher.position().value(), at - hasher.position()));
      places.push_back(hasher.current());
    }
    return places;
  }

  // The answers have other ids now; they begin and end as before.
  void move_parts(Prompt& rendered, TokenSpan replayed) const {
    if (rendered.parts == nullptr || std::ranges::equal(rendered.ids, replayed)) return;
    auto moved = std::make_shared<PromptParts>(*rendered.parts);
    const auto turns = [&](TokenSpan ids) {
      const chat::PromptTurns found = chat::find_turns(ids, service_.turn_openings);
      std::vector<Position> all;
      std::ranges::merge(found.user, found.assistant, std::back_inserter(all));
      return all;
    };
    chat::move_parts(*moved, turns(rendered.ids), turns(replayed), Position{} + replayed.size());
    rendered.parts = std::move(moved);
  }

  chat::Replayed replay(TokenSpan ids) const {
    const chat::EndsGeneration ends = [&](TokenId id) { return service_.vocabulary->is_end_of_generation(id); };
    return chat::replay_turns(
        {ids, service_.turn_openings, *service_.markers, ends, key_, messages_},
        [&](const PrefixHash& before) { return service_.turns->find(before); },
        [&](TokenSpan turn, std::string_view behind) { return read_turn(service_, tools_, turn, behind); });
  }

  std::optional<Prompt> render(const std::vector<chat::Replayed::Thought>& thoughts) const {
    Result<Prompt> again = render_(with_thoughts(input_, thoughts));  // the template may refuse the messages
    if (!again || again->ids.empty() || again->ids.size() >= service_.context_tokens) return std::nullopt;
    return *std::move(again);
  }

  // Tries messages that were sent without thoughts. Returns false if the template writes thoughts in none of them.
  bool learn_where_thoughts_are_written() {
    std::vector<chat::Replayed::Thought> some;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (!messages_[i].has_reasoning) some.push_back({i, kSomeThought});
    }
    const auto prompt = render(some);
    if (!prompt) return false;
    const std::vector<Position> openings = chat::find_turns(prompt->ids, service_.turn_openings).assistant;
    if (openings.size() != messages_.size() + 1) return false;
    bool any = false;
    for (const chat::Replayed::Thought& thought : some) {
      const TokenSpan ids = TokenSpan(prompt->ids).first(openings[thought.message + 1].value());
      messages_[thought.message].would_have_reasoning = thinks(ids.subspan(openings[thought.message].value()));
      any = any || messages_[thought.message].would_have_reasoning;
    }
    return any;
  }

  // `ids`: a turn from its opening on, and everything after it.
  bool thinks(TokenSpan ids) const {
    const auto ends = [&](TokenId id) { return service_.vocabulary->is_end_of_generation(id); };
    ids = ids.subspan(chat::answer_opening_size(ids, service_.turn_openings));
    ids = ids.first(static_cast<std::size_t>(std::ranges::find_if(ids, ends) - ids.begin()));
    const auto meaning = read_turn(service_, tools_, ids, "");
    return meaning && meaning->reasoning.find(kSomeThought) != std::string::npos;
  }

  const Service& service_;
  const FingerprintHash key_;
  const chat::RenderInput& input_;
  const Render& render_;
  const chat::tools::ToolSet tools_;
  std::vector<chat::EchoedMessage> messages_;
};

}  // namespace

bool may_replay(const Service& service, const chat::RenderInput& input) {
  return service.turns != nullptr && !service.turn_openings.assistant.empty() && input.add_generation_prompt;
}

Prompt replay_sampled(const Service& service, const chat::RenderInput& input, Prompt rendered, const Render& render,
                      const Tenant& tenant) {
  return Replaying(service, input, render, tenant).run(std::move(rendered));
}

TurnRecorder::TurnRecorder(const Service& service, TokenSpan prompt, const Tenant& tenant) : service_(service) {
  if (service.turns == nullptr) return;
  const auto open = chat::open_turn(prompt, service.turn_openings, prefix_key(service.fingerprint, tenant));
  if (!open) return;
  const TokenSpan opening = prompt.subspan(open->begin.value());
  const auto ends = [&](TokenId id) { return service_.vocabulary->is_end_of_generation(id); };
  if (std::ranges::any_of(opening, ends)) return;  // an earlier answer's opening: the prompt opens none for this answer
  before_ = open->before;
  turn_.ids.assign(opening.begin(), opening.end());
  prompt_tokens_ = opening.size();
}

void TurnRecorder::add_token(TokenId token) {
  if (before_) turn_.ids.push_back(token);
}

void TurnRecorder::add_call(std::string id) {
  if (before_) turn_.call_ids.push_back(std::move(id));
}

void TurnRecorder::finish(const std::string& stop_string) {
  const bool known = before_ && (stop_string.empty() || cut_before(stop_string));
  if (known && turn_.ids.size() > prompt_tokens_) service_.turns->remember(*before_, std::move(turn_));
  before_.reset();
}

// The client got the text before the stop string. If that text ends within a token, the token's first part is tokenized
// as text.
bool TurnRecorder::cut_before(const std::string& stop_string) {
  std::string text;
  std::vector<std::size_t> ends;  // of the sampled tokens' texts
  for (const TokenId id : TokenSpan(turn_.ids).subspan(prompt_tokens_)) {
    text += service_.vocabulary->piece(id, true);
    ends.push_back(text.size());
  }
  const std::size_t stop = text.find(stop_string);
  if (stop == std::string::npos) return false;  // found in text that differs from the sampled text: broken UTF-8
  const auto whole = static_cast<std::size_t>(std::ranges::upper_bound(ends, stop) - ends.begin());
  const std::size_t kept = whole == 0 ? 0 : ends[whole - 1];
  turn_.ids.resize(prompt_tokens_ + whole);
  const std::string rest = text.substr(kept, stop - kept);
  if (!chat::is_valid_utf8(rest)) return false;
  const auto ids = chat::tokenize_plain(*service_.vocabulary, *service_.markers, rest);
  if (ids) turn_.ids.insert(turn_.ids.end(), ids->begin(), ids->end());
  return ids.ok();
}

}  // namespace kvkeep::server
