#pragma once

// Checks that our own grammars are readable, and have texts that can be written.

#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>

#include "chat/grammar/gbnf_player_fixture.h"
#include "fuzz.h"

namespace kvkeep::fuzz {

// Uses some texts of the grammar. Those that are too dear for a server are looked at no further.
template <typename Use>
void check_grammar(const std::string& grammar, std::size_t seed, Use use) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  const chat::grammar::GbnfLimits limits = {.bytes = kAny,
                                            .symbols = 5'000'000,
                                            .nesting = 1000,
                                            .ways = kAny,
                                            .stacks = kAny,
                                            .ranges = kAny,
                                            .work = std::numeric_limits<double>::max(),
                                            .growth_steps = 1000};
  KVKEEP_ASSERT(chat::grammar::read_gbnf(grammar, limits), "a grammar of ours can be read");
  constexpr std::size_t kMostPlayedBytes = 16 << 10;
  if (grammar.size() > kMostPlayedBytes) return;
  std::optional<chat::grammar::GbnfPlayer> player;
  try {
    player.emplace(grammar);
  } catch (const std::runtime_error&) {
    return;
  }
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  for (int i = 0; i < 3; ++i) use(player->write(random, 100));
}

}  // namespace kvkeep::fuzz
