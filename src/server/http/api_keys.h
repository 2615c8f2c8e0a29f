#pragma once

// The keys that open a server. Keys are kept and compared as BLAKE3 digests: the comparison takes the same time
// wherever the first difference is and however many keys there are, and leaks no key's length.

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

  // No keys: the server is open, and accepts() is true for everything.
  bool open() const { return digests_.empty(); }
  bool accepts(std::string_view candidate) const;

 private:
  using Digest = Hash256<struct ApiKeyTag>;
  static Digest digest_of(std::string_view key);

  std::vector<Digest> digests_;
};

// The keys in a key file: one per line, surrounding blanks dropped, empty lines and lines starting with '#' skipped.
std::vector<std::string> parse_key_lines(std::string_view text);

// The key a client presents: `Authorization: Bearer KEY` first, else `x-api-key: KEY`; empty if neither.
std::string_view presented_key(std::string_view authorization, std::string_view x_api_key);

// Why a request with these two fields, which no key opens, is refused: no key was sent, or a wrong one. Both messages
// say how a key is sent, and none repeats what was sent.
std::string key_refusal(std::string_view authorization, std::string_view x_api_key);

}  // namespace kvkeep::server
