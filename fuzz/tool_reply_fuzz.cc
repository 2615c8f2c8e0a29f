// Replies of models in every format: however a reply is cut into pieces it is read as the same calls, thoughts and
// text, and arguments that are passed on as whole are a JSON object.
//
// The first byte is the format, the second says how it is read, the next four cut the rest.

#include <random>

#include "chat/text_streams.h"
#include "chat/tools/reply_text_test.h"
#include "fuzz.h"

namespace kvkeep::chat::tools {
namespace {

constexpr std::size_t kFormats = static_cast<std::size_t>(FormatKind::kGemma4) + 1;

const ToolSet& tools(bool is_closed) {
  static const auto json = nlohmann::ordered_json::parse(R"([{"type":"function","function":{"name":"f","parameters":{
    "type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},
    "o":{"type":["object","null"]},"e":{}}}}},{"type":"function","function":{"name":"g"}}])");
  static const ToolSet open(json);
  static const ToolSet closed(json, true);
  return is_closed ? closed : open;
}

// Where thoughts are written twice, the two ways are mixed as the pieces come: one after the other, then.
std::string told(std::vector<ReplyDelta> deltas, ReasoningFormat reasoning) {
  if (reasoning != ReasoningFormat::kDeepSeekLegacy) return in_one_line(deltas);
  std::vector<ReplyDelta> thoughts;
  for (const ReplyDelta& delta : deltas) {
    if (delta.kind == DeltaKind::kReasoning) thoughts.push_back(delta);
  }
  std::erase_if(deltas, [](const ReplyDelta& delta) { return delta.kind == DeltaKind::kReasoning; });
  return in_one_line(deltas) + in_one_line(thoughts);
}

void check(fuzz::Input input) {
  static const FakeVocabulary with_tags(tag_tokens());
  static const MarkerSet markers(with_tags, "");
  static const FakeVocabulary without_tags;
  static const MarkerSet no_markers(without_tags, "");
  const auto kind = static_cast<FormatKind>(input.number<std::uint8_t>() % kFormats);
  const auto how = input.number<std::uint8_t>();
  std::mt19937 random(input.number<std::uint32_t>());
  Utf8Stream valid;
  std::string text = valid.feed(input.text(input.left()));
  text += valid.finish();

  const bool has_markers = (how & 1) != 0;
  const MarkerSet& own = has_markers ? markers : no_markers;
  const ReplyFormat format = bind_format(kind, {"<think>", "</think>"}, own);
  const ReplyOptions options = {.calls = (how & 2) != 0,
                                .parallel = (how & 4) != 0,
                                .thinking_open = (how & 8) != 0,
                                .reasoning = static_cast<ReasoningFormat>((how >> 4) % 3),
                                .id_seed = "seed"};
  const ToolSet& known = tools((how & 128) != 0);
  const bool cut_off = (how & 64) != 0;

  const std::vector<Piece> letters = pieces_of(text, own);
  const auto read = [&](const std::vector<Piece>& pieces) {
    const auto deltas = deltas_of(format, pieces, known, options, cut_off);
    const std::string broken = broken_rule(deltas);
    KVKEEP_ASSERT(broken.empty(), broken.c_str());
    return told(deltas, options.reasoning);
  };
  const std::string line = read(letters);
  KVKEEP_ASSERT(read(joined(letters, [&] { return random() % 4 != 0; })) == line, "cuts do not matter");
  KVKEEP_ASSERT(read(joined(letters, [] { return true; })) == line, "cuts do not matter");
}

}  // namespace
}  // namespace kvkeep::chat::tools

KVKEEP_FUZZ_TARGET(tool_reply)(const std::uint8_t* data, std::size_t size) {
  kvkeep::chat::tools::check(kvkeep::fuzz::Input(data, size));
  return 0;
}
