#pragma once

// A service that renders with one template and remembers turns, for tests of exact replay.

#include <memory>
#include <string>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"
#include "chat/tools/tool_format.h"
#include "os/clock.h"
#include "server/routes/routes.h"
#include "server/routes/turn_keeper.h"

namespace kvkeep::server {

inline void serve_template(Service& service, const std::shared_ptr<chat::FakeVocabulary>& vocabulary,
                           const std::string& source, chat::tools::FormatKind format, os::FileSystem& files,
                           os::Executor& executor, const chat::TemplateTokens& tokens = {}) {
  service.vocabulary = vocabulary;
  service.chat_template = chat::make_chat_template(source, tokens).value();
  service.markers = std::make_unique<chat::MarkerSet>(*vocabulary, source);
  service.long_text = std::make_unique<chat::LongText>(*vocabulary);
  service.turn_openings = chat::learn_turn_openings(*service.chat_template, *service.markers, *vocabulary);
  service.reply_format = chat::tools::bind_format(format, chat::tools::detect_thinking(source), *service.markers);
  service.clock = &os::real_clock();
  service.context_tokens = 100'000;
  service.turns =
      std::make_unique<TurnKeeper>(TurnKeeperOptions{mebibytes(1), service.vocabulary->size()}, files, executor);
}

}  // namespace kvkeep::server
