#pragma once

// POST /tokenize, /detokenize and /apply-template, as llama-server answers them: body -> JSON body. None of them
// touches a sequence or the cache. Errors are for error_reply (errors.h). Thread safe. With `strict_fields` a body with
// a field that is not named here is refused (known_fields.h).

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/vocabulary.h"
#include "chat/long_text.h"
#include "chat/render.h"
#include "chat/stabilize.h"
#include "server/api/json_body.h"
#include "server/api/media_parts.h"

namespace kvkeep::server::api {

struct NativeReply {
  std::string body;
  std::vector<std::string> unknown_fields = {};
};

// {content, add_special = false, parse_special = true, with_pieces = false} -> {tokens: [ids] or [{id, piece}]}.
// `content` is a text, or a list of texts and token ids, whose tokens become one list. A piece that is not valid UTF-8
// is an array of its bytes. `gone` is polled while a long text is tokenized, and ends that with kAborted; kInvalid if a
// text cannot be tokenized in parts (chat/long_text.h).
Result<NativeReply> tokenize_reply(std::string body, const Vocabulary& vocabulary, const chat::LongText& tokenizer,
                                   const std::function<bool()>& gone, bool strict_fields = false);

// {tokens} -> {content}; invalid UTF-8 is replaced.
Result<NativeReply> detokenize_reply(std::string body, const Vocabulary& vocabulary, bool strict_fields = false);

// {messages, tools, ...} as in /v1/chat/completions -> {prompt}, as a chat renders it, with the changes of the
// stabilisers. If the vocabulary puts a BOS before every prompt, the text has none: /v1/completions and /tokenize with
// add_special add it again. `local_time_s`: see chat::RenderInput. `media`: null if the model takes text only; a text
// has no pictures and sounds, so that those that the model takes are refused.
Result<NativeReply> apply_template_reply(std::string body, const Vocabulary& vocabulary,
                                         const chat::ChatTemplate& chat_template, const chat::MarkerSet& markers,
                                         const chat::Stabilizers& stabilizers, std::int64_t local_time_s,
                                         const Json& kwargs = nullptr, bool strict_fields = false,
                                         const MediaRules* media = nullptr);

}  // namespace kvkeep::server::api
