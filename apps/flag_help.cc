#include "flag_help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

namespace kvkeep::cli {
namespace {

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

std::string description_of(const Flag& flag) {
  std::string text = flag.effect;
  if (!flag.default_text.empty()) text += fmt::format(" (default: {})", flag.default_text);
  if (!flag.environment.empty()) text += fmt::format(" (env: {})", flag.environment);
  return text;
}

// Lays out CLI11's groups with our spellings: CLI11 only knows each flag's long name.
class Layout : public CLI::Formatter {
 public:
  explicit Layout(const std::vector<Flag>& flags) : flags_(flags) {}

  std::string make_option(const CLI::Option* option, bool) const override {
    const auto flag = std::ranges::find(flags_, option->get_name(), &Flag::name);
    std::string names = "  " + spellings(*flag);
    const std::vector<std::string> lines = wrapped(description_of(*flag), kTextColumns);
    std::string out;
    std::size_t line = 0;
    if (names.size() + 2 <= kNameColumns)
      out += fmt::format("{:<{}}{}\n", names, kNameColumns, lines[line++]);
    else
      out += names + "\n";
    for (; line < lines.size(); ++line) out += fmt::format("{:<{}}{}\n", "", kNameColumns, lines[line]);
    return out;
  }
  std::string make_usage(const CLI::App* app, std::string) const override { return "Usage: " + app->get_name() + "\n"; }

 private:
  const std::vector<Flag>& flags_;
};

}  // namespace

std::string spellings(const Flag& flag) {
  std::string out;
  const auto append = [&](const std::string& name) { out += (out.empty() ? "" : ", ") + name; };
  for (const std::string& alias : flag.aliases) append(alias);
  append(flag.name);
  for (const std::string& name : flag.off_names) append(name);
  return flag.value.empty() ? out : out + " " + flag.value;
}

std::string format_help(const std::string& command, const std::string& description, const std::vector<Flag>& flags) {
  CLI::App app(fmt::format("{}", fmt::join(wrapped(description, kNameColumns + kTextColumns), "\n")), command);
  app.set_help_flag();
  app.formatter(std::make_shared<Layout>(flags));
  for (const Flag& flag : flags) {
    app.add_option(flag.name, [](const CLI::results_t&) { return true; })->group(flag.group);
  }
  return app.help();
}

}  // namespace kvkeep::cli
