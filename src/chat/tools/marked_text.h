#pragma once

// Text of which some runs are marker tokens, read from the front; and tags to look for in it.
//
// If the vocabulary has a tag's spelling, or a part of it, as a marker, only that token is the tag: text that spells it
// stays text, so that a model that repeats a message cannot open a call. Otherwise text is the tag.
//
// Markers arrive whole. Not thread safe.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/marker_set.h"

namespace kvkeep::chat::tools {

class MarkedText {
 public:
  void append(std::string_view text, bool is_marker);
  // The text that was not dropped yet. Positions count from its first byte.
  std::string_view text() const { return std::string_view(bytes_).substr(front_); }
  std::size_t size() const { return bytes_.size() - front_; }
  bool empty() const { return size() == 0; }
  // Exactly these bytes are a marker.
  bool is_marker(std::size_t begin, std::size_t end) const;
  // Cost: constant per byte, over the life of the object.
  void drop(std::size_t count);

 private:
  std::string bytes_;
  std::size_t front_ = 0;                                    // of bytes_: those before it are dropped
  std::size_t dropped_ = 0;                                  // bytes that are no longer in bytes_
  std::deque<std::pair<std::size_t, std::size_t>> markers_;  // ascending, in bytes since the beginning
};

enum class Match { kNo, kOpen, kYes };  // kOpen: so far yes, but the text ends within the tag

struct TagMarker {
  std::size_t begin = 0;
  std::size_t end = 0;
  TokenId id = 0;
};

// Immutable, thread safe.
class Tag {
 public:
  // Never matches.
  Tag() = default;
  Tag(std::string_view spelling, const MarkerSet& markers);

  Match match(const MarkedText& text, std::size_t at) const;
  bool starts_with(char first) const { return !spelling_.empty() && spelling_.front() == first; }
  const std::string& spelling() const { return spelling_; }
  std::size_t size() const { return spelling_.size(); }
  bool exists() const { return !spelling_.empty(); }
  // A marker is a part of it, so that only the model itself can write it.
  bool is_unforgeable() const { return !markers_.empty(); }
  // The parts that must be markers.
  const std::vector<TagMarker>& markers() const { return markers_; }

 private:
  std::string spelling_;
  std::vector<TagMarker> markers_;
};

}  // namespace kvkeep::chat::tools
