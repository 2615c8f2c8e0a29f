#pragma once

// Finds stop strings in text that arrives in pieces, and holds back what may still become one.
//
// The stop that ends first wins; of several that end there, the longest, however the text was cut into pieces. The stop
// string itself is not part of the output.
//
// Not thread safe: one object per stream.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat {

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
