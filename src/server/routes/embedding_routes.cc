// From a body that asks for embeddings or a ranking to the reply, through the jobs of run/embeddings.h.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "server/api/embeddings.h"
#include "server/api/errors.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/rerank_prompt.h"
#include "server/routes/routes.h"
#include "server/routes/sender.h"
#include "server/run/embeddings.h"

namespace kvkeep::server {
namespace {

using engine::EmbedderDescription;
using engine::Pooling;
using Ids = std::vector<TokenId>;

// Turns the values of all inputs into the reply's body, on a thread that runs handlers.
using MakeReply = std::function<Result<std::string>(const InputValues&, const EmbeddingStats&)>;

class EmbeddingAnswer final : public EmbeddingSink, public std::enable_shared_from_this<EmbeddingAnswer> {
 public:
  EmbeddingAnswer(std::shared_ptr<ResponseWriter> writer, HeaderList told, MakeReply make)
      : writer_(std::move(writer)), told_(std::move(told)), make_(std::move(make)) {}

  void on_done(Result<InputValues> values, const EmbeddingStats& stats) override {
    values_.emplace(std::move(values));
    stats_ = stats;
    writer_->post_work([self = shared_from_this()] { self->reply(); });
  }
  bool gone() const override { return writer_->client_gone(); }

 private:
  void reply() {
    if (!*values_) return send_error(*writer_, api::error_reply(values_->error()));
    Result<std::string> body = make_(**values_, stats_);
    values_.reset();
    if (!body) return send_error(*writer_, api::error_reply(body.error()));
    writer_->send(200, api::kJsonContentType, *std::move(body), told_);
  }

  const std::shared_ptr<ResponseWriter> writer_;
  const HeaderList told_;  // header that names ignored fields
  const MakeReply make_;
  std::optional<Result<InputValues>> values_;
  EmbeddingStats stats_;
};

// Reads the inputs of one request.
class InputReader {
 public:
  InputReader(const Service& service, const HttpRequest& http) : service_(service), gone_(http.client_gone) {}

  // The reply to an input that is longer than the context, as for a prompt: clients know it.
  const std::optional<api::ErrorReply>& too_long() const { return too_long_; }

  // Markers in texts are parsed, as in llama-server and in prompts of completions. BOS and EOS come only where a text
  // begins the input.
  Result<Ids> read(const api::EmbeddingInput& input) {
    Ids ids;
    bool first = true;
    for (const api::EmbeddingPart& part : input) {
      TRY_ASSIGN(const Ids more, read_part(part, first));
      ids.insert(ids.end(), more.begin(), more.end());
      first = false;
    }
    TRY(check_ids(ids));
    return ids;
  }

  Result<Ids> read_pair(const std::string& query, const std::string& document) {
    TRY(check_size(query.size() + document.size()));
    TRY_ASSIGN(Ids ids, service_.rerank_prompt->ids(query, document, gone_));
    TRY(check_ids(ids));
    return ids;
  }

 private:
  Result<Ids> read_part(const api::EmbeddingPart& part, bool first) {
    const auto* text = std::get_if<std::string>(&part);
    if (text == nullptr) return std::get<Ids>(part);
    TRY(check_size(text->size()));
    return service_.long_text->tokenize(*text, {.add_special = first, .parse_special = true}, gone_);
  }

  // A text that cannot fit, whatever its tokens, is not tokenized.
  Status check_size(std::size_t bytes) {
    const auto longest = service_.vocabulary->longest_piece_bytes();
    if (!longest || bytes <= kAlwaysCountedBytes || bytes / *longest <= facts().longest_input) return {};
    return refuse(bytes / *longest, /*is_counted=*/false);
  }

  Status check_ids(const Ids& ids) {
    if (ids.empty()) return invalid(fmt::format("input {} is empty", number_));
    if (ids.size() > facts().longest_input) return refuse(ids.size(), /*is_counted=*/true);
    ++number_;
    return {};
  }

  Error refuse(std::size_t tokens, bool is_counted) {
    if (facts().longer_by == "--ctx-size") {
      too_long_ = api::context_exceeded_reply(tokens, is_counted, facts().longest_input);
    }
    const std::string advice = facts().longer_by.empty()
                                   ? "; the model takes no longer ones: shorten it, or send it in parts"
                                   : "; shorten it, or start the server with a larger " + facts().longer_by;
    return invalid(fmt::format("input {} ({}{} tokens) is too large to process: at most {}{}", number_,
                               is_counted ? "" : "at least ", tokens, facts().longest_input, advice));
  }

  const EmbedderDescription& facts() const { return service_.embeddings->description(); }

  const Service& service_;
  const std::function<bool()>& gone_;
  std::size_t number_ = 0;  // of the next input
  std::optional<api::ErrorReply> too_long_;
};

Status check_values(const EmbedderDescription& facts, const std::vector<Ids>& inputs) {
  std::size_t vectors = inputs.size();
  if (facts.pooling == Pooling::kNone) {
    vectors = 0;
    for (const Ids& ids : inputs) vectors += ids.size();
  }
  if (vectors * facts.vector_size <= api::kMostEmbeddingValues) return {};
  return invalid(fmt::format("the reply would have {} vectors of {} values; ask for at most {} at a time", vectors,
                             facts.vector_size, api::kMostEmbeddingValues / facts.vector_size));
}

Result<std::vector<Ids>> read_inputs(const Service& service, InputReader& reader,
                                     const std::vector<api::EmbeddingInput>& asked) {
  std::vector<Ids> inputs;
  for (const api::EmbeddingInput& input : asked) {
    TRY_ASSIGN(Ids ids, reader.read(input));
    inputs.push_back(std::move(ids));
  }
  TRY(check_values(service.embeddings->description(), inputs));
  return inputs;
}

Result<std::vector<Ids>> read_pairs(InputReader& reader, const api::RerankRequest& request) {
  std::vector<Ids> inputs;
  for (const std::string& document : request.documents) {
    TRY_ASSIGN(Ids ids, reader.read_pair(request.query, document));
    inputs.push_back(std::move(ids));
  }
  return inputs;
}

Status can_embed(const Service& service, bool in_openai_shape) {
  if (service.embeddings == nullptr) {
    return unsupported("this server does not support embeddings; start it with --embeddings");
  }
  const Pooling pooling = service.embeddings->description().pooling;
  if (pooling == Pooling::kRank) return invalid("this server ranks (--rerank, --pooling rank): ask at /v1/rerank");
  if (pooling == Pooling::kNone && in_openai_shape) {
    return invalid(
        "without pooling there is one vector per token, and /v1/embeddings has one per input: start the server with "
        "--pooling mean, cls or last, or ask at /embeddings");
  }
  return {};
}

Status can_rank(const Service& service) {
  const bool ranks = service.embeddings != nullptr && service.embeddings->description().pooling == Pooling::kRank;
  if (ranks) return {};
  return unsupported("this server does not support reranking; start it with --rerank and a reranking model");
}

struct EmbeddingCall {
  const Service& service;
  ResponseWriter& writer;
  HeaderList told;
  std::string kind;
  const InputReader& reader;
};

void submit(EmbeddingCall call, Result<std::vector<Ids>> inputs, MakeReply make) {
  if (call.reader.too_long()) return send_error(call.writer, *call.reader.too_long());
  if (!inputs) return send_error(call.writer, api::error_reply(inputs.error()));
  const auto answer = std::make_shared<EmbeddingAnswer>(call.writer.keep(), std::move(call.told), std::move(make));
  EmbeddingJob job{.id = reply_header(call.service, call.kind + "-").id, .kind = call.kind, .inputs = {}};
  job.inputs = *std::move(inputs);
  if (const Status accepted = call.service.embeddings->submit(std::move(job), answer); !accepted) {
    send_error(call.writer, api::error_reply(accepted.error()));
  }
}

std::vector<api::InputVectors> vectors_of(const InputValues& values, std::size_t size) {
  std::vector<api::InputVectors> inputs;
  for (const std::vector<float>& one : values) inputs.push_back({one, size});
  return inputs;
}

Result<api::EmbeddingsRequest> parse_embeddings(const Service& service, HttpRequest& http, bool in_openai_shape) {
  TRY(can_embed(service, in_openai_shape));
  const EmbedderDescription& facts = service.embeddings->description();
  TRY_ASSIGN(api::EmbeddingsRequest request,
             api::parse_embeddings(take_body(service, http), {.normalize = service.embd_normalize,
                                                              .vocabulary_size = service.defaults.vocabulary_size,
                                                              .vector_size = facts.vector_size,
                                                              .strict_fields = service.defaults.strict_fields}));
  TRY(check_model(service, request.model));
  return request;
}

void embeddings(const Service& service, HttpRequest& http, ResponseWriter& writer, bool in_openai_shape) {
  const Result<api::EmbeddingsRequest> request = parse_embeddings(service, http, in_openai_shape);
  if (!request) return send_error(writer, api::error_reply(request.error()));
  const EmbedderDescription& facts = service.embeddings->description();
  api::VectorForm form{.base64 = request->base64, .dimensions = request->dimensions};
  if (facts.pooling != Pooling::kNone) form.normalize = request->normalize;
  const bool native = !in_openai_shape || request->content;
  InputReader reader(service, http);
  submit({service, writer, tell_of_unknown_fields(service, http, api::Dialect::kEmbeddings, request->unknown_fields),
          "embeddings", reader},
         read_inputs(service, reader, request->inputs),
         [&service, form, native, size = facts.vector_size](const InputValues& values, const EmbeddingStats& stats) {
           const std::vector<api::InputVectors> inputs = vectors_of(values, size);
           return native ? api::native_embeddings(inputs, form)
                         : api::openai_embeddings(inputs, form, service.model_name, stats.tokens);
         });
}

Result<api::RerankRequest> parse_ranking(const Service& service, HttpRequest& http) {
  TRY(can_rank(service));
  TRY_ASSIGN(api::RerankRequest request, api::parse_rerank(take_body(service, http), service.defaults.strict_fields));
  TRY(check_model(service, request.model));
  return request;
}

void rerank(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<api::RerankRequest> request = parse_ranking(service, http);
  if (!request) return send_error(writer, api::error_reply(request.error()));
  InputReader reader(service, http);
  Result<std::vector<Ids>> inputs = read_pairs(reader, *request);
  if (!request->return_documents) request->documents.clear();
  submit({service, writer, tell_of_unknown_fields(service, http, api::Dialect::kRerank, request->unknown_fields),
          "rerank", reader},
         std::move(inputs),
         [&service, asked = *std::move(request)](const InputValues& values, const EmbeddingStats& stats) {
           std::vector<float> scores;
           for (const std::vector<float>& one : values) scores.push_back(one.front());
           return api::rerank_reply(asked, scores, service.model_name, stats.tokens);
         });
}

}  // namespace

void add_embedding_routes(HttpServer& server, const Service& service) {
  for (const auto& [path, in_openai_shape] :
       {std::pair{"/v1/embeddings", true}, {"/embeddings", false}, {"/embedding", false}}) {
    server.route("POST", path, [&service, in_openai_shape](HttpRequest& http, ResponseWriter& writer) {
      embeddings(service, http, writer, in_openai_shape);
    });
  }
  for (const char* path : {"/v1/rerank", "/v1/reranking", "/rerank", "/reranking"}) {
    server.route("POST", path,
                 [&service](HttpRequest& http, ResponseWriter& writer) { rerank(service, http, writer); });
  }
}

}  // namespace kvkeep::server
