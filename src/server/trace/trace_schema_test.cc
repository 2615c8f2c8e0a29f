// docs/trace.md and written traces name the same fields; the docs explain each reason in the right place.

#include <regex>
#include <set>
#include <sstream>

#include "server/trace/trace_test_fixture.h"

namespace kvkeep::server {
namespace {

// A trace with a value in every field.
RequestTrace full_trace() {
  auto origin = std::make_shared<RequestOrigin>();
  origin->method = "POST";
  origin->path = "/v1/chat/completions";
  origin->headers = {{"session-id", "s1"}};
  origin->user = "somebody";
  origin->with_prompt = true;
  origin->body = R"({"messages": [{"role": "user", "content": "x"}], "cache_salt": "secret"})";
  origin->stop = {" t3"};
  RequestTrace trace;
  trace.kind = "chat";
  trace.tenant.bytes = {0xab, 0xcd, 0xef, 0x01, 0x02};
  trace.origin = origin;
  trace.explanation.candidates.resize(1);
  trace.explanation.difference = Difference{Position{3}, Position{2}, {1, 2}, {1, 3}, true};
  trace.cuts.resize(1);
  trace.reply = {1, 2, 3, 4};
  return trace;
}

// "a", "a.b", "list[].c"; the contents of `open` are the client's.
void add_names(const Json& json, const std::string& prefix, std::set<std::string>& names) {
  static const std::set<std::string> open = {"headers", "body", "reply"};
  for (const auto& [name, value] : json.items()) {
    const std::string path = prefix + name;
    names.insert(path);
    if (open.contains(path)) continue;
    if (value.is_object()) add_names(value, path + ".", names);
    if (value.is_array() && !value.empty() && value[0].is_object()) add_names(value[0], path + "[].", names);
  }
}

std::set<std::string> names_of(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

// First cells of the tables headed "field", between two headings.
std::set<std::string> documented(const std::string& from, const std::string& to) {
  const std::string text = text_of(KVKEEP_DOCS "/trace.md");
  std::istringstream lines(text.substr(text.find(from), text.find(to) - text.find(from)));
  std::set<std::string> names;
  bool fields = false;
  const std::regex name("`([^`]+)`");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) fields = false;
    if (line.starts_with("| field |")) fields = true;
    if (!fields || !line.starts_with("| `")) continue;
    const std::string cell = line.substr(2, line.find(" | ") - 2);
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at) names.insert((*at)[1]);
  }
  return names;
}

// The words in backquotes in the first cells of the table with this head.
std::set<std::string> first_cells(const std::string& page, const std::string& head) {
  const std::string text = text_of(KVKEEP_DOCS "/" + page);
  const std::size_t begin = text.find(head);
  if (begin == std::string::npos) return {};
  std::istringstream lines(text.substr(text.find('\n', begin) + 1));
  std::set<std::string> names;
  const std::regex name("`([^`]+)`");
  for (std::string line; std::getline(lines, line) && line.starts_with("|");) {
    const std::string cell = line.substr(0, line.find(" | ", 1));
    for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at) names.insert((*at)[1]);
  }
  return names;
}

// All names of an enumeration. Values after its last one have the name of an earlier one, or are "unknown".
template <typename Enum>
std::set<std::string> names_in() {
  std::set<std::string> names;
  for (int i = 0; i < 64; ++i) names.insert(std::string(to_string(static_cast<Enum>(i))));
  names.erase("unknown");
  return names;
}

TEST(TraceSchema, ASaltIsNeverShown) {
  const Json json = trace_json(full_trace(), NumberedVocabulary(), true);
  EXPECT_EQ(json.dump().find("secret"), std::string::npos);
  EXPECT_EQ(json["tenant"], "abcdef01");
  EXPECT_EQ(json["body"]["cache_salt"], "abcdef01") << "replayed, tenants stay apart";
  EXPECT_EQ(trace_json({}, NumberedVocabulary(), true)["tenant"], nullptr);
}

TEST(TraceSchema, DocsNameExactlyTheFieldsWritten) {
  std::set<std::string> written;
  add_names(trace_json(full_trace(), NumberedVocabulary(), true), "", written);
  EXPECT_GT(written.size(), 60U);
  EXPECT_EQ(written, documented("## The sender", "## Audits"));
}

TEST(TraceSchema, DocsNameExactlyTheFieldsAndOutcomesOfAnAudit) {
  AuditReport report;
  report.difference = 0.25;
  const Json json = trace_json(report);
  EXPECT_EQ(names_of(json), first_cells("trace.md", "| audit | meaning |\n"));
  EXPECT_EQ(json["difference"], 0.25);
  EXPECT_EQ(json["noise"], nullptr);
  EXPECT_EQ(names_in<AuditOutcome>(), first_cells("trace.md", "| outcome | meaning |\n"));
}

TEST(TraceSchema, DocsNameExactlyTheFieldsOfALookup) {
  const std::string text = text_of(KVKEEP_DOCS "/trace.md");
  const std::size_t begin = text.find("The answer has these fields");
  const std::string paragraph = text.substr(begin, text.find("\n\n", begin) - begin);
  Inspection found;
  found.explanation.candidates.resize(1);
  const Json answer = lookup_json(found, NumberedVocabulary(), false);
  std::set<std::string> written = names_of(answer);
  written.insert("wait");  // the paragraph's last sentence
  std::set<std::string> named;
  const std::regex name("`([^`]+)`");
  for (std::sregex_iterator at(paragraph.begin(), paragraph.end(), name), end; at != end; ++at) named.insert((*at)[1]);
  EXPECT_EQ(written, named);
}

TEST(TraceSchema, FieldsAreThereWhateverIsKnown) {
  std::set<std::string> full = names_of(trace_json(full_trace(), NumberedVocabulary(), true));
  const std::set<std::string> empty = names_of(trace_json(RequestTrace{}, NumberedVocabulary(), false));
  full.erase("body");
  full.erase("reply");
  EXPECT_EQ(full, empty);
}

TEST(TraceSchema, TheReplyIsTheTextThatTheClientGot) {
  const Json trace = trace_json(full_trace(), NumberedVocabulary(), true);
  EXPECT_EQ(trace["reply"], (Json{{"role", "assistant"}, {"content", " t1 t2"}}));
  EXPECT_EQ(trace["body"]["messages"][0]["content"], "x");
}

TEST(TraceSchema, EveryVerdictIsExplained) {
  const std::string text = text_of(KVKEEP_DOCS "/trace.md");
  for (int i = 0; i <= static_cast<int>(policy::Candidate::Verdict::kTooSlow); ++i) {
    const std::string name(to_string(static_cast<policy::Candidate::Verdict>(i)));
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
}

TEST(TraceSchema, EveryReasonIsExplained) {
  EXPECT_GT(names_in<MissReason>().size(), 8U);
  EXPECT_EQ(names_in<MissReason>(), first_cells("replies.md", "| `cache_miss_reason` | the rest"));
  EXPECT_GT(names_in<policy::CutReason>().size(), 7U);
  EXPECT_EQ(names_in<policy::CutReason>(), first_cells("cuts.md", "| Reason in log and trace |"));
}

TEST(TraceSchema, EverySourceIsExplained) {
  const std::string text = text_of(KVKEEP_DOCS "/replies.md");
  for (const std::string& name : names_in<CacheSource>()) {
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
  for (const std::string& name : names_in<CachePoint>()) {
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
}

TEST(TraceSchema, EveryCutReasonIsNextToTheLogsLines) {
  const std::string text = text_of(KVKEEP_DOCS "/replies.md");
  for (const std::string& name : names_in<policy::CutReason>()) {
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace kvkeep::server
