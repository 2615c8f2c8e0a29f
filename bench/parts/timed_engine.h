#pragma once

// Another engine, whose calls it passes on and times: for figures of the code that makes them.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "engine/engine.h"

namespace kvkeep::bench {

class TimedEngine final : public engine::Engine {
 public:
  using Now = std::function<std::int64_t()>;  // ns of any clock
  // A call of decode() is over, which took so long.
  using OnDecoded = std::function<void(std::span<const engine::BatchToken> batch, std::int64_t ns)>;

  // `engine` must outlive this.
  TimedEngine(engine::Engine& engine, Now now)
      : engine_(engine), now_(std::move(now)), reading_ns_(time_of_reading()) {}

  // Time within decode(), decode_media(), sample() and has_finite_logits() so far, and the time that reading the clock
  // took.
  std::int64_t taken_ns() const { return taken_ns_; }
  void set_on_decoded(OnDecoded on_decoded) { on_decoded_ = std::move(on_decoded); }

  const engine::Description& description() const override { return engine_.description(); }
  cache::ModelMemory& memory() override { return engine_.memory(); }
  void use_adapters(const engine::AdapterScales& scales) override { engine_.use_adapters(scales); }
  engine::DecodeStatus decode(std::span<const engine::BatchToken> batch) override {
    const std::int64_t before_ns = taken_ns_;
    const engine::DecodeStatus status = timed([&] { return engine_.decode(batch); });
    if (on_decoded_) on_decoded_(batch, taken_ns_ - before_ns);
    return status;
  }
  bool has_finite_logits(std::size_t index) const override {
    return timed([&] { return engine_.has_finite_logits(index); });
  }
  void wipe() override { engine_.wipe(); }
  engine::DecodeStatus decode_media(SeqId seq, const engine::MediaChunk& chunk) override {
    return timed([&] { return engine_.decode_media(seq, chunk); });
  }
  TokenId sample(engine::Sampler& sampler, std::size_t index) override {
    return timed([&] { return engine_.sample(sampler, index); });
  }
  std::span<const float> logits(std::size_t index) const override { return engine_.logits(index); }
  Result<std::unique_ptr<engine::Sampler>> make_sampler(const engine::SamplingParams& params) override {
    return engine_.make_sampler(params);
  }
  void cancel() override { engine_.cancel(); }
  void reset_cancel() override { engine_.reset_cancel(); }
  std::uint64_t tokens_decoded() const override { return engine_.tokens_decoded(); }

 private:
  template <typename Call>
  std::invoke_result_t<Call> timed(Call call) const {
    const std::int64_t begin_ns = now_();
    auto result = call();
    taken_ns_ += now_() - begin_ns + reading_ns_;
    return result;
  }

  // Of the two readings around a call, about half lies outside of the time between them.
  std::int64_t time_of_reading() const {
    constexpr std::int64_t kReadings = 1'000;
    const std::int64_t begin_ns = now_();
    for (std::int64_t i = 1; i < kReadings; ++i) (void)now_();
    return (now_() - begin_ns) / kReadings;
  }

  engine::Engine& engine_;
  const Now now_;
  const std::int64_t reading_ns_;
  OnDecoded on_decoded_;
  mutable std::int64_t taken_ns_ = 0;
};

}  // namespace kvkeep::bench
