#include "command_line.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

std::string printed(const std::vector<std::string>& arguments) {
  const auto command = parse_command_line(arguments, {});
  if (!command) return "error: " + command.error().message;
  const auto* print = std::get_if<PrintText>(&*command);
  return print == nullptr ? "a command" : print->text;
}

TEST(CommandLine, HelpAndVersion) {
  EXPECT_NE(printed({}).find("model make"), std::string::npos);
  EXPECT_EQ(printed({"--help"}), printed({}));
  EXPECT_TRUE(printed({"--version"}).starts_with("kvkeep "));
  EXPECT_EQ(printed({"serve", "-m", "a.gguf", "--version"}), printed({"--version"}));
  EXPECT_NE(printed({"serve", "--help"}).find("--kv-disk-dir"), std::string::npos);
  EXPECT_NE(printed({"model", "make", "--help"}).find("--free-output"), std::string::npos);
}

TEST(CommandLine, TheShortHelpOfServeRefersToTheWholeOne) {
  const std::string brief = printed({"serve", "--help"});
  const std::string all = printed({"serve", "--help-all"});
  for (const std::string& help : {brief, all}) EXPECT_NE(help.find("--kv-disk-dir DIR"), std::string::npos);
  EXPECT_EQ(brief.find("--kv-cache-anchor-user"), std::string::npos);
  EXPECT_NE(all.find("--kv-cache-anchor-user"), std::string::npos);
  EXPECT_NE(brief.find("--help-all lists all"), std::string::npos);
  EXPECT_EQ(all.find("--help-all lists all"), std::string::npos);
  EXPECT_LE(std::ranges::count(brief, '\n'), 80) << "two screens";
  EXPECT_EQ(std::ranges::count(brief, '\n') * 3 < std::ranges::count(all, '\n'), true);
  EXPECT_EQ(printed({"--help-all"}), all);
  EXPECT_EQ(printed({"-m", "a.gguf", "--help-all"}), all);
  EXPECT_EQ(printed({"cache", "ls", "--help-all"}), printed({"cache", "ls", "--help"}));
  EXPECT_EQ(printed({"bench", "--help-all"}), printed({"bench", "--help"}));
}

TEST(CommandLine, TheShortHelpOfServeNamesNoUnknownFlag) {
  ServeOptions options;
  const FlagSet flags = serve_flags(options);
  const std::string brief = flags.help();
  std::size_t listed = 0;
  for (const KnownFlag& flag : flags.flags()) listed += brief.find(" " + flag.name) != std::string::npos ? 1 : 0;
  EXPECT_GE(listed, 24U);
}

TEST(CommandLine, HelpFitsATerminal) {
  const std::string help = printed({"serve", "--help-all"});
  for (std::size_t begin = 0; begin < help.size();) {
    const std::size_t end = help.find('\n', begin);
    EXPECT_LE(end - begin, 100) << help.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(CommandLine, ClearVariantsAreUnderstood) {
  EXPECT_EQ(printed({"version"}), printed({"--version"}));
  EXPECT_EQ(printed({"help"}), printed({}));
  EXPECT_EQ(printed({"help", "serve"}), printed({"serve", "--help"}));
  EXPECT_EQ(printed({"help", "cache", "ls"}), printed({"cache", "ls", "--help"}));
  EXPECT_EQ(printed({"help", "--man"}), man_page(all_commands()));
  EXPECT_EQ(printed({"help", "--completions", "zsh"}), completions(Shell::kZsh, all_commands()));
  EXPECT_EQ(printed({"help", "model", "make"}), printed({"model", "make", "--help"}));
  EXPECT_EQ(printed({"help", "sevre"}), "error: unknown command 'sevre'; did you mean 'serve'?");
  const auto model_of = [](const std::vector<std::string>& arguments) {
    const auto command = parse_command_line(arguments, {});
    return command ? std::get<ServeOptions>(*command).model.path : command.error().message;
  };
  EXPECT_EQ(model_of({"a.gguf"}), "a.gguf");
  EXPECT_EQ(model_of({"a.gguf", "-c", "32k"}), "a.gguf");
  EXPECT_EQ(model_of({"serve", "a.gguf"}), "a.gguf");
  EXPECT_EQ(model_of({"serve", "-c", "4k", "models/a"}), "models/a");
  EXPECT_EQ(model_of({"serve", "-m", "a.gguf", "b.gguf"}), "unexpected argument 'b.gguf'");
  EXPECT_EQ(model_of({"serve", "a.gguf", "b.gguf"}), "unexpected argument 'b.gguf'");
  EXPECT_EQ(model_of({"serve", "-m", "a.gguf", "--jinja", "on"}), "unexpected argument 'on'");
  EXPECT_EQ(model_of({"serve", "on"}), "unexpected argument 'on'; a model is named with --model FILE");
  EXPECT_EQ(model_of({"-c", "32k", "-m", "a.gguf"}), "a.gguf");
}

TEST(CommandLine, AProgramNamedLlamaServerServes) {
  for (const char* program : {"llama-server", "./llama-server", "/usr/bin/llama-server"}) {
    EXPECT_TRUE(always_serves(program)) << program;
  }
  for (const char* program : {"kvkeep", "my-llama-server", "llama-server/kvkeep", ""}) {
    EXPECT_FALSE(always_serves(program)) << program;
  }
}

TEST(CommandLine, UnknownCommandsSuggestTheNearest) {
  EXPECT_EQ(printed({"sevre"}), "error: unknown command 'sevre'; did you mean 'serve'?");
  EXPECT_EQ(printed({"model", "mkae"}), "error: unknown command 'model mkae'; did you mean 'make'?");
  EXPECT_EQ(printed({"foo"}), "error: unknown command 'foo'; see kvkeep --help");
  EXPECT_EQ(printed({"model", "download"}), "error: unknown command 'model download'; see kvkeep model --help");
  EXPECT_TRUE(printed({"--verison"}).starts_with("error: unknown flag '--verison'; did you mean '--version'?"));
  EXPECT_TRUE(printed({"--hlep"}).starts_with("error: unknown flag '--hlep'; did you mean '--help'?"));
}

TEST(CommandLine, WordsOfOtherProgramsNameOurs) {
  for (const auto& [word, ours] : std::vector<std::pair<std::string, std::string>>{{"run", "kvkeep serve --model"},
                                                                                   {"pull", "not downloaded"},
                                                                                   {"list", "kvkeep cache ls"},
                                                                                   {"ps", "kvkeep top"},
                                                                                   {"stop", "Ctrl-C"}}) {
    const std::string error = printed({word, "llama3"});
    EXPECT_TRUE(error.starts_with("error: unknown command '" + word + "': ")) << error;
    EXPECT_NE(error.find(ours), std::string::npos) << error;
  }
}

// With a model it is llama-server's --verbose.
TEST(CommandLine, ASmallVByItselfAsksForTheVersion) {
  for (const char* word : {"-v", "-V"}) EXPECT_TRUE(printed({word}).starts_with(version_text())) << word;
  EXPECT_NE(printed({"-v"}).find("--verbose"), std::string::npos);
  const auto verbose = parse_command_line({"-v", "-m", "a.gguf"}, {});
  EXPECT_EQ(std::get<ServeOptions>(*verbose).log.verbosity, 5);
  const auto by_variable = parse_command_line({"-v"}, {{"LLAMA_ARG_MODEL", "a.gguf"}});
  EXPECT_EQ(std::get<ServeOptions>(*by_variable).log.verbosity, 5);
}

TEST(CommandLine, ServeAndModelMakeCarryTheirOptions) {
  const auto serve = parse_command_line({"serve", "-m", "a.gguf"}, {});
  EXPECT_EQ(std::get<ServeOptions>(*serve).model.path, "a.gguf");
  const auto make = parse_command_line(
      {"model", "make", "--size", "small", "--seed", "3", "--free-output", "--arch", "llama", "o.gguf"}, {});
  const auto& parsed = std::get<ParsedModelMake>(*make);
  EXPECT_EQ(parsed.path, "o.gguf");
  EXPECT_EQ(parsed.options.size, gguf::ModelSize::kSmall);
  EXPECT_EQ(parsed.options.seed, 3U);
  EXPECT_EQ(parsed.options.architecture, "llama");
  EXPECT_TRUE(parsed.options.free_output);
  EXPECT_FALSE(parsed.replace);
  EXPECT_TRUE(std::get<ParsedModelMake>(*parse_command_line({"model", "make", "--force", "o.gguf"}, {})).replace);
}

TEST(CommandLine, WarmNamesOneFileAndAServer) {
  const auto parsed = parse_command_line(
      {"warm", "--client", "claude-code", "--keep-s", "60", "--url", "http://h:1/v1/", "r.jsonl"}, {});
  const auto& warm = std::get<WarmOptions>(*parsed);
  EXPECT_EQ(warm.file, "r.jsonl");
  EXPECT_EQ(warm.dialect, WarmDialect::kMessages);
  EXPECT_EQ(warm.keep_s, 60U);
  EXPECT_EQ(warm.server.url, "http://h:1");
  EXPECT_EQ(std::get<WarmOptions>(*parse_command_line({"warm", "-"}, {})).server.url, "http://127.0.0.1:8080");
  EXPECT_EQ(printed({"warm"}), "error: name one file: kvkeep warm [flags] FILE");
  EXPECT_EQ(printed({"warm", "a", "b"}), "error: name one file: kvkeep warm [flags] FILE");
  EXPECT_TRUE(printed({"warm", "--client", "emacs", "a"}).starts_with("error: --client: "));
  EXPECT_TRUE(printed({"warm", "--keep-s", "86401", "a"}).starts_with("error: --keep-s: "));
}

TEST(CommandLine, ModelMakeWritesOneFile) {
  EXPECT_TRUE(printed({"model", "make"}).starts_with("error: no file to write"));
  EXPECT_TRUE(printed({"model", "make", "a", "b"}).starts_with("error: unexpected argument 'b'"));
  EXPECT_TRUE(printed({"model", "make", "--size", "huge", "a"}).starts_with("error: --size: "));
  EXPECT_TRUE(printed({"model", "make", "--window", "0", "a"}).starts_with("error: --window: "));
}

TEST(CommandLine, ModelMakeKnowsArchitecturesAndWindows) {
  const auto make = parse_command_line({"model", "make", "--arch", "gemma3", "--window", "64", "o.gguf"}, {});
  const auto& parsed = std::get<ParsedModelMake>(*make);
  EXPECT_EQ(parsed.options.architecture, "gemma3");
  EXPECT_EQ(parsed.options.window, 64U);
  const std::string help = printed({"model", "make", "--help"});
  for (const char* name : {"sliceable: llama", "gemma3", "qwen35", "mamba2", "deepseek4"}) {
    EXPECT_NE(help.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace kvkeep::cli
