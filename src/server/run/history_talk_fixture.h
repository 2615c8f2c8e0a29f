#pragma once

// Conversations as a chat template renders them, and the ways clients change them between requests.

#include <algorithm>
#include <vector>

#include "server/run/history_world_fixture.h"

namespace kvkeep::server {

inline constexpr TokenId kUserMarker = 1;
inline constexpr TokenId kAssistantMarker = 2;
inline constexpr TokenId kFirstTextToken = 10;

// Makes texts of which no two are alike. Copyable: histories that branch continue with different text.
class TextSource {
 public:
  Tokens next(std::size_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = kFirstTextToken + static_cast<TokenId>(random_() % 900);
    return tokens;
  }

 private:
  std::mt19937 random_{1};
};

struct Message {
  bool user = true;
  Tokens text;
};

struct Talk {
  Tokens system;
  std::vector<Message> messages;

  void user(Tokens text) { messages.push_back({true, std::move(text)}); }
  void assistant(Tokens text) { messages.push_back({false, std::move(text)}); }
  // The prompt, with the opening for the next answer. A turn's beginning is the end of the message before it.
  Ask ask(std::size_t reply_tokens) const {
    Ask asked;
    asked.reply_tokens = reply_tokens;
    asked.prompt = system;
    for (const Message& message : messages) {
      auto& turns = message.user ? asked.markers.user_turns : asked.markers.assistant_turns;
      turns.push_back(open(asked, message.user ? kUserMarker : kAssistantMarker));
      asked.prompt = asked.prompt + message.text;
    }
    asked.markers.generation_prompt = open(asked, kAssistantMarker);
    return asked;
  }
  std::size_t size() const {
    std::size_t size = system.size();
    for (const Message& message : messages) size += message.text.size() + 1;
    return size;
  }
  // As after a client's edit: the first `keep` tokens of a message stay, its rest is new, later messages are gone.
  void branch(std::size_t message, std::size_t keep, Tokens text) {
    messages.resize(message + 1);
    Message& last = messages.back();
    last.text.resize(std::min(keep, last.text.size()));
    last.text = last.text + text;
    if (!last.user) user({kFirstTextToken});
  }
  // Replaces some tokens in the middle of a message; everything after them stays.
  void change(std::size_t message, std::size_t at, const Tokens& text) {
    Tokens& old = messages[message].text;
    for (std::size_t i = 0; i < text.size() && at + i < old.size(); ++i) old[at + i] = text[i];
  }
  // Answers before the last user message lose their first tokens.
  void drop_thinking(std::size_t count) {
    for (std::size_t i = 0; i + 1 < messages.size(); ++i) {
      Tokens& text = messages[i].text;
      if (!messages[i].user)
        text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(count, text.size())));
    }
  }

 private:
  static Position open(Ask& asked, TokenId marker) {
    const Position at = Position{} + asked.prompt.size();
    if (at > Position{}) asked.markers.message_ends.push_back(at);
    asked.prompt.push_back(marker);
    return at;
  }
};

}  // namespace kvkeep::server
