#include "chat/grammar/gbnf_walk.h"

#include <algorithm>
#include <cstdint>

namespace kvkeep::chat::grammar {
namespace {

// libllama recurses as deep as rules begin with each other: some 2 MiB of stack.
constexpr std::size_t kDeepestRules = 10'000;

// Rules that may be empty, found by going over all until nothing changes: only users of a rule that turned out empty
// are looked at again.
std::vector<bool> find_empty(const Gbnf& grammar) {
  std::vector<std::vector<std::size_t>> users(grammar.rules.size());
  std::vector<bool> empty(grammar.rules.size(), false);
  std::vector<std::size_t> queue;
  const auto look_at = [&](std::size_t index) {
    if (empty[index]) return;
    empty[index] = std::ranges::any_of(grammar.rules[index].alternatives, [&](const SymbolSequence& sequence) {
      return std::ranges::all_of(
          sequence, [&](const Symbol& symbol) { return symbol.kind == Symbol::Kind::kRule && empty[symbol.rule]; });
    });
    if (empty[index]) queue.push_back(index);
  };
  for (std::size_t index = 0; index < grammar.rules.size(); ++index) {
    for (const SymbolSequence& sequence : grammar.rules[index].alternatives) {
      for (const Symbol& symbol : sequence) {
        if (symbol.kind == Symbol::Kind::kRule) users[symbol.rule].push_back(index);
      }
    }
    look_at(index);
  }
  while (!queue.empty()) {
    const std::size_t index = queue.back();
    queue.pop_back();
    for (const std::size_t user : users[index]) look_at(user);
  }
  return empty;
}

// The rules with which a rule may begin, as often as it may.
std::vector<std::size_t> beginnings(const GbnfRule& rule, const std::vector<bool>& empty) {
  std::vector<std::size_t> found;
  for (const SymbolSequence& sequence : rule.alternatives) {
    for (const Symbol& symbol : sequence) {
      if (symbol.kind != Symbol::Kind::kRule) break;
      found.push_back(symbol.rule);
      if (!empty[symbol.rule]) break;
    }
  }
  return found;
}

struct Step {
  std::size_t rule = 0;
  std::vector<std::size_t> beginnings;
  std::size_t next = 0;
};

Error begins_with_itself(const Gbnf& grammar, const std::vector<Step>& path) {
  // The innermost named rule on the way; groups have no names.
  const auto named = std::ranges::find_if(path.rbegin(), path.rend(),
                                          [&](const Step& step) { return !grammar.rules[step.rule].name.empty(); });
  return invalid("rule '" + (named == path.rend() ? std::string("root") : grammar.rules[named->rule].name) +
                 "' begins with itself");
}

}  // namespace

Status check_walks(const Gbnf& grammar, std::size_t ways) {
  enum class State : std::uint8_t { kNew, kOpen, kDone };
  const std::vector<bool> empty = find_empty(grammar);
  std::vector<State> states(grammar.rules.size(), State::kNew);
  std::vector<std::size_t> counts(grammar.rules.size(), 1);
  std::vector<std::size_t> depths(grammar.rules.size(), 1);
  std::vector<Step> path;  // not recursion: rules may begin with each other thousands deep
  const auto enter = [&](std::size_t rule) {
    states[rule] = State::kOpen;
    path.push_back({.rule = rule, .beginnings = beginnings(grammar.rules[rule], empty), .next = 0});
  };
  for (std::size_t start = 0; start < grammar.rules.size(); ++start) {
    if (states[start] == State::kNew) enter(start);
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next < step.beginnings.size()) {
        const std::size_t rule = step.beginnings[step.next++];
        if (states[rule] == State::kOpen) return begins_with_itself(grammar, path);
        if (states[rule] == State::kNew) {
          --step.next;  // counted when it is done
          enter(rule);
        } else {
          counts[step.rule] += counts[rule];
          depths[step.rule] = std::max(depths[step.rule], depths[rule] + 1);
          if (depths[step.rule] > kDeepestRules) return invalid("its rules begin with each other too deep");
          if (counts[step.rule] > ways) return invalid("its rules begin with each other in too many ways");
        }
        continue;
      }
      states[step.rule] = State::kDone;
      path.pop_back();
    }
  }
  return {};
}

}  // namespace kvkeep::chat::grammar
