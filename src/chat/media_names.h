#pragma once

// Pictures and sounds in messages. Each has a name, which stands in its message's text while the template prints it;
// in the printed prompt the name is found again, and the file takes its place.
//
// No text of a request can spell such a name: it has 128 bits that are drawn at random after the request has come, for
// each request anew. So it does not matter which texts the template prints, or how. Pure; a few bytes per file.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/media_ids.h"

namespace kvkeep::chat {

class MediaNames {
 public:
  using Key = std::array<std::byte, 16>;

  // Without names: nothing is found.
  MediaNames() = default;
  // `key`: random bytes that no other request has, nor any client knows.
  explicit MediaNames(const Key& key);

  // Precondition: made of a key.
  std::string name(std::size_t number) const;

  // An occurrence of a name: bytes [begin, end) of the text that was searched.
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t number = 0;
  };
  // Returns the first name in the text at or after `from`.
  std::optional<Match> next(std::string_view text, std::size_t from) const;

 private:
  std::string key_;  // empty: there are none
};

// Return true if a text begins or ends with something that looks like a name, of whatever request: parts of a message
// are joined by newlines, but none stands next to a picture.
bool begins_with_media_name(std::string_view text);
bool ends_with_media_name(std::string_view text);

struct MediaFile {
  MediaHash hash = {};
  std::shared_ptr<const std::string> bytes = {};  // null: they are not read yet, or not kept any more
  std::string place = {};                         // in the request, for errors: "messages[0].content[1]"
  std::string url = {};                           // from which they are to be read; then there is no hash yet
  bool operator==(const MediaFile&) const = default;
};

// The files of one request, by the number in their name.
struct PromptMedia {
  MediaNames names;
  std::vector<MediaFile> files = {};
};

}  // namespace kvkeep::chat
