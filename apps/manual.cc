#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "bench_flags.h"
#include "cache_flags.h"
#include "command_line.h"
#include "model_command.h"
#include "serve_flags.h"
#include "share_command_flags.h"
#include "warm.h"

namespace kvkeep::cli {
namespace {

constexpr std::string_view kBeginning =
    ".SH NAME\n"
    "kvkeep \\- serve GGUF models without prefilling the same prefix twice\n"
    ".SH SYNOPSIS\n"
    ".B kvkeep\n"
    "[\\fIcommand\\fR] [\\fIflags\\fR]\n"
    ".SH DESCRIPTION\n"
    "kvkeep serves a GGUF model over HTTP, in the dialects of OpenAI and Anthropic, and takes the flags of "
    "llama-server.\n"
    "It keeps the keys and values of everything it computed, in the model's memory, in RAM and on disk, finds the "
    "longest\n"
    "known prefix of each new prompt, and computes only the rest.\n"
    ".PP\n"
    "Without a command the flags are those of \\fBkvkeep serve\\fR. A link to the program that is named "
    "llama\\-server\n"
    "always serves.\n";

constexpr std::string_view kEnd =
    ".SH EXIT STATUS\n"
    ".TP\n"
    ".B 0\n"
    "Success; for a server also the end by a signal.\n"
    ".TP\n"
    ".B 1\n"
    "The command could not be done, and one line on standard error says why; or a check found something wrong: "
    "\\fBcache\n"
    "verify\\fR, \\fBdoctor\\fR, a figure of \\fBbench\\fR, a \\fBreplay\\fR.\n"
    ".TP\n"
    ".B 3\n"
    "\\fBbench\\fR found nothing wrong, but could not judge some goal on this machine.\n"
    ".TP\n"
    ".B 128 + N\n"
    "Signal N interrupted \\fBdemo\\fR, \\fBbench\\fR or \\fBreplay\\fR, or ended the program at once.\n"
    ".SH SIGNALS\n"
    ".TP\n"
    ".B SIGINT, SIGTERM\n"
    "Stop the server: running requests end, and the cache is written to disk. A second signal quits at once.\n"
    ".TP\n"
    ".B SIGHUP\n"
    "Open the files of \\fB\\-\\-log\\-file\\fR and \\fB\\-\\-trace\\fR anew.\n"
    ".SH FILES\n"
    ".TP\n"
    ".I ~/.cache/kvkeep\n"
    "The disk cache, or the folder of \\fB\\-\\-kv\\-disk\\-dir\\fR. It holds conversations in clear.\n"
    ".SH EXAMPLE\n"
    "kvkeep serve \\-m model.gguf \\-c 32k\n"
    ".SH SEE ALSO\n"
    "README.md and the pages next to it, in the documentation folder of this package.\n";

// Text for troff: a dash that can be copied as one, no escapes, and no line that looks like a request.
std::string troff(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char letter : text) {
    if (letter == '-')
      escaped += "\\-";
    else if (letter == '\\')
      escaped += "\\e";
    else
      escaped += letter;
  }
  return escaped;
}

// "-c, --ctx-size N": names bold, values in italics.
std::string spelled_for_troff(std::string_view spelling) {
  std::string text;
  while (!spelling.empty()) {
    const std::string_view part = spelling.substr(0, spelling.find(", "));
    spelling.remove_prefix(std::min(spelling.size(), part.size() + 2));
    const auto blank = std::min(part.find(' '), part.size());
    if (!text.empty()) text += ", ";
    text += "\\fB" + troff(part.substr(0, blank)) + "\\fR";
    if (blank < part.size()) text += " \\fI" + troff(part.substr(blank + 1)) + "\\fR";
  }
  return text;
}

std::string entry_for(const Flag& flag) {
  std::string text = fmt::format(".TP\n{}\n{}", spelled_for_troff(flag.spelling), troff(flag.effect));
  if (!flag.default_text.empty()) text += " Default: " + troff(flag.default_text) + ".";
  if (!flag.environment.empty()) text += " Variable: " + troff(flag.environment) + ".";
  return text + "\n";
}

std::string section_for(const CommandManual& command) {
  std::string upper = command.name;
  std::ranges::transform(upper, upper.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  std::string text =
      fmt::format(".SH \"KVKEEP {}\"\n{}\n.PP\n\\fB{}\\fR\n", upper, troff(command.description), troff(command.usage));
  std::string_view group;
  for (const KnownFlag& flag : command.flags) {
    if (flag.group != group) text += fmt::format(".SS \"{}\"\n", troff(flag.group));
    group = flag.group;
    text += entry_for(flag);
  }
  return text;
}

}  // namespace

std::vector<CommandManual> all_commands() {
  std::vector<CommandManual> commands = {serve_manual()};
  for (CommandManual& command : cache_manuals()) commands.push_back(std::move(command));
  commands.push_back(top_manual());
  commands.push_back(warm_manual());
  for (CommandManual& command : share_manuals()) commands.push_back(std::move(command));
  commands.push_back(demo_manual());
  commands.push_back(model_make_manual());
  commands.push_back(bench_manual());
  commands.push_back(replay_manual());
  commands.push_back(doctor_manual());
  return commands;
}

std::string man_page(const std::vector<CommandManual>& commands) {
  std::string version = version_text();
  while (version.ends_with('\n')) version.pop_back();
  std::string page = ".\\\" Written by kvkeep help --man; do not edit.\n";
  page += fmt::format(".TH KVKEEP 1 \"\" \"{}\" \"User Commands\"\n", troff(version));
  page += kBeginning;
  for (const CommandManual& command : commands) page += section_for(command);
  return page += kEnd;
}

}  // namespace kvkeep::cli
