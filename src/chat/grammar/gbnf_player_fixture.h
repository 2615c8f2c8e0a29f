#pragma once

// Plays a grammar that was read, naively: which texts it matches, and texts it may write.

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/unicode.h"
#include "chat/grammar/gbnf.h"

namespace kvkeep::chat::grammar {

class GbnfPlayer {
 public:
  explicit GbnfPlayer(std::string_view text) {
    auto read = read_gbnf(text);
    if (!read) throw std::runtime_error(read.error().message + " in\n" + std::string(text));
    grammar_ = std::move(read).value();
    find_costs();
  }

  bool matches(std::string_view text) const {
    std::set<Stack> stacks;
    expand({{grammar_.root, 0, 0, false}}, stacks);
    for (std::size_t at = 0; at < text.size();) {
      const char32_t next = read_code_point(text, at);
      std::set<Stack> following;
      for (const Stack& stack : stacks) {
        if (stack.empty()) continue;
        const Frame& top = stack.back();
        if (!symbol(top).characters.contains(next)) continue;
        Stack rest = stack;
        ++rest.back().at;
        expand(std::move(rest), following);
      }
      stacks = std::move(following);
      most_stacks_ = std::max(most_stacks_, stacks.size());
    }
    return stacks.contains(Stack{});
  }

  // A text; once it is longer than about `bytes`, it ends by the shortest way.
  std::string write(std::mt19937& random, std::size_t bytes) const {
    std::string text;
    write_rule(grammar_.root, random, bytes, 0, text);
    return text;
  }

  // The most ways at once in which a text was matched so far: what a sampler has to follow.
  std::size_t most_stacks() const { return most_stacks_; }
  const Gbnf& grammar() const { return grammar_; }

 private:
  // A place in a rule; `chosen`: in an alternative, otherwise the rule is about to be entered.
  struct Frame {
    std::size_t rule = 0;
    std::size_t alternative = 0;
    std::size_t at = 0;
    bool chosen = false;
    auto operator<=>(const Frame&) const = default;
  };
  using Stack = std::vector<Frame>;
  static constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max() / 4;

  const SymbolSequence& sequence(const Frame& frame) const {
    return grammar_.rules[frame.rule].alternatives[frame.alternative];
  }
  const Symbol& symbol(const Frame& frame) const { return sequence(frame)[frame.at]; }

  // All stacks that stand before a character, or are done, without reading anything.
  void expand(Stack stack, std::set<Stack>& into) const {
    while (!stack.empty() && stack.back().chosen && stack.back().at == sequence(stack.back()).size()) stack.pop_back();
    if (stack.empty()) {
      into.insert(stack);
      return;
    }
    if (stack.back().chosen) {
      const Symbol& next = symbol(stack.back());
      if (next.kind != Symbol::Kind::kRule) {
        into.insert(std::move(stack));
        return;
      }
      ++stack.back().at;
      // A frame at its end is left at once, so that tails do not pile up.
      if (stack.back().at == sequence(stack.back()).size()) stack.pop_back();
      stack.push_back({next.rule, 0, 0, false});
    }
    const Frame entered = stack.back();
    stack.pop_back();
    for (std::size_t i = 0; i < grammar_.rules[entered.rule].alternatives.size(); ++i) {
      Stack way = stack;
      way.push_back({entered.rule, i, 0, true});
      expand(std::move(way), into);
    }
  }

  std::size_t cost_of(const SymbolSequence& symbols) const {
    std::size_t cost = 0;
    for (const Symbol& one : symbols) {
      const bool dead = one.kind == Symbol::Kind::kCharacters && one.characters == CodePointSet{{0, 0}};
      cost += one.kind == Symbol::Kind::kRule ? costs_[one.rule] : dead ? kEndless : 1;
      cost = std::min(cost, kEndless);
    }
    return cost;
  }

  void find_costs() {
    costs_.assign(grammar_.rules.size(), kEndless);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = 0; i < grammar_.rules.size(); ++i) {
        for (const SymbolSequence& symbols : grammar_.rules[i].alternatives) {
          const std::size_t cost = cost_of(symbols);
          if (cost < costs_[i]) changed = true;
          costs_[i] = std::min(costs_[i], cost);
        }
      }
    }
  }

  void write_rule(std::size_t rule, std::mt19937& random, std::size_t bytes, std::size_t depth,
                  std::string& text) const {
    const auto& all = grammar_.rules[rule].alternatives;
    std::vector<const SymbolSequence*> usable;
    for (const SymbolSequence& symbols : all) {
      if (cost_of(symbols) < kEndless) usable.push_back(&symbols);
    }
    const SymbolSequence* chosen = usable.at(random() % usable.size());
    if (text.size() > bytes || depth > 200) {
      chosen = *std::ranges::min_element(usable, {}, [&](const SymbolSequence* symbols) { return cost_of(*symbols); });
    }
    for (const Symbol& one : *chosen) {
      if (one.kind == Symbol::Kind::kRule) {
        write_rule(one.rule, random, bytes, depth + 1, text);
      } else {
        append_character(text, pick(one.characters, random));
      }
    }
  }

  // Ranges count alike, so that rare ones come up; mostly their beginnings, where special characters lie.
  static char32_t pick(const CodePointSet& characters, std::mt19937& random) {
    const CodePointRange& range = characters.ranges()[random() % characters.ranges().size()];
    const char32_t size = range.last - range.first + 1;
    const char32_t reach = random() % 4 == 0 ? size : std::min<char32_t>(size, 100);
    return range.first + static_cast<char32_t>(random()) % reach;
  }

  Gbnf grammar_;
  std::vector<std::size_t> costs_;  // characters of the shortest text
  mutable std::size_t most_stacks_ = 0;
};

}  // namespace kvkeep::chat::grammar
