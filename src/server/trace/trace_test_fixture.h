#pragma once

// The scheduler over the fake engine with a trace that the test keeps, and a vocabulary whose texts name their tokens.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/vocabulary.h"
#include "server/run/scheduler_test_fixture.h"
#include "server/trace/trace_file.h"

namespace kvkeep::server {

using api::Json;
using engine::MemoryClass;
using Tokens = std::vector<TokenId>;

// Token 7 is " t7".
class NumberedVocabulary final : public Vocabulary {
 public:
  std::size_t size() const override { return 1000; }
  std::vector<TokenId> tokenize(std::string_view, TokenizeOptions) const override { return {}; }
  std::vector<TokenId> tokenize_continuation(std::string_view) const override { return {}; }
  std::string piece(TokenId id, bool) const override { return " t" + std::to_string(id); }
  std::optional<std::size_t> longest_piece_bytes() const override { return std::nullopt; }
  const std::vector<SpecialToken>& special_tokens() const override { return none_; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool add_bos() const override { return false; }
  bool is_end_of_generation(TokenId) const override { return false; }

 private:
  std::vector<SpecialToken> none_;
};

// Keeps traces as the JSON that would be written.
class KeptTraces final : public TraceSink {
 public:
  void on_request(RequestTrace trace) override {
    const MutexLock lock(mutex_);
    traces_.push_back(trace_json(trace, vocabulary_, true));
    came_.notify_one();
  }
  void on_audit(const AuditReport&) override {}
  // Returns the next trace that was not returned yet; it comes a little later than the client's reply.
  Json next() {
    const MutexLock lock(mutex_);
    while (traces_.size() == taken_) came_.wait(mutex_);
    return traces_[taken_++];
  }

 private:
  NumberedVocabulary vocabulary_;
  Mutex mutex_;
  CondVar came_;
  std::vector<Json> traces_;
  std::size_t taken_ = 0;
};

inline Tokens numbers(std::size_t count, std::size_t seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  return random_tokens(random, count);
}

inline Json of_kind(const Json& list, std::string_view kind) {
  Json found = Json::array();
  for (const Json& one : list) {
    if (one["kind"] == kind) found.push_back(one);
  }
  return found;
}

class Trace : public testing::Test {
 protected:
  WorldOptions options(WorldOptions given = {}) {
    given.scheduler.trace = &traces_;
    return given;
  }
  Json ask(World& world, const Tokens& prompt, std::int64_t most = 8, bool cache_prompt = true) {
    reply_ = world.ask(prompt, most, cache_prompt);
    const Json trace = traces_.next();
    EXPECT_EQ(trace["prompt_tokens"], prompt.size());
    EXPECT_EQ(trace["effective_prompt_tokens"], reply_.stats.prompt_tokens);
    EXPECT_EQ(trace["cached_tokens"], reply_.stats.cached_tokens);
    EXPECT_EQ(trace["prefilled_tokens"], reply_.stats.prefilled_tokens);
    EXPECT_EQ(trace["predicted_tokens"], reply_.tokens.size());
    EXPECT_EQ(trace["disk_cached_tokens"], reply_.stats.disk_tokens);
    EXPECT_EQ(trace["cache_tokens"]["memory"], reply_.stats.memory_tokens);
    EXPECT_EQ(trace["cache_tokens"]["ram"], reply_.stats.ram_tokens);
    EXPECT_EQ(trace["cache_tokens"]["disk"], reply_.stats.disk_tokens);
    EXPECT_EQ(trace["cache_tokens"]["shared"], reply_.stats.shared_tokens);
    EXPECT_EQ(trace["cache_source"], to_string(reply_.stats.source));
    EXPECT_EQ(trace["cache_point"], to_string(reply_.stats.point));
    EXPECT_EQ(trace["cache_miss_reason"], to_string(reply_.stats.miss));
    EXPECT_EQ(trace["finish"], to_string(reply_.finish));
    return trace;
  }
  KeptTraces traces_;
  Reply reply_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kvkeep::server
