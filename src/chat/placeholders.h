#pragma once

// Keeps the client's text from writing markers while it passes through a template engine that has no provenance.
//
// Before rendering, every part of a client's string that is, or could become, a marker's spelling is replaced by a
// placeholder: a run of decimal digits, which trim, tojson, upper, lower and split leave alone. After rendering,
// placeholders turn back into the text they stand for, marked as text from a message. What is replaced:
//   - a whole spelling, wherever it stands;
//   - the head of a spelling at a string's end, and the tail of one at its start: neighbours could complete it;
//   - a string that is only a part of a spelling: `<{{ name }}>` with the name "think" would complete it;
//   - with kEveryStart, each byte that can begin a spelling: for templates that cut pieces out of strings (replace).
// Security does not rest on the digits being secret: a placeholder can only ever turn into text.
//
// Names of the chat format (role, content, parameters ...) and the roles themselves are left alone, because templates
// read them and some write markers with them ('<|' + role + '|>').
//
// One object serves one render. Not thread safe.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "chat/marker_set.h"
#include "chat/rendered_prompt.h"

namespace kvkeep::chat {

enum class Caution { kSpellings, kEveryStart };

class Placeholders {
 public:
  // `seed` makes the digits; the same seed gives the same digits. `markers` outlives this object.
  Placeholders(const MarkerSet& markers, const ModelHash& seed, Caution caution);

  // Replaces in every string and key of `value`, at any depth.
  void protect(nlohmann::ordered_json& value);
  std::string protect(std::string_view text);

  // Cuts what the template printed into spans. kUnsupported if the template damaged a placeholder.
  Result<RenderedPrompt> restore(std::string_view printed) const;

 private:
  std::string placeholder_for(std::string_view fragment);
  void protect_object(nlohmann::ordered_json& object);
  std::string protect_inside(std::string_view text);
  Status append_printed(std::string_view printed, RenderedPrompt& prompt) const;

  const MarkerSet& markers_;
  const Caution caution_;
  std::string nonce_;
  std::vector<std::string> fragments_;
  std::unordered_map<std::string, std::size_t> index_of_;
};

}  // namespace kvkeep::chat
