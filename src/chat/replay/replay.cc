#include "chat/replay/replay.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace kvkeep::chat {
namespace {

class Replayer {
 public:
  Replayer(const ReplayInput& input, const FindTurns& find, const ReadTurn& read)
      : input_(input), find_(find), read_(read), hasher_(input.key) {}

  Replayed run() {
    const PromptTurns turns = find_turns(input_.rendered, input_.openings);
    const std::vector<Position>& openings = turns.assistant;
    std::ranges::merge(turns.user, turns.tool_results, std::back_inserter(others_));
    // Turns and messages correspond only if each message opened one turn. The last opening is for the new answer.
    const bool one_each = openings.size() == input_.messages.size() + 1;
    for (std::size_t i = 0; i + 1 < openings.size(); ++i) {
      if (openings[i] < at_) continue;  // within a turn that was replaced
      take(openings[i]);
      const EchoedMessage* message = one_each ? &input_.messages[i] : nullptr;
      for (const TurnMemory::Turn& turn : find_(hasher_.current())) {
        if (replace(*turn, message, i)) break;
      }
    }
    take(end());
    return std::move(replayed_);
  }

 private:
  Position end() const { return Position{} + input_.rendered.size(); }

  void append(TokenSpan ids) {
    replayed_.ids.insert(replayed_.ids.end(), ids.begin(), ids.end());
    hasher_.append(ids);
  }
  void take(Position until) {
    append(input_.rendered.subspan(at_.value(), until.value() - at_.value()));
    at_ = until;
  }

  // The token that ends the turn at `begin`, at most the one with which the next speaker's turn opens. If no token ends
  // generation, the last with which the template closes answers. Returns nullopt if there is none.
  std::optional<std::size_t> end_of_turn(std::size_t begin) const {
    const auto next = std::ranges::upper_bound(others_, Position{} + begin);
    const std::size_t limit = next == others_.end() ? input_.rendered.size() : next->value() + 1;
    for (std::size_t place = begin; place < limit; ++place) {
      if (input_.ends(input_.rendered[place])) return place;
    }
    for (std::size_t place = limit; place-- > begin;) {
      if (input_.openings.end == input_.rendered[place]) return place;
    }
    return std::nullopt;
  }

  bool replace(const SampledTurn& turn, const EchoedMessage* message, std::size_t number) {
    const std::size_t opening = answer_opening_size(input_.rendered.subspan(at_.value()), input_.openings);
    const std::size_t begin = at_.value() + opening;
    const auto place = end_of_turn(begin);
    if (turn.ids.size() <= opening || !place) return false;
    const bool has_end = input_.ends(turn.ids.back());
    const TokenSpan said = TokenSpan(turn.ids).first(turn.ids.size() - (has_end ? 1 : 0));
    const TokenSpan written = input_.rendered.subspan(at_.value(), *place - at_.value());
    const auto sampled = read_(said.subspan(opening), "");
    const auto echoed = read_(written.subspan(opening), "");
    const bool known_calls = message != nullptr && !turn.call_ids.empty() && message->call_ids == turn.call_ids;
    const EchoTolerance tolerance{.added_arguments = known_calls};
    if (!sampled || !echoed || !same_but_reasoning(*sampled, *echoed, tolerance)) return false;
    const bool same_end = has_end && turn.ids.back() == input_.rendered[*place];
    if (!same_end && leaves_something_open(said.subspan(opening), *sampled)) return false;
    if (tells_a_marker(said.subspan(opening), *sampled) || tells_a_marker(written.subspan(opening), *echoed)) {
      return false;
    }
    if (!same_meaning(*sampled, *echoed, tolerance)) {
      if (!left_out(*sampled, *echoed, message)) return false;
      if (!message->would_have_reasoning) {
        replayed_.lacks_thoughts = true;
        return false;
      }
      replayed_.thoughts.push_back({number, sampled->reasoning});
    }
    ++replayed_.matched;
    if (!std::ranges::equal(said, written)) ++replayed_.turns;
    append(said);
    at_ = Position{} + *place;
    return true;
  }

  bool leaves_something_open(TokenSpan ids, const TurnMeaning& meaning) const {
    constexpr std::string_view kWord = "kvkeepword";
    auto longer = read_(ids, kWord);
    if (!longer || !longer->text.ends_with(kWord)) return true;
    longer->text.resize(longer->text.size() - kWord.size());
    return !same_meaning(meaning, *longer, {});
  }

  // Returns true if the meaning of the ids spells a marker that stands among them.
  bool tells_a_marker(TokenSpan ids, const TurnMeaning& meaning) const {
    std::vector<TokenId> seen;
    return std::ranges::any_of(ids, [&](TokenId id) {
      const Marker* marker = input_.markers.find(id);
      if (marker == nullptr || std::ranges::find(seen, id) != seen.end()) return false;
      seen.push_back(id);
      return spells(meaning, marker->spelling);
    });
  }

  static bool left_out(const TurnMeaning& sampled, const TurnMeaning& echoed, const EchoedMessage* message) {
    return message != nullptr && !message->has_reasoning && echoed.reasoning.empty() && !sampled.reasoning.empty();
  }

  const ReplayInput& input_;
  const FindTurns& find_;
  const ReadTurn& read_;
  PrefixHasher hasher_;
  std::vector<Position> others_;  // where turns of users and tools begin
  Position at_;                   // in the rendered ids, the next that is not taken
  Replayed replayed_;
};

}  // namespace

Replayed replay_turns(const ReplayInput& input, const FindTurns& find, const ReadTurn& read) {
  return Replayer(input, find, read).run();
}

std::optional<OpenTurn> open_turn(TokenSpan prompt, const TurnOpenings& openings, const FingerprintHash& key) {
  const PromptTurns turns = find_turns(prompt, openings);
  if (turns.assistant.empty()) return std::nullopt;
  PrefixHasher hasher(key);
  hasher.append(prompt.first(turns.assistant.back().value()));
  return OpenTurn{hasher.current(), turns.assistant.back()};
}

}  // namespace kvkeep::chat
