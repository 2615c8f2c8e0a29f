#pragma once

// A reply that is longer than the context goes on if the server was started with --context-shift: tokens after the kept
// ones leave, and the later ones move down, as in llama-server. Their rows move with them (Sequences::shift), so that
// nothing is computed anew; such rows are approximate, and neither captured nor shared.
//
// If the rows cannot move, since another reply to the same prompt shares them, the request is set aside instead and
// computes the rows of the tokens that are left.
//
// Pure, except for shift_context(), which runs on the engine thread.

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

struct Request;

// The rule of llama-server 0.7.0, in tokens.
struct ShiftTerms {
  std::size_t context = 0;  // at most so many are in the model's memory
  std::size_t held = 0;     // are there now, two at least
  std::size_t keep = 0;     // stay at the beginning, except that the context's last kNeverKept may always leave
  std::size_t discard = 0;  // leave after those, but never all; 0: half of them
  static constexpr std::size_t kNeverKept = 4;
};

// Returns the tokens that leave: one at least, and the last one stays.
TokenRange dropped_tokens(const ShiftTerms& terms);

// Returns what is left of each range when these tokens have left. Ends that stand for "those to come" stay.
std::vector<TokenRange> ranges_without(const std::vector<TokenRange>& ranges, TokenRange dropped);

// Returns all sampled tokens of the reply, those that left the context included.
std::vector<TokenId> reply_of(const Request& request);

// Makes room in a context that is full up to its last cell, which llama-server leaves free, too. Returns false if the
// rows could not move: the caller sets the request aside.
bool shift_context(Request& request, std::size_t context_tokens, Sequences& sequences);

}  // namespace kvkeep::server
