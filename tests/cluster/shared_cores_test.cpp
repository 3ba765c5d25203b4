// Whether workers share by their paces where nobody has said so: by the cores that they compute on, as they measure it.

#include "client/cores.hpp"
#include "tests/cluster/trial.hpp"

#include <algorithm>
#include <sched.h>

namespace dynamix::cluster_test {
namespace {

class SharedCores : public trial {
protected:
  void SetUp() override {
    if (cpus_.size() < 2)
      GTEST_SKIP() << "needs two CPUs";
  }

  /// Begins to train on hosts of which worker i may use `cpus[i]`, and waits for a window in which all have judged.
  void train(const std::vector<std::vector<std::uint32_t>>& cpus) {
    write_file({.slowdowns = std::vector<double>(cpus.size(), 1),
                .epochs = 200,
                .training = "rule = \"linear\"\n",
                .arbitrator = "policy = \"goodput\"\n",
                .window_steps = 10,
                .cluster = patient_cluster});
    replace_in_file("highest = 256", "initial = 128\nhighest = 1024"); // computing is most of a step
    hosts_.push_back(start_host("hub"));
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      keep_to(cpus[i]);
      hosts_.push_back(start_host("w" + std::to_string(i)));
      keep_to(cpus_);
    }
    ASSERT_TRUE(wait_until([&] {
      return std::ranges::all_of(hosts_.begin() + 1, hosts_.end(),
                                 [](const program& each) { return each.says("cores_judged"); });
    }));
    judged_ = windows().size();
    ASSERT_TRUE(wait_for_windows(judged_ + 3)); // one of them has begun since
  }

  void end() {
    for (auto& each : hosts_)
      each.signal(SIGTERM);
    for (auto& each : hosts_)
      each.wait();
  }

  static void keep_to(const std::vector<std::uint32_t>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const auto cpu : cpus)
      CPU_SET(cpu, &set);
    ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
  }

  const std::vector<std::uint32_t> cpus_ = client::allowed_cpus();
  std::vector<program> hosts_; ///< the arbitrator's first
  std::size_t judged_ = 0;     ///< windows before that
};

TEST_F(SharedCores, AreNoneOfWorkersOnCoresOfTheirOwn) {
  train({{cpus_[0]}, {cpus_[1]}});
  for (auto each = hosts_.begin() + 1; each != hosts_.end(); ++each)
    EXPECT_THAT(each->said(), testing::HasSubstr("cores_judged balance=on"));
  for (const auto& window : windows())
    for (const auto& worker : window.workers)
      EXPECT_EQ(worker.report.balance.shared_cpus, 0U) << worker.report.host;
  end();
}

TEST_F(SharedCores, KeepFourWorkersFromFollowingTheirPaces) {
  train(std::vector(4, std::vector{cpus_[0], cpus_[1]}));
  for (auto each = hosts_.begin() + 1; each != hosts_.end(); ++each)
    EXPECT_THAT(each->said(), testing::ContainsRegex("cores_judged balance=off.*members 0, 1, 2, 3 share 2 CPUs"));
  const auto last = windows().back();
  ASSERT_EQ(last.workers.size(), 4U);
  for (const auto& worker : last.workers) {
    EXPECT_EQ(worker.report.balance.shared_cpus, 2U) << worker.report.host;
    EXPECT_EQ(worker.report.balance.moves, 0U) << worker.report.host;
    EXPECT_GT(worker.report.balance.shared_demand, 2.5);
  }
  const auto explained = end_of({"explain", "--run", run().path(), "--window", std::to_string(last.key.window)});
  EXPECT_THAT(explained.output, testing::HasSubstr("Shares cores with other workers"));
  end();
}

} // namespace
} // namespace dynamix::cluster_test
