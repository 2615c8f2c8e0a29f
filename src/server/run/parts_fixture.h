#pragma once

// The things that the scheduler's parts need, without a scheduler: the fake engine, a cache over it, and a clock that
// the test moves.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "engine/fake/fake_engine.h"
#include "server/run/sequences.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::server {

// Consecutive ids from `first` on.
inline std::vector<TokenId> counting(std::size_t count, TokenId first = 100) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class PartsTest : public testing::Test {
 protected:
  explicit PartsTest(const engine::fake::FakeOptions& options = {.cells = 1000, .sequences = 3},
                     ByteCount ram = mebibytes(16))
      : engine(options),
        cache({.fingerprint = engine.description().fingerprint, .ram_budget = ram, .shape = engine.memory().shape()},
              nullptr, clock, executor, executor) {}

  Sequences make_sequences(const SequenceOptions& options = {}) {
    return Sequences(options, engine.memory(), cache, clock,
                     [this](SeqId, const TraceCut& cut) { captured.push_back(cut); });
  }
  // The engine computes the tokens that the sequence lacks.
  void decode(Sequences& sequences, SeqId seq, TokenSpan tokens) {
    std::vector<engine::BatchToken> batch;
    for (std::size_t i = sequences[seq].tokens.size(); i < tokens.size(); ++i) {
      batch.push_back({seq, tokens[i], Position{} + i, false});
    }
    ASSERT_EQ(engine.decode(batch), engine::DecodeStatus::kOk);
    sequences.append(seq, tokens.subspan(sequences[seq].tokens.size()));
  }
  // Runs a request that computes all of the tokens and ends.
  SeqId run(Sequences& sequences, TokenSpan tokens, const Tenant& tenant = kNoTenant, std::int64_t keep_s = 0) {
    const SeqId seq = *sequences.place({});
    sequences.occupy(seq, {.id = "test", .tenant = tenant}, {});
    sequences.begin_capture(seq);
    decode(sequences, seq, tokens);
    sequences.release(seq, policy::CutReason::kTurn, keep_s);
    return seq;
  }
  Position known(TokenSpan tokens) { return cache.lease(tokens)->end(); }

  engine::fake::FakeEngine engine;
  sim::SimClock clock;
  sim::SimExecutor executor;
  cache::Cache cache;
  std::vector<TraceCut> captured;
};

}  // namespace kvkeep::server
