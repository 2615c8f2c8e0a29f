#include "server/api/tokenize_routes.h"

#include <utility>

#include "chat/text_streams.h"
#include "server/api/generation_fields.h"
#include "server/api/json_body.h"
#include "server/api/known_fields.h"
#include "server/api/openai/chat.h"

namespace kvkeep::server::api {
namespace {

Json piece_json(const std::string& piece) {
  if (chat::is_valid_utf8(piece)) return piece;
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<std::uint8_t>(byte));
  return bytes;
}

std::string valid_text(std::string_view bytes) {
  chat::Utf8Stream stream;
  const std::string text = stream.feed(bytes);
  return text + stream.finish();
}

// Leaves out the BOS that a template prints if the vocabulary puts one before every prompt: it would be there twice.
std::string text_without_bos(const chat::RenderedPrompt& prompt, const Vocabulary& vocabulary) {
  std::string text = prompt.text();
  const std::optional<TokenId> bos = vocabulary.bos();
  const bool is_twice = vocabulary.add_bos() && bos && !prompt.spans.empty() && prompt.spans[0].marker == *bos;
  return is_twice ? text.substr(prompt.spans[0].text.size()) : text;
}

// A text, or a list of texts and ids in any order. Only a text at the beginning gets the special tokens of a prompt.
Result<std::vector<TokenId>> ids_of_content(const Json& content, const Vocabulary& vocabulary,
                                            const chat::LongText& tokenizer, TokenizeOptions options,
                                            const std::function<bool()>& gone) {
  const auto ids_of = [&](const Json& text) -> Result<std::vector<TokenId>> {
    const auto& characters = text.get_ref<const std::string&>();
    if (characters.empty()) return std::vector<TokenId>();
    return tokenizer.tokenize(characters, options, gone);
  };
  if (content.is_string()) return ids_of(content);
  if (!content.is_array()) return wrong_type("content", "a text or an array of texts and token ids", content);
  std::vector<TokenId> all;
  const auto append = [&](const std::vector<TokenId>& ids) { all.insert(all.end(), ids.begin(), ids.end()); };
  for (std::size_t i = 0; i < content.size(); options.add_special = false) {
    if (content[i].is_string()) {
      TRY_ASSIGN(const std::vector<TokenId> ids, ids_of(content[i++]));
      append(ids);
      continue;
    }
    Json run = Json::array();
    while (i < content.size() && !content[i].is_string()) run.push_back(content[i++]);
    TRY_ASSIGN(const std::vector<TokenId> ids, read_token_ids(run, "content", vocabulary.size()));
    append(ids);
  }
  return all;
}

}  // namespace

Result<NativeReply> tokenize_reply(std::string body, const Vocabulary& vocabulary, const chat::LongText& tokenizer,
                                   const std::function<bool()>& gone, bool strict_fields) {
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  TRY_ASSIGN(std::vector<std::string> unknown, unknown_fields(json, Dialect::kTokenize, strict_fields));
  TokenizeOptions options{.add_special = false, .parse_special = true};
  bool with_pieces = false;
  TRY(read_bool(json, "add_special", options.add_special));
  TRY(read_bool(json, "parse_special", options.parse_special));
  TRY(read_bool(json, "with_pieces", with_pieces));
  Json tokens = Json::array();
  if (const Json* content = field(json, "content")) {
    TRY_ASSIGN(const std::vector<TokenId> ids, ids_of_content(*content, vocabulary, tokenizer, options, gone));
    for (const TokenId id : ids) {
      tokens.push_back(with_pieces ? Json{{"id", id}, {"piece", piece_json(vocabulary.piece(id, true))}} : Json(id));
    }
  }
  return NativeReply{to_line({{"tokens", std::move(tokens)}}), std::move(unknown)};
}

Result<NativeReply> detokenize_reply(std::string body, const Vocabulary& vocabulary, bool strict_fields) {
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  TRY_ASSIGN(std::vector<std::string> unknown, unknown_fields(json, Dialect::kDetokenize, strict_fields));
  std::vector<TokenId> tokens;
  if (const Json* value = field(json, "tokens")) {
    if (!value->is_array()) return wrong_type("tokens", "an array", *value);
    TRY_ASSIGN(tokens, read_token_ids(*value, "tokens", vocabulary.size()));
  }
  return NativeReply{to_line({{"content", valid_text(vocabulary.text_of(tokens, true))}}), std::move(unknown)};
}

Result<NativeReply> apply_template_reply(std::string body, const Vocabulary& vocabulary,
                                         const chat::ChatTemplate& chat_template, const chat::MarkerSet& markers,
                                         const chat::Stabilizers& stabilizers, std::int64_t local_time_s,
                                         const Json& kwargs, bool strict_fields, const MediaRules* media) {
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  TRY_ASSIGN(std::vector<std::string> unknown, unknown_fields(json, Dialect::kApplyTemplate, strict_fields));
  MediaReader no_files(media, "the reply is the prompt's text, which can have no pictures and sounds: leave them out");
  TRY_ASSIGN(chat::RenderInput input, read_chat_prompt(json, std::move(no_files), kwargs));
  chat::stabilize(stabilizers, input);
  input.local_time_s = local_time_s;
  TRY_ASSIGN(const chat::RenderedPrompt prompt, chat::render_prompt(chat_template, markers, std::move(input)));
  return NativeReply{to_line({{"prompt", text_without_bos(prompt, vocabulary)}}), std::move(unknown)};
}

}  // namespace kvkeep::server::api
