// docs/requests.md describes what the code does with each field.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "server/api/generation_fields.h"
#include "server/api/known_fields.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"

namespace kvkeep::server::api {
namespace {

using Names = std::set<std::string>;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

Names matches(const std::string& text, const std::string& pattern) {
  Names names;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

// The words in backquotes in the first cells of the table after a heading.
Names documented(const std::string& heading) {
  const std::string text = text_of(KVKEEP_DOCS "/requests.md");
  const std::size_t begin = text.find("## " + heading + "\n");
  EXPECT_NE(begin, std::string::npos) << heading;
  std::istringstream lines(text.substr(begin, text.find("\n## ", begin + 1) - begin));
  Names names;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) names.merge(matches(line.substr(0, line.find(" |", 1)), "`([^`]+)`"));
  }
  return names;
}

Names names_of(const std::vector<std::string_view>& list) { return {list.begin(), list.end()}; }

// The fields that a source file reads from a body.
Names read_by(const std::string& file) {
  const std::string text = text_of(KVKEEP_SOURCES "/server/api/" + file);
  Names names = matches(text, R"re((?:read_\w+|field|hint)\((?:body|json), "(\w+)")re");
  const std::size_t list = text.find("for (const std::string_view name : {\"max_completion_tokens\"");
  if (list != std::string::npos) names.merge(matches(text.substr(list, text.find('}', list) - list), R"re("(\w+)")re"));
  return names;
}

Names joined(Names a, Names b) {
  a.merge(b);
  return a;
}

// The fields that read_generation_fields() reads.
Names read_by_all() {
  return joined(names_of(sampling_fields()), joined(read_by("generation_fields.cc"), read_by("output_format.cc")));
}

TEST(RequestsDoc, NamesEveryFieldThatIsRead) {
  EXPECT_EQ(read_by_all(), joined(joined(documented("Obeyed by both"), documented("Sampling")), documented("Hints")));
  EXPECT_EQ(joined(read_by("openai/chat.cc"), read_by("template_switches.cc")), documented("Obeyed by chats"));
  EXPECT_EQ(read_by("openai/completions.cc"), documented("Obeyed by completions"));
  EXPECT_EQ(read_by("native_completion.cc"), documented("Obeyed by infill"));
}

TEST(RequestsDoc, NamesEveryFieldThatIsRefused) {
  const auto refused = refused_fields();
  EXPECT_EQ(documented("Refused"), Names(refused.begin(), refused.end()));
}

TEST(RequestsDoc, NamesExactlyWhatIsIgnoredOnPurpose) {
  EXPECT_EQ(documented("Ignored"), names_of(ignored_fields(Dialect::kChat)));
  EXPECT_EQ(documented("Ignored"), names_of(ignored_fields(Dialect::kCompletions)));
  for (const auto& [dialect, page] :
       {std::pair{Dialect::kResponses, "/responses.md"}, {Dialect::kMessages, "/anthropic.md"}}) {
    const std::string text = text_of(KVKEEP_DOCS + std::string(page)) + text_of(KVKEEP_DOCS "/requests.md");
    for (const std::string_view name : ignored_fields(dialect)) {
      EXPECT_THAT(text, testing::HasSubstr(std::string("`").append(name).append("`"))) << page;
    }
  }
}

// A field that is read but not known would be obeyed and reported as unknown.
TEST(RequestsDoc, EveryFieldThatIsReadIsKnown) {
  const Names generating = read_by_all();
  const auto expect_known = [&](Dialect dialect, std::initializer_list<const char*> files) {
    const std::vector<std::string> known = known_fields(dialect);
    Names read = generating;
    for (const char* file : files) read.merge(read_by(file));
    EXPECT_THAT(Names(known.begin(), known.end()), testing::IsSupersetOf(read));
    Names rest = names_of(ignored_fields(dialect));
    rest.merge(names_of(refused_fields()));
    rest.merge(read);
    return rest;
  };
  const auto known = [](Dialect dialect) {
    const std::vector<std::string> names = known_fields(dialect);
    return Names(names.begin(), names.end());
  };
  EXPECT_EQ(known(Dialect::kChat), expect_known(Dialect::kChat, {"openai/chat.cc", "template_switches.cc"}));
  EXPECT_EQ(known(Dialect::kCompletions), expect_known(Dialect::kCompletions, {"openai/completions.cc"}));
  EXPECT_EQ(known(Dialect::kInfill), expect_known(Dialect::kInfill, {"native_completion.cc", "openai/completions.cc"}));
  expect_known(Dialect::kResponses,
               {"responses/request.cc", "responses/items.cc", "responses/tools.cc", "template_switches.cc"});
  expect_known(Dialect::kMessages, {"anthropic/request.cc", "anthropic/messages.cc", "template_switches.cc"});
  expect_known(Dialect::kLookup, {"cache_lookup.cc", "openai/chat.cc", "openai/completions.cc"});
  EXPECT_THAT(read_by("tokenize_routes.cc"),
              testing::IsSubsetOf(joined(known(Dialect::kTokenize), known(Dialect::kDetokenize))));
}

TEST(RequestsDoc, NamesEveryFieldOfEmbeddingsAndReranking) {
  Names known;
  for (const Dialect dialect : {Dialect::kEmbeddings, Dialect::kRerank}) {
    for (const std::string& name : known_fields(dialect)) known.insert(name);
  }
  EXPECT_EQ(documented("Embeddings and reranking"), known);
  EXPECT_THAT(read_by("embeddings.cc"), testing::IsSubsetOf(known));
}

TEST(RequestsDoc, ThePageOnResponsesNamesEveryFieldThatTheyRead) {
  const std::string page = text_of(KVKEEP_DOCS "/responses.md");
  Names names;
  for (const char* file : {"responses/request.cc", "responses/items.cc", "responses/tools.cc", "template_switches.cc"})
    names.merge(read_by(file));
  EXPECT_THAT(names, testing::IsSupersetOf({"input", "instructions", "tools", "max_output_tokens", "reasoning"}));
  for (const std::string& name : names) EXPECT_THAT(page, testing::HasSubstr("`" + name));
}

TEST(RequestsDoc, IgnoredFieldsMayBeAnything) {
  for (const std::string& name : documented("Ignored")) {
    for (const char* value : {"5", "\"x\"", "[1]", "{\"a\":true}", "false"}) {
      const std::string more = ",\"" + name + "\":" + value + "}";
      EXPECT_TRUE(parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + more, {}).ok()) << name;
      EXPECT_TRUE(parse_completion(R"({"prompt":"hi")" + more, {}).ok()) << name;
    }
  }
}

}  // namespace
}  // namespace kvkeep::server::api
