// The unit in which build_cost.py counts: the compiler reads large headers, expands templates and optimises, in
// about the same shares as for a room. Nothing of kvkeep is in it, so that no change to kvkeep makes the unit longer.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

using nlohmann::json;

std::map<std::string, std::vector<std::string>> words_by_key(const std::string& text) {
  std::map<std::string, std::vector<std::string>> found;
  static const std::regex word("[a-z]+(-[a-z]+)*");
  const json parsed = json::parse(text);
  for (const auto& [key, value] : parsed.items()) {
    const auto line = value.get<std::string>();
    for (std::sregex_iterator at(line.begin(), line.end(), word), end; at != end; ++at) found[key].push_back(at->str());
    std::sort(found[key].begin(), found[key].end());
  }
  return found;
}

std::string counted(const std::string& text) {
  std::unordered_map<std::string, int> counts;
  for (const auto& [key, words] : words_by_key(text)) {
    for (const std::string& word : words) ++counts[word];
  }
  return json(counts).dump(2);
}
