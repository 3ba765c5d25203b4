/// What deciding one window costs each level of a tree of arbitrators, and a single one, in CPU time of one thread:
/// the policy's part and the codec, without sockets and the ledger.

#include "messages/codec.hpp"
#include "policy/deliberation.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace dynamix::benchmarks {
namespace {

constexpr std::uint32_t shard_workers = 32;
constexpr std::uint64_t windows = 20;

double cpu_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

cluster::cluster_file file_of(cluster::policy_kind policy, std::uint32_t workers) {
  cluster::cluster_file file;
  file.name = "service";
  file.arbitrator.policy = policy;
  file.arbitrator.mode = cluster::policy_mode::infer;
  file.hosts.push_back({.name = "hub", .port = 1, .roles = {cluster::role::arbitrator}});
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    file.hosts.push_back({.name = "w" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 2)});
  return file;
}

messages::window_report report_of(std::uint32_t rank, std::uint64_t window, std::uint32_t batch,
                                  std::uint32_t workers) {
  messages::window_report report;
  report.host = "w" + std::to_string(rank);
  report.rank = rank;
  report.generation = 1;
  report.window = window;
  report.first_step = 10 * window;
  report.batch = batch;
  report.global_batch = std::uint64_t{64} * workers;
  const double speed = 500 + rank * 7919 % 4500;
  report.training.steps = 10;
  report.training.samples = std::uint64_t{10} * batch;
  report.training.accuracy = 0.5;
  report.training.loss = 1;
  report.training.iteration_seconds = 0.2;
  report.training.compute_seconds = 0.004 + batch / speed;
  report.training.exchange_seconds = 0.01;
  report.training.gradient_valid = true;
  report.training.sigma_norm = report.training.sigma2_norm = 1;
  report.training.noise_scale = 100.0 * workers;
  return report;
}

double at(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void measure(cluster::policy_kind policy, std::uint32_t workers) {
  const auto file = file_of(policy, workers);
  const auto count = (workers + shard_workers - 1) / shard_workers;
  std::vector<policy::deliberation> shards;
  for (std::uint32_t i = 0; i < count; ++i)
    shards.emplace_back(file, policy::make_controller(file, {}));
  policy::deliberation root(file, policy::make_controller(file, {}));
  policy::deliberation central(file, policy::make_controller(file, {}));
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    members.push_back(rank);
  for (auto& shard : shards)
    shard.enter(1, members);
  std::vector<std::uint32_t> batches(workers, 64);
  std::vector<double> of_shard, of_root, of_codec, of_central;
  for (std::uint64_t window = 1; window <= windows; ++window) {
    messages::shard_report all{.window = window, .generation = 1, .reports = {}, .expected = workers};
    for (const auto rank : members)
      all.reports.push_back(report_of(rank, window, batches[rank], workers));
    messages::shard_window joined{.window = window, .generation = 1, .expected = workers, .reports = {}, .choices = {}};
    for (std::uint32_t i = 0; i < count; ++i) {
      messages::shard_report own{.window = window, .generation = 1, .reports = {}};
      own.reports.assign(all.reports.begin() + i * workers / count, all.reports.begin() + (i + 1) * workers / count);
      own.expected = static_cast<std::uint32_t>(own.reports.size());
      const auto began = cpu_milliseconds();
      const auto verdict = shards[i].decide(own);
      of_shard.push_back(cpu_milliseconds() - began);
      for (const auto& decision : verdict.decisions)
        batches[decision.rank] = decision.batch;
      joined.reports.insert(joined.reports.end(), verdict.window.reports.begin(), verdict.window.reports.end());
      joined.choices.insert(joined.choices.end(), verdict.window.choices.begin(), verdict.window.choices.end());
    }
    auto began = cpu_milliseconds();
    const auto decoded = messages::decode(*messages::encode(joined));
    of_codec.push_back(cpu_milliseconds() - began);
    began = cpu_milliseconds();
    const auto said = root.join(joined);
    of_root.push_back(cpu_milliseconds() - began);
    for (auto& shard : shards)
      shard.follow(said.known);
    began = cpu_milliseconds();
    central.consider(all);
    of_central.push_back(cpu_milliseconds() - began);
  }
  std::printf("tree_service_%s_%u shard_p50_ms %.3f shard_p99_ms %.3f root_ms %.2f codec_ms %.2f central_ms %.2f\n",
              std::string(cluster::to_string(policy)).c_str(), workers, at(of_shard, 0.5), at(of_shard, 0.99),
              at(of_root, 0.5), at(of_codec, 0.5), at(of_central, 0.5));
}

} // namespace
} // namespace dynamix::benchmarks

int main() {
  for (const auto policy : {dynamix::cluster::policy_kind::goodput, dynamix::cluster::policy_kind::ppo})
    for (const std::uint32_t workers : {32U, 128U, 512U, 1024U, 4096U})
      dynamix::benchmarks::measure(policy, workers);
}
