#pragma once

// What our own grammars must be: readable, and of texts that can be written.

#include <limits>
#include <optional>
#include <random>
#include <string>

#include "chat/grammar/gbnf_player_fixture.h"
#include "fuzz.h"

namespace kvkeep::fuzz {

// Whether the grammar is cheap enough for a server to use. What is refused for its cost is right otherwise.
inline bool check_grammar(const std::string& text) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  const chat::grammar::GbnfLimits limits = {.bytes = kAny,
                                            .symbols = 5'000'000,
                                            .nesting = 1000,
                                            .ways = kAny,
                                            .stacks = kAny,
                                            .ranges = kAny,
                                            .work = std::numeric_limits<double>::max(),
                                            .growth_steps = 1000};
  KVKEEP_ASSERT(chat::grammar::read_gbnf(text, limits), "a grammar of ours can be read");
  return chat::grammar::read_gbnf(text).ok();
}

// Some texts of the grammar.
template <typename Use>
void write_texts(const std::string& grammar, std::size_t seed, Use use) {
  const chat::grammar::GbnfPlayer player(grammar);
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  for (int i = 0; i < 3; ++i) use(player.write(random, 100));
}

}  // namespace kvkeep::fuzz
