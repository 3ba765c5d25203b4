#include "simulator/device_profile.hpp"
#include "simulator/workload.hpp"
#include "tests/unit/documented.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dynamix::simulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string written(const std::string& text) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto path = std::filesystem::path(::testing::TempDir()) / (std::string(test->name()) + ".toml");
  std::ofstream(path) << text;
  return path.string();
}

/// The errors without the file's path.
template <class Read>
std::vector<std::string> file_errors_of(const std::string& text, Read read) {
  const auto path = written(text);
  std::vector<std::string> errors;
  for (const auto& error : read(path)) {
    EXPECT_EQ(error.file, path);
    errors.push_back(to_string(error).substr(path.size() + 1));
  }
  return errors;
}

std::vector<std::string> profile_errors(const std::string& text) {
  return file_errors_of(text, [](const std::string& path) {
    device_profile profile;
    return read_device_profile(path, profile);
  });
}

std::vector<std::string> workload_errors(const std::string& text) {
  return file_errors_of(text, [](const std::string& path) {
    workload model;
    return read_workload(path, model);
  });
}

const std::string good_profile = R"([profile]
name = "v100"
source = "a stop watch"
batch_highest = 512
batch = [8, 16, 32, 64]
milliseconds = [10, 14.5, 12.5, 30]
)";

TEST(DeviceProfile, IsReadAndMadeMonotone) {
  device_profile profile;
  ASSERT_THAT(read_device_profile(written(good_profile), profile), IsEmpty());
  EXPECT_EQ(profile.name, "v100");
  EXPECT_EQ(profile.source, "a stop watch");
  EXPECT_EQ(profile.batch_highest, 512U);
  ASSERT_EQ(profile.points.size(), 4U);
  EXPECT_DOUBLE_EQ(profile.points[1].seconds, 0.0145); // as measured
  EXPECT_DOUBLE_EQ(profile.curve.seconds(8), 0.010);
  EXPECT_DOUBLE_EQ(profile.curve.seconds(16), 0.0135); // the mean of the two that fall
  EXPECT_DOUBLE_EQ(profile.curve.seconds(32), 0.0135);
  EXPECT_DOUBLE_EQ(profile.curve.seconds(48), 0.02175);
  for (double batch = 1, before = 0; batch < 200; ++batch) {
    EXPECT_GE(profile.curve.seconds(batch), before);
    before = profile.curve.seconds(batch);
  }
}

TEST(DeviceProfile, IsWrittenAsItIsRead) {
  device_profile profile;
  ASSERT_THAT(read_device_profile(written(good_profile), profile), IsEmpty());
  EXPECT_EQ(to_toml(profile), good_profile);
  EXPECT_EQ(profile.evaluation_seconds, 0);
  profile.batch_highest = 0;
  profile.evaluation_seconds = 4.25e-5;
  const auto text = to_toml(profile);
  EXPECT_THAT(text, HasSubstr("\nevaluation_microseconds = 42.5\n"));
  EXPECT_THAT(read_device_profile(written(text), profile), IsEmpty());
  EXPECT_EQ(profile.batch_highest, 0U);
  EXPECT_DOUBLE_EQ(profile.evaluation_seconds, 4.25e-5);
}

TEST(DeviceProfile, SaysWhereItIsWrong) {
  EXPECT_THAT(profile_errors("[profile]\nname = 3\nsource = \"\"\nbatch = [8, 0.5]\n  milliseconds = 4\nbatches = 1\n"),
              ElementsAre("2:8: profile.name is an integer; it must be one line of 1 to 1000 characters",
                          "3:10: profile.source is \"\"; it must be one line of 1 to 1000 characters",
                          "4:13: profile.batch holds an entry that is 0.5; it must be in [1, 1048576]",
                          HasSubstr("5:18: profile.milliseconds is an integer; it must be a list of 1 to 4096 numbers"),
                          HasSubstr("6:1: profile.batches is unknown; did you mean \"batch\"?")));
}

TEST(DeviceProfile, WantsATable) {
  const auto table = [](const std::string& batch, const std::string& milliseconds) {
    return profile_errors("[profile]\nname = \"a\"\nsource = \"b\"\nbatch = " + batch +
                          "\nmilliseconds = " + milliseconds + "\n");
  };
  EXPECT_THAT(table("[8, 16]", "[1, 2]"), IsEmpty());
  EXPECT_THAT(table("[8, 8]", "[1, 2]"), ElementsAre(HasSubstr("4:9: profile.batch does not rise")));
  EXPECT_THAT(table("[8, 16.5]", "[1, 2]"),
              ElementsAre(HasSubstr("4:9: profile.batch holds a number with a fraction")));
  EXPECT_THAT(table("[8]", "[1, 2]"), ElementsAre(HasSubstr("4:9: profile.batch has 1 entries and")));
  EXPECT_THAT(table("[]", "[]"),
              ElementsAre(HasSubstr("4:9: profile.batch has 0"), HasSubstr("5:16: profile.milliseconds has 0")));
  EXPECT_THAT(table("[8]", "[0]"),
              ElementsAre(HasSubstr("5:17: profile.milliseconds holds an entry that is 0; it must be in (0, ")));
}

TEST(DeviceProfile, RefusesOtherFiles) {
  device_profile profile;
  EXPECT_THAT(to_string(read_device_profile(::testing::TempDir() + "absent.toml", profile).at(0)),
              HasSubstr("absent.toml: there is no such file; a device profile is a TOML file"));
  EXPECT_THAT(profile_errors("[profile]\nname = \n"), ElementsAre(HasSubstr("2:8: ")));
  EXPECT_THAT(profile_errors("[workload]\n"),
              ElementsAre("1:1: there is no section [profile]",
                          HasSubstr("1:2: workload is unknown; a device profile has \"profile\"")));
  EXPECT_THAT(profile_errors("profile = 4\n"),
              ElementsAre(HasSubstr("1:11: profile is an integer; it must be a table, [profile]")));
  EXPECT_THAT(profile_errors(good_profile + "[more]\n"), ElementsAre(HasSubstr("7:2: more is unknown")));
}

TEST(Workload, IsWrittenAsItIsRead) {
  const workload model{.name = "lenet", .source = "a guess", .epoch_samples = 1234, .phi_noise = 0.125};
  workload read;
  ASSERT_THAT(read_workload(written(to_toml(model)), read), IsEmpty());
  EXPECT_EQ(to_toml(read), to_toml(model));
  EXPECT_EQ(read.name, "lenet");
  EXPECT_EQ(read.epoch_samples, 1234);
  EXPECT_EQ(read.phi_noise, 0.125);
}

TEST(Workload, LeavesNothingToADefault) {
  EXPECT_EQ(workload_errors("[workload]\nname = \"a\"\n").size(), 13U);
  EXPECT_THAT(workload_errors("[workload]\nname = \"a\"\n"),
              ::testing::Contains("1:1: workload.phi_start is missing; it must be a number in (0, 1000000000]"));
}

TEST(Workload, SaysWhereItIsWrong) {
  auto text = to_toml(workload{.name = "a", .source = "b"});
  const auto replace = [text](const std::string& from, const std::string& to) {
    auto changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  EXPECT_THAT(workload_errors(replace("phi_start = 200", "phi_start = 0")),
              ElementsAre("7:13: workload.phi_start is 0; it must be in (0, 1000000000]"));
  EXPECT_THAT(workload_errors(replace("phi_start = 200", "phi_start = \"many\"")),
              ElementsAre(HasSubstr("7:13: workload.phi_start is a string; it must be a number in")));
  EXPECT_THAT(workload_errors(replace("accuracy_limit = 0.92", "accuracy_limit = 0.1")),
              ElementsAre(HasSubstr("11:18: workload.accuracy_limit is 0.1; it must be above")));
}

TEST(SimulationFiles, AreDocumentedFieldByField) {
  expect_documented("simulation-files.md", "fields", describe_device_profile_markdown() + describe_workload_markdown());
}

} // namespace
} // namespace dynamix::simulator
