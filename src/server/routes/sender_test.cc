// All that the HTTP side remembers across requests is kept per tenant.

#include "server/routes/sender.h"

#include <gtest/gtest.h>

#include <set>

#include "chat/replay/turn_memory.h"
#include "chat/tools/tool_format.h"
#include "server/routes/exact_replay.h"
#include "server/routes/replay_service_test.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

HttpRequest with_key(const std::string& key) {
  HttpRequest http;
  if (!key.empty()) http.headers.emplace_back("Authorization", "Bearer " + key);
  return http;
}

TEST(SaltOfQuery, IsInAHeaderOrInTheQuery) {
  HttpRequest http;
  EXPECT_EQ(salt_of_query(http), "");
  http.query = "last=3&cache_salt=ada";
  EXPECT_EQ(salt_of_query(http), "ada");
  http.headers.emplace_back("X-Cache-Salt", "bob");
  EXPECT_EQ(salt_of_query(http), "bob");
}

TEST(CheckParameters, NamesTheNearestOfAMisspeltOne) {
  HttpRequest http;
  http.path = "/cache/explain";
  const std::vector<std::string> known = {"last", "cache_salt"};
  for (const char* query : {"", "last=3", "last", "last=", "&last=3&&cache_salt=last=4&", "cache_salt=lst"}) {
    http.query = query;
    EXPECT_TRUE(check_parameters(http, known).ok()) << query;
  }
  http.query = "cache_salt=a&lst=5";
  EXPECT_EQ(check_parameters(http, known).error().message,
            "'lst' is not a parameter of /cache/explain (did you mean 'last'?)");
  http.query = "lines=5";
  EXPECT_EQ(check_parameters(http, known).error().message,
            "'lines' is not a parameter of /cache/explain; it has last, cache_salt");
  http.query = "=5";
  EXPECT_FALSE(check_parameters(http, known).ok());
  http.query = std::string(100'000, 'x');
  EXPECT_LT(check_parameters(http, known).error().message.size(), 300U);
}

TEST(TenantOf, ASaltCountsAndAKeyOnlyWhereTheServerSaysSo) {
  Service service;
  service.fingerprint.bytes[0] = 7;
  EXPECT_EQ(tenant_of(service, with_key("a"), ""), kNoTenant);
  EXPECT_EQ(tenant_of(service, with_key("a"), "s"), tenant_of(service, with_key("b"), "s"));
  EXPECT_NE(tenant_of(service, with_key("a"), "s"), tenant_of(service, with_key("a"), "t"));
  service.tenant_by_key = true;
  std::set<Tenant> tenants{kNoTenant};
  for (const char* key : {"", "a", "as"}) {
    for (const char* salt : {"", "s", "as"}) tenants.insert(tenant_of(service, with_key(key), salt));
  }
  EXPECT_EQ(tenants.size(), 10U);
}

TEST(TenantOf, ScalesOfAdaptersCount) {
  Service service;
  service.fingerprint.bytes[0] = 7;
  std::set<Tenant> tenants;
  for (const char* salt : {"", "s"}) {
    for (const engine::AdapterScales& scales : {engine::AdapterScales(), {0.5F}, {0.5F, 0}}) {
      tenants.insert(tenant_of(service, with_key("a"), salt, scales));
    }
  }
  EXPECT_EQ(tenants.size(), 6U);
  EXPECT_TRUE(tenants.contains(kNoTenant));
}

TEST(KeyOf, CountsOnlyWhereTheOperatorGaveKeys) {
  Service service;
  EXPECT_EQ(key_of(service, with_key("a")), 0U) << "a client may send any";
  service.has_keys = true;
  EXPECT_NE(key_of(service, with_key("a")), 0U);
  EXPECT_EQ(key_of(service, with_key("a")), key_of(service, with_key("a")));
  EXPECT_NE(key_of(service, with_key("a")), key_of(service, with_key("b")));
}

struct SessionHint {
  HeaderList headers = {};
  std::string key = {};
  std::string user = {};
};

std::uint64_t session_of_hint(const SessionHint& hint, const Tenant& tenant = kNoTenant) {
  HttpRequest http;
  http.headers = hint.headers;
  api::GenerationRequest request;
  request.prompt_cache_key = hint.key;
  request.user = hint.user;
  return session_of({}, http, request, tenant);
}

TEST(SessionOf, IsTheFirstThatTheClientNames) {
  const std::uint64_t main = session_of_hint({.key = "a"});
  EXPECT_NE(main, 0U);
  const std::vector<SessionHint> same = {
      {.headers = {{"X-Claude-Code-Session-Id", "a"}, {"x-claude-code-agent-id", "sub"}}, .user = "somebody"},
      {.headers = {{"x-session-affinity", "b"}, {"x-session-id", "b"}, {"x-parent-session-id", "a"}}},
      {.headers = {{"session-id", "a"}, {"thread-id", "c"}}, .key = "c"},
      {.key = "a", .user = "somebody"},
      {.user = "a"}};
  for (const SessionHint& hint : same) EXPECT_EQ(session_of_hint(hint), main);
  EXPECT_NE(session_of_hint({.key = "b"}), main);
}

TEST(SessionOf, TenantsWithTheSameNameAreTwoSessions) {
  Tenant other = kNoTenant;
  other.bytes[0] ^= 1;
  EXPECT_NE(session_of_hint({.key = "a"}), session_of_hint({.key = "a"}, other));
}

TEST(SessionOf, IsTheProgramAtItsAddressOrKeyIfTheClientNamesNone) {
  Service service;
  const auto session = [&](const std::string& address, const std::string& agent, const std::string& key = "",
                           const char* salt = "") {
    HttpRequest http = with_key(key);
    http.remote_address = address;
    http.headers.emplace_back("User-Agent", agent);
    return session_of(service, http, {}, tenant_of(service, http, salt));
  };
  const std::uint64_t first = session("10.0.0.1", "qwen-code/1.0");
  EXPECT_NE(first, 0U);
  EXPECT_EQ(session("10.0.0.1", "qwen-code/1.1"), first);
  EXPECT_EQ(session("10.0.0.1", "qwen-code/1.0", "any", "salt"), first) << "a salt makes no further session";
  EXPECT_NE(session("10.0.0.2", "qwen-code/1.0"), first);
  EXPECT_NE(session("10.0.0.1", "cline/1.0"), first);
  service.has_keys = true;
  EXPECT_NE(session("10.0.0.1", "cline", "a"), session("10.0.0.1", "cline", "b"));
  EXPECT_EQ(session("10.0.0.1", "cline", "a"), session("10.0.0.2", "cline", "a"));
}

TEST(SenderOf, IsTheKeyWhereThereAreKeysElseTheAddress) {
  Service service;
  const auto sender = [&](const std::string& address, const std::string& key) {
    HttpRequest http = with_key(key);
    http.remote_address = address;
    return sender_of(service, http);
  };
  EXPECT_EQ(sender("10.0.0.1", "a"), sender("10.0.0.1", "b")) << "a client may send any key";
  EXPECT_NE(sender("10.0.0.1", "a"), sender("10.0.0.2", "a"));
  service.has_keys = true;
  EXPECT_NE(sender("10.0.0.1", "a"), sender("10.0.0.1", "b"));
  EXPECT_EQ(sender("10.0.0.1", "a"), sender("10.0.0.2", "a"));
}

TEST(Adapters, HaveTheScalesOfTheStartUntilSomebodySetsOthers) {
  Adapters adapters({{"a.gguf", 1, "sql", "Q: "}, {"b.gguf", 0, "", ""}});
  using Scales = engine::AdapterScales;
  EXPECT_EQ(adapters.for_job(), Scales());
  EXPECT_EQ(adapters.for_job(Scales{1, 0}), Scales()) << "the scales of the start";
  EXPECT_EQ(adapters.for_job(Scales{0.5F, 0}), Scales({0.5F, 0}));
  EXPECT_EQ(adapters.list(), R"([{"id":0,"path":"a.gguf","scale":1.0,"task_name":"sql","prompt_prefix":"Q: "},)"
                             R"({"id":1,"path":"b.gguf","scale":0.0,"task_name":"","prompt_prefix":""}])");
  ASSERT_TRUE(adapters.set(R"([{"id": 1, "scale": 0.25}])").ok());
  EXPECT_EQ(adapters.for_job(), Scales({0, 0.25F}));
  EXPECT_EQ(adapters.for_job(Scales{1, 0}), Scales());
  ASSERT_TRUE(adapters.set(R"([{"id": 0, "scale": 1}])").ok());
  EXPECT_EQ(adapters.for_job(), Scales());
  for (const char* wrong : {"{}", "[1]", R"([{"id": 2, "scale": 1}])", R"([{"scale": 1}])", R"([{"id": -1}])",
                            R"([{"id": 0, "scale": "x"}])", R"([{"id": 0, "scale": 1e9}])", "[", ""}) {
    EXPECT_FALSE(adapters.set(wrong).ok()) << wrong;
  }
  EXPECT_EQ(adapters.for_job(), Scales()) << "what is refused changes nothing";
}

class TenantsTurns : public ::testing::Test {
 protected:
  TenantsTurns() {
    serve_template(service_, vocabulary_, kTemplate, chat::tools::FormatKind::kNone, files_, executor_,
                   {.bos = "", .eos = "<|im_end|>"});
  }
  std::vector<TokenId> prompt_of(const ordered_json& messages, const Tenant& tenant) {
    chat::RenderInput input;
    input.messages = messages;
    api::PromptSource source = std::move(input);
    return read_prompt(service_, source, tenant).value().ids;
  }

  sim::SimFileSystem files_;
  sim::SimExecutor executor_;
  const std::shared_ptr<chat::FakeVocabulary> vocabulary_ = std::make_shared<chat::FakeVocabulary>(
      std::vector<SpecialToken>{{.id = 0, .spelling = "<|im_start|>", .control = true},
                                {.id = 0, .spelling = "<|im_end|>", .control = true}});
  Service service_;
};

// Sampled ids would reveal what the model said, though the text is the same.
TEST_F(TenantsTurns, AreReplayedOnlyToTheirOwn) {
  const Tenant owner = tenant_of(service_.fingerprint, "one");
  const Tenant other = tenant_of(service_.fingerprint, "other");
  ordered_json messages = ordered_json::array({{{"role", "user"}, {"content", "hello"}}});
  TurnRecorder recorder(service_, prompt_of(messages, owner), owner);
  // The sampled turn has other whitespace than the client's echo, and replaces it.
  for (const char byte : std::string("well \n")) recorder.add_token(byte);
  recorder.add_token(*vocabulary_->id_of("<|im_end|>"));
  recorder.finish("");
  messages.push_back({{"role", "assistant"}, {"content", "well"}});
  messages.push_back({{"role", "user"}, {"content", "and?"}});
  const std::string sampled = vocabulary_->text_of(prompt_of(messages, owner), true);
  EXPECT_NE(sampled.find("well \n<|im_end|>"), std::string::npos) << sampled;
  for (const Tenant& asks : {kNoTenant, other}) {
    const std::string sent = vocabulary_->text_of(prompt_of(messages, asks), true);
    EXPECT_EQ(sent.find("well \n"), std::string::npos) << sent;
  }
}

TEST_F(TenantsTurns, ToolsKeepTheOrderOfTheirOwn) {
  const Tenant owner = tenant_of(service_.fingerprint, "one");
  KeyOrders& orders = *service_.key_orders;
  ordered_json first = {{"b", 1}, {"a", 2}};
  orders.settle(first, owner);
  for (const auto& [asks, expected] :
       {std::pair{owner, R"({"b":1,"a":2})"}, std::pair{kNoTenant, R"({"a":2,"b":1})"}}) {
    ordered_json again = {{"a", 2}, {"b", 1}};
    orders.settle(again, asks);
    EXPECT_EQ(again.dump(), expected);
  }
}

TEST_F(TenantsTurns, TextsAreTokenizedForEach) {
  const Tenant owner = tenant_of(service_.fingerprint, "one");
  PieceMemo& memo = *service_.piece_memo;
  memo.remember("text", {1, 2}, owner);
  EXPECT_EQ(memo.find("text"), nullptr);
  EXPECT_EQ(memo.find("text", tenant_of(service_.fingerprint, "other")), nullptr);
  ASSERT_NE(memo.find("text", owner), nullptr);
  memo.remember("text", {3});
  EXPECT_EQ(*memo.find("text", owner), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(*memo.find("text"), std::vector<TokenId>{3});
}

}  // namespace
}  // namespace kvkeep::server
