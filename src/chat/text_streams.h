#pragma once

// Text that arrives in pieces of bytes: whole code points of it, and stop strings in it. Not thread safe: one object
// per stream.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat {

// Turns pieces of bytes into chunks of valid UTF-8.
//
// A model may spread a code point over several tokens, or stop in the middle of one. feed() gives back only whole code
// points and keeps the beginning of an unfinished one; bytes that can never become valid are replaced by U+FFFD, one
// for each maximal beginning of a code point, as browsers do. However the bytes are cut, the chunks together are the
// same text.
class Utf8Stream {
 public:
  // The text that is certain now; may be empty.
  std::string feed(std::string_view bytes);
  // The end of the stream: U+FFFD if a code point was left unfinished.
  std::string finish();

 private:
  std::string pending_;  // at most 3 bytes: a valid beginning of a code point
};

bool is_valid_utf8(std::string_view text);

// Finds stop strings in text that arrives in pieces, and holds back what may still become one.
//
// The stop that ends first wins; of several that end there, the longest, however the text was cut into pieces. The stop
// string itself is not part of the output.
class StopStrings {
 public:
  // Empty strings are left out: they would stop everything.
  explicit StopStrings(std::vector<std::string> stops);

  // Text that is certainly before any stop; may be empty. Returns "" after a stop was found.
  std::string feed(std::string_view text);
  // The end of the stream: returns the text that was held back.
  std::string finish();
  // The stop string that was found.
  const std::optional<std::string>& found() const { return found_; }

 private:
  std::size_t held_back() const;

  std::vector<std::string> stops_;
  std::string pending_;
  std::optional<std::string> found_;
};

}  // namespace kvkeep::chat
