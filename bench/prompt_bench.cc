// From messages to token ids, as in a chat request: stabilisers, template, tokens, and sampled turns put in place, for
// a conversation of 100,000 tokens. Compared with llama_tokenize of the same text at the same time:
//
//   new / tokenize       nothing of the conversation is known
//   extended / tokenize  the request before had all but its last message
//
// And of 20 pictures of 1 MB in one request, which were seen before: the processor time that hashing and looking them
// up takes, beside reading JSON and base64.
//
// Counters are ratios of one iteration; scripts/bench takes the medians over the repetitions as figures.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "bench/workloads/pictures.h"
#include "chat/tokenize.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/llama/weights.h"
#include "engine/media/media_files_fixture.h"
#include "engine/media/projector.h"
#include "os/clock.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "os/process.h"
#include "os/threads.h"
#include "server/api/media_parts.h"
#include "server/api/openai/chat.h"
#include "server/routes/exact_replay.h"
#include "server/routes/prompt.h"
#include "testing/models/test_model.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kTokens = 100'000;

// Makes prose, numbers, paths and code, about as agents read them.
std::string text_of(std::size_t bytes, std::mt19937& random) {
  static constexpr const char* kWords[] = {
      "the ",   "function ",  "returns ", "a list ",    "of ",     "entries, ", "return ",     "if (",
      "value)", " {\n    ",   "}\n\n",    "self.count", " = ",     "src/app/",  "test_",       "inventory",
      ".py\n",  "\"name\": ", "error: ",  "which ",     "is not ", "known.\n",  "// because ", "we wait "};
  std::string text;
  while (text.size() < bytes) {
    text += kWords[random() % std::size(kWords)];
    if (random() % 8 == 0) text += std::to_string(random() % 10'000) + " ";
  }
  return text;
}

// Adds a task, then calls and their results.
void add_round(ordered_json& messages, std::mt19937& random) {
  messages.push_back({{"role", "user"}, {"content", text_of(400, random)}});
  for (int call = 0; call < 4; ++call) {
    const std::string id = "call_" + std::to_string(messages.size());
    ordered_json function = {{"name", "read"}, {"arguments", R"({"path":")" + std::to_string(random()) + R"("})"}};
    messages.push_back({{"role", "assistant"},
                        {"content", text_of(200, random)},
                        {"tool_calls", {{{"id", id}, {"type", "function"}, {"function", std::move(function)}}}}});
    messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", text_of(2'000, random)}});
  }
  messages.push_back({{"role", "assistant"}, {"content", text_of(600, random)}});
}

ordered_json tools(std::mt19937& random) {
  ordered_json made = ordered_json::array();
  for (int i = 0; i < 14; ++i) {
    ordered_json parameters = {{"type", "object"}, {"properties", {{"path", {{"type", "string"}}}}}};
    ordered_json function = {{"name", "read" + std::to_string(i)},
                             {"description", text_of(2'000, random)},
                             {"parameters", std::move(parameters)}};
    made.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return made;
}

template <typename Value>
Value value_or_die(Result<Value> result) {
  if (result) return std::move(result).value();
  std::fprintf(stderr, "prompt_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

void fill(Service& service, const std::string& model) {
  std::ifstream file(KVKEEP_TEMPLATE);
  const std::string source(std::istreambuf_iterator<char>(file), {});
  service.vocabulary = value_or_die(engine::llama::LlamaVocabulary::load(model));
  service.chat_template = value_or_die(chat::make_chat_template(source, {}));
  service.markers = std::make_unique<chat::MarkerSet>(*service.vocabulary, source);
  service.long_text = std::make_unique<chat::LongText>(*service.vocabulary);
  service.turn_openings = chat::learn_turn_openings(*service.chat_template, *service.markers, *service.vocabulary);
  service.reply_format = chat::tools::bind_format(chat::tools::detect_format(source),
                                                  chat::tools::detect_thinking(source), *service.markers);
  service.clock = &os::real_clock();
  service.context_tokens = 4 * kTokens;
}

class Conversation {
 public:
  Conversation() : executor_(os::make_thread_executor("turns")) {
    fill(service_, engine::llama::tiny_model_path());
    input_.tools = tools(random_);
    input_.messages.push_back({{"role", "system"}, {"content", text_of(30'000, random_)}});
    while (ids().size() < kTokens) add_round(input_.messages, random_);
    remember_turns();
  }

  chat::RenderInput next_request() {
    chat::RenderInput next = input_;
    next.messages.push_back({{"role", "user"}, {"content", text_of(1'000, random_)}});
    return next;
  }
  std::string text(const chat::RenderInput& input) const {
    return value_or_die(chat::render_prompt(*service_.chat_template, *service_.markers, input)).text();
  }
  void forget() { service_.piece_memo = std::make_unique<PieceMemo>(kPieceMemoBytes); }
  std::vector<TokenId> ids() const { return ids_of(input_); }
  std::vector<TokenId> ids_of(chat::RenderInput input) const {
    api::PromptSource source = std::move(input);
    return value_or_die(read_prompt(service_, source)).ids;
  }
  const Service& service() const { return service_; }

 private:
  // Remembers all of the assistant's turns as if this server had written them.
  void remember_turns() {
    service_.turns = std::make_unique<TurnKeeper>(
        TurnKeeperOptions{.memory = mebibytes(8), .vocabulary_size = service_.vocabulary->size()},
        os::real_file_system(), *executor_);
    const std::vector<TokenId> all = ids();
    for (const Position at : chat::find_turns(all, service_.turn_openings).assistant) {
      std::size_t place = at.value() + service_.turn_openings.assistant.size();
      TurnRecorder recorder(service_, TokenSpan(all).first(place));
      bool ended = false;
      while (place < all.size() && !ended) {
        ended = service_.vocabulary->is_end_of_generation(all[place]);
        recorder.add_token(all[place++]);
      }
      recorder.finish("");
    }
  }

  std::mt19937 random_{7};
  std::unique_ptr<os::Executor> executor_;
  Service service_;
  chat::RenderInput input_;
};

void BM_Prompt(benchmark::State& state) {
  static Conversation conversation;
  const Vocabulary& vocabulary = *conversation.service().vocabulary;
  os::Clock& clock = os::real_clock();
  double ratio_new = 0;
  double ratio_extended = 0;
  double tokenize_ms = 0;
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ms_of = [&](const auto& work) {
      const std::int64_t begin_ns = clock.monotonic_ns();
      benchmark::DoNotOptimize(work());
      return os::elapsed_ms(begin_ns, clock.monotonic_ns());
    };
    const chat::RenderInput request = conversation.next_request();
    const std::string text = conversation.text(request);
    conversation.forget();
    api::PromptSource fresh = request;
    const double new_ms = ms_of([&] { return read_prompt(conversation.service(), fresh); });
    const double plain_ms =
        ms_of([&] { return vocabulary.tokenize(text, {.add_special = true, .parse_special = true}); });
    api::PromptSource extended = conversation.next_request();
    const double extended_ms = ms_of([&] { return read_prompt(conversation.service(), extended); });
    tokens = conversation.ids_of(request).size();
    tokenize_ms = plain_ms;
    ratio_new = new_ms / plain_ms;
    ratio_extended = extended_ms / plain_ms;
  }
  state.counters["new / tokenize"] = ratio_new;
  state.counters["extended / tokenize"] = ratio_extended;
  state.counters["tokenize_ms"] = tokenize_ms;
  state.counters["turns"] = static_cast<double>(conversation.service().turns->size());
  state.counters["tokens"] = static_cast<double>(tokens);
}
BENCHMARK(BM_Prompt)->Iterations(1)->Unit(benchmark::kMillisecond);

// A request with pictures, as it comes.
class Gallery {
 public:
  Gallery() {
    engine::llama::ModelOptions options = engine::llama::tiny_options();
    options.path = engine::llama::tiny_model_path("qwen3vl");
    weights_ = value_or_die(engine::llama::load_weights(options, {}));
    fill(service_, options.path);
    projector_ = value_or_die(engine::media::load_projector(
        {.path = engine::llama::tiny_projector_path("qwen3vl"), .threads = 1, .use_gpu = false, .warmup = false},
        weights_.model));
    service_.projector = projector_.get();
    api::MediaRules& rules = service_.defaults.media.emplace();
    rules.pictures = true;
    rules.new_names = [] {
      chat::MediaNames::Key key{};
      os::fill_random(key);
      return chat::MediaNames(key);
    };
    ordered_json parts = ordered_json::array();
    for (std::uint32_t seed = 1; seed <= kPictures; ++seed) {
      const std::vector<std::byte> file = engine::media::make_bmp(700, 476, seed);
      const std::string text = bench::in_base64({reinterpret_cast<const char*>(file.data()), file.size()});
      parts.push_back({{"type", "image_url"}, {"image_url", {{"url", "data:image/bmp;base64," + text}}}});
    }
    parts.push_back({{"type", "text"}, {"text", "What has changed?"}});
    ordered_json request = {{"model", "m"}, {"messages", {{{"role", "user"}, {"content", std::move(parts)}}}}};
    for (const char* setting : {"max_tokens", "temperature", "top_p", "seed"}) request[setting] = 1;
    body_ = request.dump();
  }

  std::string body() const { return body_; }
  std::size_t read(std::string body) const {
    api::GenerationRequest request = value_or_die(api::parse_chat(std::move(body), service_.defaults));
    return value_or_die(read_prompt(service_, request.prompt)).ids.size();
  }
  // Of the same, only the JSON and the base64. As in a request, each file takes the place of its text.
  std::size_t read_only(std::string body) const {
    ordered_json json = value_or_die(api::parse_body(std::move(body)));
    std::vector<std::string> files;
    for (ordered_json& part : json["messages"][0]["content"]) {
      if (part["type"] != "image_url") continue;
      const std::string_view url = part["image_url"]["url"].get_ref<const std::string&>();
      files.push_back(value_or_die(api::decode_base64(url.substr(url.find(',') + 1))));
      part = nullptr;
    }
    return files.size();
  }

 private:
  static constexpr std::uint32_t kPictures = 20;

  engine::llama::Weights weights_;
  std::unique_ptr<engine::Projector> projector_;
  Service service_;
  std::string body_;
};

void BM_Pictures(benchmark::State& state) {
  static const Gallery gallery;
  (void)gallery.read(gallery.body());  // from now on they were seen
  double beside_ms = 0;
  double all_ms = 0;
  for (auto _ : state) {
    const auto ms_of = [&](const auto& work) {
      std::string body = gallery.body();
      const std::int64_t begin_ns = os::thread_cpu_ns();
      benchmark::DoNotOptimize(work(std::move(body)));
      return os::elapsed_ms(begin_ns, os::thread_cpu_ns());
    };
    all_ms = ms_of([&](std::string body) { return gallery.read(std::move(body)); });
    beside_ms = ms_of([&](std::string body) { return gallery.read_only(std::move(body)); });
  }
  state.counters["JSON and base64 ms"] = beside_ms;
  state.counters["pictures ms"] = all_ms - beside_ms;
}
BENCHMARK(BM_Pictures)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvkeep::server
