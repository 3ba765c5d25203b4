/// What an all-reduce costs over links (TLS 1.3, both sides with a certificate), over links that go on in the clear
/// once both are proven (security.data = "clear"), and without links: ranks in this process, in a group of each form,
/// in turns. CPU is that of all threads, divided by the ranks: a host's. AES-GCM's own speed stands beside it.

#include "benchmarks/pair_cost.hpp"
#include "exchange/group.hpp"
#include "exchange/peer_links.hpp"
#include "tests/unit/exchange/stores.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <openssl/evp.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::benchmarks {
namespace {

const std::vector<std::string> hosts = {"ada", "ben", "cy", "dot"};
constexpr std::array<double, 4> megabytes = {0.25, 1, 16, 250};
using all_links = std::vector<std::shared_ptr<exchange::peer_links>>;
using all_doors = std::vector<std::shared_ptr<links::door>>;

struct cost {
  double wall_seconds = 0;
  double cpu_seconds = 0;
};

/// The ranks of one group, over `links` or, where they are null, without.
class ranks {
public:
  ranks(const std::string& name, const all_links& links) : peers_(links.size()) {
    std::vector<std::exception_ptr> problems(links.size());
    std::vector<std::uint32_t> members;
    for (std::uint32_t rank = 0; rank < links.size(); ++rank)
      members.push_back(rank);
    {
      std::vector<std::jthread> threads;
      for (const auto rank : members)
        threads.emplace_back([&, rank] {
          try {
            peers_[rank] = exchange::join({.rank = rank, .members = members, .store_prefix = name, .links = links[rank]},
                                          meeting_, never_);
          } catch (...) {
            problems[rank] = std::current_exception();
          }
        });
    }
    for (const auto& problem : problems)
      if (problem)
        std::rethrow_exception(problem);
  }

  /// The mean of `times` sums.
  cost sum(std::size_t floats, std::size_t times) {
    std::vector<std::unique_ptr<exchange::bucket>> buckets;
    for (const auto& each : peers_)
      buckets.push_back(each->make_bucket(exchange::element::float32, floats, 0));
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = process_cpu_seconds();
    for (std::size_t i = 0; i < times; ++i) {
      for (const auto& each : buckets)
        each->start();
      for (const auto& each : buckets)
        each->wait();
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const auto count = static_cast<double>(times);
    return {.wall_seconds = wall.count() / count, .cpu_seconds = (process_cpu_seconds() - cpu) / static_cast<double>(peers_.size()) / count};
  }

private:
  exchange::memory_store meeting_;
  exchange::interruption never_;
  std::vector<std::unique_ptr<exchange::group>> peers_;
};

/// At `doors`.
all_links start_links(const passing_keys& keys, const char* protocol, const all_doors& doors) {
  all_links links(doors.size());
  std::vector<exchange::member_host> members;
  for (std::size_t rank = 0; rank < doors.size(); ++rank)
    members.push_back({hosts[rank], "127.0.0.1"});
  for (std::size_t rank = 0; rank < doors.size(); ++rank) {
    std::string problem;
    links[rank] = exchange::peer_links::start({.directory = links::host_directory(keys.path(), hosts[rank]),
                                               .host = hosts[rank],
                                               .accepted = {hosts.begin(), hosts.end()},
                                               .protocol = protocol},
                                              doors[rank], "127.0.0.1", members, problem);
    if (!links[rank])
      throw std::runtime_error(problem);
  }
  return links;
}

/// Milliseconds of CPU that TLS's cipher alone takes to encrypt a MB in records of 16 KiB, and to decrypt it.
double cipher_ms_a_megabyte() {
  constexpr int record = 16384;
  constexpr int records = 4096;
  const std::vector<unsigned char> key(32, 1);
  const std::vector<unsigned char> nonce(12, 2);
  std::vector<unsigned char> plain(record, 3);
  std::vector<unsigned char> sealed(record);
  std::array<unsigned char, 16> tag{};
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(EVP_CIPHER_CTX_new(),
                                                                                &EVP_CIPHER_CTX_free);
  auto* cipher = context.get();
  const double begin = process_cpu_seconds();
  for (int i = 0; i < records; ++i) {
    int size = 0;
    EVP_EncryptInit_ex(cipher, EVP_aes_256_gcm(), nullptr, key.data(), nonce.data());
    EVP_EncryptUpdate(cipher, sealed.data(), &size, plain.data(), record);
    EVP_EncryptFinal_ex(cipher, nullptr, &size);
    EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, tag.size(), tag.data());
    EVP_DecryptInit_ex(cipher, EVP_aes_256_gcm(), nullptr, key.data(), nonce.data());
    EVP_DecryptUpdate(cipher, plain.data(), &size, sealed.data(), record);
    EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, tag.size(), tag.data());
    if (EVP_DecryptFinal_ex(cipher, nullptr, &size) != 1)
      throw std::runtime_error("AES-GCM fails");
  }
  return 1e9 * (process_cpu_seconds() - begin) / record / records;
}

void measure(std::size_t rounds, std::size_t members) {
  const passing_keys keys({hosts.begin(), hosts.end()});
  all_doors doors;
  for (std::size_t rank = 0; rank < members; ++rank)
    doors.push_back(open_door(keys.path(), hosts[rank]));
  constexpr std::size_t forms = 3;
  std::array<ranks, forms> groups{ranks("plain", all_links(members)),
                                  ranks("clear", start_links(keys, links::clear_gradient_protocol, doors)),
                                  ranks("encrypted", start_links(keys, links::gradient_protocol, doors))};
  std::printf("link_sums AES-256-GCM alone: %.2f ms of CPU to encrypt and decrypt a MB\n", cipher_ms_a_megabyte());
  for (const double size : megabytes) {
    const auto floats = static_cast<std::size_t>(size * 1e6 / sizeof(float));
    const auto times = static_cast<std::size_t>(std::max(2.0, 20 / size));
    std::array<std::vector<double>, forms> wall;
    std::array<std::vector<double>, forms> cpu;
    std::array<std::vector<double>, forms> ratios;
    for (std::size_t round = 0; round <= rounds; ++round) { // the first one is a warm-up
      std::array<cost, forms> found;
      for (std::size_t turn = 0; turn < forms; ++turn) {
        const auto form = (round + turn) % forms;
        found[form] = groups[form].sum(floats, times);
      }
      if (round == 0)
        continue;
      for (std::size_t form = 0; form < forms; ++form) {
        ratios[form].push_back(found[form].cpu_seconds / found[0].cpu_seconds);
        wall[form].push_back(1e3 * found[form].wall_seconds);
        cpu[form].push_back(1e3 * found[form].cpu_seconds / size);
      }
    }
    std::printf("link_sums %zu members, %.2f MB: ms a sum plain %.2f, clear %.2f, encrypted %.2f; ms of CPU a MB and "
                "host plain %.2f, clear %.2f, encrypted %.2f; ratios %.2f, %.2f\n",
                members, size, median(wall[0]), median(wall[1]), median(wall[2]), median(cpu[0]), median(cpu[1]), median(cpu[2]),
                median(ratios[1]), median(ratios[2]));
  }
}

} // namespace
} // namespace dynamix::benchmarks

int main(int count, char** words) {
  CLI::App app("Cost of an all-reduce over links");
  std::size_t rounds = 11;
  std::size_t members = 2;
  app.add_option("--rounds", rounds)->check(CLI::Range(1, 1000));
  app.add_option("--members", members)->check(CLI::Range(2, 4));
  CLI11_PARSE(app, count, words);
  try {
    dynamix::benchmarks::measure(rounds, members);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link_sums: %s\n", error.what());
    return 1;
  }
  return 0;
}
