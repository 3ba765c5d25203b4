#include "actors/network/worker_names.hpp"

#include "cluster/listen_address.hpp"
#include "cluster/places.hpp"
#include "storage/atomic_file.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace dynamix::actors {
namespace {

constexpr std::size_t file_bytes_max = 1U << 20; ///< of 4096 names of 64 bytes

} // namespace

worker_names::worker_names(const cluster::cluster_file& file, std::string path)
    : path_(std::move(path)), first_line_(fmt::format("places of {:016x}", file.digest())) {
  for (const auto* worker : file.members()) {
    const bool place = cluster::is_place(*worker);
    names_.push_back(place ? "" : worker->name);
    places_.push_back(place);
  }
  if (!path_.empty())
    read();
  index();
}

void worker_names::index() {
  ranks_.clear();
  hosts_.clear();
  for (std::uint32_t rank = 0; const auto& name : names_) {
    if (!name.empty()) {
      ranks_.try_emplace(name, rank);
      hosts_.insert(cluster::host_of(name));
    }
    ++rank;
  }
}

void worker_names::read() {
  std::string text;
  if (!storage::read_file(path_, file_bytes_max, text).empty())
    return; // nobody has had a place yet
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != first_line_)
    return;
  std::size_t rank = 0;
  for (std::string name; lines >> rank >> name;)
    if (rank < names_.size() && places_[rank] && std::ranges::find(names_, name) == names_.end())
      names_[rank] = name;
}

std::string worker_names::write() const {
  auto text = first_line_ + "\n";
  for (std::size_t rank = 0; rank < names_.size(); ++rank)
    if (places_[rank] && !names_[rank].empty())
      text += fmt::format("{} {}\n", rank, names_[rank]);
  return storage::write_file_atomically(path_, text);
}

std::vector<std::string> worker_names::all() const {
  const std::scoped_lock lock(mutex_);
  return names_;
}

std::string worker_names::name_of(std::uint32_t rank) const {
  const std::scoped_lock lock(mutex_);
  return rank < names_.size() ? names_[rank] : "";
}

std::optional<std::uint32_t> worker_names::rank_of(const std::string& host) const {
  const std::scoped_lock lock(mutex_);
  const auto found = ranks_.find(host);
  return found == ranks_.end() ? std::nullopt : std::optional(found->second);
}

bool worker_names::has_worker_of(const std::string& host) const {
  const std::scoped_lock lock(mutex_);
  return hosts_.contains(host);
}

std::string worker_names::give(std::uint32_t rank, const std::string& host) {
  const std::scoped_lock lock(mutex_);
  if (rank >= names_.size() || !places_[rank] || names_[rank] == host)
    return "";
  names_[rank] = host;
  index();
  return path_.empty() ? "" : write();
}

void worker_names::restore(const std::map<std::uint32_t, std::string>& places) {
  const std::scoped_lock lock(mutex_);
  for (std::uint32_t rank = 0; rank < names_.size(); ++rank)
    if (places_[rank]) {
      const auto found = places.find(rank);
      names_[rank] = found == places.end() ? "" : found->second;
    }
  index();
}

void worker_names::linked(const std::string& host, std::vector<std::string> addresses) {
  const std::scoped_lock lock(mutex_);
  if (addresses.empty())
    addresses_.erase(host);
  else
    addresses_[host] = std::move(addresses);
}

std::string worker_names::why_elsewhere(const std::string& host, const std::string& address) const {
  const std::scoped_lock lock(mutex_);
  const auto found = addresses_.find(host);
  if (found == addresses_.end() || address == host ||
      std::ranges::any_of(found->second, [&](const auto& one) { return cluster::is_same_address(one, address); }))
    return "";
  return fmt::format(
      "host {} says that the others reach it at {}, and its connection comes from {}; its --address must "
      "be the latter, or its own name where that resolves",
      host, address, found->second.front());
}

} // namespace dynamix::actors
