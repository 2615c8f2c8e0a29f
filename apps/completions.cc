// The completion scripts of command_line.h, one for each shell.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "command_line.h"

namespace kvkeep::cli {
namespace {

using WordList = std::vector<std::string>;

// A command of one word, or of a group: "cache" with "ls", "stat"...
struct Group {
  std::string name;
  std::string summary;
  WordList members = {};  // empty: a command itself
};

std::string first_sentence(std::string_view text) { return std::string(text.substr(0, text.find_first_of(".:;"))); }

std::vector<Group> groups_of(const std::vector<CommandManual>& commands) {
  std::vector<Group> groups;
  for (const CommandManual& command : commands) {
    const auto blank = command.name.find(' ');
    const std::string name = command.name.substr(0, blank);
    if (groups.empty() || groups.back().name != name) {
      const bool is_member = blank != std::string::npos;
      groups.push_back({name, is_member ? "commands about the " + name : first_sentence(command.description)});
    }
    if (blank != std::string::npos) groups.back().members.push_back(command.name.substr(blank + 1));
  }
  groups.push_back({"help", "print the commands"});
  return groups;
}

WordList names_of(const KnownFlag& flag) {
  WordList names = flag.aliases;
  names.push_back(flag.name);
  names.insert(names.end(), flag.off_names.begin(), flag.off_names.end());
  return names;
}

bool turns_off(const KnownFlag& flag, const std::string& name) {
  return std::ranges::find(flag.off_names, name) != flag.off_names.end();
}

// Returns the words that a flag takes: on, off and auto of "on|off|auto". Empty if others may be given.
WordList choices_of(const KnownFlag& flag) {
  WordList choices;
  if (flag.value.find('|') == std::string::npos) return choices;
  for (std::string_view rest = flag.value; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find('|'));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_+-") == std::string_view::npos)
      choices.emplace_back(word);
  }
  return choices;
}

bool takes_file(const KnownFlag& flag) { return flag.value.starts_with("FILE") || flag.value.starts_with("DIR"); }

bool takes_files(const CommandManual& command) {
  return command.usage.find("FILE") != std::string::npos || command.usage.find(".gguf") != std::string::npos;
}

// Quotes for bash and zsh.
std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

// ---- bash

// The lines of a `case` that tell what follows a flag. Without a match, readline completes files.
std::string bash_values(const CommandManual& command) {
  std::string text;
  for (const KnownFlag& flag : command.flags) {
    if (flag.value.empty()) continue;
    WordList patterns;
    for (const std::string& name : names_of(flag)) {
      if (!turns_off(flag, name)) patterns.push_back(fmt::format("\"{} {}\"", command.name, name));
    }
    const WordList choices = choices_of(flag);
    const std::string action = !choices.empty()   ? fmt::format("words=\"{}\"", fmt::join(choices, " "))
                               : takes_file(flag) ? std::string("return")
                                                  : std::string("compopt +o default; return");
    text += fmt::format("        {}) {} ;;\n", fmt::join(patterns, " | "), action);
  }
  return text;
}

std::string bash_flags(const CommandManual& command) {
  std::string text = fmt::format("        \"{}\") words=\"\n", command.name);
  for (const KnownFlag& flag : command.flags) text += fmt::format("            {}\n", fmt::join(names_of(flag), " "));
  return text + "            \" ;;\n";
}

// The lines of a `case` that find the command among the words before the cursor.
std::string bash_commands(const std::vector<CommandManual>& commands, const std::vector<Group>& groups) {
  WordList first;
  WordList second;
  for (const Group& group : groups) first.push_back("\" " + group.name + "\"");
  for (const CommandManual& command : commands) {
    if (command.name.find(' ') != std::string::npos) second.push_back("\"" + command.name + "\"");
  }
  return fmt::format("            {}) command=$word ;;\n            {}) command=\"$command $word\" ;;\n",
                     fmt::join(first, " | "), fmt::join(second, " | "));
}

std::string bash_script(const std::vector<CommandManual>& commands) {
  const std::vector<Group> groups = groups_of(commands);
  WordList names;
  std::string values;
  std::string flags;
  std::string members;
  for (const Group& group : groups) {
    names.push_back(group.name);
    if (!group.members.empty()) {
      members += fmt::format("        {}) words=\"{}\" ;;\n", group.name, fmt::join(group.members, " "));
    }
  }
  for (const CommandManual& command : commands) {
    values += bash_values(command);
    flags += bash_flags(command);
  }
  return "# Completion of kvkeep for bash, written by kvkeep help --completions bash; do not edit.\n"
         "_kvkeep() {\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "    local command=\"\" words=\"\" word index\n"
         "    COMPREPLY=()\n"
         "    for ((index = 1; index < COMP_CWORD; ++index)); do\n"
         "        word=${COMP_WORDS[index]}\n"
         "        case \"$command $word\" in\n" +
         bash_commands(commands, groups) +
         "        esac\n"
         "    done\n"
         "    if [[ -z $command ]] && ((COMP_CWORD == 1)) && [[ $current != -* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"" +
         fmt::format("{}", fmt::join(names, " ")) +
         "\" -- \"$current\")\n"
         "        return\n"
         "    fi\n"
         "    command=${command:-serve}\n"
         "    case \"$command $previous\" in\n" +
         values +
         "    esac\n"
         "    if [[ -z $words ]]; then case $command in\n" +
         members +
         "    esac; fi\n"
         "    if [[ -z $words && $current == -* ]]; then case $command in\n" +
         flags +
         "    esac; fi\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
         "}\n"
         "complete -o default -F _kvkeep kvkeep\n";
}

// ---- zsh

std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (std::string_view("\\[]:").find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

// One specification for _arguments per name: '*--ctx-size[text]:N: '. The star allows repetition.
std::string zsh_flag(const KnownFlag& flag) {
  std::string text;
  const WordList choices = choices_of(flag);
  for (const std::string& name : names_of(flag)) {
    std::string spec = fmt::format("*{}[{}]", name, zsh_text(first_sentence(flag.effect)));
    if (!flag.value.empty() && !turns_off(flag, name)) {
      const std::string action = !choices.empty()   ? fmt::format("({})", fmt::join(choices, " "))
                                 : takes_file(flag) ? std::string("_files")
                                                    : std::string(" ");
      spec += fmt::format(":{}:{}", zsh_text(flag.value), action);
    }
    text += fmt::format("        {} \\\n", shell_quoted(spec));
  }
  return text;
}

std::string zsh_command(const CommandManual& command) {
  std::string text = fmt::format("    ({}) _arguments \\\n", shell_quoted(command.name));
  for (const KnownFlag& flag : command.flags) text += zsh_flag(flag);
  return text + (takes_files(command) ? "        '*:file:_files' ;;\n" : "        && ret=0 ;;\n");
}

std::string zsh_script(const std::vector<CommandManual>& commands) {
  std::string names;
  std::string members;
  std::string cases;
  for (const Group& group : groups_of(commands)) {
    names += fmt::format("      {}\n", shell_quoted(group.name + ":" + zsh_text(group.summary)));
    if (!group.members.empty()) {
      members += fmt::format("      ({}) compadd {} ;;\n", group.name, fmt::join(group.members, " "));
    }
  }
  for (const CommandManual& command : commands) cases += zsh_command(command);
  return "#compdef kvkeep\n"
         "# Completion of kvkeep for zsh, written by kvkeep help --completions zsh; do not edit.\n"
         "_kvkeep() {\n"
         "  local command=serve ret=1\n"
         "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
         "    local -a commands=(\n" +
         names +
         "    )\n"
         "    _describe command commands\n"
         "    _files -g '*.gguf'\n"
         "    return\n"
         "  fi\n"
         "  if [[ $words[2] != -* && $words[2] != *.gguf ]]; then\n"
         "    command=$words[2]; shift words; (( CURRENT-- ))\n"
         "  fi\n"
         "  if (( CURRENT == 2 )); then\n"
         "    case $command in\n" +
         members +
         "    esac\n"
         "  fi\n"
         "  if [[ $command == (cache|share|model) ]] && (( CURRENT > 2 )); then\n"
         "    command=\"$command $words[2]\"; shift words; (( CURRENT-- ))\n"
         "  fi\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  return ret\n"
         "}\n"
         "_kvkeep \"$@\"\n";
}

// ---- fish

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

// "-s c" of -c, "-o ngl" of -ngl, "-l ctx-size" of --ctx-size.
std::string fish_name(const std::string& name) {
  if (name.starts_with("--")) return "-l " + name.substr(2);
  return (name.size() == 2 ? "-s " : "-o ") + name.substr(1);
}

std::string fish_flag(const CommandManual& command, const KnownFlag& flag) {
  std::string text;
  const WordList choices = choices_of(flag);
  for (const std::string& name : names_of(flag)) {
    std::string value;
    if (!flag.value.empty() && !turns_off(flag, name)) {
      value = !choices.empty()   ? fmt::format(" -x -a '{}'", fmt::join(choices, " "))
              : takes_file(flag) ? std::string(" -r -F")
                                 : std::string(" -x");
    }
    text += fmt::format("complete -c kvkeep -n '__kvkeep_is {}' {}{} -d {}\n", command.name, fish_name(name), value,
                        fish_quoted(first_sentence(flag.effect)));
  }
  return text;
}

std::string fish_commands(const std::vector<CommandManual>& commands, const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    text += fmt::format("complete -c kvkeep -n '__kvkeep_is' -a {} -d {}\n", group.name, fish_quoted(group.summary));
    if (group.members.empty()) continue;
    text += fmt::format("complete -c kvkeep -n '__kvkeep_is {}' -a '{}'\n", group.name, fmt::join(group.members, " "));
  }
  for (const CommandManual& command : commands) {
    if (takes_files(command)) text += fmt::format("complete -c kvkeep -n '__kvkeep_is {}' -F\n", command.name);
    for (const KnownFlag& flag : command.flags) text += fish_flag(command, flag);
  }
  return text;
}

std::string fish_script(const std::vector<CommandManual>& commands) {
  const std::vector<Group> groups = groups_of(commands);
  WordList first;
  WordList second;
  for (const Group& group : groups) first.push_back("' " + group.name + "'");
  for (const CommandManual& command : commands) {
    if (command.name.find(' ') != std::string::npos) second.push_back("'" + command.name + "'");
  }
  return "# Completion of kvkeep for fish, written by kvkeep help --completions fish; do not edit.\n"
         "# Returns true if the words before the cursor name this command; without a command, flags are those of "
         "serve.\n"
         "function __kvkeep_is\n"
         "    set -l words (commandline -opc)\n"
         "    set -e words[1]\n"
         "    set -l command ''\n"
         "    for word in $words\n"
         "        switch \"$command $word\"\n" +
         fmt::format("            case {}\n                set command $word\n", fmt::join(first, " ")) +
         fmt::format("            case {}\n                set command \"$command $word\"\n", fmt::join(second, " ")) +
         "        end\n"
         "    end\n"
         "    if test -z \"$command\"; and test \"$argv\" = serve\n"
         "        return 0\n"
         "    end\n"
         "    test \"$command\" = \"$argv\"\n"
         "end\n"
         "complete -c kvkeep -f\n" +
         fish_commands(commands, groups);
}

}  // namespace

std::string completions(Shell shell, const std::vector<CommandManual>& commands) {
  switch (shell) {
    case Shell::kBash: return bash_script(commands);
    case Shell::kZsh: return zsh_script(commands);
    case Shell::kFish: return fish_script(commands);
  }
  return {};
}

}  // namespace kvkeep::cli
