#include "benchmarks/peer_grpc/star_server.hpp"

#include "benchmarks/peer_grpc/conversion.hpp"
#include "policy/controller.hpp"
#include "policy/deliberation.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <grpcpp/grpcpp.h>
#include <mutex>
#include <star.grpc.pb.h>
#include <thread>
#include <utility>

namespace dynamix::benchmarks {
namespace {

std::vector<std::uint8_t> parameters_of(const cluster::cluster_file& file) {
  const auto& arbitrator = file.arbitrator;
  std::string contents;
  if (cluster::has_parameters(arbitrator.policy) && !arbitrator.policy_file.empty())
    storage::read_file(cluster::resolve_path(file, arbitrator.policy_file), messages::max_policy_bytes, contents);
  return {contents.begin(), contents.end()};
}

/// A worker's call that waits for its decision.
struct waiting_call {
  messages::window_report report;
  star::Decision* reply = nullptr;
  grpc::ServerUnaryReactor* reactor = nullptr;
};

class star_service final : public star::Star::CallbackService {
public:
  explicit star_service(const cluster::cluster_file& file)
      : file_(file), digest_(file.digest()), judge_(file, policy::make_controller(file, parameters_of(file))) {
    for (const auto* host : file_.workers())
      names_.push_back(host->name);
    decider_ = std::jthread([this](const std::stop_token& stop) { decide(stop); });
  }

private:
  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const star::Hello* hello,
                                 star::Welcome* welcome) override {
    const auto found = std::ranges::find(names_, hello->host());
    if (found == names_.end() || hello->cluster() != file_.name || hello->cluster_digest() != digest_)
      welcome->set_refusal("host " + hello->host() + " is none of this cluster's");
    welcome->set_rank(static_cast<std::uint32_t>(found - names_.begin()));
    welcome->set_generation(1);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Decide(grpc::CallbackServerContext* context, const star::Report* report,
                                   star::Decision* reply) override {
    auto* reactor = context->DefaultReactor();
    waiting_call call{.report = to_report(*report), .reply = reply, .reactor = reactor};
    const std::scoped_lock lock(mutex_);
    calls_.push_back(std::move(call));
    if (calls_.size() == names_.size())
      complete_.notify_one();
    return reactor;
  }

  void decide(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<waiting_call> calls;
      {
        std::unique_lock lock(mutex_);
        if (!complete_.wait(lock, stop, [&] { return calls_.size() >= names_.size(); }))
          return;
        calls.swap(calls_);
      }
      std::ranges::sort(calls, {}, [](const waiting_call& call) { return call.report.rank; });
      messages::shard_report shard{
          .window = calls.front().report.window, .generation = 1, .expected = static_cast<std::uint32_t>(calls.size())};
      for (auto& call : calls)
        shard.reports.push_back(std::move(call.report));
      const auto verdict = judge_.consider(shard);
      for (std::size_t i = 0; i < calls.size(); ++i) {
        fill(verdict.decisions[i], *calls[i].reply);
        calls[i].reactor->Finish(grpc::Status::OK);
      }
    }
  }

  const cluster::cluster_file file_;
  const std::uint64_t digest_;
  std::vector<std::string> names_; ///< by rank
  policy::deliberation judge_;     ///< of the deciding thread
  std::mutex mutex_;
  std::condition_variable_any complete_;
  std::vector<waiting_call> calls_; ///< of the open window
  std::jthread decider_;
};

} // namespace

int serve_star(const cluster::cluster_file& file) {
  star_service service(file);
  const auto& host = file.arbitrator_host();
  grpc::ServerBuilder builder;
  builder.AddListeningPort(host.address + ":" + std::to_string(host.port), grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  if (!server) {
    std::fprintf(stderr, "peer_grpc: cannot listen on port %u\n", static_cast<unsigned>(host.port));
    return 1;
  }
  server->Wait();
  return 0;
}

} // namespace dynamix::benchmarks
