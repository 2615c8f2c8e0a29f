#pragma once

// Reproducible weights: the same seed gives the same bytes on every machine and compiler (integer arithmetic, then one
// exact conversion and one multiplication per value).

#include <cstdint>
#include <span>
#include <string_view>

namespace kvkeep::gguf {

// The generator splitmix64. Not for cryptography. About a nanosecond per value of fill().
class Random {
 public:
  // Each tensor has its own stream, so that adding a tensor does not change the others.
  Random(std::uint64_t seed, std::string_view stream) : state_(seed) {
    for (const char c : stream) state_ = mix(state_ ^ static_cast<unsigned char>(c));
  }

  std::uint64_t next() { return mix(state_ += 0x9E3779B97F4A7C15u); }

  // Fills in uniform values with mean 0 and the given standard deviation, in steps of 1/65536 of their range.
  void fill(std::span<float> values, float deviation) {
    constexpr float kSquareRootOf12 = 3.4641016F;
    fill_steps(values, deviation * kSquareRootOf12 / 65536.0F);
  }

  // Fills in uniform values of a range, in steps of 1/65536 of it.
  void fill_between(std::span<float> values, float lowest, float highest) {
    fill_steps(values, (highest - lowest) / 65536.0F);
    for (float& value : values) value += (lowest + highest) / 2;
  }

 private:
  // Fills in values with mean 0.
  void fill_steps(std::span<float> values, float step) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      bits = i % 4 == 0 ? next() : bits >> 16;
      values[i] = (static_cast<float>(bits & 0xFFFF) - 32767.5F) * step;
    }
  }

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace kvkeep::gguf
