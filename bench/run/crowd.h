#pragma once

// Several chats with one server at the same time, each on a connection and a thread of its own.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "bench/run/interrupt.h"
#include "bench/run/server_client.h"
#include "bench/run/stream_times.h"
#include "os/threads.h"

namespace kvkeep::bench {

// A chat of a crowd, and its result.
struct Streamed {
  nlohmann::ordered_json messages;
  ChatOptions options;
  Exchange exchange;
  std::vector<Piece> pieces;

  StreamTimes times() const { return {pieces, exchange.facts.reply_tokens.value_or(0)}; }
};

// One thread calls it. Results may be read after wait().
class Crowd {
 public:
  // `most`: chats at the same time; further ones wait.
  Crowd(std::string base_url, std::size_t most, Interrupt& interrupt);

  // Begins a chat at once; the result stays where it is.
  Streamed& ask(nlohmann::ordered_json messages, ChatOptions options);
  // Runs `task` with a client of its own.
  void run(std::function<void(ServerClient& client)> task);
  // Returns when all have ended; then more may begin.
  void wait();
  // Call it after wait(). kAborted if interrupted; kUnsupported, with the server's words, if a chat was not answered.
  Status answered() const;

 private:
  const std::string base_url_;
  const std::size_t most_;
  Interrupt& interrupt_;
  std::deque<Streamed> chats_;
  std::atomic<bool> is_cut_off_ = false;     // a client could not be made
  std::unique_ptr<os::ThreadPool> threads_;  // last: its tasks use the others
};

}  // namespace kvkeep::bench
