#include "tests/temporary_directory.hpp"
#include "trainer/checkpoint.hpp"
#include "trainer/checkpoint_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

storage::tensor_record floats(const std::string& name, const std::vector<float>& values) {
  storage::tensor_record record{name, storage::element_type::f32, {static_cast<std::int64_t>(values.size())}, {}};
  const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
  record.data.assign(first, first + values.size() * sizeof(float));
  return record;
}

/// A state with awkward numbers everywhere: subnormal, negative zero, thirds, the largest and the smallest.
checkpoint sample() {
  checkpoint state;
  state.seed = std::numeric_limits<std::uint64_t>::max();
  state.step = 1234;
  state.samples = 987654321;
  state.sampler = {3, 59999};
  state.epoch_samples = 60000;
  state.learning_rate = {1.0 / 3, {-1e-320, 0.1}, {-0.0, 2.0 / 3}};
  state.noise = {77, {0.3, 1.0 / 3}, 192, {1e308, 1}, {-5e-324, 0.7}, {0.1 + 0.2, 0.9}};
  state.batches = {32, 0, 1024, 64};
  state.members = {0, 2, 3, 4095};
  state.evaluated_samples = 987654320;
  state.checkpointed_samples = 5;
  state.accuracy = 1.0 / 7;
  state.rate = {0.1, 1.7};
  state.decision = {2, 123};
  state.window = 124;
  state.elapsed_seconds = 12.000000000000002;
  state.best_accuracy = 0.8871;
  state.model = {floats("0.weight", {0.1F, -0.0F, 1e-45F}), floats("0.bias", {})};
  state.optimizer = {floats("momentum.0", {3.3F, 2.2F, 1.1F})};
  return state;
}

void expect_equal(const std::vector<storage::tensor_record>& left, const std::vector<storage::tensor_record>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_EQ(left[i].type, right[i].type);
    EXPECT_EQ(left[i].shape, right[i].shape);
    EXPECT_EQ(left[i].data, right[i].data);
  }
}

TEST(Checkpoint, ComesBackBitForBit) {
  const auto written = sample();
  checkpoint read;
  ASSERT_EQ(decode(encode(written), read), "");
  // The text of every number is exact, so equal encodings mean equal bits, also of -0.0.
  EXPECT_EQ(encode(read), encode(written));
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.samples, written.samples);
  EXPECT_EQ(read.sampler, written.sampler);
  EXPECT_EQ(read.epoch_samples, written.epoch_samples);
  EXPECT_EQ(read.learning_rate, written.learning_rate);
  EXPECT_TRUE(std::signbit(read.learning_rate.gradient_square.sum));
  EXPECT_EQ(read.noise, written.noise);
  EXPECT_EQ(read.batches, written.batches);
  EXPECT_EQ(read.members, written.members);
  EXPECT_EQ(read.evaluated_samples, written.evaluated_samples);
  EXPECT_EQ(read.checkpointed_samples, written.checkpointed_samples);
  EXPECT_EQ(read.accuracy, written.accuracy);
  EXPECT_EQ(read.rate.learning_rate, written.rate.learning_rate);
  EXPECT_EQ(read.rate.gain, written.rate.gain);
  EXPECT_EQ(read.decision, written.decision);
  EXPECT_EQ(read.window, written.window);
  EXPECT_EQ(read.elapsed_seconds, written.elapsed_seconds);
  EXPECT_EQ(read.best_accuracy, written.best_accuracy);
  EXPECT_EQ(read.seconds_to_target, -1);
  expect_equal(read.model, written.model);
  expect_equal(read.optimizer, written.optimizer);
}

TEST(Checkpoint, RefusesEveryDamagedByteAndEveryCutAndLeavesTheStateAlone) {
  const auto good = encode(sample());
  checkpoint state;
  state.step = 5;
  for (std::size_t i = 0; i < good.size(); ++i) {
    auto damaged = good;
    damaged[i] ^= 0xffU;
    ASSERT_NE(decode(damaged, state), "") << "byte " << i;
    ASSERT_NE(decode(std::span(good).first(i), state), "") << "cut at " << i;
  }
  auto longer = good;
  longer.push_back(0);
  EXPECT_NE(decode(longer, state), "");
  EXPECT_EQ(state.step, 5U);
}

/// What decoding says after `change` has been made behind a checksum that fits.
std::string problem_after(const std::function<void(storage::tensor_file&)>& change) {
  storage::tensor_file file;
  EXPECT_EQ(storage::decode(encode(sample()), file), "");
  change(file);
  checkpoint ignored;
  return decode(storage::encode(file), ignored);
}

std::string problem_with(const std::string& name, const std::string& value) {
  return problem_after([&](auto& file) { file.metadata[name] = value; });
}

storage::tensor_record& tensor(storage::tensor_file& file, const std::string& name) {
  return const_cast<storage::tensor_record&>(*file.find(name));
}

TEST(Checkpoint, RefusesValuesThatMakeNoSenseAndSaysWhich) {
  EXPECT_EQ(problem_after([](auto&) {}), "");
  EXPECT_THAT(problem_with("format", "something-else"), HasSubstr("no checkpoint of this version"));
  EXPECT_THAT(problem_after([](auto& file) { file.metadata.erase("step"); }), HasSubstr("no entry \"step\""));
  EXPECT_THAT(problem_with("step", "-1"), HasSubstr("\"step\" is \"-1\", expected a whole number"));
  EXPECT_THAT(problem_with("step", "18446744073709551616"), HasSubstr("expected a whole number"));
  EXPECT_THAT(problem_with("elapsed_seconds", "1.5x"), HasSubstr("expected a finite number"));
  EXPECT_THAT(problem_with("noise.trace.sum", "nan"), HasSubstr("expected a finite number"));
  EXPECT_THAT(problem_with("sampler.cursor", "60000"), HasSubstr("sample 60000 of an epoch of 60000"));
  EXPECT_THAT(problem_with("best_accuracy", "1.5"), HasSubstr("best accuracy"));
  EXPECT_THAT(problem_with("noise.trace.weight", "1.5"), HasSubstr("weight"));
  EXPECT_THAT(problem_with("elapsed_seconds", "-1"), HasSubstr("negative"));
}

TEST(Checkpoint, RefusesStrangeTensorsAndBatchSizes) {
  EXPECT_THAT(
      problem_after([](auto& file) { std::erase_if(file.tensors, [](auto& t) { return t.name == "batches"; }); }),
      HasSubstr("no batch sizes"));
  EXPECT_THAT(problem_after([](auto& file) { tensor(file, "batches").data[7] = 0x80; }), HasSubstr("batch size of -"));
  EXPECT_THAT(problem_after([](auto& file) { tensor(file, "batches").type = storage::element_type::f64; }),
              HasSubstr("batch sizes are not"));
  EXPECT_THAT(problem_after([](auto& file) { tensor(file, "members").name = "weights"; }),
              HasSubstr("unknown tensor \"weights\""));
}

TEST(Checkpoint, RefusesMembersThatDoNotFitTheBatchSizes) {
  EXPECT_THAT(problem_after([](auto& file) { tensor(file, "members").data[0] = 2; }), HasSubstr("ascending order"));
  EXPECT_THAT(problem_after([](auto& file) { tensor(file, "members").data[25] = 0x10; }),
              HasSubstr("rank of 4351, expected 0 to 4095"));
  EXPECT_THAT(problem_after([](auto& file) {
                auto& members = tensor(file, "members");
                members.shape = {3};
                members.data.resize(24);
              }),
              HasSubstr("4 batch sizes for 3 members"));
  EXPECT_THAT(problem_with("evaluated_samples", "987654322"), HasSubstr("beyond its last sample"));
}

TEST(Checkpoint, OfAnEarlierVersionIsOfTheFirstRanksAndHasNothingToMakeUpFor) {
  storage::tensor_file file;
  ASSERT_EQ(storage::decode(encode(sample()), file), "");
  std::erase_if(file.tensors, [](const auto& record) { return record.name == "members"; });
  for (const char* later :
       {"evaluated_samples", "checkpointed_samples", "accuracy", "learning_rate.last", "learning_rate.gain"})
    ASSERT_EQ(file.metadata.erase(later), 1U);
  checkpoint read;
  ASSERT_EQ(decode(storage::encode(file), read), "");
  EXPECT_EQ(read.members, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(read.evaluated_samples, read.samples);
  EXPECT_EQ(read.checkpointed_samples, read.samples);
}

TEST(CheckpointFile, IsWrittenAndRead) {
  const temporary_directory folder;
  const auto path = checkpoint_path(folder.path(), 42);
  EXPECT_EQ(path, folder.file("checkpoint-000000000042.safetensors"));
  ASSERT_EQ(write_checkpoint(path, sample()), "");
  checkpoint read;
  ASSERT_EQ(read_checkpoint(path, read), "");
  EXPECT_EQ(encode(read), encode(sample()));
}

TEST(CheckpointFile, ThatCannotBeUsedIsNamedAndStaysAsItIs) {
  const temporary_directory folder;
  checkpoint state;
  EXPECT_THAT(read_checkpoint(folder.file("absent"), state), HasSubstr(folder.file("absent")));
  const auto path = folder.write("broken", "not a checkpoint");
  EXPECT_THAT(read_checkpoint(path, state), HasSubstr(path + " cannot be used as a checkpoint: "));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "not a checkpoint");
  EXPECT_NE(write_checkpoint(folder.file("no/such/folder"), sample()), "");
}

TEST(CheckpointFiles, KeepTheNewestThreeWhoeverWroteThemAndWhatIsAhead) {
  const temporary_directory folder;
  const auto others = {folder.write("checkpoint-000000000007-host1.safetensors", "a host's own"),
                       folder.write("checkpoint-7.safetensors", "not of ours"), checkpoint_path(folder.path(), 1000)};
  auto state = sample();
  state.step = 1000;
  ASSERT_NE(checkpoint_files(folder.path()).write(state), "");
  for (std::uint64_t step = 10; step <= 60; step += 10) {
    state.step = step;
    EXPECT_EQ(checkpoint_files(folder.path()).write(state), checkpoint_path(folder.path(), step));
  }
  for (const std::uint64_t step : {10, 20, 30})
    EXPECT_FALSE(std::filesystem::exists(checkpoint_path(folder.path(), step))) << step;
  for (const std::uint64_t step : {40, 50, 60})
    EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), step))) << step;
  for (const auto& path : others)
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

TEST(CheckpointFiles, KeepAsManyAsTheyAreToldAlsoOfAHostsOwn) {
  const temporary_directory folder;
  checkpoint_files files(folder.path(), storage::write_private_file, 2);
  auto state = sample();
  for (const std::uint64_t step : {10, 20, 30}) {
    state.step = step;
    ASSERT_NE(files.write(state), "");
    ASSERT_NE(files.write_for_host(state, "ada"), "");
  }
  state.step = 40;
  ASSERT_NE(files.write_for_host(state, "ben"), "");
  for (const std::string host : {"", "ada"}) {
    EXPECT_FALSE(std::filesystem::exists(checkpoint_path(folder.path(), 10, host))) << host;
    EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), 20, host))) << host;
    EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), 30, host))) << host;
  }
  EXPECT_EQ(checkpoints_up_to(folder.path(), 40, "ben").size(), 1U);
}

TEST(CheckpointFiles, KeepNoMoreWhereTheyCannotBeSigned) {
  const temporary_directory folder;
  checkpoint_files files(
      folder.path(),
      [](const std::string& path, std::span<const std::uint8_t> bytes) {
        return storage::write_private_file(path, bytes) + "not signed";
      },
      2);
  auto state = sample();
  for (const std::uint64_t step : {10, 20, 30}) {
    state.step = step;
    EXPECT_EQ(files.write(state), "");
    EXPECT_EQ(files.problem(), "not signed");
  }
  EXPECT_EQ(checkpoints_up_to(folder.path(), 30).size(), 2U);
}

TEST(CheckpointFiles, RemoveWhatWasLeftByWhoeverWasKilledWhileItWrote) {
  const temporary_directory folder;
  const auto of = [&](std::uint64_t step, const std::string& host = "") {
    return std::filesystem::path(checkpoint_path(folder.path(), step, host)).filename().string();
  };
  const auto torn = {folder.write(of(10) + ".aB3xYz", "half"), folder.write(of(20) + ".sig.aB3xYz", "half"),
                     folder.write(of(10) + ".sig.before", "of one that is gone")};
  const auto others = {folder.write(of(10) + ".may-25", "a user's own"),
                       folder.write(of(10, "ada") + ".aB3xYz", "a host's own"),
                       folder.write(of(30) + ".aB3xYz", "of a run that was resumed earlier"),
                       folder.write("notes.aB3xYz", "not of ours")};
  auto state = sample();
  state.step = 20;
  ASSERT_NE(checkpoint_files(folder.path()).write(state), "");
  for (const auto& path : torn)
    EXPECT_FALSE(std::filesystem::exists(path)) << path;
  for (const auto& path : others)
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
}

TEST(NewestCheckpoint, PassesOverWhatIsDamagedAndSaysSo) {
  const temporary_directory folder;
  auto state = sample();
  for (const std::uint64_t step : {5, 900, 1000000}) {
    state.step = step;
    ASSERT_EQ(write_checkpoint(checkpoint_path(folder.path(), step), state), "");
  }
  folder.write("checkpoint-000009999999.safetensors", "cut");
  folder.write("checkpoint-x.safetensors", "no step in its name");
  folder.write("checkpoint-000099999999.safetensors.tmp", "left behind");
  const auto newest = newest_checkpoint(folder.path());
  EXPECT_EQ(newest.path, checkpoint_path(folder.path(), 1000000));
  EXPECT_EQ(newest.state.step, 1000000U);
  ASSERT_EQ(newest.refused.size(), 1U);
  EXPECT_THAT(newest.refused[0], HasSubstr("checkpoint-000009999999.safetensors"));
}

TEST(NewestCheckpoint, FindsTheOneThatAHostWroteForItself) {
  const temporary_directory folder;
  ASSERT_EQ(write_checkpoint(checkpoint_path(folder.path(), 7), sample()), "");
  const auto path = folder.file("checkpoint-000000000009-alpha.safetensors");
  ASSERT_EQ(write_checkpoint(path, sample()), "");
  EXPECT_EQ(newest_checkpoint(folder.path()).path, path);
}

TEST(NewestCheckpoint, FindsNothingWhereNothingIs) {
  const temporary_directory folder;
  EXPECT_EQ(newest_checkpoint(folder.path()).path, "");
  EXPECT_EQ(newest_checkpoint(folder.file("absent")).path, "");
  EXPECT_EQ(newest_checkpoint(folder.file("absent")).refused.size(), 1U);
}

} // namespace
} // namespace dynamix::trainer
