#pragma once

// The meaning of an assistant's turn, whatever its spelling: the same turn as sampled and as a client sends it back
// compares equal, although JSON was written anew, white space trimmed or a default filled in.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat {

struct TurnMeaning {
  struct Call {
    std::string name;
    nlohmann::json arguments;  // as read_arguments() gives them
  };
  std::string reasoning;
  std::string text;
  std::vector<Call> calls;
  // Where in the text, and in the reasoning, something else stood. Clients that keep such parts apart send them back
  // apart, and they are joined again with white space, or without.
  std::vector<std::size_t> text_breaks = {};
  std::vector<std::size_t> reasoning_breaks = {};
};

// JSON to be compared: keys in no order, numbers by their decimal value, however long and however written (1.50 and
// 15e-1 are one number; 2^64 and 2^64 + 1 are two). Text that is not JSON, and numbers that no double comes near,
// become a value that equals nothing.
nlohmann::json read_arguments(std::string_view text);

// Returns true if `spelling` stands in its text, thinking, names or strings of arguments. Precondition: not empty.
bool spells(const TurnMeaning& meaning, std::string_view spelling);

// The differences that an echo may have in addition to spelling.
struct EchoTolerance {
  // Clients that know a call by its id may add arguments that say nothing: false, null, empty strings and containers.
  bool added_arguments = false;
};

// White space around reasoning and text and at the breaks of the sampled turn does not count, nor do the order and
// spelling of JSON.
bool same_meaning(const TurnMeaning& sampled, const TurnMeaning& echoed, EchoTolerance tolerance);

// As same_meaning, but reasoning does not count.
bool same_but_reasoning(const TurnMeaning& sampled, const TurnMeaning& echoed, EchoTolerance tolerance);

}  // namespace kvkeep::chat
