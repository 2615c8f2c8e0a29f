#include "server_address.h"

#include <utility>

#include "flag_values.h"

namespace kvkeep::cli {
namespace {

constexpr char kKeyVariable[] = "LLAMA_API_KEY";
constexpr char kKeyFileVariable[] = "LLAMA_ARG_API_KEY_FILE";

std::string value_of(const os::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

}  // namespace

Error key_refused(const std::string& key) {
  return invalid(key.empty()
                     ? "the server wants an API key: name its file with --api-key-file"
                     : "wrong key: the server refuses this API key; name the file of its own with --api-key-file");
}

std::vector<Flag> key_flags(ServerAddress& address) {
  return {{.spelling = "--api-key KEY",
           .environment = kKeyVariable,
           .effect = "Key to send. Other users can see command lines: prefer --api-key-file.",
           .assign = text_into(address.api_key)},
          {.spelling = "--api-key-file FILE",
           .environment = kKeyFileVariable,
           .effect = "File with keys, as serve takes it; the first one is sent.",
           .assign = text_into(address.api_key_file)}};
}

std::vector<Flag> address_flags(ServerAddress& address) {
  std::vector<Flag> flags = {{.group = "Server",
                              .spelling = "--url URL",
                              .environment = "KVKEEP_URL",
                              .effect = "The running server.",
                              .assign = text_into(address.url)}};
  for (Flag& flag : key_flags(address)) flags.push_back(std::move(flag));
  return flags;
}

Result<bool> parse_with_address(const FlagSet& flags, ServerAddress& address, const std::vector<std::string>& arguments,
                                const os::Environment& environment, std::vector<std::string>* files) {
  // A variable is often there for a server: its file of keys must not replace the key that the user typed.
  os::Environment without_keys = environment;
  without_keys.erase(kKeyVariable);
  without_keys.erase(kKeyFileVariable);
  TRY_ASSIGN(const bool wants_help, flags.parse(arguments, without_keys, files));
  if (address.api_key.empty() && address.api_key_file.empty()) {
    address.api_key = value_of(environment, kKeyVariable);
    address.api_key_file = value_of(environment, kKeyFileVariable);
  }
  if (const auto comma = address.api_key.find(','); comma != std::string::npos) address.api_key.resize(comma);
  if (address.url.ends_with('/')) address.url.pop_back();
  if (address.url.ends_with("/v1")) address.url.resize(address.url.size() - 3);
  return wants_help;
}

}  // namespace kvkeep::cli
