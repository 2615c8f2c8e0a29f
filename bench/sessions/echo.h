#pragma once

// The requests that a client would have sent to the server under test: assistant turns of a recording are replaced by
// that server's replies. Without this, a replayed conversation continues text that the server never generated.

#include <cstddef>
#include <string>
#include <vector>

#include "bench/sessions/dialect.h"
#include "bench/sessions/json_fields.h"
#include "bench/sessions/session.h"

namespace kvkeep::bench {

// For one session, in the order sent. Not thread safe. Keeps the canonical text and the reply of every request.
//
// A reply replaces the recorded turn if the two align: the request continues a conversation that was answered, its next
// turn is the assistant's, and both call equally many tools, whose recorded ids are then kept (the results after them
// refer to these). Reasoning stays if the client sent reasoning back. Completions are left unchanged: nothing in a
// prompt shows where a reply ends.
class Echo {
 public:
  // Returns the body to send for a recorded request.
  Json body_for(const RecordedRequest& request);
  // `message` is ReplyFacts::message.
  void remember(const RecordedRequest& request, const Json& message);

  // Count the assistant turns that could and could not be replaced so far, each in the request that sent it first.
  std::size_t replaced() const { return replaced_; }
  std::size_t kept() const { return kept_; }

 private:
  // Turns [begin, begin + length) of the recording, and the turns sent in their place.
  struct Replacement {
    std::size_t begin;
    std::size_t length;
    Json turns;        // an array
    bool fits = true;  // false: the recorded turns stay
  };
  struct Answered {
    Dialect dialect;
    std::string text;  // canonical, as recorded
    std::size_t turns;
    std::vector<Replacement> replacements;
    Json reply;  // an array of turns
  };

  const Answered* origin_of(Dialect dialect, const std::string& text) const;
  // Returns all replacements in the request's turns.
  std::vector<Replacement> replacements_for(Dialect dialect, const std::string& text, const Json& turns) const;

  std::vector<Answered> answered_;
  std::size_t replaced_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace kvkeep::bench
