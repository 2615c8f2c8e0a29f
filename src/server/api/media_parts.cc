#include "server/api/media_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace kvkeep::server::api {
namespace {

constexpr std::uint8_t kNoDigit = 64;

constexpr std::array<std::uint8_t, 256> make_digits() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kDigits.size(); ++i) {
    digits[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  }
  return digits;
}

// Returns the member of a part, which must be an object.
Result<const Json*> object_in(const Json& part, std::string_view name, const std::string& path) {
  const Json* value = field(part, name);
  if (value == nullptr) return invalid(fmt::format("'{}.{}' is required", path, name));
  if (!value->is_object()) return wrong_type(fmt::format("{}.{}", path, name), "an object", *value);
  return value;
}

Result<std::string_view> text_in(const Json& object, std::string_view name, const std::string& path) {
  const Json* value = field(object, name);
  if (value == nullptr) return invalid(fmt::format("'{}.{}' is required", path, name));
  if (!value->is_string()) return wrong_type(fmt::format("{}.{}", path, name), "a string", *value);
  return std::string_view(value->get_ref<const std::string&>());
}

Status check_not_stored(const Json& object, const std::string& path) {
  if (field(object, "file_id") == nullptr) return {};
  return invalid(fmt::format("'{}' refers to a file, but nothing is stored here: send a data: URL", path));
}

// Refuses a document by the name of its kind: as bytes it would only be none of the formats that are read.
Status check_kind(std::string_view data_url, const std::string& path) {
  const std::string_view head = data_url.substr(0, 256);
  const std::string_view kind = head.substr(5, head.find_first_of(";,") - 5);
  const bool is_other = kind.starts_with("application/") || kind.starts_with("text/") || kind.starts_with("video/");
  if (!is_other || kind == "application/octet-stream") return {};
  return invalid(fmt::format("'{}' is a file of type {}: of files, only pictures and sounds are read", path, kind));
}

// Returns the text after `word`, if it begins with that; letters may be written as \u0061.
std::optional<std::string_view> after(std::string_view text, std::string_view word) {
  constexpr std::size_t kEscape = 6;
  for (const char letter : word) {
    if (text.starts_with("\\u") && text.size() >= kEscape) {
      unsigned code = 0;
      const auto read = std::from_chars(text.data() + 2, text.data() + kEscape, code, 16);
      if (read.ptr != text.data() + kEscape || code != static_cast<unsigned char>(letter)) return std::nullopt;
      text.remove_prefix(kEscape);
    } else if (text.starts_with(letter)) {
      text.remove_prefix(1);
    } else {
      return std::nullopt;
    }
  }
  return text;
}

// Returns true if the JSON string whose text begins here is `word`.
bool is_string(std::string_view text, std::string_view word) {
  const auto rest = after(text, word);
  return rest && rest->starts_with('"');
}

constexpr std::string_view kBlanks = " \t\r\n";

// Returns the text of the member's name before the value that begins with the quote at `at`, up to its end and on;
// empty if the string is no member's value.
std::string_view name_before(std::string_view body, std::size_t at) {
  const std::size_t colon = body.substr(0, at).find_last_not_of(kBlanks);
  if (colon == std::string_view::npos || body[colon] != ':') return {};
  const std::size_t end = body.substr(0, colon).find_last_not_of(kBlanks);
  if (end == std::string_view::npos || end == 0 || body[end] != '"') return {};
  const std::size_t begin = body.rfind('"', end - 1);
  return begin == std::string_view::npos ? std::string_view() : body.substr(begin + 1);
}

// Reads digits one by one, up to the end of `text`.
class DigitReader {
 public:
  explicit DigitReader(char* out) : out_(out) {}

  char* end() const { return out_; }
  // Returns true between groups of four digits.
  bool at_group() const { return count_ % 4 == 0; }
  // Returns false if there is a digit too many, which holds no byte.
  bool is_whole() const { return count_ % 4 != 1; }
  // Takes four digits at once; false if there is anything else among them. Precondition: at_group().
  bool take_group(const char* text) {
    const std::uint32_t a = digit(text[0]);
    const std::uint32_t b = digit(text[1]);
    const std::uint32_t c = digit(text[2]);
    const std::uint32_t d = digit(text[3]);
    if (((a | b | c | d) & kNoDigit) != 0) return false;
    const std::uint32_t bits = a << 18 | b << 12 | c << 6 | d;
    out_[0] = static_cast<char>(bits >> 16);
    out_[1] = static_cast<char>(bits >> 8);
    out_[2] = static_cast<char>(bits);
    out_ += 3;
    return true;
  }
  // Takes one digit; line breaks count for nothing. Returns false for anything else.
  bool take(char c) {
    if (c == '\n' || c == '\r') return true;
    const std::uint32_t value = digit(c);
    if (value == kNoDigit) return false;
    bits_ = bits_ << 6 | value;
    if (++count_ % 4 != 1) *out_++ = static_cast<char>(bits_ >> (6 - 2 * ((count_ - 1) % 4)));
    return true;
  }

 private:
  static std::uint32_t digit(char c) {
    static constexpr std::array<std::uint8_t, 256> kDigits = make_digits();
    return kDigits[static_cast<std::uint8_t>(c)];
  }

  char* out_;
  std::uint32_t bits_ = 0;
  std::size_t count_ = 0;
};

}  // namespace

bool has_media_part(std::string_view body) {
  constexpr auto kTypes =
      std::to_array<std::string_view>({"image", "image_url", "input_image", "input_audio", "input_file", "file"});
  for (std::size_t at = body.find('"'); at != std::string_view::npos; at = body.find('"', at + 1)) {
    const std::string_view text = body.substr(at + 1);
    if (is_string(text, "multimodal_data")) return true;
    const std::size_t before = body.substr(0, at).find_last_not_of(kBlanks);
    const bool is_value = before != std::string_view::npos && body[before] == ':';
    const auto is_this = [text](std::string_view type) { return is_string(text, type); };
    if (is_value && std::ranges::any_of(kTypes, is_this)) return true;
  }
  return false;
}

bool may_name_remote_file(std::string_view body) {
  constexpr auto kNames = std::to_array<std::string_view>({"url", "image_url", "file_url"});
  for (std::size_t at = body.find('"'); at != std::string_view::npos; at = body.find('"', at + 1)) {
    if (!after(body.substr(at + 1), "http")) continue;
    const std::string_view name = name_before(body, at);
    if (std::ranges::any_of(kNames, [name](std::string_view each) { return is_string(name, each); })) return true;
  }
  return false;
}

// Pictures are megabytes, so groups of digits are taken at once wherever no line breaks stand among them.
Result<std::string> decode_base64(std::string_view text) {
  while (!text.empty() && (text.back() == '=' || text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::string bytes;
  const char* refusal = nullptr;
  bytes.resize_and_overwrite(text.size() / 4 * 3 + 3, [&](char* out, std::size_t) {
    DigitReader digits(out);
    for (std::size_t at = 0; at < text.size() && refusal == nullptr;) {
      if (digits.at_group() && text.size() - at >= 4 && digits.take_group(text.data() + at)) {
        at += 4;
      } else if (!digits.take(text[at++])) {
        refusal = "it is not base64";
      }
    }
    if (refusal == nullptr && !digits.is_whole()) refusal = "its base64 is cut off";
    return static_cast<std::size_t>(digits.end() - out);
  });
  if (refusal != nullptr) return invalid(refusal);
  return bytes;
}

std::string_view MediaReader::type_here(std::string_view type, const PartTypes& own) const {
  constexpr auto kText = std::to_array<std::string_view>({"text", "input_text", "output_text"});
  constexpr auto kPicture = std::to_array<std::string_view>({"image", "image_url", "input_image"});
  constexpr auto kSound = std::to_array<std::string_view>({"input_audio", "audio", "audio_url"});
  constexpr auto kFile = std::to_array<std::string_view>({"file", "input_file"});
  const auto is_one_of = [type](const auto& types) { return std::ranges::find(types, type) != types.end(); };
  const std::string_view here = is_one_of(kText)                    ? own.text
                                : is_one_of(kPicture) && pictures() ? own.picture
                                : is_one_of(kSound) && sound()      ? own.sound
                                : is_one_of(kFile) && any()         ? own.file
                                                                    : std::string_view();
  return here == type ? std::string_view() : here;
}

Result<std::string> MediaReader::add(std::string bytes, const std::string& path) {
  if (bytes.empty()) return invalid(fmt::format("'{}' is empty", path));
  const MediaHash hash = media_hash(rules_->key, std::as_bytes(std::span(bytes)));
  return add_file({hash, std::make_shared<const std::string>(std::move(bytes)), path});
}

Result<std::string> MediaReader::add_url(std::string_view url, const std::string& path) {
  return add_file({.hash = {}, .bytes = nullptr, .place = path, .url = std::string(url)});
}

Result<std::string> MediaReader::add_file(chat::MediaFile file) {
  const std::size_t number = media_.files.size();
  if (number >= kMostFiles) {
    return invalid(fmt::format("'{}': a request may have at most {} pictures and sounds", file.place, kMostFiles));
  }
  if (number == 0) media_.names = rules_->new_names();
  media_.files.push_back(std::move(file));
  return media_.names.name(number);
}

Result<std::string> MediaReader::from_base64(std::string_view data, const std::string& path) {
  if (!refusal_.empty()) return invalid(fmt::format("'{}': {}", path, refusal_));
  Result<std::string> bytes = decode_base64(data);
  if (!bytes) return invalid(fmt::format("'{}': {}", path, bytes.error().message));
  return add(*std::move(bytes), path);
}

Result<std::string> MediaReader::from_url(std::string_view url, const std::string& path) {
  constexpr std::string_view kFile = "file://";
  constexpr std::string_view kBase64 = ";base64,";
  if (!refusal_.empty()) return invalid(fmt::format("'{}': {}", path, refusal_));
  if (url.starts_with("data:")) {
    const std::size_t begin = url.substr(0, 256).find(kBase64);
    if (begin == std::string_view::npos) return invalid(fmt::format("'{}': a data: URL must be in base64", path));
    return from_base64(url.substr(begin + kBase64.size()), path);
  }
  if (url.starts_with(kFile)) {
    if (!rules_->read_file) return invalid(fmt::format("'{}': file: URLs need a server with --media-path", path));
    return add_url(url, path);
  }
  // llama-server takes base64 alone as well. A URL is none: it has a colon.
  if (Result<std::string> bytes = decode_base64(url); bytes && !bytes->empty()) return add(*std::move(bytes), path);
  return fetch(url, path);
}

Result<std::string> MediaReader::fetch(std::string_view url, const std::string& path) {
  const bool is_remote = url.starts_with("http://") || url.starts_with("https://");
  if (!is_remote) return invalid(fmt::format("'{}' must be a data:, file:, http: or https: URL, or base64", path));
  if (!rules_->fetch) {
    return invalid(fmt::format(
        "'{}': this server fetches nothing from other hosts without --allow-remote-media: send the file in base64",
        path));
  }
  if (++fetched_ > kMostFetched) {
    return invalid(
        fmt::format("'{}': of a request, at most {} files are fetched from other hosts", path, kMostFetched));
  }
  return add_url(url, path);
}

Result<MixedPrompt> MediaReader::prompt_with_files(std::string_view text, const Json& data, const std::string& path) {
  if (rules_ == nullptr) return invalid(fmt::format("'{}': this model reads text only", path));
  if (!data.is_array()) return wrong_type(path, "an array of files in base64", data);
  MixedPrompt prompt;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", path, i);
    if (!data[i].is_string()) return wrong_type(place, "a file in base64", data[i]);
    const std::size_t end = text.find(rules_->marker);
    if (end == std::string_view::npos) return invalid(fmt::format("'{}' has no marker in the prompt", place));
    TRY_ASSIGN(const std::string name, from_base64(data[i].get_ref<const std::string&>(), place));
    if (end > 0) prompt.emplace_back(std::string(text.substr(0, end)));
    prompt.emplace_back(media_.files.back());
    text.remove_prefix(end + rules_->marker.size());
  }
  if (text.find(rules_->marker) != std::string_view::npos) {
    return invalid(fmt::format("'{}' has fewer files than the prompt has markers", path));
  }
  if (!text.empty()) prompt.emplace_back(std::string(text));
  return prompt;
}

Result<std::string> MediaReader::image_url(const Json& part, const std::string& path) {
  TRY_ASSIGN(const Json* image, object_in(part, "image_url", path));
  TRY_ASSIGN(const std::string_view url, text_in(*image, "url", path + ".image_url"));
  return from_url(url, path);
}

Result<std::string> MediaReader::input_audio(const Json& part, const std::string& path) {
  TRY_ASSIGN(const Json* audio, object_in(part, "input_audio", path));
  TRY_ASSIGN(const std::string_view data, text_in(*audio, "data", path + ".input_audio"));
  return from_base64(data, path);
}

Result<std::string> MediaReader::input_image(const Json& part, const std::string& path) {
  TRY(check_not_stored(part, path));
  TRY_ASSIGN(const std::string_view url, text_in(part, "image_url", path));
  return from_url(url, path);
}

Result<std::string> MediaReader::file_in(const Json& object, const std::string& path) {
  TRY(check_not_stored(object, path));
  TRY_ASSIGN(const std::string_view data, text_in(object, "file_data", path));
  if (!data.starts_with("data:")) return from_base64(data, path);
  TRY(check_kind(data, path));
  return from_url(data, path);
}

Result<std::string> MediaReader::chat_file(const Json& part, const std::string& path) {
  TRY_ASSIGN(const Json* file, object_in(part, "file", path));
  return file_in(*file, path + ".file");
}

Result<std::string> MediaReader::input_file(const Json& part, const std::string& path) {
  if (field(part, "file_url") == nullptr) return file_in(part, path);
  TRY_ASSIGN(const std::string_view url, text_in(part, "file_url", path));
  return from_url(url, path);
}

Result<std::string> MediaReader::image_block(const Json& part, const std::string& path) {
  TRY_ASSIGN(const Json* source, object_in(part, "source", path));
  TRY_ASSIGN(const std::string_view type, text_in(*source, "type", path + ".source"));
  if (type == "base64") {
    TRY_ASSIGN(const std::string_view data, text_in(*source, "data", path + ".source"));
    return from_base64(data, path);
  }
  if (type == "url") {
    TRY_ASSIGN(const std::string_view url, text_in(*source, "url", path + ".source"));
    return from_url(url, path);
  }
  return invalid(fmt::format("'{}.source.type' must be 'base64' or 'url', not '{}'", path, type));
}

}  // namespace kvkeep::server::api
