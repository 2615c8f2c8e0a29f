#pragma once

// The API keys of a server. Keys are kept and compared as BLAKE3 digests: the comparison takes the same time wherever
// the first difference is and however many keys there are, and leaks no key's length.

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace kvkeep::server {

// Immutable once built; then thread safe.
class ApiKeys {
 public:
  ApiKeys() = default;
  explicit ApiKeys(const std::vector<std::string>& keys);

  // Without keys the server is open, and accepts() is true for everything.
  bool open() const { return digests_.empty(); }
  bool accepts(std::string_view candidate) const;

 private:
  using Digest = Hash256<struct ApiKeyTag>;
  static Digest digest_of(std::string_view key);

  std::vector<Digest> digests_;
};

// Returns the keys of a key file: one per line, outer blanks dropped, empty lines and lines that start with '#'
// skipped.
std::vector<std::string> parse_key_lines(std::string_view text);

// Returns the key that a client sends: `Authorization: Bearer KEY` first, else `x-api-key: KEY`; "" without both.
std::string_view presented_key(std::string_view authorization, std::string_view x_api_key);

// Why a request with these two fields is refused: no key was sent, or a wrong one. Both messages say how to send a key,
// and neither repeats what was sent.
std::string key_refusal(std::string_view authorization, std::string_view x_api_key);

}  // namespace kvkeep::server
