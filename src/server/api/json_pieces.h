#pragma once

// A JSON text that is made piece by piece while it leaves.
//
// As values, with a map for each candidate of each token, the probabilities of a reply take a hundred times the memory
// of the numbers that they are made of. So the parts of such a text are made one after the other, and no part is made
// before those in front of it are written. Not thread safe.

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "server/api/json_body.h"

namespace kvkeep::server::api {

// A piece is as long as this, and as long as the part that reaches beyond it.
inline constexpr std::size_t kPieceBytes = 256 << 10;

class JsonPieces {
 public:
  void add(std::string text);
  void add(std::function<std::string()> part);
  // An array of `count` elements, which are asked for once each, in order.
  void add_list(std::size_t count, std::function<Json(std::size_t number)> element);

  // Returns the next piece; "" at the end.
  std::string next();
  // Returns all that is left.
  std::string rest();

 private:
  using Part =
      std::function<bool(std::string& text)>;  // adds some of itself; returns true once that was the last of it
  std::deque<Part> parts_;
};

// Returns the text of an object without its braces, which may stand between other members, with text around it.
std::string members(const Json& object, std::string_view before = {}, std::string_view after = {});

}  // namespace kvkeep::server::api
