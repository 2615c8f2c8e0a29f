#include "model_maker/bpe_trainer.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/assert.h"

namespace kvkeep::gguf {
namespace {

using Pair = std::pair<TokenId, TokenId>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const noexcept {
    const auto left = static_cast<std::uint64_t>(pair.first);
    return static_cast<std::size_t>((left << 32 | static_cast<std::uint32_t>(pair.second)) * 0x9E3779B97F4A7C15u >> 7);
  }
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) > 127;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_line_end(char c) { return c == '\n' || c == '\r'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || is_line_end(c); }

// Each function is one alternative of qwen2's expression: returns the end of its match at `at`, or `at` for none.
template <typename Test>
std::size_t run(std::string_view text, std::size_t at, Test test) {
  while (at < text.size() && test(text[at])) ++at;
  return at;
}

std::size_t match_contraction(std::string_view text, std::size_t at) {
  if (text[at] != '\'') return at;
  for (const std::string_view suffix : {"re", "ve", "ll", "s", "t", "m", "d"}) {
    std::string_view found = text.substr(at + 1, suffix.size());
    if (found.size() == suffix.size() &&
        std::equal(found.begin(), found.end(), suffix.begin(), [](char a, char b) { return (a | 0x20) == b; })) {
      return at + 1 + suffix.size();
    }
  }
  return at;
}

std::size_t match_word(std::string_view text, std::size_t at) {
  const bool prefix = !is_line_end(text[at]) && !is_letter(text[at]) && !is_digit(text[at]);
  const std::size_t begin = at + (prefix ? 1 : 0);
  const std::size_t end = run(text, begin, is_letter);
  return end > begin ? end : at;
}

std::size_t match_punctuation(std::string_view text, std::size_t at) {
  const std::size_t begin = at + (text[at] == ' ' ? 1 : 0);
  const std::size_t end = run(text, begin, [](char c) { return !is_space(c) && !is_letter(c) && !is_digit(c); });
  return end > begin ? run(text, end, is_line_end) : at;
}

std::size_t match_blanks(std::string_view text, std::size_t at) {
  const std::size_t end = run(text, at, is_space);
  for (std::size_t last = end; last > at; --last) {
    if (is_line_end(text[last - 1])) return last;  // \s*[\r\n]+ comes first
  }
  // \s+(?!\S): the last blank belongs to the text after it.
  return end < text.size() && end - at > 1 ? end - 1 : end;
}

std::size_t next_cut(std::string_view text, std::size_t at) {
  if (const std::size_t end = match_contraction(text, at); end > at) return end;
  if (const std::size_t end = match_word(text, at); end > at) return end;
  if (is_digit(text[at])) return at + 1;
  if (const std::size_t end = match_punctuation(text, at); end > at) return end;
  return match_blanks(text, at);
}

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

bool contains(const std::vector<TokenId>& ids, Pair pair) {
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    if (ids[i] == pair.first && ids[i + 1] == pair.second) return true;
  }
  return false;
}

// Replaces each `pair` by `merged`, left to right.
void merge_in(std::vector<TokenId>& ids, Pair pair, TokenId merged) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool here = i + 1 < ids.size() && ids[i] == pair.first && ids[i + 1] == pair.second;
    ids[out++] = here ? merged : ids[i];
    if (here) ++i;
  }
  ids.resize(out);
}

class Trainer {
 public:
  explicit Trainer(std::span<const std::string_view> texts) {
    std::map<std::string_view, std::int64_t> counts;  // ordered: the run must not depend on a hash function
    for (const std::string_view text : texts) {
      for (const std::string_view pretoken : split_pretokens(text)) ++counts[pretoken];
    }
    for (const auto& [pretoken, count] : counts) words_.push_back({bytes_of(pretoken), count});
    for (int byte = 0; byte < 256; ++byte) add_token(std::string(1, static_cast<char>(byte)));
    for (std::size_t word = 0; word < words_.size(); ++word) count_pairs(word, +1);
    offer_grown();
  }

  BytePairs train(std::size_t merge_count) {
    while (result_.merges.size() < merge_count) {
      const auto best = pop_best();
      if (!best) break;
      apply(*best);
    }
    return std::move(result_);
  }

 private:
  struct Word {
    std::vector<TokenId> ids;
    std::int64_t count;
  };
  struct PairUse {
    std::int64_t count = 0;
    bool grown = false;              // is in grown_
    std::vector<std::size_t> words;  // may have words that lost the pair since, and repeats
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;  // frequent first, then small ids
    }
  };

  TokenId add_token(const std::string& bytes) {
    const auto [place, added] = ids_.try_emplace(bytes, static_cast<TokenId>(result_.tokens.size()));
    if (added) result_.tokens.push_back(bytes);
    return place->second;
  }

  void count_pairs(std::size_t word, int sign) {
    const auto& ids = words_[word].ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Pair pair{ids[i], ids[i + 1]};
      PairUse& use = uses_[pair];
      use.count += sign * words_[word].count;
      if (sign > 0 && (use.words.empty() || use.words.back() != word)) use.words.push_back(word);
      if (sign > 0 && !std::exchange(use.grown, true)) grown_.push_back(pair);
    }
  }

  // Adds one heap entry per pair that may have become more frequent.
  void offer_grown() {
    for (const Pair& pair : grown_) {
      PairUse& use = uses_[pair];
      use.grown = false;
      candidates_.push({use.count, pair});
    }
    grown_.clear();
  }

  // Counts in the heap may be out of date: an entry with a wrong count goes back with the right one.
  std::optional<Pair> pop_best() {
    while (!candidates_.empty()) {
      const Candidate top = candidates_.top();
      candidates_.pop();
      const std::int64_t count = uses_[top.pair].count;
      if (count == top.count && count > 0) return top.pair;
      if (count > 0 && count < top.count) candidates_.push({count, top.pair});
    }
    return std::nullopt;
  }

  void apply(Pair pair) {
    const TokenId merged = add_token(result_.tokens[pair.first] + result_.tokens[pair.second]);
    result_.merges.push_back(pair);
    const std::vector<std::size_t> touched = std::move(uses_[pair].words);
    uses_[pair].words.clear();
    for (const std::size_t word : touched) {
      if (!contains(words_[word].ids, pair)) continue;
      count_pairs(word, -1);
      merge_in(words_[word].ids, pair, merged);
      count_pairs(word, +1);
    }
    offer_grown();
    KVKEEP_ASSERT(uses_[pair].count == 0, "a merged pair is gone from every word");
  }

  std::vector<Word> words_;
  std::unordered_map<std::string, TokenId> ids_;
  std::unordered_map<Pair, PairUse, PairHash> uses_;
  std::vector<Pair> grown_;
  std::priority_queue<Candidate> candidates_;
  BytePairs result_;
};

}  // namespace

std::vector<std::string_view> split_pretokens(std::string_view text) {
  std::vector<std::string_view> pretokens;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_cut(text, at);
    pretokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return pretokens;
}

BytePairs train_byte_pairs(std::span<const std::string_view> texts, std::size_t merge_count) {
  return Trainer(texts).train(merge_count);
}

struct BytePairEncoder::Ranks {
  struct Merge {
    std::size_t rank;
    TokenId merged;
  };
  std::unordered_map<Pair, Merge, PairHash> merges;
};

BytePairEncoder::BytePairEncoder(const BytePairs& pairs) : ranks_(std::make_unique<Ranks>()) {
  std::unordered_map<std::string_view, TokenId> ids;
  for (std::size_t id = 0; id < pairs.tokens.size(); ++id) ids.emplace(pairs.tokens[id], static_cast<TokenId>(id));
  for (std::size_t rank = 0; rank < pairs.merges.size(); ++rank) {
    const auto& [left, right] = pairs.merges[rank];
    ranks_->merges[pairs.merges[rank]] = {rank, ids.at(pairs.tokens[left] + pairs.tokens[right])};
  }
}

BytePairEncoder::~BytePairEncoder() = default;

std::vector<TokenId> BytePairEncoder::encode(std::string_view text) const {
  std::vector<TokenId> out;
  for (const std::string_view pretoken : split_pretokens(text)) {
    std::vector<TokenId> ids = bytes_of(pretoken);
    while (true) {
      const Ranks::Merge* best = nullptr;
      Pair best_pair;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto found = ranks_->merges.find({ids[i], ids[i + 1]});
        if (found == ranks_->merges.end() || (best && best->rank <= found->second.rank)) continue;
        best = &found->second;
        best_pair = found->first;
      }
      if (!best) break;
      merge_in(ids, best_pair, best->merged);
    }
    out.insert(out.end(), ids.begin(), ids.end());
  }
  return out;
}

}  // namespace kvkeep::gguf
