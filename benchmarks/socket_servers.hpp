#pragma once

/// The rival of sums through servers of equal shares: the same parts, additions and sums over plain blocking sockets,
/// by three threads that do nothing else. What it computes is what a transport without any machinery costs.

#include "exchange/rendezvous.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <netinet/in.h>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dynamix::benchmarks {

class socket_servers {
public:
  /// Blocks until all ranks are there. Throws std::runtime_error where one does not come.
  socket_servers(std::uint32_t rank, std::uint32_t size, const std::string& address, exchange::store& meeting)
      : rank_(rank), servers_(size, -1), workers_(size, -1) {
    const int listener = checked(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in own{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    ::inet_pton(AF_INET, address.c_str(), &own.sin_addr);
    socklen_t length = sizeof own;
    checked(::bind(listener, reinterpret_cast<sockaddr*>(&own), length));
    checked(::listen(listener, static_cast<int>(size)));
    checked(::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &length));
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&own);
    meeting.set(key(rank), {bytes, bytes + sizeof own});
    for (std::uint32_t other = 0; other < size; ++other)
      if (other != rank) {
        sockaddr_in place = place_of(other, meeting);
        servers_[other] = prepared(checked(::socket(AF_INET, SOCK_STREAM, 0)));
        checked(::connect(servers_[other], reinterpret_cast<sockaddr*>(&place), sizeof place));
        send(servers_[other], std::as_bytes(std::span(&rank, 1)));
      }
    for (std::uint32_t i = 1; i < size; ++i) {
      const int taken = prepared(checked(::accept(listener, nullptr, nullptr)));
      std::uint32_t other = 0;
      receive(taken, std::as_writable_bytes(std::span(&other, 1)));
      workers_.at(other) = taken;
    }
    ::close(listener);
  }
  socket_servers(const socket_servers&) = delete;
  socket_servers& operator=(const socket_servers&) = delete;
  ~socket_servers() {
    for (const auto& all : {servers_, workers_})
      for (const int each : all)
        ::close(each); // -1 of this rank is none
  }

  /// Sums `gradients` in place, in the order of ranks, in buckets of so many.
  void sum(std::span<float> gradients, std::size_t bucket_floats) {
    std::vector<std::span<float>> buckets;
    for (; !gradients.empty(); gradients = gradients.subspan(buckets.back().size()))
      buckets.push_back(gradients.first(std::min(bucket_floats, gradients.size())));
    std::vector<std::jthread> threads;
    for (const auto part : {&socket_servers::give, &socket_servers::serve, &socket_servers::take})
      threads.emplace_back([this, part, &buckets] {
        try {
          for (const auto& bucket : buckets)
            (this->*part)(bucket);
        } catch (const std::exception& problem) {
          std::fprintf(stderr, "rank %u: %s\n", rank_, problem.what());
          std::_Exit(1); // the others would wait for it
        }
      });
  }

private:
  using floats = std::span<float>;

  static std::string key(std::uint32_t rank) { return "sockets/" + std::to_string(rank); }
  static int checked(int result) {
    if (result < 0)
      throw std::runtime_error("no socket to the other ranks");
    return result;
  }
  static int prepared(int socket) {
    const timeval timeout{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    return socket;
  }
  static sockaddr_in place_of(std::uint32_t rank, exchange::store& meeting) {
    sockaddr_in place{};
    for (int tries = 0; tries < 6000; ++tries) {
      if (const auto found = meeting.get(key(rank)); found && found->size() == sizeof place) {
        std::ranges::copy(*found, reinterpret_cast<std::uint8_t*>(&place));
        return place;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("rank " + std::to_string(rank) + " has not come");
  }
  static void send(int socket, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      bytes = bytes.subspan(static_cast<std::size_t>(checked(static_cast<int>(sent))));
    }
  }
  static void receive(int socket, std::span<std::byte> bytes) {
    if (::recv(socket, bytes.data(), bytes.size(), MSG_WAITALL) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("a rank has fallen silent");
  }

  floats share(floats bucket, std::size_t server) const {
    const auto begin = bucket.size() * server / servers_.size();
    return bucket.subspan(begin, bucket.size() * (server + 1) / servers_.size() - begin);
  }
  template <typename Action>
  void for_each_other(Action action) const {
    for (std::uint32_t other = 0; other < servers_.size(); ++other)
      if (other != rank_)
        action(other);
  }

  void give(floats bucket) {
    for_each_other([&](std::uint32_t server) { send(servers_[server], std::as_bytes(share(bucket, server))); });
  }
  /// What a server sends lies where the part was that it has all of.
  void take(floats bucket) {
    for_each_other(
        [&](std::uint32_t server) { receive(servers_[server], std::as_writable_bytes(share(bucket, server))); });
  }
  void serve(floats bucket) {
    const auto own = share(bucket, rank_);
    first_.resize(own.size());
    next_.resize(own.size());
    floats total = rank_ == 0 ? own : floats(first_);
    if (rank_ != 0)
      receive(workers_[0], std::as_writable_bytes(total));
    for (std::uint32_t worker = 1; worker < workers_.size(); ++worker) {
      if (worker == rank_) {
        std::ranges::transform(total, own, own.begin(), std::plus());
        total = own;
        continue;
      }
      receive(workers_[worker], std::as_writable_bytes(floats(next_)));
      std::ranges::transform(total, next_, total.begin(), std::plus());
    }
    for_each_other([&](std::uint32_t worker) { send(workers_[worker], std::as_bytes(own)); });
  }

  const std::uint32_t rank_;
  std::vector<int> servers_; ///< to which this rank gives its parts, by rank
  std::vector<int> workers_; ///< whose parts it adds up
  std::vector<float> first_; ///< of the worker that the sum begins with
  std::vector<float> next_;
};

} // namespace dynamix::benchmarks
