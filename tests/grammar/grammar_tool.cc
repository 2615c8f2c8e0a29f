// For grammar_test.py: schemas in, grammars and what they match out. A line of JSON in gives a line of JSON out.
//   {"schema": ..., "seed": 1, "walks": 5, "texts": ["..."]} -> {"error": "..."} or
//   {"grammar": "...", "walks": ["..."], "matches": [true], "stacks": 3}

#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "chat/grammar/gbnf_player_fixture.h"
#include "chat/grammar/schema.h"

using Json = nlohmann::ordered_json;
namespace grammar = kvkeep::chat::grammar;

namespace {

Json answer(const Json& question) {
  grammar::GrammarBuilder builder;
  const auto root = grammar::add_schema(builder, question["schema"]);
  if (!root) return {{"error", root.error().message}};
  const auto text = builder.text(*root);
  if (!text) return {{"error", text.error().message}};
  // As the server does: what would take a sampler too long is refused.
  if (const auto read = grammar::read_gbnf(*text); !read) return {{"error", read.error().message}};
  Json reply = {{"grammar", *text}, {"walks", Json::array()}, {"matches", Json::array()}};
  const grammar::GbnfPlayer player(*text);
  std::mt19937 random(question["seed"].get<unsigned>());
  for (int i = 0; i < question["walks"]; ++i) reply["walks"].push_back(player.write(random, 20 + random() % 200));
  for (const Json& one : question["texts"]) reply["matches"].push_back(player.matches(one.get<std::string>()));
  for (const Json& walk : reply["walks"]) {
    if (!player.matches(walk.get<std::string>())) reply["matches"].push_back("a walk is not matched");
  }
  reply["stacks"] = player.most_stacks();
  return reply;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(Json::parse(line)).dump() << std::endl;
}
