#pragma once

// Devices of other machines, through libggml's RPC backend. Its protocol is neither encrypted nor authenticated: a
// server sees the weights and everything that is computed, and its results are taken as they are.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

// Adds the devices of RPC servers ("host:port") to those of this process, each server's once. From then on a server
// that fails ends the process, with one line: libggml cannot go on without it. Errors: kUnsupported (libggml has no
// such backend here), kIo (a server does not answer).
Status add_rpc_servers(const std::vector<std::string>& servers);

// Returns the device's name, and for one of another machine its address too: rows that it computed are not taken for
// those of another machine that may compute otherwise. "CUDA0", "RPC0@10.0.0.2:50052".
std::string name_in_fingerprint(ggml_backend_dev_t device);

}  // namespace kvkeep::engine::llama
