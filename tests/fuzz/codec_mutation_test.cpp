// Damaged frames: the codec refuses each or returns a message that is valid and can be sent again. Meant to run with
// AddressSanitizer and UndefinedBehaviorSanitizer; a failure prints its seed, which repeats it.

#include "messages/codec.hpp"
#include "messages/validation.hpp"
#include "tests/fuzz/settings.hpp"
#include "tests/unit/messages/examples.hpp"
#include "tests/unit/messages/filled.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace dynamix::messages {
namespace {

using fuzz::default_iterations;
using fuzz::setting;

using words = std::vector<std::uint64_t>;

/// Words that break things: null, all ones, NaN, infinity, huge counts, pointers to themselves, far pointers.
constexpr std::array<std::uint64_t, 10> poison = {
    0,
    ~std::uint64_t{0},
    0x7ff8000000000000,
    0x7ff0000000000000,
    0xfff0000000000000,
    0x8000000000000000,
    0x00000000fffffffc,
    0xffffffff00000001,
    0x0000000000000002,
    0x0001000100000000,
};

class mutator {
public:
  explicit mutator(std::uint64_t seed) : random_(seed) {
    for (const auto& values : {examples(), filled_messages()})
      for (const auto& value : values) {
        const auto encoded = encode(value);
        corpus_.emplace_back(encoded->view().begin(), encoded->view().end());
      }
  }

  words next() {
    auto frame = corpus_[below(corpus_.size())];
    for (auto changes = 1 + below(4); changes > 0; --changes)
      change(frame);
    // Mostly the first word is right again, or nothing would get past it.
    if (!frame.empty() && below(16) != 0)
      frame[0] = (frame.size() - 1) << 32;
    return frame;
  }

private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  void change(words& frame) {
    if (frame.empty())
      return;
    const auto at = below(frame.size());
    const auto position = frame.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(7)) {
    case 0:
      *position ^= std::uint64_t{1} << below(64);
      break;
    case 1:
      *position = poison[below(poison.size())];
      break;
    case 2:
      *position = random_();
      break;
    case 3:
      std::swap(*position, frame[below(frame.size())]);
      break;
    case 4:
      frame.resize(at);
      break;
    case 5:
      frame.insert(position, 1 + below(8), *position);
      break;
    case 6:
      splice(frame, at);
      break;
    }
  }

  /// The rest of another frame, from a place of its own.
  void splice(words& frame, std::size_t at) {
    const auto& other = corpus_[below(corpus_.size())];
    frame.resize(at);
    frame.insert(frame.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
  }

  std::mt19937_64 random_;
  std::vector<words> corpus_;
};

TEST(CodecMutation, EveryDamagedFrameIsRefusedOrValid) {
  const auto iterations = setting("DYNAMIX_FUZZ_ITERATIONS", default_iterations);
  const auto seed = setting("DYNAMIX_FUZZ_SEED", 20240229);
  SCOPED_TRACE("DYNAMIX_FUZZ_SEED=" + std::to_string(seed));
  mutator source(seed);
  std::uint64_t accepted = 0;
  std::array<std::uint64_t, 5> refused{};
  for (std::uint64_t i = 0; i < iterations; ++i) {
    const auto frame = source.next();
    const auto decoded = decode(frame);
    if (!decoded) {
      ASSERT_FALSE(decoded.error().text.empty());
      ++refused[static_cast<std::size_t>(decoded.error().code)];
      continue;
    }
    ++accepted;
    const auto fault = std::visit([](const auto& one) { return validate(one); }, *decoded);
    ASSERT_EQ(fault, "") << "iteration " << i;
    const auto encoded = encode(*decoded);
    ASSERT_TRUE(encoded) << "iteration " << i << ": " << encoded.error().text;
    const auto again = decode(*encoded);
    ASSERT_TRUE(again) << "iteration " << i << ": " << again.error().text;
    ASSERT_TRUE(*again == *decoded) << "iteration " << i;
  }
  // Mutations that all end at the first check would prove nothing.
  EXPECT_GT(accepted, iterations / 20);
  for (const auto code : {codec_code::malformed, codec_code::unknown_kind, codec_code::invalid_field})
    EXPECT_GT(refused[static_cast<std::size_t>(code)], iterations / 1000) << static_cast<int>(code);
  RecordProperty("accepted", std::to_string(accepted));
  std::printf("%llu frames, %llu accepted\n", static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(accepted));
}

} // namespace
} // namespace dynamix::messages
