/// Files that users write, or that others wrote for them: experiments, profiles, workloads, plans of faults, lists of
/// hosts, data sets, and what a run has left. And the frames between a training process and its agent.

#include "actors/client/client_connection.hpp"
#include "cluster/cluster_file.hpp"
#include "faults/plan.hpp"
#include "ledger/codec.hpp"
#include "ledger/summary.hpp"
#include "node/experiments/experiment.hpp"
#include "node/experiments/run_outcome.hpp"
#include "node/launch/host_list.hpp"
#include "node/reports/report.hpp"
#include "node/reports/run_records.hpp"
#include "simulator/device_profile.hpp"
#include "simulator/workload.hpp"
#include "storage/text_encoding.hpp"
#include "tests/fuzz/described_file.hpp"
#include "tests/fuzz/targets.hpp"
#include "trainer/dataset.hpp"
#include "trainer/gunzip.hpp"
#include "trainer/text_corpus.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace dynamix::fuzz {
namespace {

/// A folder for readers that open files, for the life of the process.
class scratch {
public:
  scratch() {
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm"; // a disk would take most of the time
    const auto above = std::filesystem::is_directory(memory, ignored) ? memory : std::filesystem::temp_directory_path();
    std::string pattern = (above / "dynamix-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr)
      path_ = pattern;
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, std::string_view contents) const {
    const auto path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
    return path;
  }

private:
  std::string path_;
};

const scratch& folder() {
  static const scratch one;
  return one;
}

void read_experiment(byte_span bytes) {
  node::parse_experiment_text(text_of(bytes), "fuzz.toml");
}

void read_fault_plan(byte_span bytes) {
  faults::parse_plan_text(text_of(bytes), "fuzz.toml");
}

void read_profile(byte_span bytes) {
  simulator::device_profile profile;
  if (!simulator::read_device_profile(folder().write("profile.toml", text_of(bytes)), profile).empty())
    return;
  simulator::device_profile again;
  require(simulator::read_device_profile(folder().write("again.toml", simulator::to_toml(profile)), again).empty(),
          "a profile that was read can be written");
}

void read_workload(byte_span bytes) {
  simulator::workload work;
  if (!simulator::read_workload(folder().write("workload.toml", text_of(bytes)), work).empty())
    return;
  simulator::workload again;
  require(simulator::read_workload(folder().write("again.toml", simulator::to_toml(work)), again).empty(),
          "a workload that was read can be written");
}

void read_hosts(byte_span bytes) {
  for (const auto& list : {node::parse_host_list(text_of(bytes)), node::parse_hostfile(text_of(bytes))})
    require(!list.problem.empty() || !list.hosts.empty(), "a list without hosts says what is wrong");
}

/// What a worker's host writes at its end, and what a run left for a comparison.
void read_worker_file(byte_span bytes) {
  const auto text = text_of(bytes);
  messages::farewell farewell;
  std::vector<messages::evaluation_report> evaluations;
  if (ledger::parse_worker_file(text, farewell, evaluations))
    require(ledger::parse_worker_file(ledger::to_json(farewell, evaluations), farewell, evaluations),
            "a worker's file that was read can be written");
  if (const auto outcome = node::parse_outcome(text))
    require(node::parse_outcome(node::to_json(*outcome)).has_value(), "an outcome that was read can be written");
}

/// Lines of a ledger and, behind a blank one, workers' files, to all that is made of them.
void report_run(byte_span bytes) {
  static const auto cluster = cluster::parse_cluster_text(
      "[cluster]\nname = \"fuzz\"\n"
      "[[host]]\nname = \"w0\"\nport = 1\nroles = [\"worker\", \"arbitrator\"]\n[[host]]\nname = \"w1\"\nport = 2\n",
      "fuzz.toml");
  require(cluster.errors.empty(), "the cluster of the run");
  node::run_records records(cluster.file);
  std::istringstream lines(text_of(bytes));
  bool in_ledger = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty())
      in_ledger = false;
    messages::farewell farewell;
    std::vector<messages::evaluation_report> evaluations;
    if (in_ledger) {
      if (const auto row = ledger::parse_line(line))
        records.add(*row);
    } else if (ledger::parse_worker_file(line, farewell, evaluations)) {
      records.farewells.push_back(farewell);
      records.evaluations.insert(records.evaluations.end(), evaluations.begin(), evaluations.end());
    }
  }
  const auto summary = node::summarise(records);
  require(!ledger::to_json(summary).empty(), "there is a summary");
  ledger::epochs_csv(records.evaluations);
  node::report_text(records, summary);
  node::report_page(records, summary, "fuzz");
}

constexpr std::size_t unpacked_bytes_max = 1U << 20;
constexpr std::size_t idx_labels_bytes = 10; // of two

/// The first byte says which data set it is.
void read_data(byte_span bytes) {
  if (bytes.empty())
    return;
  const auto text = text_of(bytes.subspan(1));
  trainer::dataset data;
  const auto images = [&](cluster::dataset_kind kind, trainer::dataset_split split) {
    if (trainer::load_dataset(kind, folder().path(), split, data).empty())
      require(data.images.size() == data.size() * data.image_bytes() &&
                  std::ranges::all_of(data.labels, [&](auto label) { return label < data.classes; }),
              "images are whole, and have labels of their classes");
  };
  switch (bytes[0] % 6) {
  case 0: // IDX: two labels, then images
    folder().write("t10k-labels-idx1-ubyte", text.substr(0, std::min(text.size(), idx_labels_bytes)));
    folder().write("t10k-images-idx3-ubyte", text.substr(std::min(text.size(), idx_labels_bytes)));
    return images(cluster::dataset_kind::fashion_mnist, trainer::dataset_split::test);
  case 1:
    folder().write("test_batch.bin", text);
    return images(cluster::dataset_kind::cifar10, trainer::dataset_split::test);
  case 2:
    folder().write("test.bin", text);
    return images(cluster::dataset_kind::cifar100, trainer::dataset_split::test);
  case 3: {
    folder().write("ratings.csv", text);
    if (!trainer::load_dataset(cluster::dataset_kind::movielens, folder().path(), trainer::dataset_split::train, data)
             .empty())
      return;
    for (std::uint64_t number = 0; number < data.size(); ++number)
      data.choices->at(number);
    return;
  }
  case 4: {
    std::string contents;
    if (trainer::gunzip(text, unpacked_bytes_max, contents).empty())
      require(contents.size() <= unpacked_bytes_max, "no more is unpacked than allowed");
    return;
  }
  default:
    for (const auto vocabulary :
         {cluster::vocabulary_kind::bytes, cluster::vocabulary_kind::words, cluster::vocabulary_kind::byte_pairs})
      for (const bool test : {false, true}) {
        trainer::text_samples samples;
        if (!trainer::cut_text(storage::to_utf8(text), {vocabulary, 300, 4}, test, samples).empty())
          continue;
        for (const auto start : samples.starts)
          require(start + 5 <= samples.tokens.size(), "each token of a sample has one behind it");
        require(std::ranges::all_of(samples.tokens, [](auto token) { return token < 300; }), "tokens have numbers");
      }
  }
}

/// What a process that trains says to its agent's socket, byte for byte.
void read_client_frames(byte_span bytes) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
    return;
  actors::client_connection agent(ends[0]);
  if (::send(ends[1], bytes.data(), std::min<std::size_t>(bytes.size(), 1U << 15), MSG_NOSIGNAL) < 0)
    bytes = {};
  ::close(ends[1]);
  std::optional<std::string> ended;
  while (!ended)
    for (const auto& frame : agent.read(ended))
      require(static_cast<bool>(frame), "what is given is a message");
}

constexpr std::array files = {target{"experiments", read_experiment},
                              target{"fault-plans", read_fault_plan},
                              target{"profiles", read_profile},
                              target{"workloads", read_workload},
                              target{"hosts", read_hosts},
                              target{"worker-files", read_worker_file},
                              target{"runs", report_run},
                              target{"data-sets", read_data},
                              target{"client-frames", read_client_frames}};

} // namespace

std::span<const target> file_targets() {
  return files;
}

} // namespace dynamix::fuzz
