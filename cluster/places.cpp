#include "cluster/places.hpp"

#include "cluster/fields.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/core.h>

namespace dynamix::cluster {

bool is_host_name(const std::string& text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= 64 && std::isalnum(static_cast<unsigned char>(text.front())) != 0 &&
         std::all_of(text.begin(), text.end(), fits);
}

bool is_worker_name(const std::string& text) {
  const auto host = host_of(text);
  if (!is_slot(text))
    return is_host_name(host);
  const auto slot = text.substr(host.size() + 1);
  unsigned number = 0;
  std::from_chars(slot.data(), slot.data() + slot.size(), number);
  return is_host_name(host) && slot == std::to_string(number) && number < workers_per_host_max;
}

bool is_place(const host& one) {
  return one.address.empty();
}

cluster_file with_places(cluster_file file) {
  if (file.membership == membership_kind::open)
    for (auto rank = file.workers().size(); rank < file.workers_max; ++rank)
      file.hosts.push_back({.name = fmt::format("+{}", rank), .address = {}});
  return file;
}

std::uint32_t base_workers(const cluster_file& file) {
  const auto workers = file.workers();
  const auto places = std::ranges::count_if(workers, [](const auto* one) { return is_place(*one); });
  const auto listed = static_cast<std::uint32_t>(workers.size()) - static_cast<std::uint32_t>(places);
  if (file.membership == membership_kind::listed)
    return listed;
  return std::max(1U, file.workers_min == 0 ? listed : file.workers_min);
}

cluster_file with_guests(cluster_file file, const std::vector<std::string>& names) {
  std::size_t rank = 0;
  for (auto& one : file.hosts)
    if (one.has(role::worker) && rank++ < names.size() && is_place(one))
      one.name = names[rank - 1];
  std::erase_if(file.hosts, [](const auto& one) { return is_place(one) && one.name.starts_with('+'); });
  return file;
}

} // namespace dynamix::cluster
