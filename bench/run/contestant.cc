#include "bench/run/contestant.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>

#include "bench/run/parity.h"
#include "bench/run/server_client.h"
#include "bench/run/surroundings.h"
#include "os/process.h"

namespace kvkeep::bench {
namespace {

// Counts do not depend on threads; on a busy machine two threads that wait for each other are slower than one.
const std::vector<std::string> kOneThread = {"-t", "1"};

// A peer may be another kvkeep; tables, files and kept reports must distinguish them.
constexpr char kOurName[] = "kvkeep";

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool has_flag(const std::vector<std::string>& flags, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(flags, [&](const std::string& flag) {
    return std::ranges::any_of(names, [&](std::string_view name) {
      return flag == name || (flag.starts_with(name) && name.starts_with("--") && flag[name.size()] == '=');
    });
  });
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<std::string> with_threads(std::vector<std::string> flags) {
  if (!has_flag(flags, {"-t", "--threads"})) append(flags, kOneThread);
  return flags;
}

Contestant kvkeep_variant(const BenchOptions& options, std::string variant, std::vector<std::string> flags) {
  append(flags, options.kvkeep_flags);
  return {.name = kOurName,
          .variant = std::move(variant),
          .flags = std::move(flags),
          .is_kvkeep = true,
          .program = options.kvkeep_program,
          .url = {}};
}

// A kvkeep under another name reads the variable, and other servers do not know it.
void set_own_directory(ServerCommand& command, const Contestant& contestant, const std::string& directory) {
  if (!contestant.is_kvkeep) command.environment = {{"LLAMA_ARG_KV_DISK_DIR", disk_directory(directory)}};
}

void add_own_directory(std::vector<std::string>& arguments, const Contestant& peer, const std::string& directory) {
  if (file_name(peer.program).find(kOurName) == std::string::npos) return;
  if (has_flag(arguments, {"--kv-disk-dir", "--no-kv-disk"})) return;
  append(arguments, {"--kv-disk-dir", disk_directory(directory)});
}

// A running server is described by its own replies.
ServerInfo info_of_running(const Contestant& contestant, Interrupt& interrupt) {
  ServerInfo info{.name = contestant.name, .version = {}, .flags = "was running"};
  ServerTarget target;
  target.base_url = contestant.url;
  const auto client = ServerClient::make(target, interrupt);
  if (!client) return info;
  info.version = (*client)->server_version();
  const std::string called = (*client)->server_field();
  if (!called.empty()) info.flags += ", calls itself " + called;
  return info;
}

constexpr int kAnswerMs = 5'000;

Status check_url(const std::string& url, Interrupt& interrupt) {
  TRY_ASSIGN(const auto client, ServerClient::make({.base_url = url}, interrupt));
  // Any status except "not yet" is an answer: /health is not measured.
  TRY_ASSIGN(const int health, client->health(kAnswerMs));
  if (health == 503) return unsupported("it is not ready yet (GET /health: status 503)");
  const auto ids = client->chat_ids({{{"role", "user"}, {"content", "Hello"}}});
  if (!ids) return ids.error();
  return {};
}

Status named(const std::string& flag, const Status& status) {
  if (status) return {};
  return Error{status.error().kind, flag + ": " + status.error().message};
}

}  // namespace

std::vector<Contestant> contestants(const BenchOptions& options) {
  std::vector<Contestant> all{kvkeep_variant(options, "", {"--restore", "always"})};
  all.back().is_bounded = true;
  if (options.variants) {
    all.push_back(kvkeep_variant(options, "small -c", {"--restore", "always"}));
    all.back().small_context = true;
    all.push_back(kvkeep_variant(options, "no RAM", {"--restore", "always", "--cache-ram", "0"}));
    all.push_back(kvkeep_variant(options, "restore auto", {"--restore", "auto"}));
  }
  if (!options.peer_command.empty()) {
    const std::string& program = options.peer_command.front();
    const std::string name = file_name(program);
    all.push_back({.name = name == kOurName ? std::string(kOurName) + "-peer" : name,
                   .variant = {},
                   .flags = {options.peer_command.begin() + 1, options.peer_command.end()},
                   .program = program,
                   .url = {}});
  }
  if (!options.peer_url.empty()) {
    all.push_back({.name = options.peer_url, .variant = {}, .flags = {}, .program = {}, .url = options.peer_url});
  }
  return all;
}

std::string disk_directory(const std::string& directory) { return directory + "/kv"; }

ServerCommand load_command_of(const Contestant& contestant, const std::vector<std::string>& flags,
                              const BenchOptions& options, const std::string& directory) {
  ServerCommand command{.name = contestant.name, .program = contestant.program, .arguments = {}};
  set_own_directory(command, contestant, directory);
  if (contestant.is_kvkeep) command.arguments = {"serve", "--kv-disk-dir", disk_directory(directory)};
  append(command.arguments, contestant.flags);
  if (!contestant.is_kvkeep) add_own_directory(command.arguments, contestant, directory);
  append(command.arguments, {"-m", options.model});
  append(command.arguments, flags);
  return command;
}

ServerCommand parity_command_of(const Contestant& contestant, const ParitySetting& setting, const BenchOptions& options,
                                const std::string& directory) {
  std::vector<std::string> flags = parity_flags();
  append(flags, setting.flags);
  return load_command_of(contestant, flags, options, directory);
}

ServerCommand command_of(const Contestant& contestant, const Workload& workload, const BenchOptions& options,
                         const std::string& directory) {
  const std::uint32_t context = contestant.small_context ? workload.small_context_tokens : workload.context_tokens;
  ServerCommand command{.name = contestant.name, .program = contestant.program, .arguments = {}};
  set_own_directory(command, contestant, directory);
  std::vector<std::string>& arguments = command.arguments;
  if (contestant.is_kvkeep) {
    arguments = {
        "serve", "-m", options.model, "-c", std::to_string(context), "--kv-disk-dir", disk_directory(directory)};
    append(arguments, with_threads(contestant.flags));
    if (workload.pictures() > 0) append(arguments, {"--mmproj", options.projector});
    return command;
  }
  arguments = with_threads(contestant.flags);
  const bool sees = has_flag(arguments, {"--mmproj", "-mm", "--mmproj-url", "-mmu"});
  if (workload.pictures() > 0 && !sees) append(arguments, {"--mmproj", options.projector});
  if (!has_flag(arguments, {"-m", "--model", "-hf", "--hf-repo"})) append(arguments, {"-m", options.model});
  if (!has_flag(arguments, {"-c", "--ctx-size"})) append(arguments, {"-c", std::to_string(context)});
  add_own_directory(arguments, contestant, directory);
  return command;
}

ServerInfo info_of(const Contestant& contestant, const BenchOptions& options, Interrupt& interrupt) {
  if (!contestant.url.empty()) return info_of_running(contestant, interrupt);
  std::vector<std::string> flags;
  if (contestant.is_kvkeep) flags = {"serve"};
  append(flags, with_threads(contestant.flags));
  return {.name = contestant.name,
          .version = contestant.is_kvkeep && options.kvkeep_program.empty()
                         ? ""
                         : version_of_program(contestant.program, interrupt),
          .flags = fmt::format("{}{}", fmt::join(flags, " "), note_on_environment())};
}

Status check_peer(const BenchOptions& options, Interrupt& interrupt) {
  if (!options.peer_command.empty()) {
    const auto program = os::find_program(options.peer_command.front());
    if (!program) return named("--peer", program.error());
  }
  if (!options.peer_url.empty()) {
    const Status checked = check_url(options.peer_url, interrupt);
    TRY(interrupt.check());
    return named("--peer-url " + options.peer_url, checked);
  }
  return {};
}

}  // namespace kvkeep::bench
