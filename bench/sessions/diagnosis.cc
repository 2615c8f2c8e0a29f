#include "bench/sessions/diagnosis.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "bench/sessions/canonical.h"
#include "bench/sessions/dialect.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kWordsBefore = 64;
constexpr std::size_t kWordsChanged = 256;
constexpr std::size_t kWordsShown = 16;
constexpr std::size_t kLongestWord = 24;

bool is_letter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// A word with the blank before it, or another character.
std::size_t word_size(std::string_view text) {
  std::size_t size = text.front() == ' ' && text.size() > 1 && is_letter(text[1]) ? 1 : 0;
  while (size < text.size() && size < kLongestWord && is_letter(text[size])) ++size;
  return std::max<std::size_t>(size, 1);
}

// Words of all prompts, each with a number.
class Words {
 public:
  TokenId number(std::string_view word) {
    const auto [found, is_new] = numbers_.try_emplace(std::string(word), static_cast<TokenId>(texts_.size()));
    if (is_new) texts_.push_back(found->first);
    return found->second;
  }
  std::string text(TokenSpan words, std::size_t most) const {
    std::string all;
    for (const TokenId word : words.first(std::min(words.size(), most))) all += texts_[static_cast<std::size_t>(word)];
    return all;
  }

 private:
  std::unordered_map<std::string, TokenId> numbers_;
  std::deque<std::string> texts_;
};

PromptRole role_of(std::string_view name) {
  if (name == "system" || name == "developer") return PromptRole::kSystem;
  if (name == "user") return PromptRole::kUser;
  if (name == "assistant") return PromptRole::kAssistant;
  return name == "tool" ? PromptRole::kTool : PromptRole::kNone;
}

// Reads a canonical text into words and their places.
class PromptReader {
 public:
  explicit PromptReader(Words& words) : words_(words) {}

  void read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      line(text.substr(0, end));
      text.remove_prefix(end);
    }
  }
  std::vector<TokenId> ids;
  PromptParts parts;

 private:
  // A line with two '%' is content.
  void line(std::string_view text) {
    if (!text.starts_with('%') || text.starts_with("%%")) return add(text, place_);
    const std::string_view name = text.substr(1, text.find_last_not_of('\n'));
    add(text, {});
    section(name);
  }

  void section(std::string_view name) {
    const std::string_view kind = name.substr(0, name.find(' '));
    if (kind == "tool") {
      place_ = {PromptField::kTool, PromptRole::kNone, parts.tools++};
    } else if (kind == "message") {
      begin_message(role_of(name.substr(std::min(name.find(' ') + 1, name.size()))));
    } else if (kind == "end") {
      place_ = {};
    } else {
      in_message(kind);
    }
  }

  void begin_message(PromptRole role) {
    message_ = {PromptField::kContent, role, parts.messages++};
    place_ = message_;
    is_empty_ = true;
  }

  // Each result of a call is a message of its own, as templates get it, also if the client sends several in one. The
  // text of a result comes in a section of its own.
  void in_message(std::string_view kind) {
    const bool after_result = message_.role == PromptRole::kTool && place_.field == PromptField::kTemplate;
    if (kind == "result") {
      if (!is_empty_) begin_message(PromptRole::kTool);
      message_.role = PromptRole::kTool;
    } else if (after_result) {
      begin_message(PromptRole::kUser);
    }
    is_empty_ = false;
    place_ = message_;
    place_.field = kind == "reasoning" ? PromptField::kThinking
                   : kind == "call"    ? PromptField::kCalls
                   : kind == "field"   ? PromptField::kOther
                                       : PromptField::kContent;
    if (kind == "reasoning") parts.has_thoughts.push_back(message_.index);
  }

  void add(std::string_view text, const PromptPlace& place) {
    if (parts.parts.empty() || parts.parts.back().place != place) {
      parts.parts.push_back({Position{} + ids.size(), place});
    }
    while (!text.empty()) {
      const std::size_t size = word_size(text);
      ids.push_back(words_.number(text.substr(0, size)));
      text.remove_prefix(size);
    }
  }

  Words& words_;
  PromptPlace place_;
  PromptPlace message_;
  bool is_empty_ = false;  // the message has no section yet
};

// The first of these headers names the conversation, as a server takes it.
std::string conversation_of(const RecordedRequest& request) {
  for (const std::string_view wanted : {"x-claude-code-agent-id", "x-claude-code-session-id", "x-session-id",
                                        "x-session-affinity", "session-id", "thread-id"}) {
    for (const auto& [name, value] : request.headers) {
      if (std::ranges::equal(name, wanted, {}, [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; })) {
        return value;
      }
    }
  }
  return "";
}

}  // namespace

class Diagnoser::Memory {
 public:
  explicit Memory(bool keeps_billing_line) : form_{.as_sent = true, .billing_line = keeps_billing_line} {}

  void add(const std::string& client, const RecordedRequest& request, Diagnosis& diagnosis) {
    const Dialect dialect = dialect_of(request.method, request.path);
    PromptReader prompt(words_);
    prompt.read(canonical_text(dialect, request.body, CanonicalOrder::kToolsFirst, form_));
    if (prompt.ids.empty()) return;
    DiagnosedRequest made{.label = request.label, .words = prompt.ids.size()};
    std::string conversation = conversation_of(request);
    const Earlier* nearest = nearest_to(prompt.ids, made.known);
    find(prompt, nearest, conversation, made);
    diagnosis.misses.count(made.found, made.words - made.known);
    diagnosis.offenders.count(client);
    diagnosis.offenders.add(client, made.found, made.before, 0, 0);
    diagnosis.requests.push_back(std::move(made));
    earlier_.push_back({std::move(conversation), std::move(prompt.ids), std::move(prompt.parts)});
    if (earlier_.size() > kMostCompared) earlier_.pop_front();
  }

 private:
  struct Earlier {
    std::string conversation;  // "": the client names none
    std::vector<TokenId> ids;
    PromptParts parts;
  };

  const Earlier* nearest_to(TokenSpan ids, std::size_t& common) const {
    const Earlier* nearest = nullptr;
    for (const Earlier& other : earlier_) {
      const std::size_t shared = common_prefix(ids, other.ids);
      if (nearest != nullptr && shared < common) continue;
      nearest = &other;
      common = shared;
    }
    return nearest == nullptr || nearest->ids.size() == common ? nearest : most_alike(ids, common);
  }
  // Of the newest that share so many words and go on differently, as a server chooses.
  const Earlier* most_alike(TokenSpan ids, std::size_t common) const {
    std::vector<const Earlier*> found;
    std::vector<TokenSpan> rests;
    for (auto other = earlier_.rbegin(); other != earlier_.rend() && found.size() < explain::kMostAlike; ++other) {
      if (other->ids.size() == common || common_prefix(ids, other->ids) != common) continue;
      found.push_back(&*other);
      rests.push_back(TokenSpan(other->ids).subspan(common));
    }
    return found[explain::most_alike(ids.subspan(common), rests)];
  }

  // The conversation in which the words of `nearest` up to a little beyond the difference were sent.
  explain::KnownFrom known_from(TokenSpan nearest, std::size_t known, const std::string& conversation) const {
    if (conversation.empty()) return explain::KnownFrom::kUnknown;
    const TokenSpan words = nearest.first(std::min(known + kWordsShown, nearest.size()));
    const bool same = std::ranges::any_of(earlier_, [&](const Earlier& other) {
      return other.conversation == conversation && common_prefix(other.ids, words) == words.size();
    });
    return same ? explain::KnownFrom::kSameConversation : explain::KnownFrom::kAnother;
  }

  void find(const PromptReader& prompt, const Earlier* nearest, const std::string& conversation,
            DiagnosedRequest& made) const {
    constexpr std::size_t kBeginning = 8;  // the first section's name
    explain::BreakFacts facts;
    facts.prompt_tokens = made.words;
    facts.cached_tokens = facts.known_tokens = made.known;
    facts.beginning_tokens = kBeginning;
    facts.parts = &prompt.parts;
    facts.thoughts = {"reasoning\n", ""};  // a section's name; its sign '%' begins each other section, too
    if (nearest != nullptr && made.known < std::min(made.words, nearest->ids.size())) {
      facts.known_parts = &nearest->parts;
      facts.known_from = known_from(nearest->ids, made.known, conversation);
      facts.tokens = prompt.ids;
      add_texts(prompt.ids, nearest->ids, facts, made);
    }
    made.found = explain::find_break(facts);
  }

  void add_texts(TokenSpan ids, TokenSpan nearest, explain::BreakFacts& facts, DiagnosedRequest& made) const {
    const TokenSpan here = ids.subspan(made.known);
    const TokenSpan there = nearest.subspan(made.known);
    facts.at = Position{} + made.known;
    facts.comparison = explain::compare(here, there);
    const std::size_t before = std::min(made.known, kWordsBefore);
    facts.text.before = words_.text(ids.subspan(made.known - before), before);
    facts.text.here = words_.text(here, std::min(facts.comparison.here_gap, kWordsChanged));
    facts.text.there = words_.text(there, std::min(facts.comparison.there_gap, kWordsChanged));
    facts.text.after = words_.text(here.subspan(facts.comparison.here_gap), kWordsShown);
    facts.known_rest = there;
    explain::OtherValues values(ids, *facts.at);
    for (const Earlier& other : earlier_) values.add(other.ids);
    facts.other_values = values.count();
    explain::add_calls(facts, [this](TokenSpan words) { return words_.text(words, words.size()); });
    made.before = explain::line_before(facts.text.before);
    made.here = words_.text(here, kWordsShown);
    made.there = words_.text(there, kWordsShown);
  }

  const CanonicalForm form_;
  Words words_;
  std::deque<Earlier> earlier_;
};

Diagnoser::Diagnoser(bool keeps_billing_line) : memory_(std::make_unique<Memory>(keeps_billing_line)) {}
Diagnoser::~Diagnoser() = default;

Diagnosis Diagnoser::diagnose(const Session& session) {
  Diagnosis diagnosis;
  for (const RecordedRequest& request : session.requests) memory_->add(session.client, request, diagnosis);
  return diagnosis;
}

namespace {

std::optional<explain::Offender> offender_of(const Json& line, const Json& found) {
  const auto lost = count_field(found, "lost_tokens");
  if (!lost || *lost < explain::kLeastLost) return std::nullopt;
  const Json* ms = field(found, "lost_ms");
  return explain::Offender{.client = text_field(line, "client"),
                           .place = text_field(found, "place"),
                           .kind = text_field(found, "kind"),
                           .what = text_field(found, "what"),
                           .line = {},
                           .times = 1,
                           .lost_tokens = *lost,
                           .lost_ms = ms != nullptr && ms->is_number() ? ms->get<double>() : 0,
                           .last_ns = 0};
}

void add_traced(const Json& line, Diagnosis& diagnosis) {
  if (text_field(line, "route") == "ahead") return;  // no client sent it
  const Json* found = field(line, "cache_break");
  const std::uint64_t prefilled = count_field(line, "prefilled_tokens").value_or(0);
  diagnosis.offenders.count(text_field(line, "client"));
  if (found == nullptr) return diagnosis.misses.count({}, prefilled);
  diagnosis.misses.count(text_field(*found, "kind"), text_field(*found, "what"), prefilled,
                         count_field(*found, "lost_tokens").value_or(0));
  if (auto offender = offender_of(line, *found)) diagnosis.offenders.merge(*std::move(offender));
}

}  // namespace

std::optional<Diagnosis> read_trace(std::string_view text) {
  std::optional<Diagnosis> diagnosis;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto line = parse_json(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line || field(*line, "trace") == nullptr || !line->contains("cache_break")) continue;
    if (!diagnosis) diagnosis.emplace();
    add_traced(*line, *diagnosis);
  }
  return diagnosis;
}

}  // namespace kvkeep::bench
