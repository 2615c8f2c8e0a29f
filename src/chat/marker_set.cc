#include "chat/marker_set.h"

#include <algorithm>
#include <array>

namespace kvkeep::chat {
namespace {

// Spellings of tool, reasoning and fill-in-the-middle formats that vocabularies carry as USER_DEFINED tokens, whether
// or not the model's chat template mentions them.
constexpr std::array kFormatSpellings = std::to_array<std::string_view>({
    "<think>",
    "</think>",
    "<seed:think>",
    "</seed:think>",
    "[THINK]",
    "[/THINK]",
    "<reasoning>",
    "</reasoning>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<tool_calls>",
    "</tool_calls>",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CONTENT]",
    "[CALL_ID]",
    "[ARGS]",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "｜DSML｜",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<fim_pad>",
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<file_sep>",
    "<repo_name>",
    "[PREFIX]",
    "[SUFFIX]",
    "[MIDDLE]",
    "<PRE>",
    "<SUF>",
    "<MID>",
    "<EOT>",
    "<｜fim▁begin｜>",
    "<｜fim▁hole｜>",
    "<｜fim▁end｜>",
});
constexpr std::size_t kShortestMarkerBytes = 3;

bool looks_like_marker(std::string_view spelling) {
  if (spelling.size() < kShortestMarkerBytes) return false;
  if (spelling.find_first_of(" \t\r\n") != std::string_view::npos) return false;
  if (spelling.find("▁▁") != std::string_view::npos) return false;  // a run of spaces in SentencePiece's spelling
  // Words and punctuation that a vocabulary lists as USER_DEFINED (HTML tags aside) are not written in brackets.
  const bool angled = spelling.front() == '<' && spelling.back() == '>';
  const bool squared = spelling.front() == '[' && spelling.back() == ']';
  return angled || squared || spelling.find('|') != std::string_view::npos;
}

bool starts_code_point(char byte) { return (static_cast<std::uint8_t>(byte) & 0xC0) != 0x80; }

// Positions inside a spelling where it may be cut, the middle first: both halves then look least like a marker.
std::vector<std::size_t> cut_positions(std::string_view spelling) {
  std::vector<std::size_t> cuts;
  for (std::size_t cut = 1; cut < spelling.size(); ++cut) {
    if (starts_code_point(spelling[cut])) cuts.push_back(cut);
  }
  const auto distance = [&](std::size_t cut) {
    return std::max(cut * 2, spelling.size()) - std::min(cut * 2, spelling.size());
  };
  std::ranges::sort(cuts, {}, [&](std::size_t cut) { return std::pair(distance(cut), cut); });
  return cuts;
}

}  // namespace

bool is_marker(const SpecialToken& token, std::string_view template_source) {
  if (token.control) return true;
  if (std::ranges::find(kFormatSpellings, token.spelling) != kFormatSpellings.end()) return true;
  if (!looks_like_marker(token.spelling)) return false;
  return template_source.find(token.spelling) != std::string_view::npos;
}

MarkerSet::MarkerSet(const Vocabulary& vocabulary, std::string_view template_source) : nodes_(1) {
  for (const SpecialToken& token : vocabulary.special_tokens()) {
    if (token.spelling.empty() || !is_marker(token, template_source)) continue;
    markers_.push_back({.id = token.id,
                        .spelling = token.spelling,
                        .control = token.control,
                        .strips_before = token.strips_before,
                        .strips_after = token.strips_after,
                        .forms_from_text = false,
                        .split_at = 0});
  }
  for (const Marker& marker : markers_) by_id_.emplace(marker.id, &marker);
  for (const Marker& marker : markers_) insert(marker);
  for (Marker& marker : markers_) plan_split(vocabulary, marker);
}

const Marker* MarkerSet::find(TokenId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

void MarkerSet::insert(const Marker& marker) {
  std::uint32_t at = 0;
  for (const char byte : marker.spelling) {
    auto& children = nodes_[at].children;
    auto place = std::ranges::lower_bound(children, byte, {}, &std::pair<char, std::uint32_t>::first);
    if (place == children.end() || place->first != byte) {
      const auto fresh = static_cast<std::uint32_t>(nodes_.size());
      children.emplace(place, byte, fresh);
      nodes_.emplace_back();  // invalidates `children`
      at = fresh;
    } else {
      at = place->second;
    }
  }
  if (nodes_[at].marker == nullptr) nodes_[at].marker = &marker;  // of two tokens with one spelling the first counts
  first_bytes_[static_cast<std::uint8_t>(marker.spelling.front())] = true;
  longest_bytes_ = std::max(longest_bytes_, marker.spelling.size());
}

const MarkerSet::Node* MarkerSet::child(const Node& node, char byte) const {
  const auto place = std::ranges::lower_bound(node.children, byte, {}, &std::pair<char, std::uint32_t>::first);
  if (place == node.children.end() || place->first != byte) return nullptr;
  return &nodes_[place->second];
}

std::optional<MarkerMatch> MarkerSet::next(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_marker(text[begin])) continue;
    std::optional<MarkerMatch> longest;
    const Node* node = &nodes_.front();
    for (std::size_t at = begin; at < text.size() && (node = child(*node, text[at])) != nullptr; ++at) {
      if (node->marker != nullptr) longest = MarkerMatch{begin, at + 1, node->marker};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

std::size_t MarkerSet::open_tail(std::string_view text) const {
  const std::size_t reach = std::min(text.size(), longest_bytes_);
  for (std::size_t length = reach; length > 0; --length) {
    const Node* node = &nodes_.front();
    for (std::size_t at = text.size() - length; at < text.size() && node != nullptr; ++at)
      node = child(*node, text[at]);
    if (node != nullptr && !node->children.empty()) return length;
  }
  return 0;
}

void MarkerSet::plan_split(const Vocabulary& vocabulary, Marker& marker) const {
  const auto yields_marker = [&](const std::vector<TokenId>& tokens) {
    return std::ranges::any_of(tokens, [&](TokenId id) { return contains(id); });
  };
  marker.forms_from_text = yields_marker(vocabulary.tokenize_text(marker.spelling));
  if (!marker.forms_from_text) return;
  const std::string_view spelling = marker.spelling;
  for (const std::size_t cut : cut_positions(spelling)) {
    if (yields_marker(vocabulary.tokenize_text(spelling.substr(0, cut)))) continue;
    if (yields_marker(vocabulary.tokenize_continuation(spelling.substr(cut)))) continue;
    marker.split_at = cut;
    return;
  }
}

}  // namespace kvkeep::chat
