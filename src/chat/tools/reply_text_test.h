#pragma once

// Replies in tests: text that is cut into pieces as a tokenizer would, and what a parser made of it, in one line.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/fake_vocabulary_test.h"
#include "chat/tools/reply_parser.h"

namespace kvkeep::chat::tools {

inline constexpr ThinkingTags kThink = {"<think>", "</think>"};

// Every tag of every format as a token of its own, as the models' vocabularies have them.
inline std::vector<SpecialToken> tag_tokens() {
  std::vector<SpecialToken> tokens;
  for (const char* spelling : {"<tool_call>",
                               "</tool_call>",
                               "<think>",
                               "</think>",
                               "[THINK]",
                               "[/THINK]",
                               "[TOOL_CALLS]",
                               "[ARGS]",
                               "[CALL_ID]",
                               "<｜tool▁calls▁begin｜>",
                               "<｜tool▁calls▁end｜>",
                               "<｜tool▁call▁begin｜>",
                               "<｜tool▁call▁end｜>",
                               "<｜tool▁sep｜>",
                               "｜DSML｜",
                               "<|start|>",
                               "<|channel|>",
                               "<|message|>",
                               "<|constrain|>",
                               "<|end|>",
                               "<|call|>",
                               "<|return|>",
                               "<arg_key>",
                               "</arg_key>",
                               "<arg_value>",
                               "</arg_value>",
                               "<|tool_calls_section_begin|>",
                               "<|tool_calls_section_end|>",
                               "<|tool_call_begin|>",
                               "<|tool_call_argument_begin|>",
                               "<|tool_call_end|>",
                               "<minimax:tool_call>",
                               "</minimax:tool_call>",
                               "<|tool_call_start|>",
                               "<|START_ACTION|>",
                               "<|END_ACTION|>",
                               "<|START_RESPONSE|>",
                               "<|END_RESPONSE|>",
                               "<|START_THINKING|>",
                               "<|END_THINKING|>",
                               "<|tool_call>",
                               "<tool_call|>",
                               "<|\"|>",
                               "<|python_tag|>"}) {
    tokens.push_back({.id = 0, .spelling = spelling, .control = true});
  }
  return tokens;
}

struct Piece {
  std::string text;
  bool is_marker = false;
};

// Markers whole, everything else byte by byte.
inline std::vector<Piece> pieces_of(std::string_view text, const MarkerSet& markers) {
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = markers.next(text, at);
    const std::size_t end = found ? found->begin : text.size();
    for (; at < end; ++at) pieces.push_back({std::string(1, text[at]), false});
    if (found) pieces.push_back({std::string(text.substr(found->begin, found->end - found->begin)), true});
    if (found) at = found->end;
  }
  return pieces;
}

// Neighbouring text joined where `joins` says so; markers stay whole.
template <typename Joins>
std::vector<Piece> joined(const std::vector<Piece>& pieces, Joins joins) {
  std::vector<Piece> result;
  for (const Piece& piece : pieces) {
    const bool can_join = !result.empty() && !result.back().is_marker && !piece.is_marker;
    if (can_join && joins()) {
      result.back().text += piece.text;
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

// "T(text)R(thinking)C(name {arguments})", neighbours of one kind joined; "C(name {argum~)" was cut off. Ids that stand
// in `sampled` are given, too: "C(name#id {})".
inline std::string in_one_line(const std::vector<ReplyDelta>& deltas, std::string_view sampled = {}) {
  std::string line;
  DeltaKind last = DeltaKind::kCallEnd;
  for (const ReplyDelta& delta : deltas) {
    const bool is_call = delta.kind != DeltaKind::kText && delta.kind != DeltaKind::kReasoning;
    if (delta.kind == last && !is_call) line.pop_back();
    if (delta.kind == DeltaKind::kText && delta.kind != last) line += "T(";
    if (delta.kind == DeltaKind::kReasoning && delta.kind != last) line += "R(";
    if (delta.kind == DeltaKind::kCallBegin) {
      const bool is_own_id = sampled.find(delta.call_id) != std::string_view::npos;
      line += "C(" + delta.call_name + (is_own_id ? "#" + delta.call_id : "") + " ";
    }
    line += delta.text;
    if (delta.kind == DeltaKind::kCallEnd && !delta.is_whole) line += "~";
    if (delta.kind == DeltaKind::kCallEnd || !is_call) line += ")";
    last = delta.kind;
  }
  return line;
}

inline std::vector<ReplyDelta> deltas_of(const ReplyFormat& format, const std::vector<Piece>& pieces,
                                         const ToolSet& tools, const ReplyOptions& options, bool cut_off = false) {
  ReplyParser parser(format, tools, options);
  std::vector<ReplyDelta> all;
  for (const Piece& piece : pieces) {
    for (ReplyDelta& delta : parser.feed(piece.text, piece.is_marker)) all.push_back(std::move(delta));
  }
  for (ReplyDelta& delta : parser.finish(cut_off)) all.push_back(std::move(delta));
  return all;
}

// Checks the order of every reply's deltas: calls stand together, numbered, and their arguments are a JSON object
// exactly if they are whole. Returns the fault, or "".
inline std::string broken_rule(const std::vector<ReplyDelta>& deltas) {
  std::size_t calls = 0;
  bool open = false;
  std::string arguments;
  for (const ReplyDelta& delta : deltas) {
    const bool is_call = delta.kind != DeltaKind::kText && delta.kind != DeltaKind::kReasoning;
    if (is_call != (open || delta.kind == DeltaKind::kCallBegin)) return "a call's deltas do not stand together";
    if (is_call && delta.call_index != calls) return "a call has the wrong number";
    if (delta.kind == DeltaKind::kCallBegin) {
      if (open || delta.call_id.empty() || delta.call_name.empty()) return "a call begins wrong";
      open = true;
      arguments.clear();
    }
    arguments += delta.text;
    if (delta.kind != DeltaKind::kCallEnd) continue;
    const auto object = nlohmann::json::parse(arguments, nullptr, false);
    if (object.is_object() != delta.is_whole) return "whole, and no object, or the other way round: " + arguments;
    if (object.is_discarded() != !delta.is_whole) return "what is broken off can be parsed: " + arguments;
    open = false;
    ++calls;
  }
  return open ? "a call has no end" : "";
}

inline ReplyOptions with_calls() { return {.calls = true, .id_seed = "seed"}; }

}  // namespace kvkeep::chat::tools
