#include "bench/workloads/workload.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/assert.h"
#include "base/edit_distance.h"
#include "text/terminal.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxSteps = 100'000;
constexpr std::size_t kMaxNameBytes = 64;
constexpr std::uint32_t kMaxTokens = 10'000'000;
constexpr std::uint32_t kMaxTurns = kMaxSteps;
constexpr std::uint32_t kMaxChoices = 64;
constexpr double kMaxWaitSeconds = 3600;
constexpr double kMaxRatio = 100;

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kMaxQuotedCharacters = 40;

// Splits into lines, without "\n" or "\r\n". At least one; text after the last "\n" is a line unless it is empty.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  do {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return lines;
}

// Splits at blanks and tabs.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = line.find_first_not_of(kBlanks)) {
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

// Returns true if the line can be shown and put into a report: no control characters except tabs, only valid UTF-8.
bool is_printable(std::string_view line) {
  std::string shown(line);
  std::ranges::replace(shown, '\t', ' ');
  return text::printable(shown, shown.size() + 1) == shown;
}

std::string in_quotes(std::string_view word) {
  return fmt::format("'{}'", text::printable(word, kMaxQuotedCharacters));
}

// A name of unlikely length has no suggestion.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kMaxNameBytes) return "";
  const std::string nearest = nearest_within(std::max<std::size_t>(1, word.size() / 3), word, known);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

Result<std::uint32_t> number_of(std::string_view word, std::uint32_t most) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && number >= 1 && number <= most) return number;
  return invalid(fmt::format("{} is not a whole number from 1 to {}", in_quotes(word), most));
}

Result<double> decimal_of(std::string_view word, std::string_view what, double least, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, std::chars_format::fixed);
  // from_chars reads "nan" as a number, which lies between no two others.
  if (error == std::errc() && end == word.data() + word.size() && number >= least && number <= most) return number;
  return invalid(fmt::format("{} is not a {} from {} to {}", in_quotes(word), what, least, most));
}

Result<std::string> new_name(std::string_view word) {
  if (word.size() > kMaxNameBytes) return invalid(fmt::format("a name has at most {} bytes", kMaxNameBytes));
  return std::string(word);
}

// Reads one line after the other and remembers the names in it. Errors have only the reason, without the line.
class Reader {
 public:
  explicit Reader(const std::string& name) { workload_.name = name; }

  Status read_title(std::string_view line);
  Status read_statement(std::string_view line);
  // Checks what only a whole workload can lack. The reader is empty afterwards.
  Result<Workload> finish();

 private:
  using Arguments = std::span<const std::string_view>;
  struct Statement {
    std::string_view name;
    std::vector<std::string_view> arguments;
    Status (Reader::*read)(Arguments);
  };
  static std::span<const Statement> statements();

  template <std::uint32_t Workload::* setting>
  Status read_setting(Arguments arguments);
  Status read_system(Arguments arguments);
  Status read_open(Arguments arguments);
  Status read_turn(Arguments arguments);
  Status read_show(Arguments arguments);
  Status read_branch(Arguments arguments);
  Status read_quote(Arguments arguments);
  Status read_kill(Arguments arguments);
  Status read_point_bound(Arguments arguments);
  Status read_choices(Arguments arguments);

  Status add(Step step);
  // Reserves a name for a conversation with this many turns.
  Result<std::string> begin(std::string_view name, std::uint32_t turns);
  Result<std::string> system(std::string_view name) const;
  // Checks that it is a conversation and not a quote.
  Result<std::string> conversation(std::string_view name) const;
  // Reads the number of turns in `word`, of which the conversation must have at least as many.
  Result<std::uint32_t> turns_of(std::string_view name, std::string_view word) const;

  Workload workload_;
  std::set<std::string, std::less<>> systems_;
  std::map<std::string, std::uint32_t, std::less<>> turns_;  // of each conversation so far; 0 for quotes
  std::set<std::string, std::less<>> quotes_;
  std::set<std::string, std::less<>> pictured_;  // conversations with a picture, or that may have one
};

std::span<const Reader::Statement> Reader::statements() {
  static const std::vector<Statement> all = {
      {"context", {"N"}, &Reader::read_setting<&Workload::context_tokens>},
      {"small-context", {"N"}, &Reader::read_setting<&Workload::small_context_tokens>},
      {"reply", {"N"}, &Reader::read_setting<&Workload::reply_tokens>},
      {"system", {"NAME", "N"}, &Reader::read_system},
      {"open", {"CONVERSATION", "SYSTEM"}, &Reader::read_open},
      {"turn", {"CONVERSATION", "N"}, &Reader::read_turn},
      {"show", {"CONVERSATION", "N", "PICTURE"}, &Reader::read_show},
      {"branch", {"NEW", "CONVERSATION", "N"}, &Reader::read_branch},
      {"quote", {"NEW", "SYSTEM", "CONVERSATION", "N"}, &Reader::read_quote},
      {"kill", {"SECONDS"}, &Reader::read_kill},
      {"point-bound", {"RATIO"}, &Reader::read_point_bound},
      {"choices", {"N"}, &Reader::read_choices},
  };
  return all;
}

Status Reader::read_title(std::string_view line) {
  if (line.starts_with("# ")) workload_.title = trimmed(line.substr(2));
  if (workload_.title.empty()) return invalid("the first line has to be '# ' and the title");
  return {};
}

Status Reader::read_statement(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line.substr(0, line.find('#')));
  if (words.empty()) return {};
  const auto found = std::ranges::find(statements(), words[0], &Statement::name);
  if (found == statements().end()) {
    std::vector<std::string> known;
    for (const Statement& statement : statements()) known.emplace_back(statement.name);
    return invalid(fmt::format("unknown statement {}{}", in_quotes(words[0]), suggestion(words[0], known)));
  }
  const Arguments given = Arguments(words).subspan(1);
  const std::size_t wanted = found->arguments.size();
  if (given.size() != wanted)
    return invalid(fmt::format("'{}' takes {} argument{} ({}), not {}", found->name, wanted, wanted == 1 ? "" : "s",
                               fmt::join(found->arguments, " "), given.size()));
  return (this->*found->read)(given);
}

template <std::uint32_t Workload::* setting>
Status Reader::read_setting(Arguments arguments) {
  if (workload_.*setting != 0) return invalid("given for the second time");
  TRY_ASSIGN(workload_.*setting, number_of(arguments[0], kMaxTokens));
  return {};
}

Status Reader::read_system(Arguments arguments) {
  TRY_ASSIGN(std::string name, new_name(arguments[0]));
  TRY_ASSIGN(const std::uint32_t tokens, number_of(arguments[1], kMaxTokens));
  if (!systems_.insert(name).second) return invalid(fmt::format("there is a system '{}' already", name));
  return add(DefineSystem{std::move(name), tokens});
}

Status Reader::read_open(Arguments arguments) {
  TRY_ASSIGN(std::string prompt, system(arguments[1]));
  TRY_ASSIGN(std::string name, begin(arguments[0], 0));
  return add(OpenConversation{std::move(name), std::move(prompt)});
}

Status Reader::read_turn(Arguments arguments) {
  TRY_ASSIGN(std::string name, conversation(arguments[0]));
  TRY_ASSIGN(const std::uint32_t tokens, number_of(arguments[1], kMaxTokens));
  ++turns_[name];
  return add(Turn{std::move(name), tokens});
}

Status Reader::read_show(Arguments arguments) {
  TRY_ASSIGN(std::string name, conversation(arguments[0]));
  TRY_ASSIGN(const std::uint32_t tokens, number_of(arguments[1], kMaxTokens));
  TRY_ASSIGN(std::string picture, new_name(arguments[2]));
  ++turns_[name];
  pictured_.insert(name);
  return add(Show{std::move(name), tokens, std::move(picture)});
}

Status Reader::read_branch(Arguments arguments) {
  TRY_ASSIGN(std::string origin, conversation(arguments[1]));
  TRY_ASSIGN(const std::uint32_t turns, turns_of(origin, arguments[2]));
  TRY_ASSIGN(std::string name, begin(arguments[0], turns));
  if (pictured_.contains(origin)) pictured_.insert(name);
  return add(Branch{std::move(name), std::move(origin), turns});
}

Status Reader::read_quote(Arguments arguments) {
  TRY_ASSIGN(std::string prompt, system(arguments[1]));
  TRY_ASSIGN(std::string origin, conversation(arguments[2]));
  if (pictured_.contains(origin)) {
    return invalid(fmt::format("'{}' has pictures, which no text can quote", origin));
  }
  TRY_ASSIGN(const std::uint32_t turns, turns_of(origin, arguments[3]));
  TRY_ASSIGN(std::string name, begin(arguments[0], 0));
  quotes_.insert(name);
  return add(Quote{std::move(name), std::move(prompt), std::move(origin), turns});
}

Status Reader::read_kill(Arguments arguments) {
  TRY_ASSIGN(const double wait_seconds, decimal_of(arguments[0], "number of seconds", 0, kMaxWaitSeconds));
  return add(KillServer{wait_seconds});
}

Status Reader::read_point_bound(Arguments arguments) {
  if (workload_.point_bound) return invalid("given for the second time");
  TRY_ASSIGN(workload_.point_bound, decimal_of(arguments[0], "ratio", 1, kMaxRatio));
  return {};
}

Status Reader::read_choices(Arguments arguments) {
  if (workload_.choices != 1) return invalid("given for the second time");
  TRY_ASSIGN(workload_.choices, number_of(arguments[0], kMaxChoices));
  return {};
}

Status Reader::add(Step step) {
  if (workload_.steps.size() == kMaxSteps) return invalid(fmt::format("more than {} steps", kMaxSteps));
  workload_.steps.push_back(std::move(step));
  return {};
}

Result<std::string> Reader::begin(std::string_view name, std::uint32_t turns) {
  TRY_ASSIGN(std::string made, new_name(name));
  if (!turns_.emplace(made, turns).second) return invalid(fmt::format("there is a conversation '{}' already", made));
  return made;
}

Result<std::string> Reader::system(std::string_view name) const {
  if (systems_.contains(name)) return std::string(name);
  const std::vector<std::string> known(systems_.begin(), systems_.end());
  return invalid(fmt::format("there is no system {}{}", in_quotes(name), suggestion(name, known)));
}

Result<std::string> Reader::conversation(std::string_view name) const {
  if (quotes_.contains(name)) return invalid(fmt::format("'{}' is a quote: one request, nothing follows it", name));
  if (turns_.contains(name)) return std::string(name);
  std::vector<std::string> known;
  for (const auto& [made, turns] : turns_) known.push_back(made);
  return invalid(fmt::format("there is no conversation {}{}", in_quotes(name), suggestion(name, known)));
}

Result<std::uint32_t> Reader::turns_of(std::string_view name, std::string_view word) const {
  TRY_ASSIGN(const std::uint32_t wanted, number_of(word, kMaxTurns));
  const std::uint32_t turns = turns_.find(name)->second;
  if (wanted <= turns) return wanted;
  return invalid(fmt::format("'{}' has {} turn{} so far, not {}", name, turns, turns == 1 ? "" : "s", wanted));
}

Result<Workload> Reader::finish() {
  for (const auto& [name, tokens] : {std::pair{"context", workload_.context_tokens},
                                     {"small-context", workload_.small_context_tokens},
                                     {"reply", workload_.reply_tokens}}) {
    if (tokens == 0) return invalid(fmt::format("'{}' is missing", name));
  }
  if (workload_.small_context_tokens > workload_.context_tokens)
    return invalid("'small-context' is larger than 'context'");
  if (workload_.requests() == 0) return invalid("there is no turn and no quote: nothing to play");
  return std::move(workload_);
}

template <typename Kind>
std::size_t steps_of(const std::vector<Step>& steps) {
  return static_cast<std::size_t>(
      std::ranges::count_if(steps, [](const Step& step) { return std::holds_alternative<Kind>(step); }));
}

}  // namespace

std::size_t Workload::requests() const {
  return steps_of<Turn>(steps) + steps_of<Show>(steps) + steps_of<Quote>(steps);
}

std::size_t Workload::kills() const { return steps_of<KillServer>(steps); }

std::size_t Workload::pictures() const {
  std::set<std::string_view> names;
  for (const Step& step : steps) {
    if (const auto* show = std::get_if<Show>(&step)) names.insert(show->picture);
  }
  return names.size();
}

Result<Workload> parse_workload(const std::string& name, std::string_view text) {
  std::size_t number = 1;
  const auto at_line = [&](std::string_view reason) { return invalid(fmt::format("{}:{}: {}", name, number, reason)); };
  if (text.size() > kMaxTextBytes) return at_line("the text is longer than 1 MiB");

  const std::vector<std::string_view> lines = lines_of(text);
  Reader reader(name);
  for (const std::string_view line : lines) {
    if (!is_printable(line)) return at_line("control characters, or bytes that are not UTF-8");
    const Status read = number == 1 ? reader.read_title(line) : reader.read_statement(line);
    if (!read) return at_line(read.error().message);
    ++number;
  }
  number = lines.size();
  Result<Workload> workload = reader.finish();
  if (!workload) return at_line(workload.error().message);
  return workload;
}

const std::vector<Workload>& builtin_workloads() {
  static const std::vector<Workload> all = [] {
    std::vector<Workload> made;
    for (const BuiltinText& builtin : builtin_texts()) {
      Result<Workload> workload = parse_workload(std::string(builtin.name), builtin.text);
      KVKEEP_ASSERT(workload.ok(), workload.error().message.c_str());
      made.push_back(std::move(*workload));
    }
    std::ranges::sort(made, {}, &Workload::name);
    return made;
  }();
  return all;
}

}  // namespace kvkeep::bench
