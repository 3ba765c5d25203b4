#include "actors/ledger.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <unistd.h>

namespace dynamix::messages {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(decision_key, term, window)
NLOHMANN_JSON_SERIALIZE_ENUM(signal_source, {{signal_source::unspecified, "unspecified"},
                                             {signal_source::none, "none"},
                                             {signal_source::unprivileged, "unprivileged"},
                                             {signal_source::ebpf, "ebpf"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(network_statistics, valid, throughput_bytes_per_second, rtt_seconds,
                                                retransmissions, source, rtt_p50_seconds, rtt_p99_seconds,
                                                gradient_bytes_per_second, control_bytes_per_second, segments_sent,
                                                sender_blocked_ratio, receiver_blocked_ratio, connection_resets,
                                                connections, congestion_window_segments)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(system_statistics, valid, cpu_time_ratio, run_queue_wait_ratio,
                                                memory_ratio, source, training_valid, training_cpu_ratio,
                                                training_wait_ratio, training_stalled_ratio, involuntary_switches,
                                                page_faults, major_page_faults, cgroup_memory_bytes, throttled_ratio,
                                                pressure_valid, cpu_pressure_ratio, memory_pressure_ratio,
                                                io_pressure_ratio)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(gpu_statistics, valid, utilisation_ratio, memory_ratio, throttled)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(training_statistics, steps, samples, accuracy, loss, iteration_seconds,
                                                compute_seconds, exchange_seconds, data_seconds, gradient_valid,
                                                sigma_norm, sigma2_norm, gradient_norm, noise_scale, learning_rate,
                                                gain)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(window_report, host, rank, generation, window, first_step, final, batch,
                                                decision, global_batch, epoch, epoch_samples, elapsed_seconds, training,
                                                network, system, telemetry_seconds, control_seconds, gpu,
                                                program_seconds, telemetry_choice)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(evaluation_report, step, epoch, samples, elapsed_seconds, train_loss,
                                                test_loss, test_accuracy, global_batch, learning_rate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(decision_counts, received, applied, late, superseded, unapplied,
                                                stale_refused, duplicated)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(farewell, host, rank, succeeded, reason, steps, samples, epochs,
                                                wall_seconds, final_accuracy, seconds_to_target, parameter_checksum,
                                                control_seconds, telemetry_seconds, decisions)

} // namespace dynamix::messages

namespace dynamix::policy {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(reward_terms, accuracy, gain, time, batch, noise, progress, total)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(time_split, compute_seconds, cpu_wait_seconds, network_seconds,
                                                barrier_seconds, data_seconds, other_seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(judged_worker, report, stale, time, reward, state, probabilities,
                                                action, log_probability, value, assigned_batch, decided_batch,
                                                proposed_batch, intervention, reason, predicted_seconds, planned_batch)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(promised_step, total, slowest_seconds, goodput)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(window_prediction, exchange_seconds, noise_scale, assigned, decided,
                                                planned)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(judged_window, key, generation, policy_version, decided, gather_seconds,
                                                decide_seconds, workers, predicted, guard)

} // namespace dynamix::policy

namespace dynamix::actors {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_start, cluster, policy, mode, seed, window_steps,
                                                dataset_samples, epochs, target_accuracy, workers, state_fields,
                                                actions, scales, started_at, version, origin_seconds, clock)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_evaluation, report)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_policy, version, policy_loss, value_loss, entropy,
                                                approximate_kl, clip_fraction, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_deciding, cluster_digest, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_generation, generation, members, source, reason, steps,
                                                steps_lost)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_event, event, host, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_farewell, farewell)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ledger_shard, name, parent, level, workers, state)

namespace {

/// Values of "kind", in the order of ledger_entry's alternatives.
constexpr const char* kinds[] = {"start", "window",   "evaluation", "policy",  "generation",
                                 "event", "farewell", "shard",      "deciding"};
static_assert(std::size(kinds) == std::variant_size_v<ledger_entry>);

template <std::size_t Index = 0>
std::optional<ledger_entry> entry_of_kind(const json& object, const std::string& kind) {
  if constexpr (Index == std::variant_size_v<ledger_entry>) {
    return std::nullopt;
  } else {
    if (kind == kinds[Index])
      return object.get<std::variant_alternative_t<Index, ledger_entry>>();
    return entry_of_kind<Index + 1>(object, kind);
  }
}

class file_ledger final : public ledger {
public:
  explicit file_ledger(int descriptor) : descriptor_(descriptor) {}
  file_ledger(const file_ledger&) = delete;
  file_ledger& operator=(const file_ledger&) = delete;
  ~file_ledger() override { ::close(descriptor_); }

  void append(const ledger_row& row) override {
    const std::scoped_lock lock(mutex_);
    // The newline comes first after a torn line, so that one failed write costs one row.
    const auto line = (torn_ ? "\n" : "") + to_json_line(row) + "\n";
    std::size_t done = 0;
    while (done < line.size()) {
      const auto count = ::write(descriptor_, line.data() + done, line.size() - done);
      if (count > 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        if (!failed_)
          spdlog::warn("ledger_write_failed error=\"{}\" the run goes on, rows are missing", std::strerror(errno));
        failed_ = true;
        break;
      }
    }
    torn_ = done > 0 && done < line.size();
  }

private:
  std::mutex mutex_;
  int descriptor_;
  bool failed_ = false;
  bool torn_ = false;
};

} // namespace

std::string to_json_line(const ledger_row& row) {
  json object = std::visit([](const auto& entry) { return json(entry); }, row.entry);
  object["kind"] = kinds[row.entry.index()];
  object["at_seconds"] = row.at_seconds;
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<ledger_row> parse_ledger_line(const std::string& line) {
  try {
    const auto object = json::parse(line);
    auto entry = entry_of_kind(object, object.value("kind", ""));
    if (!entry)
      return std::nullopt;
    return ledger_row{.at_seconds = object.value("at_seconds", 0.0), .entry = std::move(*entry)};
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::vector<ledger_row> read_ledger(const std::string& path, std::string& error) {
  std::vector<ledger_row> rows;
  std::ifstream file(path);
  if (!file) {
    error = "cannot read " + path + ": " + std::strerror(errno);
    return rows;
  }
  error.clear();
  for (std::string line; std::getline(file, line);)
    if (auto row = parse_ledger_line(line))
      rows.push_back(std::move(*row));
  return rows;
}

std::string to_json(const messages::farewell& farewell, const std::vector<messages::evaluation_report>& evaluations) {
  return json{{"farewell", farewell}, {"evaluations", evaluations}}.dump(2) + "\n";
}

bool parse_worker_file(const std::string& text, messages::farewell& farewell,
                       std::vector<messages::evaluation_report>& evaluations) {
  try {
    const auto object = json::parse(text);
    farewell = object.at("farewell").get<messages::farewell>();
    evaluations = object.at("evaluations").get<std::vector<messages::evaluation_report>>();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

std::unique_ptr<ledger> open_file_ledger(const std::string& path, std::string& error) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  return std::make_unique<file_ledger>(descriptor);
}

} // namespace dynamix::actors
