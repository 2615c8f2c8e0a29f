// Pictures and sounds in recorded requests. A recording tells which file was sent where, but does not have the file.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/hash.h"
#include "server/api/media_parts.h"
#include "server/trace/trace_file.h"

namespace kvkeep::server {
namespace {

using api::Json;

// The first bytes of the formats of sounds that are read.
bool is_sound(std::string_view base64) {
  constexpr std::size_t kHead = 16;
  const Result<std::string> head = api::decode_base64(base64.substr(0, kHead));
  if (!head || head->size() < 2) return false;
  const bool is_mp3 = (*head)[0] == '\xff' && ((*head)[1] & '\xe0') == '\xe0';
  return is_mp3 || head->starts_with("ID3") || head->starts_with("fLaC") ||
         (head->starts_with("RIFF") && head->substr(8) == "WAVE");
}

void hide(std::string& text, std::size_t begin) {
  const std::string_view base64 = std::string_view(text).substr(begin);
  ByteHasher hasher;
  hasher.append(std::as_bytes(std::span(base64)));
  const std::string hash = hasher.finish<Hash256<struct RecordedMediaTag>>().hex(16);
  text.replace(begin, std::string::npos,
               fmt::format("kvkeep-media:{}:{}:{}", is_sound(base64) ? "sound" : "picture", hash, base64.size()));
}

void hide_url(std::string& text) {
  constexpr std::string_view kBase64 = ";base64,";
  if (!text.starts_with("data:")) return;
  const std::size_t found = std::string_view(text).substr(0, 256).find(kBase64);
  if (found != std::string_view::npos) hide(text, found + kBase64.size());
}

// Returns true for a file in the place of a URL, as llama-server's clients may send it. Calls of tools may have an
// address there, too, but none so long without a point.
bool is_base64(std::string_view url) {
  constexpr std::size_t kShortest = 32;
  return url.size() >= kShortest && api::decode_base64(url).ok();
}

// Where dialects have files: as URLs, or in base64 alone.
bool is_url(std::string_view key) { return key == "url" || key == "image_url" || key == "file_url"; }
bool is_file(std::string_view key, std::string_view parent) {
  return key == "file_data" || (key == "data" && (parent == "source" || parent == "input_audio")) ||
         parent == "multimodal_data";
}

// `key` names the value in its parent; the elements of an array have the array's name as their parent's.
void visit(Json& value, std::string_view key, std::string_view parent) {
  if (value.is_object()) {
    for (auto& [name, member] : value.items()) visit(member, name, key);
  } else if (value.is_array()) {
    for (Json& element : value) visit(element, "", key);
  } else if (value.is_string()) {
    auto& text = value.get_ref<std::string&>();
    if (text.starts_with("data:") && (is_url(key) || is_file(key, parent))) {
      hide_url(text);
    } else if (is_file(key, parent) || (is_url(key) && is_base64(text))) {
      hide(text, 0);
    }
  }
}

}  // namespace

void hide_media(Json& body) { visit(body, "", ""); }

}  // namespace kvkeep::server
