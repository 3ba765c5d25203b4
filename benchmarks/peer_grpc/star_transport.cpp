#include "benchmarks/peer_grpc/star_transport.hpp"

#include "benchmarks/peer_grpc/conversion.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <grpcpp/grpcpp.h>
#include <star.grpc.pb.h>
#include <string>

namespace dynamix::benchmarks {
namespace {

constexpr std::chrono::seconds join_patience{60};
constexpr int default_channels = 1;

/// More channels a process can be tried with DYNAMIX_STAR_CHANNELS.
int channels_a_process() {
  const char* text = std::getenv("DYNAMIX_STAR_CHANNELS");
  return text == nullptr ? default_channels : std::max(1, std::atoi(text));
}

class star_transport final : public swarm::transport {
public:
  star_transport(const cluster::cluster_file& file, const std::vector<std::uint32_t>& ranks,
                 swarm::transport_events& events)
      : file_(file), digest_(file.digest()), events_(events), workers_(ranks.size()) {
    const auto& host = file.arbitrator_host();
    for (int i = 0; i < channels_a_process(); ++i) {
      grpc::ChannelArguments own;
      own.SetInt("dynamix.channel", i); // gRPC shares the connections of equal channels
      stubs_.push_back(star::Star::NewStub(grpc::CreateCustomChannel(host.address + ":" + std::to_string(host.port),
                                                                     grpc::InsecureChannelCredentials(), own)));
    }
    for (std::size_t i = 0; i < ranks.size(); ++i)
      workers_[i].rank = ranks[i];
  }

  void join() override {
    const auto hosts = file_.workers();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      auto& worker = workers_[i];
      auto call = std::make_shared<join_call>();
      call->context.set_deadline(std::chrono::system_clock::now() + join_patience);
      call->context.set_wait_for_ready(true);
      call->hello.set_cluster(file_.name);
      call->hello.set_cluster_digest(digest_);
      call->hello.set_host(hosts[worker.rank]->name);
      call->hello.set_incarnation(worker.rank + 1);
      ++sent_;
      stub_of(i).async()->Join(
          &call->context, &call->hello, &call->welcome, [this, call, &worker](const grpc::Status& status) {
            ++received_;
            if (!status.ok() || !call->welcome.refusal().empty())
              return events_.failed("cannot join: " + status.error_message() + call->welcome.refusal());
            worker.generation = call->welcome.generation();
            events_.placed(worker.rank);
          });
    }
  }

  void prepare(std::vector<messages::window_report> reports) override {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      auto& worker = workers_[i];
      reports[i].generation = worker.generation;
      reports[i].decision = worker.in_force;
      worker.context = std::make_unique<grpc::ClientContext>();
      fill(reports[i], worker.report);
    }
  }

  void send() override {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      auto& worker = workers_[i];
      events_.sent(worker.rank);
      ++sent_;
      stub_of(i).async()->Decide(worker.context.get(), &worker.report, &worker.decision,
                                 [this, &worker](const grpc::Status& status) {
                                   ++received_;
                                   if (!status.ok())
                                     return events_.failed("no decision: " + status.error_message());
                                   const auto decision = to_decision(worker.decision);
                                   worker.in_force = decision.key;
                                   ++applied_;
                                   events_.applied(decision);
                                 });
    }
  }

  void finish() override {
    for (const auto& worker : workers_)
      events_.left(worker.rank);
  }

  swarm::traffic traffic() const override {
    return {.sent = sent_, .received = received_, .applied = applied_, .hellos = workers_.size()};
  }

private:
  struct join_call {
    grpc::ClientContext context;
    star::Hello hello;
    star::Welcome welcome;
  };
  struct worker {
    std::uint32_t rank = 0;
    std::uint64_t generation = 0;
    messages::decision_key in_force;
    std::unique_ptr<grpc::ClientContext> context;
    star::Report report;
    star::Decision decision;
  };

  star::Star::Stub& stub_of(std::size_t worker) { return *stubs_[worker % stubs_.size()]; }

  const cluster::cluster_file file_;
  const std::uint64_t digest_;
  swarm::transport_events& events_;
  std::vector<std::unique_ptr<star::Star::Stub>> stubs_;
  std::vector<worker> workers_; ///< in the order of the part's ranks
  std::atomic<std::uint64_t> sent_ = 0;
  std::atomic<std::uint64_t> received_ = 0;
  std::atomic<std::uint64_t> applied_ = 0;
};

} // namespace

std::unique_ptr<swarm::transport> make_star_transport(const cluster::cluster_file& file,
                                                      const std::vector<std::uint32_t>& ranks,
                                                      swarm::transport_events& events) {
  return std::make_unique<star_transport>(file, ranks, events);
}

} // namespace dynamix::benchmarks
