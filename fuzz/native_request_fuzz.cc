// Bodies of /tokenize, /detokenize, /apply-template, /cache/lookup, /predict and /slots/0, and files of saved slots;
// the input's first line is the path.

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "request_checks.h"
#include "server/api/cache_lookup.h"
#include "server/api/predict.h"
#include "server/api/slot_action.h"
#include "server/api/tokenize_routes.h"

namespace kvkeep {
namespace {

using server::api::Json;

Json check_reply(const Result<server::api::NativeReply>& reply) {
  if (!reply) {
    fuzz::check_refusal(reply.error());
    return nullptr;
  }
  Json json = Json::parse(reply->body, nullptr, false);
  KVKEEP_ASSERT(json.is_object(), "a reply is an object");
  return json;
}

void check_tokenize(std::string_view body, const Vocabulary& vocabulary) {
  static const chat::LongText tokenizer(vocabulary);
  const Json reply =
      check_reply(server::api::tokenize_reply(std::string(body), vocabulary, tokenizer, [] { return false; }));
  if (reply.is_null()) return;
  KVKEEP_ASSERT(reply["tokens"].is_array(), "tokens are a list");
  std::string text;
  for (const Json& token : reply["tokens"]) {
    const Json& id = token.is_object() ? token["id"] : token;
    KVKEEP_ASSERT(id.is_number_integer() && id.get<std::size_t>() < vocabulary.size(), "known ids");
    text += vocabulary.piece(id.get<TokenId>(), true);
  }
  const auto request = server::api::parse_body(std::string(body));
  const bool is_bare =
      !request->value("add_special", Json(false)).is_boolean() || !request->value("add_special", false);
  const Json content = request->value("content", Json(""));
  KVKEEP_ASSERT(!is_bare || !content.is_string() || content == text, "and spell the content");
}

void check_lookup(std::string_view body) {
  const auto request = server::api::parse_lookup(std::string(body), fuzz::request_defaults());
  if (!request) fuzz::check_refusal(request.error());
}

void check_predict(std::string_view body) {
  const auto instances = server::api::parse_predict(std::string(body));
  if (!instances) return fuzz::check_refusal(instances.error());
  for (const server::api::PredictInstance& instance : *instances) {
    if (instance.error) {
      fuzz::check_refusal(*instance.error);
      continue;
    }
    KVKEEP_ASSERT(instance.path.starts_with('/'), "a path");
    KVKEEP_ASSERT(server::api::parse_body(instance.body).ok(), "a request of it");
  }
}

void check_slot_action(std::string_view body) {
  for (const char* action : {"save", "restore", "erase"}) {
    const auto asked = server::api::parse_slot_action("0", action, std::string(body), 1);
    if (!asked) {
      fuzz::check_refusal(asked.error());
      continue;
    }
    const std::string& name = asked->file_name;
    KVKEEP_ASSERT(name.find('/') == std::string::npos && name != "..", "a file of the directory");
  }
}

void check_saved_slot(std::string_view file) {
  constexpr std::size_t kTokens = 300;
  const auto slot = server::api::read_saved_slot(std::string(file), {}, "", kTokens, kTokens);
  if (!slot) return fuzz::check_refusal(slot.error());
  KVKEEP_ASSERT(slot->tokens.size() < kTokens, "they fit");
  const std::string again = server::api::saved_slot({}, "", slot->tokens);
  KVKEEP_ASSERT(server::api::read_saved_slot(again, {}, "", kTokens, kTokens)->tokens == slot->tokens,
                "saved again they are the same");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(native_request)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  static const chat::FakeVocabulary vocabulary;
  static const chat::MarkerSet markers(vocabulary, chat::default_template_source());
  static const auto chat_template = std::move(chat::make_chat_template("", {.bos = "<s>", .eos = "</s>"})).value();
  fuzz::Input input(data, size);
  const std::string_view path = input.line();
  const std::string_view body = fuzz::text_of(input.rest());
  if (path == "/tokenize") check_tokenize(body, vocabulary);
  if (path == "/predict") check_predict(body);
  if (path == "/slots/0") check_slot_action(body);
  if (path == "saved") check_saved_slot(body);
  if (path == "/detokenize") check_reply(server::api::detokenize_reply(std::string(body), vocabulary));
  if (path == "/apply-template") {
    check_reply(server::api::apply_template_reply(std::string(body), vocabulary, *chat_template, markers, {}, 0));
  }
  if (path == "/cache/lookup") check_lookup(body);
  return 0;
}
