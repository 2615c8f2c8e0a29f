#pragma once

// Pictures and sounds in the parts of messages, in the forms of all dialects. A file is decoded from base64 and named
// by a hash of its bytes, and nothing else is looked at here; a name takes its place in the message
// (chat/media_names.h). Files that are named by URL are read later (routes/prompt_files.h).
//
// Errors are kInvalid and begin with the part's path.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/media_ids.h"
#include "base/result.h"
#include "base/types.h"
#include "chat/media_names.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

inline constexpr std::size_t kMostFiles = 1'000;  // of one request
inline constexpr std::size_t kMostFetched = 32;   // of these, from other hosts: each may take seconds

// How long a request may still wait for a file of another host.
struct FetchTerms {
  std::int64_t longest_ms = 0;
  std::function<bool()> gone = [] { return false; };  // its client has left: give up
};

// How the server's model takes pictures and sounds.
struct MediaRules {
  MediaKey key;
  bool pictures = false;
  bool sound = false;
  std::string marker = {};  // stands for a file in the prompts of completions; clients learn it from /props
  // Returns names for the files of one request. They have a key that no request had before.
  std::function<chat::MediaNames()> new_names = {};
  // Reads a file below --media-path, by its path there; kInvalid with the reason if it cannot. Empty: no file: URLs.
  std::function<Result<std::string>(std::string_view path)> read_file = {};
  // Fetches a file from another host, by its http: or https: URL; kInvalid with the reason if it cannot, kAborted if
  // the client left. Empty: none is.
  std::function<Result<std::string>(const std::string& url, const FetchTerms& terms)> fetch = {};
};

// Texts, ids, and pictures and sounds in turn. Each text is tokenized by itself; BOS comes only before a text, picture
// or sound that the prompt begins with.
using MixedPrompt = std::vector<std::variant<std::string, std::vector<TokenId>, chat::MediaFile>>;

// Bytes of standard base64, with or without padding; line breaks count for nothing. kInvalid for anything else.
Result<std::string> decode_base64(std::string_view text);

// Returns false only for a body that has no picture, sound or file: no value in it is the type of such a part, and
// nothing the name of llama-server's list of files. It costs a search for quotes. Letters may be written as \u0061.
bool has_media_part(std::string_view body);

// Returns false only for a body that names no file by an http: or https: URL: none of its members that may have one
// begins with "http". Costs and letters as above.
bool may_name_remote_file(std::string_view body);

// The types of an API's parts; "" for those that it does not have.
struct PartTypes {
  std::string_view text;
  std::string_view picture;
  std::string_view sound = {};
  std::string_view file = {};
};

// The files of one request.
class MediaReader {
 public:
  // `rules`: null if the model takes text only; must outlive this.
  // `refusal`: why this kind of request may have no files, although the model takes them; "" if it may.
  explicit MediaReader(const MediaRules* rules, std::string refusal = "")
      : rules_(rules), refusal_(std::move(refusal)) {}

  bool pictures() const { return rules_ != nullptr && rules_->pictures; }
  bool sound() const { return rules_ != nullptr && rules_->sound; }
  bool any() const { return pictures() || sound(); }

  // Returns the type of the part that an API with these types has for one that another API calls `type`; "" if `type`
  // is no other API's, or the model does not take it.
  std::string_view type_here(std::string_view type, const PartTypes& own) const;

  // Each returns the name for a part, which stands at `path`.
  // A data: URL, or base64 alone; a file: URL if the server has files for requests; an http: URL if it fetches files.
  Result<std::string> from_url(std::string_view url, const std::string& path);
  Result<std::string> from_base64(std::string_view data, const std::string& path);

  // OpenAI's parts. {"type":"image_url","image_url":{"url":...}}
  Result<std::string> image_url(const Json& part, const std::string& path);
  // {"type":"input_audio","input_audio":{"data":...,"format":"wav"}}; the format is seen in the data
  Result<std::string> input_audio(const Json& part, const std::string& path);
  // {"type":"input_image","image_url":"..."}, of Responses
  Result<std::string> input_image(const Json& part, const std::string& path);
  // Files of any kind, of which only pictures and sounds are read; file_data is a data: URL, or base64 alone.
  // {"type":"file","file":{"file_data":...,"filename":...}}
  Result<std::string> chat_file(const Json& part, const std::string& path);
  // {"type":"input_file","file_data":...} or "file_url", of Responses
  Result<std::string> input_file(const Json& part, const std::string& path);
  // Anthropic's {"type":"image","source":{"type":"base64","media_type":...,"data":...}}
  Result<std::string> image_block(const Json& part, const std::string& path);

  // {"prompt_string":...,"multimodal_data":[...]}, llama-server's form of a prompt with files: texts, and files where
  // the marker stands, as many as there are data.
  Result<MixedPrompt> prompt_with_files(std::string_view text, const Json& data, const std::string& path);

  chat::PromptMedia take() { return std::move(media_); }

 private:
  Result<std::string> add(std::string bytes, const std::string& path);
  // A file that is read later.
  Result<std::string> add_url(std::string_view url, const std::string& path);
  Result<std::string> add_file(chat::MediaFile file);
  Result<std::string> fetch(std::string_view url, const std::string& path);
  Result<std::string> file_in(const Json& object, const std::string& path);

  const MediaRules* rules_;
  std::string refusal_;
  chat::PromptMedia media_;
  std::size_t fetched_ = 0;
};

}  // namespace kvkeep::server::api
