#include "tests/cluster/trial.hpp"

#include "ledger/codec.hpp"
#include "links/free_port.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/dataset.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace dynamix::cluster_test {

namespace {

constexpr std::uint32_t small_training_images = 6000;
constexpr std::uint32_t small_test_images = 1000;

std::vector<std::uint16_t> take_free_ports(std::size_t count) {
  std::vector<std::uint16_t> ports(count);
  std::generate(ports.begin(), ports.end(), links::take_free_port);
  return ports;
}

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0})
    bytes.push_back(static_cast<char>(number >> shift & 0xff));
  return bytes;
}

void write_split(const std::string& directory, trainer::dataset_split split, std::uint32_t images) {
  trainer::dataset whole;
  const cluster::training defaults;
  ASSERT_EQ(trainer::load_dataset(defaults.dataset, defaults.data_path, split, whole), "");
  const auto prefix = directory + (split == trainer::dataset_split::train ? "/train-" : "/t10k-");
  const std::string pixels(whole.images.begin(), whole.images.begin() + images * whole.image_bytes());
  const std::string labels(whole.labels.begin(), whole.labels.begin() + images);
  const std::string header =
      big_endian(0x803) + big_endian(images) + big_endian(whole.height) + big_endian(whole.width);
  ASSERT_EQ(storage::write_file_atomically(prefix + "images-idx3-ubyte", header + pixels), "");
  ASSERT_EQ(
      storage::write_file_atomically(prefix + "labels-idx1-ubyte", big_endian(0x801) + big_endian(images) + labels),
      "");
}

/// The processes of this machine whose parent is `parent`.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error; // processes come and go
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const auto name = entry->path().filename().string();
    pid_t id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ptr != name.data() + name.size())
      continue;
    const auto status = contents_of(entry->path().string() + "/status");
    if (status.find("\nPPid:\t" + std::to_string(parent) + "\n") != std::string::npos)
      children.push_back(id);
  }
  return children;
}

} // namespace

bool wait_until(const std::function<bool()>& come_true) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!come_true()) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::string contents_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::map<std::string, std::string> files_below(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && entry.path().extension() != ".lock")
      files[entry.path().string()] = contents_of(entry.path().string());
  return files;
}

const std::string& small_dataset() {
  static const temporary_directory directory;
  static const bool written = [] {
    write_split(directory.path(), trainer::dataset_split::train, small_training_images);
    write_split(directory.path(), trainer::dataset_split::test, small_test_images);
    return true;
  }();
  EXPECT_TRUE(written);
  return directory.path();
}

program::program(const std::vector<std::string>& arguments, const std::string& output, const std::string& path)
    : output_(output) {
  EXPECT_EQ(process_.start({.program = path,
                            .arguments = arguments,
                            .environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}},
                            .output = output}),
            "");
}

bool program::says(const std::string& text) const {
  return said().find(text) != std::string::npos;
}

bool program::signal_host(const std::string& host, int number) {
  const std::string wanted = std::string("--name") + '\0' + host + '\0';
  return wait_until([&] {
    for (const pid_t child : children_of(process_.id()))
      if (contents_of("/proc/" + std::to_string(child) + "/cmdline").find(wanted) != std::string::npos)
        return kill(child, number) == 0;
    return false;
  });
}

ended_program program::wait() {
  if (!wait_until([this] { return !process_.running(); })) {
    ADD_FAILURE() << "did not end in time; it said\n" << said();
    process_.signal(SIGKILL);
    return {.code = -1, .output = said()};
  }
  const auto exit = *process_.poll();
  return {.code = exit.by_signal ? 128 + exit.number : exit.number, .output = said()};
}

void trial::write_file(const trial_options& options) {
  const auto others = options.slowdowns.size() + 1; // behind the first hub and the workers
  ports_ = take_free_ports(others + options.replicas + options.servers);
  std::string replicas;
  std::ostringstream hubs;
  for (std::size_t i = 0; i < options.replicas; ++i) {
    const std::string name = i == 0 ? "hub" : "hub" + std::to_string(i + 1);
    replicas += (i == 0 ? "\"" : ", \"") + name + "\"";
    hubs << "[[host]]\nname = \"" << name << "\"\nport = " << (i == 0 ? ports_[0] : ports_[others + i])
         << "\nroles = [\"arbitrator\"]\n";
  }
  std::ostringstream text;
  text << "[cluster]\nname = \"trial\"\nseed = 3\n"
       << options.cluster << "\n[training]\ndata_path = \"" << options.dataset << "\"\nepochs = " << options.epochs
       << "\n"
       << options.training << "\n[batch]\nhighest = 256\n"
       << "\n[dashboard]\nlisten = \"" << options.page << "\"\n"
       << "\n[arbitrator]\nwindow_steps = " << options.window_steps << "\n"
       << (options.replicas > 1 ? "replicas = [" + replicas + "]\n" : "") << options.arbitrator << "\n"
       << hubs.str();
  for (std::size_t i = 0; i < options.slowdowns.size(); ++i)
    text << "[[host]]\nname = \"w" << i << "\"\nport = " << ports_[i + 1]
         << "\ncompute_slowdown = " << options.slowdowns[i] << "\n";
  for (std::size_t i = 0; i < options.servers; ++i)
    text << "[[host]]\nname = \"s" << i << "\"\nport = " << ports_[others + options.replicas + i]
         << "\nroles = [\"server\"]\n";
  text << options.more;
  ASSERT_EQ(storage::write_file_atomically(file(), text.str()), "");
}

void trial::replace_in_file(const std::string& text, const std::string& by) {
  auto changed = contents_of(file());
  const auto at = changed.find(text);
  ASSERT_NE(at, std::string::npos) << text;
  ASSERT_EQ(storage::write_file_atomically(file(), changed.replace(at, text.size(), by)), "");
}

program trial::start(const std::vector<std::string>& arguments, const std::string& path) const {
  return {arguments, directory_.path() + "/output-" + std::to_string(outputs_++), path};
}

std::vector<ledger::window> trial::windows() const {
  return rows<ledger::window>();
}

bool trial::wait_for_windows(std::size_t count) const {
  return wait_until([&] { return windows().size() >= count; });
}

std::vector<ledger::generation> trial::generations() const {
  return rows<ledger::generation>();
}

bool trial::wait_for_generation(const std::vector<std::string>& members, std::uint64_t above) const {
  return wait_until([&] {
    const auto reported = windows();
    return std::ranges::any_of(generations(), [&](const auto& formed) {
      return formed.generation > above && formed.members == members &&
             std::ranges::count(reported, formed.generation, &ledger::window::generation) > 0;
    });
  });
}

messages::farewell trial::farewell_of(const std::string& host) const {
  messages::farewell said;
  std::vector<messages::evaluation_report> evaluations;
  EXPECT_TRUE(ledger::parse_worker_file(contents_of(run().worker(host)), said, evaluations)) << run().worker(host);
  return said;
}

void trial::expect_whole_training(const std::vector<std::string>& workers, std::uint64_t samples) const {
  const auto first = farewell_of(workers.front());
  EXPECT_EQ(first.samples, samples);
  EXPECT_EQ(first.reason, "epochs completed");
  for (const auto& worker : workers) {
    const auto said = farewell_of(worker);
    EXPECT_TRUE(said.succeeded) << worker << ": " << said.reason;
    EXPECT_EQ(said.steps, first.steps) << worker;
    EXPECT_EQ(said.parameter_checksum, first.parameter_checksum) << worker;
  }
  std::uint64_t newest = 0;
  for (const auto& formed : generations()) {
    EXPECT_GT(formed.generation, newest);
    EXPECT_LE(formed.steps_lost, 1U) << "generation " << formed.generation;
    newest = formed.generation;
  }
}

} // namespace dynamix::cluster_test
