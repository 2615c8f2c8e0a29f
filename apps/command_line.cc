#include "command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "bench_flags.h"
#include "cache_flags.h"
#include "command_words.h"
#include "doctor.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

constexpr char kOverview[] =
    "kvkeep: serves GGUF models and never prefills the same prefix twice.\n"
    "\n"
    "Usage: kvkeep COMMAND [flags]\n"
    "\n"
    "Serving:\n"
    "  serve        serve a model over HTTP\n"
    "  top          show in the terminal what a running server does and keeps\n"
    "  cache        list, check, change and copy what a cache directory holds\n"
    "  share        carry stored state between a cache directory and a shared tier\n"
    "  warm         have a running server prefill a recorded request\n"
    "\n"
    "Trying and measuring:\n"
    "  demo         play conversations with a kill -9 in the middle, with and without the cache\n"
    "  model make   write a random-weight model to try things with\n"
    "  bench        play workloads against kvkeep and other servers, and count tokens\n"
    "  replay       play recorded sessions against a server, and count tokens\n"
    "  doctor       say why prompts are read again, and what to do\n"
    "\n"
    "Help:\n"
    "  --version    print the version and exit\n"
    "  -h, --help   print this help, or after a command that command's help\n"
    "  --help-all   the same with every flag; without a command, of serve\n"
    "  help --man, help --completions bash|zsh|fish\n"
    "               print kvkeep's man page, or a script that completes its command lines\n"
    "\n"
    "Flags without a command are those of serve, and kvkeep model.gguf is short for kvkeep serve --model model.gguf.\n"
    "A link to kvkeep that is named llama-server takes llama-server's command lines: it always serves.\n";

using Arguments = std::vector<std::string>;

bool is_help(const std::string& word) { return word == "--help" || word == "-h" || word == "help"; }

// Commands of Ollama and of llama.cpp that people try; "" for other words.
std::string hint_of_other_words(std::string_view name) {
  struct Hint {
    std::string_view word;
    const char* text;
    const char* command;
  };
  static constexpr std::array kHints = {
      Hint{"run", "a model is served by {}, and any client of OpenAI's API chats with it", "serve --model FILE.gguf"},
      Hint{"chat", "a model is served by {}, and any client of OpenAI's API chats with it", "serve --model FILE.gguf"},
      Hint{"start", "a model is served by {}", "serve --model FILE.gguf"},
      Hint{"pull", "models are not downloaded; get a GGUF file from where you trust it, then {}",
           "serve --model FILE.gguf"},
      Hint{"list", "there is no store of models; {} lists the conversations that are stored", "cache ls"},
      Hint{"ls", "{} lists the conversations that are stored", "cache ls"},
      Hint{"ps", "{} shows what a running server does", "top"},
      Hint{"show", "{} shows a stored prefix, and a running server tells about its model at /props", "cache show ID"},
      Hint{"rm", "{} removes stored prefixes", "cache rm ID"},
      Hint{"stop", "end the process of {}, by Ctrl-C or SIGTERM", "serve"},
      Hint{"create", "a model is any GGUF file: {}", "serve --model FILE.gguf"},
      Hint{"push", "{} carries stored state to a shared tier", "share push"},
  };
  const auto found = std::ranges::find(kHints, name, &Hint::word);
  return found == kHints.end() ? "" : fmt::format(fmt::runtime(found->text), as_typed(found->command));
}

// `group`: the command that the unknown one belongs to, such as "model"; empty if it belongs to none.
Error unknown_command(const std::string& group, const std::string& name, const std::vector<std::string>& known) {
  const std::string before = group.empty() ? group : group + " ";
  const std::string near = did_you_mean(name, known);
  if (const std::string hint = group.empty() ? hint_of_other_words(name) : ""; !hint.empty()) {
    return invalid("unknown command '" + name + "': " + hint);
  }
  return invalid("unknown command '" + before + name + "'" +
                 (near.empty() ? "; see " + as_typed(before + "--help") : near));
}

Result<Command> parse_serve_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedServe parsed, parse_serve(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{serve_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_model_command(const Arguments& arguments, const os::Environment& environment) {
  if (arguments.empty() || is_help(arguments.front())) return Command(PrintText{model_make_help()});
  if (arguments.front() != "make") {
    return unknown_command("model", arguments.front(), {"make"});
  }
  TRY_ASSIGN(ParsedModelMake parsed, parse_model_make({arguments.begin() + 1, arguments.end()}, environment));
  if (parsed.wants_help) return Command(PrintText{model_make_help()});
  return Command(std::move(parsed));
}

Result<Command> parse_bench_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedBench parsed, parse_bench(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{bench_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_replay_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedReplay parsed, parse_replay(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{replay_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_warm_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedWarm parsed, parse_warm(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{warm_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_demo_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedDemo parsed, parse_demo(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{demo_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_cache_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedCache parsed, parse_cache(arguments, environment));
  if (!parsed.help.empty()) return Command(PrintText{std::move(parsed.help)});
  return Command(std::move(parsed.options));
}

Result<Command> parse_doctor_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedDoctor parsed, parse_doctor(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{doctor_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_top_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedTop parsed, parse_top(arguments, environment));
  if (parsed.wants_help) return Command(PrintText{top_help()});
  return Command(std::move(parsed.options));
}

Result<Command> parse_share_command(const Arguments& arguments, const os::Environment& environment) {
  TRY_ASSIGN(ParsedShare parsed, parse_share(arguments, environment));
  if (!parsed.help.empty()) return Command(PrintText{std::move(parsed.help)});
  return Command(std::move(parsed.options));
}

// "help --man" and "help --completions bash" print a page and a script, which packages install.
Result<Command> print_for_others(const Arguments& words) {
  if (words == Arguments{"--man"}) return Command(PrintText{man_page(all_commands())});
  const std::vector<std::pair<std::string, Shell>> shells = {
      {"bash", Shell::kBash}, {"zsh", Shell::kZsh}, {"fish", Shell::kFish}};
  for (const auto& [name, shell] : shells) {
    if (words == Arguments{"--completions", name}) return Command(PrintText{completions(shell, all_commands())});
  }
  return invalid("help prints --man or --completions bash|zsh|fish");
}

// "help cache ls" is "cache ls --help".
Result<Command> parse_help_command(Arguments rest, const os::Environment& environment) {
  if (!rest.empty() && (rest.front() == "--man" || rest.front() == "--completions")) return print_for_others(rest);
  if (rest.empty() || rest.front().starts_with('-') || is_help(rest.front())) return Command(PrintText{kOverview});
  rest.push_back("--help");
  return parse_command_line(rest, environment);
}

bool is_model_file(const std::string& word) { return word.ends_with(".gguf"); }
bool means_serve(const std::string& word) { return word == "serve" || word.starts_with('-') || is_model_file(word); }

}  // namespace

bool always_serves(std::string_view program) { return program == "llama-server" || program.ends_with("/llama-server"); }

std::string version_text() { return "kvkeep " KVKEEP_VERSION "\n"; }

Result<Command> parse_command_line(const Arguments& arguments, const os::Environment& environment) {
  // Units and containers may choose everything by variables.
  if (arguments.empty() && environment.contains("LLAMA_ARG_MODEL")) return parse_serve_command(arguments, environment);
  if (arguments.empty()) return Command(PrintText{kOverview});
  const std::string& name = arguments.front();
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (is_help(name)) return parse_help_command(rest, environment);
  // llama-server prints its version from any command line.
  if (const auto asks_all = std::ranges::find(arguments, "--help-all"); asks_all != arguments.end()) {
    if (means_serve(name)) return Command(PrintText{serve_help_all()});
    Arguments asks(arguments);
    asks[static_cast<std::size_t>(asks_all - arguments.begin())] = "--help";
    return parse_command_line(asks, environment);
  }
  const bool asks_version = std::ranges::find(arguments, "--version") != arguments.end();
  if (asks_version || (name == "version" && rest.empty())) return Command(PrintText{version_text()});
  // With more flags it is llama-server's --verbose. By itself it would only say that a model is missing.
  if (arguments.size() == 1 && (name == "-v" || name == "-V") && !environment.contains("LLAMA_ARG_MODEL")) {
    return Command(PrintText{version_text() + "(-v next to a --model is --verbose, as in llama-server)\n"});
  }
  if (name == "serve") return parse_serve_command(rest, environment);
  if (name == "model") return parse_model_command(rest, environment);
  if (name == "bench") return parse_bench_command(rest, environment);
  if (name == "cache") return parse_cache_command(rest, environment);
  if (name == "top") return parse_top_command(rest, environment);
  if (name == "share") return parse_share_command(rest, environment);
  if (name == "replay") return parse_replay_command(rest, environment);
  if (name == "warm") return parse_warm_command(rest, environment);
  if (name == "demo") return parse_demo_command(rest, environment);
  if (name == "doctor") return parse_doctor_command(rest, environment);
  if (means_serve(name)) return parse_serve_command(arguments, environment);
  return unknown_command(
      "", name,
      {"serve", "top", "cache", "share", "warm", "demo", "model", "bench", "replay", "doctor", "version", "help"});
}

}  // namespace kvkeep::cli
