/// The kept inputs of the fuzzer through every target, whatever compiler there is: what it has found once, and examples
/// of what is accepted. And mutations of them, DYNAMIX_FUZZ_ITERATIONS of each target or, where DYNAMIX_FUZZ_SECONDS is
/// set, for so long; from DYNAMIX_FUZZ_SEED on.

#include "storage/atomic_file.hpp"
#include "tests/fuzz/settings.hpp"
#include "tests/fuzz/targets.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/core.h>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace dynamix::fuzz {
namespace {

constexpr std::uint64_t mutations = 2000;
constexpr std::size_t bytes_max = 16384;

/// By its path.
std::vector<std::pair<std::string, std::string>> kept_inputs(std::string_view target) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("{}/{}", DYNAMIX_CORPUS, target))) {
    auto& [path, contents] = found.emplace_back(entry.path().string(), "");
    EXPECT_EQ(storage::read_file(path, 1U << 24U, contents), "");
  }
  std::ranges::sort(found);
  return found;
}

void run(const target& reader, const std::string& contents) {
  reader.run({reinterpret_cast<const std::uint8_t*>(contents.data()), contents.size()});
}

/// Changes a few bytes, leaves some out, repeats some, or goes on as another.
void mutate(std::string& contents, const std::string& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(bound, 1));
  };
  for (auto changes = 1 + below(4); changes > 0; --changes) {
    const auto at = below(contents.size());
    const auto length = 1 + below(std::min<std::size_t>(64, contents.size() - at));
    switch (below(5)) {
    case 0:
      if (!contents.empty())
        contents[at] = static_cast<char>(contents[at] ^ (1 << below(8)));
      break;
    case 1:
      contents.insert(at, 1, static_cast<char>(below(256)));
      break;
    case 2:
      contents.erase(at, length);
      break;
    case 3:
      contents.insert(below(contents.size()), contents.substr(at, length));
      break;
    case 4:
      contents.replace(at, std::string::npos, other.substr(below(other.size())));
      break;
    }
  }
  contents.resize(std::min(contents.size(), bytes_max));
}

class Corpus : public ::testing::TestWithParam<target> {};

TEST_P(Corpus, IsReadWithoutHarm) {
  const auto inputs = kept_inputs(GetParam().name);
  EXPECT_FALSE(inputs.empty());
  for (const auto& [path, contents] : inputs) {
    SCOPED_TRACE(path);
    run(GetParam(), contents);
  }
}

TEST_P(Corpus, IsReadWithoutHarmWhereItIsMutated) {
  const auto seed = setting("DYNAMIX_FUZZ_SEED", 20260112);
  const std::chrono::seconds patience(setting("DYNAMIX_FUZZ_SECONDS", 0));
  const auto iterations = patience.count() > 0 ? ~std::uint64_t{0} : setting("DYNAMIX_FUZZ_ITERATIONS", mutations);
  std::fprintf(stderr, "DYNAMIX_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed)); // a target may end the test
  const auto inputs = kept_inputs(GetParam().name);
  std::mt19937_64 random(seed);
  std::uint64_t done = 0;
  for (const auto begin = std::chrono::steady_clock::now();
       done < iterations && (patience.count() == 0 || std::chrono::steady_clock::now() - begin < patience); ++done) {
    auto contents = inputs[random() % inputs.size()].second;
    mutate(contents, inputs[random() % inputs.size()].second, random);
    run(GetParam(), contents);
  }
  std::fprintf(stderr, "%llu inputs\n", static_cast<unsigned long long>(done));
}

void expect_kept(const char* target, const std::map<std::string, kept_example>& examples,
                 std::size_t (*read)(std::span<const std::uint8_t>)) {
  for (const auto& [name, example] : examples) {
    const auto path = fmt::format("{}/{}/{}", DYNAMIX_CORPUS, target, name);
    if (std::getenv("DYNAMIX_WRITE_CORPUS") != nullptr) {
      EXPECT_EQ(storage::write_file_atomically(path, example.bytes), "");
    }
    std::string kept;
    EXPECT_EQ(storage::read_file(path, 1U << 24U, kept), "");
    EXPECT_EQ(kept, example.bytes) << "DYNAMIX_WRITE_CORPUS=1 writes " << path;
    EXPECT_EQ(read({reinterpret_cast<const std::uint8_t*>(kept.data()), kept.size()}), example.accepted) << name;
  }
}

TEST(ControlExamples, PassTheGuardAndAreKept) {
  expect_kept("control", control_examples(), &read_control);
}

TEST(RaftExamples, AreReadAndAreKept) {
  expect_kept("raft", raft_examples(), &read_raft);
}

TEST(DecisionsExamples, AreDecidedAndAreKept) {
  expect_kept("decisions", decisions_examples(), &read_decisions);
}

std::vector<target> all_targets() {
  std::vector<target> all = {policy_target()};
  std::ranges::copy(targets(), std::back_inserter(all));
  return all;
}

std::string name_of(const ::testing::TestParamInfo<target>& info) {
  std::string name(info.param.name);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Kept, Corpus, ::testing::ValuesIn(all_targets()), name_of);

} // namespace
} // namespace dynamix::fuzz
