#include "server/http/api_keys.h"

#include "server/http/http_message.h"

namespace kvkeep::server {
namespace {
std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}
}  // namespace

ApiKeys::ApiKeys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(digest_of(key));
}

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
  ByteHasher hasher;
  hasher.append_field(key);
  return hasher.finish<Digest>();
}

bool ApiKeys::accepts(std::string_view candidate) const {
  if (open()) return true;
  const Digest digest = digest_of(candidate);
  unsigned matches = 0;
  for (const Digest& known : digests_) {
    unsigned difference = 0;
    for (std::size_t i = 0; i < known.bytes.size(); ++i) difference |= known.bytes[i] ^ digest.bytes[i];
    matches |= static_cast<unsigned>(difference == 0);
  }
  return matches != 0;
}

std::vector<std::string> parse_key_lines(std::string_view text) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = without_blanks(text.substr(0, end));
    if (!line.empty() && line.front() != '#') keys.emplace_back(line);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return keys;
}

std::string_view presented_key(std::string_view authorization, std::string_view x_api_key) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() > kScheme.size() && equals_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    return without_blanks(authorization.substr(kScheme.size()));
  }
  return without_blanks(x_api_key);
}

std::string key_refusal(std::string_view authorization, std::string_view x_api_key) {
  const std::string how = "; send one of this server's keys as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'";
  if (!presented_key(authorization, x_api_key).empty()) return "The API key is wrong" + how;
  // Users of other servers often send the key without "Bearer" before it.
  if (!without_blanks(authorization).empty()) return "The Authorization field does not contain 'Bearer KEY'" + how;
  return "No API key was sent" + how;
}

}  // namespace kvkeep::server
