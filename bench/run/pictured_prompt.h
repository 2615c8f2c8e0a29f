#pragma once

// Chats with pictures, and their prompts as ids. The text of a prompt is the server's own (/apply-template with a word
// in each picture's place, /tokenize of the texts between these words, as libmtmd tokenizes them, too). A picture is a
// run of negative ids, which depend on its name: two prompts share it if they show the same picture after the same ids.
// The first id is that of any picture: libmtmd puts a token before pictures, such as <|vision_start|>, which two
// prompts share although they go on with different pictures. (A few families have no such token, or two: there the
// ideal is off by one wherever prompts part at a picture.)

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_client.h"

namespace kvkeep::bench {

// A user message that shows a picture (bench/workloads/pictures.h) before its text. It has the picture's name only.
nlohmann::ordered_json picture_message(std::string_view picture, std::string_view text);

// Returns the messages as a server takes them, with a file for each name.
nlohmann::ordered_json with_files(const nlohmann::ordered_json& messages);

class PicturedPrompt {
 public:
  // Asks a server for the ids of the messages' text. Errors of the client; kUnsupported if the template leaves out a
  // picture.
  static Result<PicturedPrompt> read(ServerClient& client, const nlohmann::ordered_json& messages);

  std::size_t pictures() const { return pictures_.size(); }
  std::size_t text_tokens() const;
  // Returns all ids, if each picture has this many.
  std::vector<TokenId> ids(std::size_t picture_tokens) const;

 private:
  std::vector<std::string> pictures_;        // names, in the order of the prompt
  std::vector<std::vector<TokenId>> texts_;  // before, between and after them: one more
};

struct KnownPicturesOptions {
  std::size_t pairs = 15;
  bool has_goal = true;  // false: the times of a tiny model mean nothing
};

// The time to the first token of a turn before which six known pictures stand, next to the same turn where text of as
// many tokens stands in their place: to know a picture again, its file has to be read, decoded from base64 and hashed.
// On one server of kvkeep, both conversations in turn; wall time.
// Steps are requests. Precondition: `bench` names a projector. kAborted if interrupted, kUnsupported if a reply is not
// what was asked for. Otherwise errors of starting a server.
Result<std::vector<PartFigures>> measure_known_pictures(
    const BenchOptions& bench, const KnownPicturesOptions& options,
    const std::function<void(std::size_t done, std::size_t of)>& progress, Interrupt& interrupt);

}  // namespace kvkeep::bench
