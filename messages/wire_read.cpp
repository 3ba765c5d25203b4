#include "messages/wire.hpp"
#include "messages/wire_parts.hpp"

#include <algorithm>
#include <limits>

namespace dynamix::messages::wire {
namespace {

std::vector<std::uint8_t> read_data(capnp::Data::Reader data, std::size_t limit) {
  return {data.begin(), data.begin() + bounded(data, limit)};
}

/// The enumerators of types.hpp have the schema's numbers. One that does not fit must not wrap around to one that does.
template <class Enum, class Wire>
Enum read_enum(Wire value) {
  const auto number = static_cast<std::uint16_t>(value);
  return static_cast<Enum>(number > std::numeric_limits<std::uint8_t>::max() ? 0 : number);
}

training_statistics read_training(schema::TrainingStatistics::Reader reader) {
  return {
      .steps = reader.getSteps(),
      .samples = reader.getSamples(),
      .accuracy = reader.getAccuracy(),
      .loss = reader.getLoss(),
      .iteration_seconds = reader.getIterationSeconds(),
      .compute_seconds = reader.getComputeSeconds(),
      .exchange_seconds = reader.getExchangeSeconds(),
      .data_seconds = reader.getDataSeconds(),
      .gradient_valid = reader.getGradientValid(),
      .sigma_norm = reader.getSigmaNorm(),
      .sigma2_norm = reader.getSigma2Norm(),
      .gradient_norm = reader.getGradientNorm(),
      .noise_scale = reader.getNoiseScale(),
      .learning_rate = reader.getLearningRate(),
      .gain = reader.getGain(),
  };
}

network_statistics read_network(schema::NetworkStatistics::Reader reader) {
  return {
      .valid = reader.getValid(),
      .throughput_bytes_per_second = reader.getThroughputBytesPerSecond(),
      .rtt_seconds = reader.getRttSeconds(),
      .retransmissions = reader.getRetransmissions(),
      .source = read_enum<signal_source>(reader.getSource()),
      .rtt_p50_seconds = reader.getRttP50Seconds(),
      .rtt_p99_seconds = reader.getRttP99Seconds(),
      .gradient_bytes_per_second = reader.getGradientBytesPerSecond(),
      .control_bytes_per_second = reader.getControlBytesPerSecond(),
      .segments_sent = reader.getSegmentsSent(),
      .sender_blocked_ratio = reader.getSenderBlockedRatio(),
      .receiver_blocked_ratio = reader.getReceiverBlockedRatio(),
      .connection_resets = reader.getConnectionResets(),
      .connections = reader.getConnections(),
      .congestion_window_segments = reader.getCongestionWindowSegments(),
  };
}

system_statistics read_system(schema::SystemStatistics::Reader reader) {
  return {
      .valid = reader.getValid(),
      .cpu_time_ratio = reader.getCpuTimeRatio(),
      .run_queue_wait_ratio = reader.getRunQueueWaitRatio(),
      .memory_ratio = reader.getMemoryRatio(),
      .source = read_enum<signal_source>(reader.getSource()),
      .training_valid = reader.getTrainingValid(),
      .training_cpu_ratio = reader.getTrainingCpuRatio(),
      .training_wait_ratio = reader.getTrainingWaitRatio(),
      .training_stalled_ratio = reader.getTrainingStalledRatio(),
      .involuntary_switches = reader.getInvoluntarySwitches(),
      .page_faults = reader.getPageFaults(),
      .major_page_faults = reader.getMajorPageFaults(),
      .cgroup_memory_bytes = reader.getCgroupMemoryBytes(),
      .throttled_ratio = reader.getThrottledRatio(),
      .pressure_valid = reader.getPressureValid(),
      .cpu_pressure_ratio = reader.getCpuPressureRatio(),
      .memory_pressure_ratio = reader.getMemoryPressureRatio(),
      .io_pressure_ratio = reader.getIoPressureRatio(),
  };
}

gpu_statistics read_gpu(schema::GpuStatistics::Reader reader) {
  return {
      .valid = reader.getValid(),
      .utilisation_ratio = reader.getUtilisationRatio(),
      .memory_ratio = reader.getMemoryRatio(),
      .throttled = reader.getThrottled(),
  };
}

decision_counts read_counts(schema::DecisionCounts::Reader reader) {
  return {
      .received = reader.getReceived(),
      .applied = reader.getApplied(),
      .late = reader.getLate(),
      .superseded = reader.getSuperseded(),
      .unapplied = reader.getUnapplied(),
      .stale_refused = reader.getStaleRefused(),
      .duplicated = reader.getDuplicated(),
  };
}

transition read_transition(schema::Transition::Reader reader) {
  transition value{
      .state = {},
      .action = reader.getAction(),
      .log_probability = reader.getLogProbability(),
      .value = reader.getValue(),
      .reward = reader.getReward(),
  };
  const auto state = reader.getState();
  const auto count = bounded(state, max_state_size);
  value.state.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.state.push_back(state[i]);
  return value;
}

} // namespace

hello read(schema::Hello::Reader reader) {
  return {
      .protocol = reader.getProtocol(),
      .cluster = read_text(reader.getCluster(), max_name_length),
      .cluster_digest = reader.getClusterDigest(),
      .host = read_text(reader.getHost(), max_name_length),
      .incarnation = reader.getIncarnation(),
      .heartbeat_interval_ms = reader.getHeartbeatIntervalMs(),
      .generation = reader.getGeneration(),
      .last_decision = read_key(reader.getLastDecision()),
      .training = reader.getTraining(),
      .members = read_ranks(reader.getMembers()),
      .steps = reader.getSteps(),
      .attempted_steps = reader.getAttemptedSteps(),
      .checkpoint_steps = reader.getCheckpointSteps(),
  };
}

welcome read(schema::Welcome::Reader reader) {
  return {
      .verdict = read_enum<welcome_verdict>(reader.getVerdict()),
      .detail = read_text(reader.getDetail(), max_text_length),
      .term = reader.getTerm(),
      .generation = reader.getGeneration(),
      .rank = reader.getRank(),
      .leader = read_text(reader.getLeader(), max_name_length),
  };
}

placement read(schema::Placement::Reader reader) {
  return {
      .generation = reader.getGeneration(),
      .members = read_ranks(reader.getMembers()),
      .source = reader.getSource(),
      .store_prefix = read_text(reader.getStorePrefix(), max_name_length),
  };
}

generation_notice read(schema::GenerationNotice::Reader reader) {
  return {
      .generation = reader.getGeneration(),
      .change = read_enum<generation_change>(reader.getChange()),
      .reason = read_text(reader.getReason(), max_text_length),
  };
}

heartbeat read(schema::Heartbeat::Reader reader) {
  return {
      .rank = reader.getRank(),
      .incarnation = reader.getIncarnation(),
      .generation = reader.getGeneration(),
      .steps = reader.getSteps(),
  };
}

window_report read(schema::WindowReport::Reader reader) {
  return {
      .host = read_text(reader.getHost(), max_name_length),
      .rank = reader.getRank(),
      .generation = reader.getGeneration(),
      .window = reader.getWindow(),
      .first_step = reader.getFirstStep(),
      .final = reader.getFinal(),
      .batch = reader.getBatch(),
      .decision = read_key(reader.getDecision()),
      .global_batch = reader.getGlobalBatch(),
      .epoch = reader.getEpoch(),
      .epoch_samples = reader.getEpochSamples(),
      .elapsed_seconds = reader.getElapsedSeconds(),
      .training = read_training(reader.getTraining()),
      .network = read_network(reader.getNetwork()),
      .system = read_system(reader.getSystem()),
      .telemetry_seconds = reader.getTelemetrySeconds(),
      .control_seconds = reader.getControlSeconds(),
      .gpu = read_gpu(reader.getGpu()),
      .program_seconds = reader.getProgramSeconds(),
      .telemetry_choice = read_text(reader.getTelemetryChoice(), max_text_length),
  };
}

evaluation_report read(schema::EvaluationReport::Reader reader) {
  return {
      .step = reader.getStep(),
      .epoch = reader.getEpoch(),
      .samples = reader.getSamples(),
      .elapsed_seconds = reader.getElapsedSeconds(),
      .train_loss = reader.getTrainLoss(),
      .test_loss = reader.getTestLoss(),
      .test_accuracy = reader.getTestAccuracy(),
      .global_batch = reader.getGlobalBatch(),
      .learning_rate = reader.getLearningRate(),
  };
}

farewell read(schema::Farewell::Reader reader) {
  return {
      .host = read_text(reader.getHost(), max_name_length),
      .rank = reader.getRank(),
      .succeeded = reader.getSucceeded(),
      .reason = read_text(reader.getReason(), max_text_length),
      .steps = reader.getSteps(),
      .samples = reader.getSamples(),
      .epochs = reader.getEpochs(),
      .wall_seconds = reader.getWallSeconds(),
      .final_accuracy = reader.getFinalAccuracy(),
      .seconds_to_target = reader.getSecondsToTarget(),
      .parameter_checksum = reader.getParameterChecksum(),
      .control_seconds = reader.getControlSeconds(),
      .telemetry_seconds = reader.getTelemetrySeconds(),
      .decisions = read_counts(reader.getDecisions()),
      .incarnation = reader.getIncarnation(),
  };
}

shard_report read(schema::ShardReport::Reader reader) {
  shard_report value{
      .window = reader.getWindow(),
      .generation = reader.getGeneration(),
      .reports = {},
      .expected = reader.getExpected(),
      .gather_seconds = reader.getGatherSeconds(),
  };
  const auto reports = reader.getReports();
  const auto count = bounded(reports, max_workers);
  value.reports.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.reports.push_back(read(reports[i]));
  return value;
}

decision read(schema::Decision::Reader reader) {
  return {
      .key = read_key(reader.getKey()),
      .generation = reader.getGeneration(),
      .rank = reader.getRank(),
      .batch = reader.getBatch(),
      .first_step = reader.getFirstStep(),
  };
}

trajectory read(schema::Trajectory::Reader reader) {
  trajectory value{
      .rank = reader.getRank(),
      .policy_version = reader.getPolicyVersion(),
      .transitions = {},
      .bootstrap_value = reader.getBootstrapValue(),
  };
  const auto transitions = reader.getTransitions();
  const auto count = bounded(transitions, max_trajectory_length);
  value.transitions.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.transitions.push_back(read_transition(transitions[i]));
  return value;
}

policy_version read(schema::PolicyVersion::Reader reader) {
  return {
      .version = reader.getVersion(),
      .parameters = read_data(reader.getParameters(), max_policy_bytes),
      .policy_loss = reader.getPolicyLoss(),
      .value_loss = reader.getValueLoss(),
      .entropy = reader.getEntropy(),
      .approximate_kl = reader.getApproximateKl(),
      .clip_fraction = reader.getClipFraction(),
  };
}

store_operation read(schema::StoreOperation::Reader reader) {
  store_operation value{
      .verb = read_enum<store_verb>(reader.getVerb()),
      .keys = {},
      .value = read_data(reader.getValue(), max_store_value_bytes),
      .amount = reader.getAmount(),
  };
  const auto keys = reader.getKeys();
  const auto count = bounded(keys, max_store_keys);
  value.keys.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.keys.push_back(read_text(keys[i], max_key_length));
  return value;
}

store_result read(schema::StoreResult::Reader reader) {
  return {
      .status = read_enum<store_status>(reader.getStatus()),
      .value = read_data(reader.getValue(), max_store_value_bytes),
      .number = reader.getNumber(),
  };
}

} // namespace dynamix::messages::wire
