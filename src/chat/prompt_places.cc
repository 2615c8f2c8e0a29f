#include "chat/prompt_places.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chat/render.h"

namespace kvkeep::chat {
namespace {

using nlohmann::ordered_json;

PromptRole role_of(const ordered_json& message) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return PromptRole::kNone;
  const std::string& name = role->get_ref<const std::string&>();
  if (name == "system" || name == "developer") return PromptRole::kSystem;
  if (name == "user") return PromptRole::kUser;
  if (name == "assistant") return PromptRole::kAssistant;
  return name == "tool" || name == "function" ? PromptRole::kTool : PromptRole::kNone;
}

PromptField field_of(std::string_view member) {
  if (member == "content") return PromptField::kContent;
  if (member == "reasoning_content" || member == "thinking") return PromptField::kThinking;
  return member == "tool_calls" ? PromptField::kCalls : PromptField::kOther;
}

bool has_thought(const ordered_json& message) {
  return std::ranges::any_of(message.items(), [](const auto& member) {
    return field_of(member.key()) == PromptField::kThinking && member.value().is_string() &&
           !member.value().template get_ref<const std::string&>().empty();
  });
}

// Gives each token the place of the span in which its first byte lies.
class PlaceReader {
 public:
  PlaceReader(const RenderedPrompt& prompt, PromptParts& parts) : prompt_(prompt), parts_(parts) { find_marker(0); }

  void add(TokenId id, Position at, std::size_t size) {
    if (media_left_ > 0) {
      --media_left_;
      return append({at, place()});
    }
    if (marker_ < prompt_.spans.size() && id == prompt_.spans[marker_].marker) {
      span_ = marker_;
      begin_ = byte_ = marker_begin_;
      if (is_media(prompt_.spans[span_])) {
        media_left_ = prompt_.spans[span_].ids - 1;
        size = 0;
      }
      find_marker(marker_ + 1);
    } else {
      byte_ = std::min(byte_, marker_begin_ == 0 ? 0 : marker_begin_ - 1);
      while (span_ + 1 < prompt_.spans.size() && begin_ + size_of(prompt_.spans[span_]) <= byte_) {
        begin_ += size_of(prompt_.spans[span_++]);
      }
    }
    if (span_ < prompt_.spans.size()) append({at, place()});
    byte_ += size;
  }

 private:
  static bool is_media(const PromptSpan& span) { return span.kind == SpanKind::kMedia && span.ids > 0; }
  // The ids of a picture have no text, whatever its name.
  static std::size_t size_of(const PromptSpan& span) { return span.kind == SpanKind::kMedia ? 0 : span.text.size(); }

  PromptPlace place() const {
    const PromptSpan& span = prompt_.spans[span_];
    const bool is_clients = span.kind == SpanKind::kMessageText || is_media(span);
    return is_clients ? prompt_.places.at(span.place) : PromptPlace{};
  }

  // Looks for the next marker, picture or sound from a span on, and its first byte.
  void find_marker(std::size_t from) {
    for (marker_ = from; marker_ < prompt_.spans.size(); ++marker_) {
      if (prompt_.spans[marker_].kind == SpanKind::kMarker || is_media(prompt_.spans[marker_])) break;
      marker_bytes_ += size_of(prompt_.spans[marker_]);
    }
    marker_begin_ = marker_ < prompt_.spans.size() ? marker_bytes_ : std::numeric_limits<std::size_t>::max();
    if (marker_ < prompt_.spans.size()) marker_bytes_ += size_of(prompt_.spans[marker_]);
  }

  // The template's words within one member (JSON's signs between strings) belong to it.
  void append(const PromptPart& part) {
    std::vector<PromptPart>& parts = parts_.parts;
    if (!parts.empty() && parts.back().place == part.place) return;
    const bool within = parts.size() > 1 && parts.back().place.field == PromptField::kTemplate &&
                        parts[parts.size() - 2].place == part.place;
    within ? parts.pop_back() : parts.push_back(part);
  }

  const RenderedPrompt& prompt_;
  PromptParts& parts_;
  std::size_t span_ = 0;
  std::size_t begin_ = 0;         // of that span, in bytes
  std::size_t byte_ = 0;          // of the next token
  std::size_t marker_ = 0;        // the next span that is a marker, picture or sound
  std::size_t marker_begin_ = 0;  // of that span; beyond all bytes if there is none
  std::size_t marker_bytes_ = 0;  // bytes before the spans that were not looked at yet
  std::size_t media_left_ = 0;    // further ids of the span, if it is a picture or sound
};

}  // namespace

PromptPlaces places_of(const ordered_json& messages, const ordered_json& tools) {
  PromptPlaces places;
  if (messages.is_array()) {
    for (const ordered_json& message : messages) {
      if (message.is_object()) {
        for (const auto& [member, value] : message.items()) {
          places.members.push_back({field_of(member), role_of(message), places.messages});
        }
        if (has_thought(message)) places.has_thoughts.push_back(places.messages);
      }
      ++places.messages;
    }
  }
  places.first_of_tools = static_cast<std::uint32_t>(places.members.size()) + 1;
  if (!tools.is_array()) return places;
  for (const ordered_json& tool : tools) {
    const std::size_t members = tool.is_object() ? tool.size() : 0;
    places.members.insert(places.members.end(), members, {PromptField::kTool, PromptRole::kNone, places.tools});
    ++places.tools;
  }
  return places;
}

PieceSizes::PieceSizes(const Vocabulary& vocabulary) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint16_t>::max();
  sizes_.reserve(vocabulary.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::size_t size = vocabulary.piece(static_cast<TokenId>(id), /*with_special=*/true).size();
    sizes_.push_back(static_cast<std::uint16_t>(std::min(size, kMost)));
  }
}

PromptParts parts_of(const RenderedPrompt& prompt, TokenSpan ids, const PieceSizes& sizes, std::size_t without_text) {
  PromptParts parts{
      .has_thoughts = prompt.places.has_thoughts, .messages = prompt.places.messages, .tools = prompt.places.tools};
  PlaceReader reader(prompt, parts);
  for (std::size_t at = 0; at < ids.size(); ++at) {
    reader.add(ids[at], Position{} + at, at < without_text ? 0 : sizes.of(ids[at]));
  }
  return parts;
}

void move_parts(PromptParts& parts, const std::vector<Position>& from, const std::vector<Position>& to, Position end) {
  if (from.size() != to.size()) return;
  std::size_t turn = 0;
  for (PromptPart& part : parts.parts) {
    while (turn < from.size() && from[turn] <= part.begin) ++turn;
    const Position begin = turn == 0 ? Position{} : from[turn - 1];
    const Position moved = (turn == 0 ? Position{} : to[turn - 1]) + (part.begin - begin);
    part.begin = std::min(moved, turn < to.size() ? to[turn] : end);
  }
}

}  // namespace kvkeep::chat
