#pragma once

// What a client would have sent had it talked to the server under test: assistant turns of a recording replaced by what
// that server said. Without it, a replayed conversation goes on with text that the server never generated.

#include <cstddef>
#include <string>
#include <vector>

#include "bench/sessions/dialect.h"
#include "bench/sessions/json_fields.h"
#include "bench/sessions/session.h"

namespace kvkeep::bench {

// Of one session, in the order sent. Not thread safe. Keeps the canonical text and the reply of every request.
//
// A reply takes the place of the recorded turn where the two align: the request goes on the conversation of one that
// was answered, its next turn is the assistant's, and both call equally many tools, whose recorded ids are then kept
// (the results that follow refer to them). Reasoning stays where the client sent reasoning back. Completions are left
// alone: nothing says where a reply ends in a prompt.
class Echo {
 public:
  // The body to send for a recorded request.
  Json body_for(const RecordedRequest& request);
  // `message` is ReplyFacts::message.
  void remember(const RecordedRequest& request, const Json& message);

  // Assistant turns that could and could not be replaced so far, each counted in the request that sent it first.
  std::size_t replaced() const { return replaced_; }
  std::size_t kept() const { return kept_; }

 private:
  // Turns [begin, begin + length) of the recording, and what is sent for them.
  struct Replacement {
    std::size_t begin;
    std::size_t length;
    Json turns;        // an array
    bool fits = true;  // false: what was recorded stays
  };
  struct Answered {
    Dialect dialect;
    std::string text;  // canonical, as recorded
    std::size_t turns;
    std::vector<Replacement> replacements;
    Json reply;  // an array of turns
  };

  const Answered* origin_of(Dialect dialect, const std::string& text) const;
  // All replacements in the request's turns.
  std::vector<Replacement> replacements_for(Dialect dialect, const std::string& text, const Json& turns) const;

  std::vector<Answered> answered_;
  std::size_t replaced_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace kvkeep::bench
