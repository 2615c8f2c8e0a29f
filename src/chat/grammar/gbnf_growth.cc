#include "chat/grammar/gbnf_growth.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

namespace kvkeep::chat::grammar {
namespace {

using StackId = std::uint32_t;
using Stacks = std::vector<StackId>;  // ascending, each once

// Letters looked ahead, and texts of one length that are followed further.
constexpr std::size_t kLetters = 32;
constexpr std::size_t kBeam = 4;
// Letters tried behind one text.
constexpr std::size_t kTries = 12;
constexpr StackId kEmpty = 0;

struct Place {
  std::size_t rule = 0;
  std::size_t alternative = 0;
  std::size_t at = 0;
  auto operator<=>(const Place&) const = default;
};

// Stacks of places, shared: each is a place on top of another stack.
class Machine {
 public:
  Machine(const Gbnf& grammar, std::size_t steps) : grammar_(grammar), steps_(steps) { stacks_.push_back({}); }

  bool is_exhausted() const { return steps_ == 0; }

  Stacks start(std::size_t rule) {
    std::set<StackId> found;
    enter(rule, kEmpty, found);
    return {found.begin(), found.end()};
  }

  Stacks read(const Stacks& from, char32_t letter) {
    std::set<StackId> found;
    for (const StackId stack : from) {
      const CodePointSet* characters = characters_of(stack);
      if (characters == nullptr || !characters->contains(letter)) continue;
      Place place = stacks_[stack].place;
      ++place.at;
      go_on(place, stacks_[stack].below, found);
    }
    return {found.begin(), found.end()};
  }

  // The letters behind which most of these are left: ranges' beginnings.
  std::vector<char32_t> letters(const Stacks& stacks) const {
    std::map<char32_t, std::size_t> counts;
    for (const StackId stack : stacks) {
      const CodePointSet* characters = characters_of(stack);
      if (characters == nullptr) continue;
      for (const auto& range : characters->ranges()) {
        if (counts.size() < kMostCounted || counts.contains(range.first)) ++counts[range.first];
      }
    }
    for (auto& [letter, count] : counts) count = readers(stacks, letter);
    std::vector<std::pair<std::size_t, char32_t>> order;
    for (const auto& [letter, count] : counts) order.emplace_back(count, letter);
    std::ranges::sort(order, std::greater());
    std::vector<char32_t> best;
    for (const auto& [count, letter] : order) {
      if (best.size() < kTries) best.push_back(letter);
    }
    return best;
  }

  std::size_t readers(const Stacks& stacks, char32_t letter) const {
    return static_cast<std::size_t>(std::ranges::count_if(stacks, [&](StackId stack) {
      const CodePointSet* characters = characters_of(stack);
      return characters != nullptr && characters->contains(letter);
    }));
  }

 private:
  static constexpr std::size_t kMostCounted = 64;

  struct Stack {
    Place place;
    StackId below = kEmpty;
  };

  const SymbolSequence& sequence(const Place& place) const {
    return grammar_.rules[place.rule].alternatives[place.alternative];
  }

  const CodePointSet* characters_of(StackId stack) const {
    if (stack == kEmpty) return nullptr;
    const Symbol& symbol = sequence(stacks_[stack].place)[stacks_[stack].place.at];
    return symbol.kind == Symbol::Kind::kCharacters ? &symbol.characters : nullptr;
  }

  StackId pushed(const Place& place, StackId below) {
    const auto [known, is_new] = ids_.try_emplace({place, below}, static_cast<StackId>(stacks_.size()));
    if (is_new) stacks_.push_back({place, below});
    return known->second;
  }

  void enter(std::size_t rule, StackId below, std::set<StackId>& found) {
    for (std::size_t i = 0; i < grammar_.rules[rule].alternatives.size(); ++i) go_on({rule, i, 0}, below, found);
  }

  // To the letters that may come at a place.
  void go_on(Place place, StackId below, std::set<StackId>& found) {
    if (steps_ == 0) return;
    --steps_;
    const SymbolSequence& symbols = sequence(place);
    if (place.at == symbols.size()) return below == kEmpty ? void(found.insert(kEmpty)) : leave(below, found);
    const Symbol& symbol = symbols[place.at];
    if (symbol.kind != Symbol::Kind::kRule) return void(found.insert(pushed(place, below)));
    // As in libllama, what ends with a rule leaves nothing to come back to.
    const Place behind = {place.rule, place.alternative, place.at + 1};
    enter(symbol.rule, behind.at == symbols.size() ? below : pushed(behind, below), found);
  }

  void leave(StackId stack, std::set<StackId>& found) {
    const Stack top = stacks_[stack];
    go_on(top.place, top.below, found);
  }

  const Gbnf& grammar_;
  std::size_t steps_;
  std::vector<Stack> stacks_;
  std::map<std::pair<Place, StackId>, StackId> ids_;
};

bool grows(Machine& machine, const Stacks& start, std::size_t most) {
  std::vector<Stacks> texts = {start};
  for (std::size_t length = 0; length < kLetters && !machine.is_exhausted(); ++length) {
    std::set<Stacks> next;
    for (const Stacks& stacks : texts) {
      for (const char32_t letter : machine.letters(stacks)) {
        Stacks after = machine.read(stacks, letter);
        if (after.size() > most) return true;
        if (!after.empty()) next.insert(std::move(after));
      }
    }
    texts.assign(next.begin(), next.end());
    std::ranges::sort(texts, [](const Stacks& a, const Stacks& b) { return a.size() > b.size(); });
    if (texts.size() > kBeam) texts.resize(kBeam);
  }
  return false;
}

}  // namespace

Status check_growth(const Gbnf& grammar, const GbnfLimits& limits) {
  const auto is_ambiguous = [&](Machine& machine, const Stacks& stacks) {
    return std::ranges::any_of(machine.letters(stacks),
                               [&](char32_t letter) { return machine.readers(stacks, letter) > 1; });
  };
  // Half of the effort for the root, the rest for the others.
  Machine from_root(grammar, limits.growth_steps / 2);
  if (grows(from_root, from_root.start(grammar.root), limits.stacks)) {
    return invalid("a text can be read in too many ways at once");
  }
  Machine machine(grammar, limits.growth_steps / 2);
  for (std::size_t rule = 0; rule < grammar.rules.size() && !machine.is_exhausted(); ++rule) {
    const Stacks start = machine.start(rule);
    if (!is_ambiguous(machine, start) || !grows(machine, start, limits.stacks)) continue;
    const std::string& name = grammar.rules[rule].name;
    return invalid(name.empty() ? "a text can be read in too many ways at once"
                                : "a text can be read in too many ways at once, as rule '" + name + "'");
  }
  return {};
}

}  // namespace kvkeep::chat::grammar
