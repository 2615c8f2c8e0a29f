#include "bench/run/crowd.h"

#include <utility>

#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

void chat(ServerClient& client, Streamed& chat) {
  ChatOptions options = chat.options;
  options.on_piece = [&](const Piece& piece) {
    chat.pieces.push_back(piece);
    return !chat.options.on_piece || chat.options.on_piece(piece);
  };
  chat.exchange = client.chat(chat.messages, options);
}

}  // namespace

Crowd::Crowd(std::string base_url, std::size_t most, Interrupt& interrupt)
    : base_url_(std::move(base_url)), most_(most), interrupt_(interrupt) {}

void Crowd::run(std::function<void(ServerClient& client)> task) {
  if (threads_ == nullptr) threads_ = os::make_thread_pool(most_, "crowd");
  threads_->post([this, task = std::move(task)] {
    const auto client = ServerClient::make({.base_url = base_url_, .keeps_connection = true}, interrupt_);
    if (!client) is_cut_off_ = true;
    if (client) task(**client);
  });
}

Streamed& Crowd::ask(Json messages, ChatOptions options) {
  Streamed& made = chats_.emplace_back(
      Streamed{.messages = std::move(messages), .options = std::move(options), .exchange = {}, .pieces = {}});
  run([&made](ServerClient& client) { chat(client, made); });
  return made;
}

void Crowd::wait() { threads_.reset(); }

Status Crowd::answered() const {
  TRY(interrupt_.check());
  if (is_cut_off_) return io_error("a client found no way to the server");
  for (const Streamed& chat : chats_) {
    if (!chat.exchange.answered()) return unsupported(chat.exchange.failure());
  }
  return {};
}

}  // namespace kvkeep::bench
