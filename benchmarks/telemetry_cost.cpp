/// Nanoseconds an event of the programs in the kernel, by the kernel's own count (BPF_ENABLE_STATS), and what the
/// programs' own timing says. Needs root.

#include "telemetry/ebpf_probes.hpp"
#include "telemetry/kernel_session.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <bpf/bpf.h>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace dynamix::telemetry;

struct run_time {
  std::uint64_t runs = 0;
  std::uint64_t ns = 0;
};

/// Of all programs that this process holds, by name.
std::map<std::string, run_time> run_times() {
  std::map<std::string, run_time> times;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    bpf_prog_info info{};
    __u32 length = sizeof(info);
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry.path(), ignored) == "anon_inode:bpf-prog" &&
        bpf_obj_get_info_by_fd(descriptor, &info, &length) == 0)
      times[info.name] = {info.run_cnt, info.run_time_ns};
  }
  return times;
}

struct connection {
  connection() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::bind(listener, generic, length) != 0 || ::listen(listener, 1) != 0 ||
        ::getsockname(listener, generic, &length) != 0 || ::connect(client, generic, length) != 0)
      throw std::runtime_error("no loopback connection");
    server = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    const int one = 1;
    for (const int end : {client, server})
      ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  }
  int client = -1;
  int server = -1;
};

/// `bytes` from one end to the other, `chunk` at a time; with `answers` each is answered before the next.
void transfer(const connection& over, std::size_t bytes, std::size_t chunk, bool answers) {
  std::thread reader([&] {
    std::vector<char> buffer(chunk);
    for (std::size_t read = 0; read < bytes;) {
      const auto length = ::recv(over.server, buffer.data(), buffer.size(), 0);
      if (length <= 0)
        return;
      read += static_cast<std::size_t>(length);
      if (answers && ::send(over.server, "a", 1, 0) != 1)
        return;
    }
  });
  const std::vector<char> buffer(chunk);
  for (std::size_t sent = 0; sent < bytes; sent += chunk) {
    char answer = 0;
    if (::send(over.client, buffer.data(), chunk, 0) != static_cast<ssize_t>(chunk) ||
        (answers && ::recv(over.client, &answer, 1, 0) != 1))
      break;
  }
  reader.join();
}

/// Two threads on one core that hand a word to each other.
void switch_threads(int times) {
  std::atomic<int> turn = 0;
  const auto take_turns = [&](int own) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    ::sched_setaffinity(0, sizeof(one), &one);
    for (int i = 0; i < times; ++i) {
      for (int now = turn; now != own; now = turn)
        turn.wait(now);
      turn = 1 - own;
      turn.notify_one();
    }
  };
  std::thread other(take_turns, 1);
  take_turns(0);
  other.join();
}

double self_timed_ns(const program_cost& cost) {
  return cost.timed_runs == 0 ? 0 : static_cast<double>(cost.timed_ns) / static_cast<double>(cost.timed_runs);
}

template <class Slots>
program_cost total_cost(const Slots& slots) {
  program_cost total{};
  for (const auto& slot : slots) {
    total.runs += slot.cost.runs;
    total.timed_runs += slot.cost.timed_runs;
    total.timed_ns += slot.cost.timed_ns;
  }
  return total;
}

/// What the programs take while `work` is done.
void print_costs(const char* whose, const std::function<void()>& work) {
  auto before = run_times();
  work();
  for (const auto& [name, time] : run_times())
    if (const auto runs = time.runs - before[name].runs; runs > 0)
      std::printf("telemetry_cost %s%s runs %llu ns %.0f\n", whose, name.c_str(), static_cast<unsigned long long>(runs),
                  static_cast<double>(time.ns - before[name].ns) / static_cast<double>(runs));
}

} // namespace

int main() {
  const auto session = open_kernel_session({});
  if (!session->network || !session->scheduler) {
    std::printf("telemetry_cost skipped: %s; %s\n", session->network_problem.c_str(),
                session->scheduler_problem.c_str());
    return 0;
  }
  const int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
  if (statistics < 0) {
    std::printf("telemetry_cost skipped: BPF_ENABLE_STATS: %s\n", std::strerror(errno));
    return 0;
  }
  const connection over;
  print_costs("", [&] {
    transfer(over, 1U << 20, 1, true); // small packets, each with a switch
    transfer(over, 1U << 30, 1U << 16, false);
    switch_threads(200'000);
  });
  print_costs("of another process ", [] {
    if (const auto child = ::fork(); child == 0) {
      switch_threads(200'000);
      ::_exit(0);
    } else {
      ::waitpid(child, nullptr, 0);
    }
  });
  ::close(statistics);
  std::printf("telemetry_cost self-timed network ns %.0f scheduler ns %.0f\n",
              self_timed_ns(total_cost(session->network->slots())),
              self_timed_ns(total_cost(session->scheduler->slots())));
}
