#include "chat/grammar/gbnf_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace kvkeep::chat::grammar {

// ---- in how many ways at once a grammar can go on ----

namespace {

using StackId = std::uint32_t;

// Letters looked ahead, and texts of one length that are followed further.
constexpr std::size_t kLetters = 32;
constexpr std::size_t kBeam = 4;
// Letters tried after one text.
constexpr std::size_t kTries = 12;
// Hardly any token is longer.
constexpr std::size_t kTokenLetters = 16;
constexpr StackId kEmpty = 0;

struct Place {
  std::size_t rule = 0;
  std::size_t alternative = 0;
  std::size_t at = 0;
  auto operator<=>(const Place&) const = default;
};

// A stack, and the number of ways in which libllama comes to it within a token: it follows each of them.
struct Way {
  StackId stack = kEmpty;
  double count = 1;
  auto operator<=>(const Way&) const = default;
};
using Ways = std::vector<Way>;  // ascending by stack, each once

struct Letter {
  std::size_t readers = 0;  // of the stacks looked at
  char32_t letter = 0;
  auto operator<=>(const Letter&) const = default;
};

// Stacks of places, shared: each is a place on top of another stack.
class Machine {
 public:
  Machine(const Gbnf& grammar, const GbnfLimits& limits, std::size_t steps)
      : grammar_(grammar), limits_(limits), steps_(steps) {
    stacks_.push_back({});
  }

  bool is_exhausted() const { return steps_ == 0; }
  std::size_t steps_left() const { return steps_; }
  // A case that would take libllama too long, if one was met.
  bool is_too_much() const { return !too_much_.empty(); }
  const std::string& too_much() const { return too_much_; }

  Ways start(std::size_t rule) {
    std::map<StackId, double> counts;
    enter(rule, kEmpty);
    count_found(1, counts);
    return ways_of(counts);
  }

  Ways read(const Ways& from, char32_t letter) {
    std::map<StackId, double> counts;
    for (const Way& way : from) {
      if (is_exhausted() || is_too_much()) break;
      spend(1);
      const CodePointSet* characters = characters_of(way.stack);
      if (characters == nullptr || !characters->contains(letter)) continue;
      Place place = stacks_[way.stack].place;
      ++place.at;
      todo_.push_back({place, stacks_[way.stack].below, false});
      count_found(way.count, counts);
    }
    return ways_of(counts);
  }

  // The letters after which most of these remain, those with the most readers first: beginnings of ranges.
  std::vector<Letter> letters(const Ways& ways) {
    std::map<char32_t, std::size_t> readers;
    for_each_range(ways, [&](const CodePointRange& range) {
      if (readers.size() < kMostCounted) readers.try_emplace(range.first, 0);
    });
    for_each_range(ways, [&](const CodePointRange& range) {
      for (auto at = readers.lower_bound(range.first); at != readers.end() && at->first <= range.last; ++at) {
        ++at->second;
        spend(1);
      }
    });
    std::vector<Letter> best;
    for (const auto& [letter, count] : readers) best.push_back({count, letter});
    std::ranges::sort(best, std::greater());
    if (best.size() > kTries) best.resize(kTries);
    return best;
  }

 private:
  static constexpr std::size_t kMostCounted = 64;

  struct Stack {
    Place place;
    StackId below = kEmpty;
    std::size_t depth = 0;
  };
  struct Todo {
    Place place;
    StackId below = kEmpty;
    bool and_further_alternatives = false;
  };

  void spend(std::size_t steps) { steps_ -= std::min(steps_, steps); }

  const SymbolSequence& sequence(const Place& place) const {
    return grammar_.rules[place.rule].alternatives[place.alternative];
  }

  const CodePointSet* characters_of(StackId stack) const {
    if (stack == kEmpty) return nullptr;
    const Symbol& symbol = sequence(stacks_[stack].place)[stacks_[stack].place.at];
    return symbol.kind == Symbol::Kind::kCharacters ? &symbol.characters : nullptr;
  }

  // libllama compares every token with all of them.
  void for_each_range(const Ways& ways, const auto& visit) {
    std::size_t seen = 0;
    for (const Way& way : ways) {
      const CodePointSet* characters = characters_of(way.stack);
      if (characters == nullptr) continue;
      seen += characters->ranges().size();
      if (seen > limits_.ranges) {
        too_much_ =
            "a letter of a text may be in more than " + std::to_string(limits_.ranges) + " ranges of characters";
      }
      if (is_exhausted() || is_too_much()) return;
      spend(1 + characters->ranges().size());
      for (const CodePointRange& range : characters->ranges()) visit(range);
    }
  }

  StackId pushed(const Place& place, StackId below) {
    const auto [known, is_new] = ids_.try_emplace({place, below}, static_cast<StackId>(stacks_.size()));
    if (is_new) stacks_.push_back({place, below, stacks_[below].depth + 1});
    return known->second;
  }

  void enter(std::size_t rule, StackId below) { todo_.push_back({{rule, 0, 0}, below, true}); }

  // From the places in todo_ to the letters that may come there. A list and no recursion: a part that may be empty
  // leads on to the part after it, as long as a sequence is.
  std::set<StackId> reach() {
    std::set<StackId> found;
    while (!todo_.empty() && !is_exhausted()) {
      spend(1);
      const Todo next = todo_.back();
      todo_.pop_back();
      const Place& place = next.place;
      if (next.and_further_alternatives && place.alternative + 1 < grammar_.rules[place.rule].alternatives.size()) {
        todo_.push_back({{place.rule, place.alternative + 1, 0}, next.below, true});
      }
      go_on(place, next.below, found);
    }
    todo_.clear();
    return found;
  }

  void go_on(const Place& place, StackId below, std::set<StackId>& found) {
    const SymbolSequence& symbols = sequence(place);
    if (place.at == symbols.size()) {
      if (below == kEmpty) return void(found.insert(kEmpty));
      return todo_.push_back({stacks_[below].place, stacks_[below].below, false});
    }
    const Symbol& symbol = symbols[place.at];
    if (symbol.kind != Symbol::Kind::kRule) return void(found.insert(pushed(place, below)));
    // As in libllama, the last symbol of a rule leaves nothing to come back to.
    const Place behind = {place.rule, place.alternative, place.at + 1};
    enter(symbol.rule, behind.at == symbols.size() ? below : pushed(behind, below));
  }

  // libllama compares each stack that it finds with all stacks found before, place by place.
  void count_found(double count, std::map<StackId, double>& counts) {
    const std::set<StackId> found = reach();
    double places = 0;
    for (const StackId stack : found) {
      places += static_cast<double>(stacks_[stack].depth);
      counts[stack] += count;
    }
    work_ += count * places * static_cast<double>(found.size());
  }

  // The work was that of one letter.
  Ways ways_of(const std::map<StackId, double>& counts) {
    if (counts.size() > limits_.stacks) {
      too_much_ = "a text can be read in more than " + std::to_string(limits_.stacks) + " ways at once";
    } else if (work_ > limits_.work) {
      too_much_ = "one letter of a text takes libllama more than " + std::to_string(std::llround(limits_.work / 1e6)) +
                  " million comparisons: too much may be left out or repeated there";
    }
    work_ = 0;
    Ways ways;
    for (const auto& [stack, count] : counts) ways.push_back({stack, count});
    return ways;
  }

  const Gbnf& grammar_;
  const GbnfLimits& limits_;
  std::size_t steps_;
  std::vector<Stack> stacks_;
  std::map<std::pair<Place, StackId>, StackId> ids_;
  std::vector<Todo> todo_;
  double work_ = 0;
  std::string too_much_;
};

// Follows texts until a limit is exceeded, or no steps are left.
void follow(Machine& machine, const Ways& start) {
  std::vector<Ways> texts = {start};
  for (std::size_t length = 0; length < kLetters; ++length) {
    std::set<Ways> next;
    for (Ways& ways : texts) {
      if (length % kTokenLetters == 0) {
        for (Way& way : ways) way.count = 1;
      }
      for (const Letter& letter : machine.letters(ways)) {
        Ways after = machine.read(ways, letter.letter);
        if (machine.is_exhausted() || machine.is_too_much()) return;
        if (!after.empty()) next.insert(std::move(after));
      }
    }
    texts.assign(next.begin(), next.end());
    std::ranges::sort(texts, [](const Ways& a, const Ways& b) { return a.size() > b.size(); });
    if (texts.size() > kBeam) texts.resize(kBeam);
  }
}

Error too_many_ways(const std::string& what, const std::string& rule) {
  return invalid(rule.empty() ? what : what + ", as rule '" + rule + "'");
}

}  // namespace

Result<std::size_t> check_growth(const Gbnf& grammar, const GbnfLimits& limits) {
  // Half of the effort for the root, the rest for the others.
  const std::size_t half = limits.growth_steps / 2;
  std::size_t left = 0;
  {
    Machine machine(grammar, limits, half);
    const Ways start = machine.start(grammar.root);
    if (!machine.is_too_much()) follow(machine, start);
    if (machine.is_too_much()) return too_many_ways(machine.too_much(), {});
    left += machine.steps_left();
  }
  Machine machine(grammar, limits, half);
  for (std::size_t rule = 0; rule < grammar.rules.size() && !machine.is_exhausted(); ++rule) {
    const Ways start = machine.start(rule);
    const std::vector<Letter> letters = machine.letters(start);
    const bool is_ambiguous = !letters.empty() && letters.front().readers > 1;
    if (is_ambiguous && !machine.is_too_much()) follow(machine, start);
    if (machine.is_too_much()) return too_many_ways(machine.too_much(), grammar.rules[rule].name);
  }
  return 2 * half - left - machine.steps_left();
}

// ---- how a grammar's rules begin with each other ----

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
