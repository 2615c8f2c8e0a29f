#pragma once

// Turns the bytes of sampled tokens into pieces for a ReplyParser: whole code points, stop strings cut, markers whole.
//
// Stop strings are looked for in everything the model writes, thoughts and calls included, as llama-server does. Not
// thread safe: one object per reply.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/text_streams.h"

namespace kvkeep::chat::tools {

struct ReplyPiece {
  std::string text;
  bool is_marker = false;
  bool operator==(const ReplyPiece&) const = default;
};

class PieceStream {
 public:
  explicit PieceStream(std::vector<std::string> stop_strings) : stop_strings_(std::move(stop_strings)) {}

  // Takes the text that is certain now. A marker's spelling is valid UTF-8.
  std::vector<ReplyPiece> feed(std::string_view bytes, bool is_marker);
  // The end of the reply.
  std::vector<ReplyPiece> finish();
  const std::optional<std::string>& found_stop() const { return stop_strings_.found(); }

 private:
  std::vector<ReplyPiece> cut(bool is_end);

  Utf8Stream utf8_;
  StopStrings stop_strings_;
  std::string released_;                                     // certain, but perhaps the first part of a marker
  std::size_t released_at_ = 0;                              // its place in the reply
  std::size_t written_ = 0;                                  // bytes of the reply that stop_strings_ has seen
  std::deque<std::pair<std::size_t, std::size_t>> markers_;  // places in the reply
};

}  // namespace kvkeep::chat::tools
