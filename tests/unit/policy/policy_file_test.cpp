#include "policy/parameter_archive.hpp"
#include "policy/policy_file.hpp"
#include "samples.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <utility>

namespace dynamix::policy {
namespace {

using ::testing::HasSubstr;

const policy_shape stored_shape{.kind = "ppo", .actions = {-10, 0, 10}, .hidden = 8};

bool same(const policy_network& left, const policy_network& right) {
  return std::ranges::equal(left.parameters(), right.parameters(), {}, &policy_parameter::numbers,
                            &policy_parameter::numbers);
}

/// A tensor of equal numbers.
storage::tensor_record filled(const std::string& name, std::vector<std::int64_t> shape, float number) {
  std::size_t count = 1;
  for (const auto size : shape)
    count *= static_cast<std::size_t>(size);
  const std::vector<float> numbers(count, number);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
  return {.name = name, .shape = std::move(shape), .data = {bytes, bytes + count * sizeof(float)}};
}

TEST(PolicyFile, GivesTheParametersBackBitForBit) {
  const auto written = make_network(stored_shape, 1);
  const auto bytes = storage::encode(to_file(written, stored_shape, 42));
  auto read = make_network(stored_shape, 2);
  ASSERT_FALSE(same(written, read));
  std::uint64_t version = 0;
  EXPECT_EQ(from_bytes(bytes, stored_shape, read, version), "");
  EXPECT_TRUE(same(written, read));
  EXPECT_EQ(version, 42U);
}

/// Expects a file, changed by `change`, to be refused with a message that has `what` in it, and nothing to be changed.
void expect_refused(const std::function<void(storage::tensor_file&)>& change, const std::string& what) {
  auto file = to_file(make_network(stored_shape, 1), stored_shape, 42);
  change(file);
  auto network = make_network(stored_shape, 2);
  std::uint64_t version = 5;
  EXPECT_THAT(from_bytes(storage::encode(file), stored_shape, network, version), HasSubstr(what));
  EXPECT_TRUE(same(network, make_network(stored_shape, 2))) << what;
  EXPECT_EQ(version, 5U) << what;
}

TEST(PolicyFile, NamesWhatDoesNotFitAndChangesNothing) {
  expect_refused([](auto& file) { file.metadata.erase("format"); }, "not a policy of this program");
  expect_refused([](auto& file) { file.metadata["kind"] = "ppo-simple"; }, "it is a \"ppo-simple\" policy");
  expect_refused([](auto& file) { file.metadata["actions"] = "-1,0,1"; }, "its actions are -1,0,1");
  expect_refused([](auto& file) { file.metadata["hidden"] = "9"; }, "9 hidden units");
  expect_refused([](auto& file) { file.metadata["version"] = "4x"; }, "\"4x\", not a number");
  expect_refused([](auto& file) { file.metadata.erase("version"); }, "not a number");
  expect_refused([](auto& file) { file.tensors.pop_back(); }, "no tensor \"value.2.bias\"");
  expect_refused([](auto& file) { file.tensors.push_back(filled("extra", {1}, 1)); },
                 "\"extra\" is not one of the policy's");
  expect_refused([](auto& file) { file.tensors[0] = filled("policy.0.weight", {2, 3}, 1); }, "[2, 3]");
  expect_refused(
      [](auto& file) {
        file.tensors[1] = {.name = "policy.0.bias",
                           .type = storage::element_type::f64,
                           .shape = {8},
                           .data = std::vector<std::uint8_t>(64)};
      },
      "another element type");
  expect_refused(
      [](auto& file) { file.tensors[1] = filled("policy.0.bias", {8}, std::numeric_limits<float>::infinity()); },
      "not finite");
}

TEST(PolicyFile, TellsAChangeOfTheStateByTheFieldsName) {
  expect_refused(
      [](auto& file) {
        auto& names = file.metadata["state"];
        names.replace(names.find("relative_rtt"), 12, "latency");
      },
      "its state has \"latency\" as entry 2, this program has \"relative_rtt\"");
  expect_refused([](auto& file) { file.metadata["state"] += ",moon_phase"; },
                 "its state has \"moon_phase\" as entry " + std::to_string(state_size() + 1));
  expect_refused([](auto& file) { file.metadata["state"] = "relative_throughput"; },
                 "its state has nothing as entry 2");
}

TEST(PolicyFile, EveryFlippedByteIsNoticed) {
  const auto bytes = storage::encode(to_file(make_network(stored_shape, 1), stored_shape, 42));
  auto network = make_network(stored_shape, 2);
  std::uint64_t version = 5;
  for (std::size_t i = 0; i < bytes.size(); i += 13) {
    auto damaged = bytes;
    damaged[i] ^= 0x10;
    ASSERT_NE(from_bytes(damaged, stored_shape, network, version), "") << "byte " << i;
  }
  EXPECT_TRUE(same(network, make_network(stored_shape, 2)));
}

/// A file that a crash had torn once counted as kept for ever.
TEST(ParameterArchive, WritesATornFileAgain) {
  const temporary_directory directory;
  const std::vector<std::uint8_t> six = {1, 2, 3, 4, 5, 6};
  const auto path = directory.file(digest_of(six) + ".dynamix");
  std::ofstream(path) << "xxx";
  parameter_archive archive(directory.path(), 6);
  EXPECT_EQ(archive.keep(six), "") << "what is replaced takes no space";
  std::vector<std::uint8_t> read;
  EXPECT_EQ(archive.read(digest_of(six), read), "");
  EXPECT_EQ(read, six);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

} // namespace
} // namespace dynamix::policy
