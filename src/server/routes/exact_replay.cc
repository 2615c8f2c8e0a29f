#include "server/routes/exact_replay.h"

#include <algorithm>
#include <utility>

#include "chat/tokenize.h"
#include "chat/tools/reply_parser.h"
#include "chat/utf8_stream.h"

namespace kvkeep::server {
namespace {

using chat::tools::DeltaKind;
using nlohmann::ordered_json;

// Longer turns are not read.
constexpr std::size_t kMostTurnTokens = 1 << 18;
// With thoughts that clients left out; each costs as much as the first.
constexpr int kMostRenders = 4;

void add_delta(chat::TurnMeaning& meaning, const chat::tools::ReplyDelta& delta, std::string& arguments) {
  switch (delta.kind) {
    case DeltaKind::kText: meaning.text += delta.text; break;
    case DeltaKind::kReasoning: meaning.reasoning += delta.text; break;
    case DeltaKind::kCallBegin:
      meaning.calls.push_back({delta.call_name, chat::read_arguments("")});  // until it ends, it equals nothing
      arguments.clear();
      break;
    case DeltaKind::kCallArguments: arguments += delta.text; break;
    case DeltaKind::kCallEnd: meaning.calls.back().arguments = chat::read_arguments(arguments); break;
  }
}

std::optional<chat::TurnMeaning> read_turn(const Service& service, const chat::tools::ToolSet& tools, TokenSpan ids,
                                           std::string_view behind) {
  if (ids.size() > kMostTurnTokens) return std::nullopt;
  chat::tools::ReplyParser parser(service.reply_format, tools, {.calls = true});
  chat::Utf8Stream utf8;
  chat::TurnMeaning meaning;
  std::string arguments;
  const auto add = [&](const std::vector<chat::tools::ReplyDelta>& deltas) {
    for (const auto& delta : deltas) add_delta(meaning, delta, arguments);
  };
  for (const TokenId id : ids) {
    if (service.vocabulary->is_end_of_generation(id)) return std::nullopt;  // the end of one turn, and more
    const bool is_marker = service.markers->contains(id);
    const std::string piece = service.vocabulary->piece(id, true);
    if (is_marker) add(parser.feed(utf8.finish(), false));
    add(parser.feed(is_marker ? piece : utf8.feed(piece), is_marker));
  }
  add(parser.feed(utf8.finish() + std::string(behind), false));
  add(parser.finish());
  return meaning;
}

// Clients that were told thoughts as text send them back as text.
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

// The messages with the thinking that their client left out.
void give_back(ordered_json& messages, const std::vector<chat::Replayed::Thought>& thoughts) {
  std::size_t number = 0;
  auto thought = thoughts.begin();
  for (ordered_json& message : messages) {
    if (message.value("role", "") != "assistant") continue;
    if (thought != thoughts.end() && thought->message == number) {
      message["reasoning_content"] = thought->text;
      ++thought;
    }
    ++number;
  }
}

}  // namespace

bool may_replay(const Service& service, const chat::RenderInput& input) {
  return service.turns != nullptr && !service.turn_openings.assistant.empty() && input.add_generation_prompt;
}

Result<Prompt> replay_sampled(const Service& service, const chat::RenderInput& input, Prompt rendered,
                              const Render& render) {
  const chat::tools::ToolSet tools(input.tools);
  auto messages = echoed_messages(input.messages, service.reply_format.thinking_close.spelling());
  const chat::EndsGeneration ends = [&](TokenId id) { return service.vocabulary->is_end_of_generation(id); };
  const auto replay = [&](TokenSpan ids, chat::Missing missing) {
    return chat::replay_turns(
        {ids, service.turn_openings, *service.markers, ends, service.turn_key, messages},
        [&](const PrefixHash& before) { return service.turns->find(before); },
        [&](TokenSpan turn, std::string_view behind) { return read_turn(service, tools, turn, behind); }, missing);
  };
  chat::Replayed best;
  chat::RenderInput changed = input;
  Prompt tried = rendered;
  // A thought that the template leaves out of history still stood before the turns sampled behind it, and another
  // stands where nothing is left out any more: so thoughts are given back until none is found missing.
  for (int renders = 0;; ++renders) {
    chat::Replayed replayed = replay(tried.ids, chat::Missing::kTell);
    const std::vector<chat::Replayed::Thought> thoughts = std::move(replayed.thoughts);
    if (!thoughts.empty()) replayed = replay(tried.ids, chat::Missing::kFinal);
    if (renders == 0 || replayed.matched > best.matched) {
      best = std::move(replayed);
      rendered = tried;
    }
    if (thoughts.empty() || renders == kMostRenders) break;
    give_back(changed.messages, thoughts);
    for (const chat::Replayed::Thought& thought : thoughts) messages[thought.message].has_reasoning = true;
    Result<Prompt> again = render(changed);
    // With its thinking the template may refuse it, or it may be too long for the context.
    if (!again || again->ids.empty() || again->ids.size() >= service.context_tokens) break;
    tried = *std::move(again);
  }
  rendered.ids = std::move(best.ids);
  rendered.tokens_min = rendered.ids.size();
  rendered.replayed_turns = best.turns;
  return rendered;
}

TurnRecorder::TurnRecorder(const Service& service, TokenSpan prompt) : service_(service) {
  if (service.turns == nullptr) return;
  const auto open = chat::open_turn(prompt, service.turn_openings, service.turn_key);
  if (!open) return;
  const TokenSpan opening = prompt.subspan(open->begin.value());
  const auto ends = [&](TokenId id) { return service_.vocabulary->is_end_of_generation(id); };
  if (std::ranges::any_of(opening, ends)) return;  // an earlier answer's: the prompt opens none for this one
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

// The client was told what stands before the stop string. Where that ends within a token, the token's first part is
// text like any other.
bool TurnRecorder::cut_before(const std::string& stop_string) {
  std::string text;
  std::vector<std::size_t> ends;  // of the sampled tokens
  for (const TokenId id : TokenSpan(turn_.ids).subspan(prompt_tokens_)) {
    text += service_.vocabulary->piece(id, true);
    ends.push_back(text.size());
  }
  const std::size_t stop = text.find(stop_string);
  if (stop == std::string::npos) return false;  // it was found in text that is not what was sampled: broken UTF-8
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
