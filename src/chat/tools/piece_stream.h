#pragma once

// Turns the bytes of sampled tokens into pieces for a ReplyParser: whole code points, stop strings cut, markers whole;
// and ends a reply by its lines.
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

// Limits of a reply that count in lines, for editors that complete code: a reply that takes too long ends with a line,
// and a reply ends where a line is indented less than the code that it continues.
struct LineLimitOptions {
  double longest_ms = 0;         // the reply ends with the first line that is complete after this time; 0: no limit
  std::size_t least_indent = 0;  // blanks and tabs before the text of each line but the first; 0: no limit
};

class LineLimits {
 public:
  explicit LineLimits(const LineLimitOptions& options) : options_(options) {}

  // Reads on, and cuts the text after the end of the reply. `elapsed_ms`: since its first token.
  void apply(std::vector<ReplyPiece>& pieces, double elapsed_ms);
  // Returns true if a limit has ended the reply.
  bool reached() const { return reached_; }

 private:
  std::size_t allowed(const std::string& text, double elapsed_ms);

  const LineLimitOptions options_;
  bool reached_ = false;
  bool in_indent_ = false;  // in the white space that a line begins with, except the first line's
  std::size_t indent_ = 0;
};

}  // namespace kvkeep::chat::tools
