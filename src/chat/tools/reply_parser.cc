#include "chat/tools/reply_parser.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "chat/tools/harmony_reply.h"
#include "chat/tools/tagged_reply.h"

namespace kvkeep::chat::tools {
namespace {

constexpr std::size_t kLongestIdBytes = 128;
constexpr std::size_t kMistralIdLetters = 9;

bool is_alphanumeric(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  });
}

std::string digest(std::string_view seed, std::size_t index, std::size_t letters) {
  ByteHasher hasher;
  hasher.append_field(seed);
  hasher.append_field(static_cast<std::uint64_t>(index));
  return hasher.finish<Hash256<struct CallIdTag>>().hex().substr(0, letters);
}

// Templates of some models print ids, in a form of their own; those models write such ids.
bool is_own_form(FormatKind format, std::string_view id) {
  if (id.empty() || id.size() > kLongestIdBytes) return false;
  if (format == FormatKind::kKimi) return true;
  return format == FormatKind::kMistral && id.size() == kMistralIdLetters && is_alphanumeric(id);
}

std::unique_ptr<ReplyReader> make_reader(const ReplyFormat& format, const ToolSet& tools, const ReplyOptions& options,
                                         ReplySink& sink) {
  if (format.kind == FormatKind::kHarmony) return std::make_unique<HarmonyReply>(format, tools, options, sink);
  return std::make_unique<TaggedReply>(format, tools, options, sink);
}

}  // namespace

void ReplySink::append(DeltaKind kind, std::string_view text) {
  if (text.empty() || ended_) return;
  if (deltas_.empty() || deltas_.back().kind != kind) deltas_.push_back({.kind = kind});
  deltas_.back().text += text;
}

void ReplySink::text(std::string_view text) { append(DeltaKind::kText, text); }

void ReplySink::reasoning(std::string_view text) {
  if (options_.reasoning != ReasoningFormat::kNone) append(DeltaKind::kReasoning, text);
  if (options_.reasoning != ReasoningFormat::kDeepSeek) append(DeltaKind::kText, text);
}

void ReplySink::thinking_tag(std::string_view spelling) {
  if (options_.reasoning != ReasoningFormat::kDeepSeek) append(DeltaKind::kText, spelling);
}

void ReplySink::calls(std::span<ParsedCall> calls) {
  for (const ParsedCall& call : calls) {
    if (ended_) return;
    begin_call(call);
    end_call(call.arguments, true);
  }
}

void ReplySink::begin_call(const ParsedCall& call) {
  std::string id = id_for(call);
  deltas_.push_back({.kind = DeltaKind::kCallBegin,
                     .text = {},
                     .call_index = call_count_++,
                     .call_id = std::move(id),
                     .call_name = call.name});
}

void ReplySink::call_arguments(std::string_view text) {
  append(DeltaKind::kCallArguments, text);
  if (!text.empty()) deltas_.back().call_index = call_count_ - 1;
}

void ReplySink::end_call(std::string_view rest, bool is_whole) {
  call_arguments(rest);
  deltas_.push_back({.kind = DeltaKind::kCallEnd,
                     .text = {},
                     .call_index = call_count_ - 1,
                     .call_id = {},
                     .call_name = {},
                     .is_whole = is_whole});
  if (is_whole) ++whole_calls_;
  ended_ = is_whole && !options_.parallel;
}

std::string ReplySink::id_for(const ParsedCall& call) {
  if (is_own_form(format_, call.id) && ids_.insert(call.id).second) return call.id;
  const bool is_short = format_ == FormatKind::kMistral;
  std::string id = digest(options_.id_seed, call_count_, is_short ? kMistralIdLetters : 24);
  if (!is_short) id.insert(0, "call_");
  ids_.insert(id);
  return id;
}

ReplyParser::ReplyParser(const ReplyFormat& format, const ToolSet& tools, ReplyOptions options)
    : sink_(format.kind, options), reader_(make_reader(format, tools, options, sink_)) {}

std::vector<ReplyDelta> ReplyParser::feed(std::string_view text, bool is_marker) {
  if (!text.empty() && !sink_.ended()) reader_->feed(text, is_marker);
  return sink_.take();
}

std::vector<ReplyDelta> ReplyParser::finish(bool cut_off) {
  if (!sink_.ended()) reader_->finish(cut_off);
  return sink_.take();
}

}  // namespace kvkeep::chat::tools
