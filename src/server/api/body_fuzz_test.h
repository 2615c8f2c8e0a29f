#pragma once

// Bodies for fuzz tests of the dialects: JSON made of the dialects' words, and valid bodies with one value replaced.

#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "server/api/json_body.h"

namespace kvkeep::server::api {

using Words = std::span<const std::string_view>;

inline Json random_body_value(std::mt19937_64& random, Words words, int depth) {
  const auto word = [&] { return std::string(words[random() % words.size()]); };
  switch (random() % (depth > 0 ? 9 : 6)) {
    case 0: return nullptr;
    case 1: return random() % 2 == 0;
    case 2: return static_cast<std::int64_t>(random());
    case 3: return static_cast<double>(random() % 1'000'000) / 1e3 - 100;
    case 4: return word();
    case 5: return std::numeric_limits<std::uint64_t>::max() - random() % 3;
    case 6: {
      Json array = Json::array();
      for (std::size_t count = random() % 4; count > 0; --count) {
        array.push_back(random_body_value(random, words, depth - 1));
      }
      return array;
    }
    default: {
      Json object = Json::object();
      for (std::size_t count = random() % 6; count > 0; --count) {
        object[word()] = random_body_value(random, words, depth - 1);
      }
      return object;
    }
  }
}

// Replaces one value, at any depth.
inline void mutate_body(std::mt19937_64& random, Words words, Json& value) {
  if (value.is_structured() && !value.empty() && random() % 4 != 0) {
    auto place = value.begin();
    std::advance(place, random() % value.size());
    return mutate_body(random, words, *place);
  }
  value = random_body_value(random, words, 2);
}

}  // namespace kvkeep::server::api
