#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "command_line.h"

namespace kvkeep::cli {
namespace {

// "-ngl" and "--gpu-layers" of every command: the words of all pages must name them.
template <typename See>
void for_each_name(See see) {
  for (const CommandManual& command : all_commands()) {
    for (const KnownFlag& flag : command.flags) {
      see(command, flag.name);
      for (const std::string& name : flag.aliases) see(command, name);
      for (const std::string& name : flag.off_names) see(command, name);
    }
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The text from a line that begins so to the next that begins with `end`.
std::string part_of(const std::string& text, const std::string& begin, const std::string& end) {
  const auto from = text.find("\n" + begin);
  if (from == std::string::npos) return {};
  return text.substr(from, text.find("\n" + end, from + 1) - from);
}

TEST(Manual, KnowsAllCommands) {
  std::vector<std::string> names;
  for (const CommandManual& command : all_commands()) names.push_back(command.name);
  EXPECT_EQ(names.front(), "serve");
  for (const char* name :
       {"cache stat", "cache ls", "cache import", "model make", "bench", "replay", "warm", "demo", "doctor", "top"}) {
    EXPECT_NE(std::ranges::find(names, name), names.end()) << name;
  }
}

TEST(Manual, TheManPageHasEveryFlagInItsCommandsSection) {
  const std::string page = man_page(all_commands());
  for_each_name([&](const CommandManual& command, const std::string& name) {
    std::string upper;
    for (const char letter : command.name) upper += static_cast<char>(std::toupper(letter));
    std::string escaped;
    for (const char letter : name) escaped += letter == '-' ? std::string("\\-") : std::string(1, letter);
    const std::string section = part_of(page, ".SH \"KVKEEP " + upper + "\"", ".SH ");
    EXPECT_NE(section.find("\\fB" + escaped + "\\fR"), std::string::npos) << command.name << " " << name;
  });
}

TEST(Manual, TheManPageHasNoAccidentalRequests) {
  for (const std::string& line : lines_of(man_page(all_commands()))) {
    EXPECT_FALSE(line.starts_with('\'')) << line;
    const auto known = {".\\\"", ".TH ", ".SH ", ".SS ", ".TP", ".PP", ".B ", ".I "};
    const bool is_known = std::ranges::any_of(known, [&](const char* start) { return line.starts_with(start); });
    EXPECT_TRUE(!line.starts_with('.') || is_known) << line;
  }
}

TEST(Completions, HaveEveryFlagOfEveryCommand) {
  const std::vector<CommandManual> commands = all_commands();
  const std::string bash = completions(Shell::kBash, commands);
  const std::string zsh = completions(Shell::kZsh, commands);
  const std::string fish = completions(Shell::kFish, commands);
  for_each_name([&](const CommandManual& command, const std::string& name) {
    const std::string in_bash = part_of(bash, "        \"" + command.name + "\") words=\"", "            \" ;;");
    EXPECT_NE((in_bash + " ").find(" " + name), std::string::npos) << command.name << " " << name;
    const std::string in_zsh = part_of(zsh, "    ('" + command.name + "')", "    (");
    EXPECT_NE(in_zsh.find("'*" + name + "["), std::string::npos) << command.name << " " << name;
    const std::string option = name.starts_with("--") ? "-l " + name.substr(2)
                               : name.size() == 2     ? "-s " + name.substr(1)
                                                      : "-o " + name.substr(1);
    EXPECT_NE(fish.find("'__kvkeep_is " + command.name + "' " + option + " "), std::string::npos) << name;
  });
}

TEST(Completions, KnowWhatAFlagTakes) {
  const std::vector<CommandManual> commands = all_commands();
  const std::string bash = completions(Shell::kBash, commands);
  EXPECT_NE(bash.find("\"serve --flash-attn\") words=\"on off auto\" ;;"), std::string::npos);
  EXPECT_NE(bash.find("\"serve --model\") return ;;"), std::string::npos);
  EXPECT_NE(bash.find("--cache-type-k\") words=\"f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1\" ;;"),
            std::string::npos);
  EXPECT_NE(bash.find("words=\"auto none mmap mlock mmap+mlock dio\" ;;"), std::string::npos);
  const std::string zsh = completions(Shell::kZsh, commands);
  EXPECT_NE(zsh.find(":on|off|auto:(on off auto)'"), std::string::npos);
  const std::string fish = completions(Shell::kFish, commands);
  EXPECT_NE(fish.find("-l flash-attn -x -a 'on off auto' -d"), std::string::npos);
  EXPECT_NE(fish.find("-l model -r -F -d"), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::cli
