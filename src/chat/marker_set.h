#pragma once

// Decides which tokens are markers, and finds their spellings in a text.
//
// A marker is any CONTROL token, and any USER_DEFINED token whose spelling the chat template or a tool, reasoning or
// fill-in-the-middle format uses. Other USER_DEFINED tokens are text: Gemma keeps runs of newlines and HTML tags there.
// A spelling of only white space or a letter or two is never a marker, although every template contains it.
//
// Immutable after construction, thread safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "base/vocabulary.h"

namespace kvkeep::chat {

// A marker, and how its spelling stays text when it comes from a message.
struct Marker {
  TokenId id = 0;
  std::string spelling;
  bool control = false;
  bool strips_before = false;
  bool strips_after = false;
  // The tokenizer makes the marker from plain text: such text is tokenized in two pieces, cut at split_at.
  bool forms_from_text = false;
  // Bytes of the spelling in the first piece; 0 if no cut keeps the marker from forming.
  std::size_t split_at = 0;
};

// An occurrence of a spelling: bytes [begin, end) of the text that was scanned.
struct MarkerMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  const Marker* marker = nullptr;
};

class MarkerSet {
 public:
  // Tokenizes each marker's spelling once (a few milliseconds for the largest vocabularies).
  MarkerSet(const Vocabulary& vocabulary, std::string_view template_source);
  MarkerSet(const MarkerSet&) = delete;  // matches point into it
  MarkerSet& operator=(const MarkerSet&) = delete;

  const std::vector<Marker>& markers() const { return markers_; }
  const Marker* find(TokenId id) const;
  bool contains(TokenId id) const { return find(id) != nullptr; }

  // The next occurrence at or after `from`: the leftmost, and there the longest spelling.
  std::optional<MarkerMatch> next(std::string_view text, std::size_t from) const;
  // Bytes at the end of text that begin a longer spelling: the longest suffix that is a proper prefix of a marker.
  std::size_t open_tail(std::string_view text) const;
  bool starts_marker(char first) const { return first_bytes_[static_cast<std::uint8_t>(first)]; }

 private:
  // A trie over the spellings: children of a node lie in one sorted run.
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    const Marker* marker = nullptr;
  };
  void insert(const Marker& marker);
  const Node* child(const Node& node, char byte) const;
  void plan_split(const Vocabulary& vocabulary, Marker& marker) const;

  std::vector<Marker> markers_;
  std::unordered_map<TokenId, const Marker*> by_id_;
  std::vector<Node> nodes_;
  std::vector<bool> first_bytes_ = std::vector<bool>(256, false);
  std::size_t longest_bytes_ = 0;
};

// The rule above for one token, for tests and for tools that list a model's markers.
bool is_marker(const SpecialToken& token, std::string_view template_source);

}  // namespace kvkeep::chat
