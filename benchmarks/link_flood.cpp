/// What strangers cost a host that listens for links: 10,000 connections a minute that send rubbish and 1,000 at a time
/// that say nothing, by a process of their own. Turns with and without them: the p99 of a question and its answer over
/// a link that is open, and the CPU that the host's process takes while nothing else happens; its memory before, in the
/// flood and after it.

#include "benchmarks/pair_cost.hpp"
#include "links/pump.hpp"

#include <CLI/CLI.hpp>

#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <fstream>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>

namespace dynamix::benchmarks {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t silent_connections = 1000;
constexpr std::chrono::microseconds between_rubbish{6000}; // 10,000 per minute
constexpr std::size_t question_bytes = 256;

/// -1: it does not answer.
int connect_to(std::uint16_t port) {
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return made;
  ::close(made);
  return -1;
}

/// Until the process is ended. Whoever was cut is replaced by another, one for each that sends rubbish.
[[noreturn]] void flood(std::uint16_t port) {
  const std::string rubbish(300, '\x5a');
  std::deque<int> silent;
  for (auto next = clock::now();; next += between_rubbish) {
    std::this_thread::sleep_until(next);
    if (const int junk = connect_to(port); junk >= 0) {
      [[maybe_unused]] const auto sent = ::send(junk, rubbish.data(), rubbish.size(), MSG_NOSIGNAL);
      ::close(junk);
    }
    if (silent.size() >= silent_connections) {
      ::close(silent.front());
      silent.pop_front();
    }
    do
      silent.push_back(connect_to(port));
    while (silent.size() < silent_connections);
  }
}

double resident_kib() {
  double pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024;
}

bool write_all(int to, const char* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const auto count = ::send(to, data + done, size - done, MSG_NOSIGNAL);
    if (count <= 0 && errno != EAGAIN)
      return false;
    done += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  return true;
}

bool read_all(int from, char* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    pollfd waiting{.fd = from, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, 30000) != 1)
      return false;
    const auto count = ::recv(from, data + done, size - done, 0);
    if (count <= 0)
      return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

/// ada, who is flooded, and ben, whose questions it answers.
class pair {
public:
  pair() {
    std::string problem;
    const auto start = [&](const char* host) {
      std::shared_ptr<links::pump> made = links::pump::start(
          {.directory = links::host_directory(keys_.path(), host), .host = host, .accepted = {"ben"}}, problem);
      if (!made)
        throw std::runtime_error(problem);
      return made;
    };
    ada_ = start("ada");
    ben_ = start("ben");
    door_ = open_door(keys_.path(), "ada");
    door_->lead_to(ada_);
    port = door_->port();
    const int queue = ada_->take_links();
    asking_ = ben_->connect("ada", "127.0.0.1", port, milliseconds(5000), problem);
    pollfd waiting{.fd = queue, .events = POLLIN, .revents = 0};
    if (asking_ < 0 || ::poll(&waiting, 1, 10000) != 1)
      throw std::runtime_error("no link: " + problem);
    answering_ = std::thread([plain = links::take_link(queue).plain] {
      std::array<char, question_bytes> question{};
      while (read_all(plain, question.data(), question.size()) && write_all(plain, question.data(), question.size()))
        ;
      ::close(plain);
    });
  }
  pair(const pair&) = delete;
  pair& operator=(const pair&) = delete;
  ~pair() {
    ::close(asking_);
    answering_.join();
  }

  /// The p99 in microseconds of a question each millisecond for so long.
  double ask_for(std::chrono::seconds duration) const {
    std::vector<double> found;
    std::array<char, question_bytes> question{};
    const auto until = clock::now() + duration;
    for (auto next = clock::now(); next < until; next += milliseconds(1)) {
      std::this_thread::sleep_until(next);
      const auto begin = clock::now();
      if (!write_all(asking_, question.data(), question.size()) || !read_all(asking_, question.data(), question.size()))
        throw std::runtime_error("the link broke");
      found.push_back(std::chrono::duration<double, std::micro>(clock::now() - begin).count());
    }
    std::ranges::sort(found);
    return found[found.size() * 99 / 100];
  }
  links::door_counts counts() const { return door_->counts(); }

  std::uint16_t port = 0;

private:
  const passing_keys keys_{{"ada", "ben"}};
  std::shared_ptr<links::pump> ada_;
  std::shared_ptr<links::pump> ben_;
  std::unique_ptr<links::door> door_;
  int asking_ = -1;
  std::thread answering_;
};

/// The strangers' process.
class strangers {
public:
  explicit strangers(std::uint16_t port) : process_(::fork()) {
    const auto text = std::to_string(port);
    if (process_ == 0) {
      ::execl("/proc/self/exe", "link_flood", "--flood", text.c_str(), nullptr);
      ::_exit(127);
    }
  }
  strangers(const strangers&) = delete;
  strangers& operator=(const strangers&) = delete;
  ~strangers() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

private:
  const pid_t process_;
};

double share_of_a_core(std::chrono::seconds duration) {
  const double begin = process_cpu_seconds();
  std::this_thread::sleep_for(duration);
  return (process_cpu_seconds() - begin) / static_cast<double>(duration.count());
}

void measure(std::size_t rounds, std::chrono::seconds turn) {
  pair hosts;
  hosts.ask_for(std::chrono::seconds(1));
  std::vector<double> quiet_us;
  std::vector<double> flooded_us;
  std::vector<double> ratios;
  std::vector<double> shares;
  const double before_kib = resident_kib();
  double most_kib = before_kib;
  std::size_t most_open = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    quiet_us.push_back(hosts.ask_for(turn));
    const strangers flooding(hosts.port);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    flooded_us.push_back(hosts.ask_for(turn));
    most_kib = std::max(most_kib, resident_kib());
    most_open = std::max(most_open, hosts.counts().shaking_hands);
    shares.push_back(share_of_a_core(turn));
    ratios.push_back(flooded_us.back() / quiet_us.back());
  }
  std::this_thread::sleep_for(std::chrono::seconds(4)); // the last are cut
  const auto counts = hosts.counts();
  std::printf("link_flood p99 us of a question: quiet %.0f, flooded %.0f, ratio %.2f; share of a core %.3f; refused "
              "%llu, still in handshake %zu\n",
              median(quiet_us), median(flooded_us), median(ratios), median(shares),
              static_cast<unsigned long long>(counts.refused), counts.shaking_hands);
  std::printf("link_flood memory: %.0f KiB before, %.0f KiB more in the flood (%zu connections at a time, %.1f KiB "
              "each), %.0f KiB more after it\n",
              before_kib, most_kib - before_kib, most_open,
              (most_kib - before_kib) / static_cast<double>(std::max<std::size_t>(most_open, 1)),
              resident_kib() - before_kib);
}

} // namespace
} // namespace dynamix::benchmarks

int main(int count, char** words) {
  CLI::App app("What strangers cost a host that listens for links");
  std::size_t rounds = 5;
  unsigned seconds = 10;
  std::uint16_t port = 0;
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  app.add_option("--seconds", seconds, "A turn's")->check(CLI::Range(1, 600));
  app.add_option("--flood", port, "Flood this port of loopback until the process is ended")->group("");
  CLI11_PARSE(app, count, words);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (port != 0)
    dynamix::benchmarks::flood(port);
  try {
    dynamix::benchmarks::measure(rounds, std::chrono::seconds(seconds));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link_flood: %s\n", error.what());
    return 1;
  }
  return 0;
}
