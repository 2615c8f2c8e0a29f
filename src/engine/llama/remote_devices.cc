#include "engine/llama/remote_devices.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string_view>

#include "os/network.h"
#include "text/terminal.h"

namespace kvkeep::engine::llama {
namespace {

constexpr const char* kBackend = "RPC";
constexpr int kAnswerMs = 5'000;

void end_without_server(const char* message) {
  std::fprintf(
      stderr,
      "kvkeep: libggml cannot go on (%s). Is a server of --rpc gone? Start it again, then kvkeep: stored state "
      "is used again\n",
      text::escaped(message).c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

// libggml would end the process if nothing answers.
Status check_server(const std::string& server) {
  const auto colon = server.rfind(':');
  int port = 0;
  if (colon != std::string::npos) std::from_chars(server.data() + colon + 1, server.data() + server.size(), port);
  if (port <= 0) return invalid(fmt::format("--rpc {}: not HOST:PORT", server));
  const Status answers = os::try_to_connect(server.substr(0, colon), port, kAnswerMs);
  if (answers) return {};
  return io_error(fmt::format("--rpc: no RPC server answers at {}; start it first", answers.error().message));
}

Status add_server(ggml_backend_reg_t backend, const std::string& server) {
  using AddServer = ggml_backend_reg_t (*)(const char*);
  const auto add =
      reinterpret_cast<AddServer>(ggml_backend_reg_get_proc_address(backend, "ggml_backend_rpc_add_server"));
  const std::uint64_t mark = log_mark();
  ggml_backend_reg_t const devices = add == nullptr ? nullptr : add(server.c_str());
  if (devices == nullptr) return io_error(fmt::format("--rpc {}: {}", server, log_reason_since(mark)));
  ggml_backend_register(devices);
  for (std::size_t i = 0; i < ggml_backend_reg_dev_count(devices); ++i) {
    spdlog::info("{} is a device of the RPC server {}: weights, conversations and results go there unencrypted",
                 ggml_backend_dev_name(ggml_backend_reg_dev_get(devices, i)), server);
  }
  return {};
}

}  // namespace

Status add_rpc_servers(const std::vector<std::string>& servers) {
  static std::set<std::string, std::less<>> known;  // of this process, as libggml's devices are
  if (servers.empty()) return {};
  start_library();
  ggml_backend_reg_t const backend = ggml_backend_reg_by_name(kBackend);
  if (backend == nullptr) {
    return unsupported(
        "--rpc needs libggml's RPC backend, which is not installed here (on Debian it is the package "
        "libggml0-backend-rpc): install it, or leave --rpc out");
  }
  for (const std::string& server : servers) {
    if (known.contains(server)) continue;
    TRY(check_server(server));
    const AbortNet net("the devices of " + server);
    TRY(add_server(backend, server));
    known.insert(server);
  }
  ggml_set_abort_callback(end_without_server);
  return {};
}

std::string name_in_fingerprint(ggml_backend_dev_t device) {
  const std::string name = ggml_backend_dev_name(device);
  if (!name.starts_with(kBackend)) return name;
  return name + "@" + ggml_backend_dev_description(device);
}

}  // namespace kvkeep::engine::llama
