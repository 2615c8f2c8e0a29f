#pragma once

// Decisions about the shared tier: which ends of segments another server can have chosen, whether a look-up and a
// publication are worth their time, and how long a read may take before prefilling is faster. Pure.
//
// The shared tier has no index. State is named by where it ends, so a reader guesses ends: positions that every server
// derives from a prompt in the same way. Segments of a sharing server end on a grid, at the ends of chats' openings
// (cache/capture.h) and where turns do; points lie where turns do as well (cut.h). The deepest end that is found names
// all segments before it, so a wrong guess costs depth, never truth.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"
#include "policy/cut.h"
#include "policy/restore.h"

namespace kvkeep::policy {

// Segments end there at the latest, since chats are likely to part there: see cache/capture.cc.
inline constexpr std::uint32_t kHeadEnds[] = {32, 256};

// Most ends that are asked for in one look-up, and most of these that lie on the grid.
inline constexpr std::size_t kMostProbableEnds = 512;
inline constexpr std::size_t kMostGridEnds = 256;
// Prompts of fewer tokens are neither published nor looked up.
inline constexpr std::size_t kLeastSharedTokens = 256;
// A look-up is made only where that many tokens of a prompt are unknown: little more than a turn of a conversation that
// went on at another server.
inline constexpr std::size_t kLeastSoughtTokens = 64;

// No request waits longer for its look-up, from the moment at which that begins: three answers of a slow store, of 100
// ms and a little each.
inline constexpr double kLongestSearchMs = 400;

// The grid of a server whose segments have at most `most_tokens`: the largest power of two that fits.
std::size_t share_grid(std::size_t most_tokens);
// The first multiple of the grid after `at`; the grid is not 0.
Position next_on_grid(Position at, std::size_t grid);

// Ends in (known, prompt_tokens] that another server can have chosen for this prompt or for earlier turns of it;
// ascending, distinct, at most kMostProbableEnds. Beyond that the shallowest turns are left out, and the grid's step is
// doubled, so that it still reaches the prompt's end. Cost: O(markers).
std::vector<Position> probable_ends(std::size_t prompt_tokens, Position known, const PromptMarkers& markers);

// Returns true if a look-up may save enough: `known` of the prompt's tokens need no prefill anyway.
bool worth_searching(std::size_t prompt_tokens, Position known);
// Milliseconds that a look-up takes at an engine that answers within so many: it asks for ends, then for the deepest
// one's head, then for those on its way.
double search_ms(double latency_ms);
// Milliseconds that a request may wait for a look-up: a twentieth of the time in which `tokens` are prefilled, but at
// least a few. With an unknown rate the tier's own deadline is the only one.
double search_patience_ms(std::size_t tokens, const Rates& rates);
// Milliseconds that a read of state may take that saves prefilling `tokens`: half the time which that takes.
double read_patience_ms(std::size_t tokens, const Rates& rates);

// A segment or leaf that may be published.
struct ShareOffer {
  Position end = {};
  std::size_t tokens = 0;     // prefill that it saves a reader
  ByteCount bytes = {};       // that a reader moves for it
  bool wanted_again = false;  // several prompts begin with it
};
// `bytes_per_s`: how fast readers get it, about; 0: unknown. An unknown rate speaks for it.
bool worth_publishing(const ShareOffer& offer, double prefill_tokens_per_s, double bytes_per_s);

}  // namespace kvkeep::policy
