// docs/flags.md is a table of every flag; this test keeps it from going stale.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "os/file_system.h"
#include "serve_flags.h"
#include "share/engines/engine_url.h"

namespace kvkeep::cli {
namespace {

std::string file_text(const std::string& path) {
  auto file = os::real_file_system().open(path).value();
  std::string text((*file->size()).value(), '\0');
  EXPECT_TRUE(file->read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

// The cells of "| a | b |"; a bar within a cell is written "\|".
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|')
      cell += line[++i];
    else if (line[i] == '|')
      cells.push_back(trimmed(std::exchange(cell, "")));
    else
      cell += line[i];
  }
  return cells;
}

// Flag, llama-server, ds4-server, kvkeep, effect: rows by their first cell.
std::map<std::string, std::vector<std::string>> documented_flags() {
  std::map<std::string, std::vector<std::string>> rows;
  const std::string text = file_text(KVKEEP_FLAGS_DOC);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with("| `-")) {
      auto cells = cells_of(line);
      EXPECT_TRUE(rows.emplace(cells.at(0), cells).second) << "twice: " << line;
    }
    begin = end + 1;
  }
  return rows;
}

TEST(FlagsDoc, TellsOfEveryFlagAndOfNoOther) {
  auto rows = documented_flags();
  ServeOptions options;
  const FlagSet known = serve_flags(options);
  for (const KnownFlag& flag : known.flags()) {
    const std::string name = fmt::format("`{}`", flag.spelling);
    const auto row = rows.find(name);
    if (row == rows.end()) {
      ADD_FAILURE() << "docs/flags.md has no row for " << name;
      continue;
    }
    ASSERT_GE(row->second.size(), 5U) << name;
    EXPECT_EQ(row->second[3], flag.default_text) << name;
    EXPECT_EQ(row->second[4], flag.effect) << name;
    rows.erase(row);
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << "docs/flags.md tells of " << name << ", which is no flag";
}

TEST(FlagsDoc, TellsWhereLogInsOfTheSharedTierComeFrom) {
  std::string guide = KVKEEP_FLAGS_DOC;
  guide.replace(guide.rfind("flags.md"), std::string::npos, "sharing.md");
  const std::string text = file_text(guide);
  ServeOptions options;
  const std::string help = serve_flags(options).help_all();
  for (const std::string_view name : share::kSecretVariables) {
    EXPECT_NE(text.find(fmt::format("| `{}` |", name)), std::string::npos) << "docs/sharing.md has no row for " << name;
    EXPECT_NE(help.find(name), std::string::npos) << "--help-all does not tell of " << name;
  }
}

}  // namespace
}  // namespace kvkeep::cli
