#include "flag_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "flag_values.h"

namespace kvkeep::cli {
namespace {

const std::vector<std::string> kHelpNames = {"--help", "-h", "--usage"};

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::find(list, item) != list.end();
}

constexpr std::string_view kPrefix = "LLAMA_ARG_";
constexpr std::string_view kNegatedPrefix = "LLAMA_ARG_NO_";

// LLAMA_ARG_WARMUP -> LLAMA_ARG_NO_WARMUP.
std::string negated_variable(const std::string& name) {
  return name.starts_with(kPrefix) ? std::string(kNegatedPrefix) + name.substr(kPrefix.size()) : std::string();
}

bool stands_for(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  return pattern == name;
}

enum class Match { kNone, kHarmless, kRefused };

// Returns true if a variable is the one a RefusedFlag names, and set to what is refused.
Match match(std::string_view pattern, std::string_view name, std::string_view value) {
  const auto equals = pattern.find('=');
  if (!stands_for(pattern.substr(0, equals), name)) return Match::kNone;
  if (equals == std::string_view::npos) return Match::kRefused;
  const std::optional<bool> on = parse_switch_word(value);
  const bool refused_on = pattern.substr(equals + 1) == "on";
  return !on || *on == refused_on ? Match::kRefused : Match::kHarmless;
}

// Which refused name a variable sets: --no-mmap for LLAMA_ARG_NO_MMAP, the first name for other variables.
const std::string& name_for(const std::string& variable, const RefusedFlag& flag) {
  std::string name = "--" + variable.substr(std::min(kPrefix.size(), variable.size()));
  std::ranges::transform(name, name.begin(), [](unsigned char letter) {
    return letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
  });
  const auto found = std::ranges::find(flag.names, name);
  return found == flag.names.end() ? flag.names.front() : *found;
}

std::string refusal(const std::string& name, const std::string& reason) {
  return name + " is not supported: " + reason;
}

std::string refusal(const std::string& name, const RefusedFlag& flag) {
  return flag.reason.empty() ? name + " is " + flag.instead + " here" : refusal(name, flag.reason);
}

struct FoundRefusal {
  Match match = Match::kNone;
  const RefusedFlag* flag = nullptr;
};

FoundRefusal find_refusal(const std::vector<RefusedFlag>& refused, const std::string& name, const std::string& value) {
  for (const RefusedFlag& flag : refused) {
    for (const std::string& pattern : flag.variables) {
      const Match found = match(pattern, name, value);
      if (found != Match::kNone) return {found, &flag};
    }
  }
  if (!name.starts_with(kNegatedPrefix)) return {};
  return find_refusal(refused, std::string(kPrefix) + name.substr(kNegatedPrefix.size()), "off");
}

// A short name is shown together with the long one, which the documentation uses.
std::string spelled(const KnownFlag& flag, const std::string& name) {
  return name == flag.name ? name : name + " (" + flag.name + ")";
}

Error needs_value(const KnownFlag& flag, const std::string& name) {
  return invalid(spelled(flag, name) + " needs a value: " + flag.value);
}

// "--name=value", or a name by itself.
struct SplitArgument {
  std::string name;
  std::optional<std::string> value;
};
SplitArgument split_argument(const std::string& argument) {
  const auto equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
  if (equals == std::string::npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

// Whether an unknown flag takes a value cannot be known; a flag that turns something off has none.
bool may_take_value(std::string_view name) { return !name.starts_with("--no-") && !name.starts_with("-no-"); }

bool looks_like_value(const std::string& argument) {
  const bool is_number = argument.size() > 1 && argument.find_first_not_of("-.0123456789") == std::string::npos;
  return !argument.starts_with('-') || is_number;
}

// "kvkeep cache ls" of "kvkeep cache ls [flags] ID".
std::string command_of(const std::string& usage) {
  return usage.substr(0, std::min(usage.find(" -"), usage.find(" [")));
}

// "kvkeep cache ls [flags] ID" is called as "kvkeep cache ls", or with the program as it was typed.
std::string called(const std::string& usage) {
  constexpr std::string_view kProgram = "kvkeep ";
  const std::string command = command_of(usage);
  return command.starts_with(kProgram) ? as_typed(command.substr(kProgram.size())) : command;
}

// Takes the arguments after arguments[i], and moves i to the last of them. A value may start with a dash (-n -1).
Result<std::string> following_values(const KnownFlag& flag, const std::string& name,
                                     const std::vector<std::string>& arguments, std::size_t& i) {
  const std::size_t count = flag.value.find(' ') == std::string::npos ? 1 : 2;
  if (arguments.size() - i <= count) return needs_value(flag, name);
  std::string values = arguments[++i];
  if (count == 2) values += "," + arguments[++i];
  return values;
}

constexpr std::size_t kNameColumns = 34;
constexpr std::size_t kTextColumns = 66;

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const auto blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text = blank == std::string_view::npos ? std::string_view{} : text.substr(blank + 1);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string help_of(const Flag& flag) {
  std::string description = flag.effect;
  if (!flag.default_text.empty()) description += fmt::format(" (default: {})", flag.default_text);
  if (!flag.environment.empty()) description += fmt::format(" (env: {})", flag.environment);
  std::string text = "  " + flag.spelling;
  if (text.size() + 2 > kNameColumns) text += "\n";
  bool begun = text.ends_with('\n');
  for (const std::string& line : wrapped(description, kTextColumns)) {
    text += fmt::format("{:<{}}{}\n", "", begun ? kNameColumns : kNameColumns - text.size(), line);
    begun = true;
  }
  return text;
}

}  // namespace

bool OnlyValues::allow(const std::string& value) const {
  const auto number = [](const std::string& text) { return parse_number(text, -1e9, 1e9); };
  const auto given = number(value);
  return values.empty() || std::ranges::any_of(values, [&](const std::string& each) {
           const auto allowed = number(each);
           return each == value || (given && allowed && *given == *allowed);
         });
}

KnownFlag::KnownFlag(Flag row) : Flag(std::move(row)) {
  std::vector<std::string> names;
  for (std::string_view rest = spelling; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(rest.size(), part.size() + 2));
    const auto blank = part.find(' ');
    const std::string_view one = part.substr(0, blank);
    if (blank != std::string_view::npos) value = part.substr(blank + 1);
    const bool turns_off = !off_names.empty() || (!names.empty() && one.starts_with("--no-"));
    (turns_off ? off_names : names).emplace_back(one);
  }
  KVKEEP_ASSERT(!names.empty(), "a flag without a name");
  name = std::move(names.back());
  names.pop_back();
  aliases = std::move(names);
  if (default_text.empty()) default_text = assign.default_text;
}

FlagSet::FlagSet(std::string usage, std::string description, std::vector<Flag> flags, std::vector<RefusedFlag> refused)
    : usage_(std::move(usage)), description_(std::move(description)), refused_(std::move(refused)) {
  flags.push_back({.group = "Help", .spelling = "-h, --usage, --help", .effect = "Print this help and exit."});
  for (Flag& flag : flags) {
    if (flag.group.empty() && !flags_.empty()) flag.group = flags_.back().group;
    flags_.emplace_back(std::move(flag));
  }
}

FlagSet::Spelling FlagSet::find(std::string_view name) const {
  for (const KnownFlag& flag : flags_) {
    if (flag.name == name || contains(flag.aliases, name)) return {&flag, false};
    if (contains(flag.off_names, name)) return {&flag, true};
  }
  return {};
}

// The flag of that name; empty if there is none, or it may be given several times.
std::string FlagSet::flag_set_by(const std::string& name) const {
  const KnownFlag* flag = find(name).flag;
  return flag == nullptr || flag->assign.adds_up ? std::string() : flag->name;
}

std::vector<std::string> FlagSet::all_names() const {
  std::vector<std::string> names;
  for (const KnownFlag& flag : flags_) {
    names.push_back(flag.name);
    names.insert(names.end(), flag.aliases.begin(), flag.aliases.end());
    names.insert(names.end(), flag.off_names.begin(), flag.off_names.end());
  }
  return names;
}

const RefusedFlag* FlagSet::find_refused(const std::string& name) const {
  const auto found = std::ranges::find_if(refused_, [&name](const RefusedFlag& refused) {
    return std::ranges::any_of(refused.names,
                               [&name](const std::string& pattern) { return stands_for(pattern, name); });
  });
  return found == refused_.end() ? nullptr : &*found;
}

// arguments[at] is an unknown or refused flag; a substitute's value is added to `given`. Returns how many arguments
// after it seem to be its value.
std::size_t FlagSet::mend(const std::vector<std::string>& arguments, std::size_t at, std::vector<Given>& given,
                          MendedLine& line) const {
  const auto [name, joined] = split_argument(arguments[at]);
  const RefusedFlag* refused = find_refused(name);
  const std::string meant = refused != nullptr ? refused->instead : nearest(name, all_names());
  line.note(
      refused != nullptr
          ? unsupported(refusal(name, *refused))
          : invalid("unknown flag '" + name + "'" +
                    (meant.empty() ? (shown_.empty() ? "; --help lists all flags" : "; --help-all lists all flags")
                                   : "; did you mean '" + meant + "'?")),
      refused != nullptr || !meant.empty());
  const KnownFlag* ours = find(meant).flag;
  const std::string set = flag_set_by(meant.substr(0, meant.find_first_of("= ")));
  const bool is_switch = meant.find(' ') != std::string::npos;  // a switch with its value
  const bool takes_value = ours != nullptr ? !ours->value.empty() : may_take_value(name) && !is_switch;
  const bool value_follows = !joined && takes_value && at + 1 < arguments.size() && looks_like_value(arguments[at + 1]);
  if (!meant.empty()) line.put(meant, set);
  if (ours != nullptr && takes_value && (joined || value_follows)) {
    given.push_back({ours, joined ? *joined : arguments[at + 1], meant});
    line.put_value(given.back().value, set);
  }
  return value_follows ? 1 : 0;
}

Status FlagSet::read_arguments(const std::vector<std::string>& arguments, std::vector<std::string>* positional,
                               std::vector<Given>& given, MendedLine& line) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with('-') || argument == "-") {
      if (positional == nullptr) return invalid("unexpected argument '" + argument + "'");
      positional->push_back(argument);
      line.keep(argument, words_set_);
      continue;
    }
    const std::size_t first = i;
    auto [name, value] = split_argument(argument);
    const auto [flag, off] = find(name);
    if (flag == nullptr) {
      i += mend(arguments, i, given, line);
      continue;
    }
    if (flag->value.empty()) {
      if (value) return invalid(name + " takes no value");
      value = off ? "off" : "on";
    }
    const bool flag_follows = !value && i + 1 < arguments.size() && find(arguments[i + 1]).flag != nullptr;
    if (flag_follows) return needs_value(*flag, name);
    if (!value) {
      TRY_ASSIGN(value, following_values(*flag, name, arguments, i));
    }
    if (value->empty()) return needs_value(*flag, name);
    if (!flag->only.allow(*value)) {
      line.note(unsupported(refusal(spelled(*flag, name) + " " + *value, flag->only.reason)), true);
      continue;
    }
    given.push_back({flag, *std::move(value), spelled(*flag, name)});
    for (std::size_t taken = first; taken <= i; ++taken) line.keep(arguments[taken], flag_set_by(flag->name));
  }
  return {};
}

Status FlagSet::refuse_environment(const os::Environment& environment) const {
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix)) continue;
    const FoundRefusal found = find_refusal(refused_, name, value);
    if (found.match == Match::kRefused && found.flag->essential) {
      return unsupported("the environment variable " + name + " is set, but " +
                         refusal(name_for(name, *found.flag), *found.flag) + "; to start without it, unset " + name);
    }
  }
  return {};
}

bool FlagSet::reads_variable(const std::string& name) const {
  return std::ranges::any_of(flags_, [&name](const KnownFlag& flag) {
    return flag.environment == name || (!flag.off_names.empty() && negated_variable(flag.environment) == name);
  });
}

std::vector<std::string> FlagSet::ignored_variables(const os::Environment& environment) const {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(kPrefix) || value.empty()) continue;
    if (const auto flag = std::ranges::find(flags_, name, &KnownFlag::environment); flag != flags_.end()) {
      if (flag->only.allow(value)) continue;
      lines.push_back("the environment variable " + name +
                      " sets nothing: " + refusal(flag->name + " " + value, flag->only.reason));
      continue;
    }
    if (reads_variable(name)) continue;
    const FoundRefusal found = find_refusal(refused_, name, value);
    if (found.match == Match::kHarmless) continue;
    const std::string variable = "the environment variable " + name;
    lines.push_back(found.match == Match::kNone
                        ? variable + " is not known here and sets nothing"
                        : variable + " sets nothing: " + refusal(name_for(name, *found.flag), *found.flag));
  }
  return lines;
}

Status FlagSet::read_environment(const os::Environment& environment, std::vector<Given>& given) const {
  TRY(refuse_environment(environment));
  for (const KnownFlag& flag : flags_) {
    if (flag.environment.empty() || std::ranges::find(given, &flag, &Given::flag) != given.end()) continue;
    if (!flag.off_names.empty() && environment.contains(negated_variable(flag.environment))) {
      given.push_back({&flag, "off", negated_variable(flag.environment), true});
      continue;
    }
    const auto found = environment.find(flag.environment);
    if (found == environment.end() || found->second.empty() || !flag.only.allow(found->second)) continue;
    std::string value = found->second;
    if (flag.value.empty()) {
      const std::optional<bool> on = parse_switch_word(value);
      if (!on) return invalid(flag.environment + ": '" + value + "' is not on or off");
      // A switch without an off form stays as it is when the variable says "off".
      if (!*on && flag.off_names.empty()) continue;
      value = *on ? "on" : "off";
    }
    given.push_back({&flag, std::move(value), flag.environment, true});
  }
  return {};
}

// Assigns variables first, each kind in the order of the table: of two flags that set one option, the later row wins
// wherever the flags stand.
void FlagSet::assign(const std::vector<Given>& given, MendedLine& line) const {
  std::multimap<std::pair<bool, const Flag*>, const Given*> in_order;
  for (const Given& one : given) in_order.emplace(std::pair(!one.is_variable, one.flag), &one);
  for (const auto& [rank, each] : in_order) {
    const Given& one = *each;
    const Status status = one.flag->assign.set(one.value);
    if (!status) line.note({status.error().kind, one.source + ": " + status.error().message}, false);
  }
}

Result<bool> FlagSet::parse(const std::vector<std::string>& arguments, const os::Environment& environment,
                            std::vector<std::string>* positional) const {
  if (std::ranges::any_of(arguments, [](const std::string& argument) { return contains(kHelpNames, argument); })) {
    return true;
  }
  std::vector<Given> given;
  MendedLine line(called(usage_));
  TRY(read_arguments(arguments, positional, given, line));
  if (line.is_sound()) TRY(read_environment(environment, given));
  assign(std::move(given), line);  // also of a line that is refused: its values are judged with it
  if (!line.is_sound()) return line.error();
  return false;
}

std::string FlagSet::help() const { return help_with(shown_.empty()); }
std::string FlagSet::help_all() const { return help_with(true); }

std::string FlagSet::help_with(bool all) const {
  std::vector<const KnownFlag*> listed;
  for (const KnownFlag& flag : flags_) {
    if (all || contains(shown_, flag.name)) listed.push_back(&flag);
  }
  std::string text;
  for (const std::string& line : wrapped(description_, kNameColumns + kTextColumns)) text += line + "\n";
  text += fmt::format("Usage: {}\n", usage_);
  std::vector<std::string_view> groups;
  for (const KnownFlag* flag : listed) {
    if (std::ranges::find(groups, flag->group) == groups.end()) groups.push_back(flag->group);
  }
  for (const std::string_view group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const KnownFlag* flag : listed) {
      if (flag->group == group) text += help_of(*flag);
    }
  }
  if (listed.size() < flags_.size()) {
    text += fmt::format("\n--help-all lists all {} flags.\n", flags_.size());
  }
  return text;
}

CommandManual FlagSet::manual() const {
  const std::string command = command_of(usage_);
  CommandManual manual{
      .name = command.substr(command.find(' ') + 1), .usage = usage_, .description = description_, .flags = flags_};
  for (KnownFlag& flag : manual.flags) flag.assign = {};  // the options that it sets may be gone by then
  return manual;
}

}  // namespace kvkeep::cli
