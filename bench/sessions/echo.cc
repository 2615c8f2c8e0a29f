#include "bench/sessions/echo.h"

#include <algorithm>
#include <utility>

#include "bench/sessions/canonical.h"

namespace kvkeep::bench {
namespace {

const char* turns_field(Dialect dialect) { return dialect == Dialect::kOpenAiResponses ? "input" : "messages"; }

// Returns null if the request has no list of turns.
const Json* turns_of(Dialect dialect, const Json& body) {
  if (dialect == Dialect::kOther || dialect == Dialect::kOpenAiCompletion) return nullptr;
  const Json* turns = field(body, turns_field(dialect));
  return turns != nullptr && turns->is_array() ? turns : nullptr;
}

bool is_assistants(const Json& turn) {
  const std::string type = text_field(turn, "type");
  return text_field(turn, "role") == "assistant" || type == "function_call" || type == "reasoning";
}

// Items of one Responses turn are consecutive; in the other dialects a turn is one message.
std::size_t length_of_turn(Dialect dialect, const Json& turns, std::size_t begin) {
  std::size_t end = begin;
  const std::size_t most = dialect == Dialect::kOpenAiResponses ? turns.size() : std::min(turns.size(), begin + 1);
  while (end < most && is_assistants(turns[end])) ++end;
  return end - begin;
}

// The ids of the tool calls in an assistant's turn.
std::vector<Json*> call_ids(Json& turns) {
  std::vector<Json*> ids;
  const auto collect = [&](Json& call, const char* name) {
    if (call.is_object()) ids.push_back(&call[name]);
  };
  for (Json& turn : turns) {
    if (text_field(turn, "type") == "function_call") collect(turn, "call_id");
    if (field(turn, "tool_calls") != nullptr) {
      for (Json& call : turn["tool_calls"]) collect(call, "id");
    }
    if (const Json* content = field(turn, "content"); content == nullptr || !content->is_array()) continue;
    for (Json& block : turn["content"]) {
      if (text_field(block, "type") == "tool_use") collect(block, "id");
    }
  }
  return ids;
}

bool is_reasoning(const Json& block) {
  const std::string type = text_field(block, "type");
  return type == "thinking" || type == "redacted_thinking" || type == "reasoning";
}

bool has_reasoning(const Json& turns) {
  return std::ranges::any_of(turns, [](const Json& turn) {
    if (is_reasoning(turn) || field(turn, "reasoning_content") != nullptr) return true;
    const Json* content = field(turn, "content");
    return content != nullptr && content->is_array() && std::ranges::any_of(*content, is_reasoning);
  });
}

void drop_reasoning_from(Json& list) {
  Json rest = Json::array();
  for (Json& one : list) {
    if (!is_reasoning(one)) rest.push_back(std::move(one));
  }
  list = std::move(rest);
}

void drop_reasoning(Json& turns) {
  drop_reasoning_from(turns);
  for (Json& turn : turns) {
    if (!turn.is_object()) continue;
    turn.erase("reasoning_content");
    if (const auto content = turn.find("content"); content != turn.end() && content->is_array())
      drop_reasoning_from(*content);
  }
}

// Servers refuse turns without content.
bool says_nothing(const Json& turns) {
  return std::ranges::all_of(turns, [](const Json& turn) {
    const Json* content = field(turn, "content");
    const bool empty = content == nullptr || content->empty() || *content == "";
    return empty && field(turn, "tool_calls") == nullptr && text_field(turn, "type") != "function_call";
  });
}

// Returns `reply` as the client would send it in place of `recorded`, or nullopt if the two do not align.
std::optional<Json> in_place_of(Json recorded, Json reply) {
  if (!has_reasoning(recorded)) drop_reasoning(reply);
  const std::vector<Json*> theirs = call_ids(recorded);
  const std::vector<Json*> ours = call_ids(reply);
  if (theirs.size() != ours.size() || says_nothing(reply)) return std::nullopt;
  for (std::size_t i = 0; i < ours.size(); ++i) *ours[i] = *theirs[i];
  return std::optional<Json>(std::in_place, std::move(reply));
}

Json slice(const Json& turns, std::size_t begin, std::size_t length) {
  Json out = Json::array();
  for (std::size_t i = begin; i < begin + length; ++i) out.push_back(turns[i]);
  return out;
}

}  // namespace

const Echo::Answered* Echo::origin_of(Dialect dialect, const std::string& text) const {
  const Answered* longest = nullptr;
  for (const Answered& one : answered_) {
    const bool goes_on = one.dialect == dialect && one.text.size() < text.size() && text.starts_with(one.text);
    if (goes_on && (longest == nullptr || one.text.size() >= longest->text.size())) longest = &one;
  }
  return longest;
}

std::vector<Echo::Replacement> Echo::replacements_for(Dialect dialect, const std::string& text,
                                                      const Json& turns) const {
  const Answered* origin = origin_of(dialect, text);
  if (origin == nullptr || origin->turns > turns.size()) return {};
  std::vector<Replacement> replacements = origin->replacements;
  const std::size_t length = length_of_turn(dialect, turns, origin->turns);
  if (length == 0) return replacements;
  const Json recorded = slice(turns, origin->turns, length);
  std::optional<Json> reply = in_place_of(recorded, origin->reply);
  const bool fits = reply.has_value();
  replacements.push_back({origin->turns, length, fits ? std::move(*reply) : recorded, fits});
  return replacements;
}

Json Echo::body_for(const RecordedRequest& request) {
  const Dialect dialect = dialect_of(request.method, request.path);
  const Json* turns = turns_of(dialect, request.body);
  if (turns == nullptr) return request.body;
  const auto replacements = replacements_for(dialect, canonical_text(dialect, request.body), *turns);
  Json sent = Json::array();
  std::size_t next = 0;
  for (const Replacement& one : replacements) {
    for (; next < one.begin; ++next) sent.push_back((*turns)[next]);
    sent.insert(sent.end(), one.turns.begin(), one.turns.end());
    next += one.length;
  }
  for (; next < turns->size(); ++next) sent.push_back((*turns)[next]);
  if (!replacements.empty()) ++(replacements.back().fits ? replaced_ : kept_);
  Json body = request.body;
  body[turns_field(dialect)] = std::move(sent);
  return body;
}

void Echo::remember(const RecordedRequest& request, const Json& message) {
  const Dialect dialect = dialect_of(request.method, request.path);
  const Json* turns = turns_of(dialect, request.body);
  if (turns == nullptr || message.is_null()) return;
  std::string text = canonical_text(dialect, request.body);
  auto replacements = replacements_for(dialect, text, *turns);
  Json reply = message.is_array() ? message : Json::array({message});
  answered_.push_back({dialect, std::move(text), turns->size(), std::move(replacements), std::move(reply)});
}

}  // namespace kvkeep::bench
