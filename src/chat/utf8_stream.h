#pragma once

// Turns pieces of bytes into chunks of valid UTF-8.
//
// A model may spread a code point over several tokens, or stop in the middle of one. feed() gives back only whole code
// points and keeps the beginning of an unfinished one; bytes that can never become valid are replaced by U+FFFD, one
// for each maximal beginning of a code point, as browsers do. However the bytes are cut, the chunks together are the
// same text.
//
// Not thread safe: one object per stream.

#include <string>
#include <string_view>

namespace kvkeep::chat {

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

}  // namespace kvkeep::chat
