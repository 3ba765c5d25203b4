#include "messages/wire.hpp"
#include "messages/wire_parts.hpp"

namespace dynamix::messages::wire {
namespace {

// The enumerators of types.hpp and of the schema have the same numbers.
template <class Wire, class Enum>
Wire to_wire(Enum value) {
  return static_cast<Wire>(static_cast<std::uint16_t>(value));
}

capnp::Data::Reader data_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.data(), bytes.size()};
}

void write_training(const training_statistics& value, schema::TrainingStatistics::Builder builder) {
  builder.setSteps(value.steps);
  builder.setSamples(value.samples);
  builder.setAccuracy(value.accuracy);
  builder.setLoss(value.loss);
  builder.setIterationSeconds(value.iteration_seconds);
  builder.setComputeSeconds(value.compute_seconds);
  builder.setExchangeSeconds(value.exchange_seconds);
  builder.setDataSeconds(value.data_seconds);
  builder.setGradientValid(value.gradient_valid);
  builder.setSigmaNorm(value.sigma_norm);
  builder.setSigma2Norm(value.sigma2_norm);
  builder.setGradientNorm(value.gradient_norm);
  builder.setNoiseScale(value.noise_scale);
  builder.setLearningRate(value.learning_rate);
  builder.setGain(value.gain);
}

void write_network(const network_statistics& value, schema::NetworkStatistics::Builder builder) {
  builder.setValid(value.valid);
  builder.setThroughputBytesPerSecond(value.throughput_bytes_per_second);
  builder.setRttSeconds(value.rtt_seconds);
  builder.setRetransmissions(value.retransmissions);
  builder.setSource(to_wire<schema::SignalSource>(value.source));
  builder.setRttP50Seconds(value.rtt_p50_seconds);
  builder.setRttP99Seconds(value.rtt_p99_seconds);
  builder.setGradientBytesPerSecond(value.gradient_bytes_per_second);
  builder.setControlBytesPerSecond(value.control_bytes_per_second);
  builder.setSegmentsSent(value.segments_sent);
  builder.setSenderBlockedRatio(value.sender_blocked_ratio);
  builder.setReceiverBlockedRatio(value.receiver_blocked_ratio);
  builder.setConnectionResets(value.connection_resets);
  builder.setConnections(value.connections);
  builder.setCongestionWindowSegments(value.congestion_window_segments);
}

void write_system(const system_statistics& value, schema::SystemStatistics::Builder builder) {
  builder.setValid(value.valid);
  builder.setCpuTimeRatio(value.cpu_time_ratio);
  builder.setRunQueueWaitRatio(value.run_queue_wait_ratio);
  builder.setMemoryRatio(value.memory_ratio);
  builder.setSource(to_wire<schema::SignalSource>(value.source));
  builder.setTrainingValid(value.training_valid);
  builder.setTrainingCpuRatio(value.training_cpu_ratio);
  builder.setTrainingWaitRatio(value.training_wait_ratio);
  builder.setTrainingStalledRatio(value.training_stalled_ratio);
  builder.setInvoluntarySwitches(value.involuntary_switches);
  builder.setPageFaults(value.page_faults);
  builder.setMajorPageFaults(value.major_page_faults);
  builder.setCgroupMemoryBytes(value.cgroup_memory_bytes);
  builder.setThrottledRatio(value.throttled_ratio);
  builder.setPressureValid(value.pressure_valid);
  builder.setCpuPressureRatio(value.cpu_pressure_ratio);
  builder.setMemoryPressureRatio(value.memory_pressure_ratio);
  builder.setIoPressureRatio(value.io_pressure_ratio);
}

void write_gpu(const gpu_statistics& value, schema::GpuStatistics::Builder builder) {
  builder.setValid(value.valid);
  builder.setUtilisationRatio(value.utilisation_ratio);
  builder.setMemoryRatio(value.memory_ratio);
  builder.setThrottled(value.throttled);
}

void write_counts(const decision_counts& value, schema::DecisionCounts::Builder builder) {
  builder.setReceived(value.received);
  builder.setApplied(value.applied);
  builder.setLate(value.late);
  builder.setSuperseded(value.superseded);
  builder.setUnapplied(value.unapplied);
  builder.setStaleRefused(value.stale_refused);
  builder.setDuplicated(value.duplicated);
}

void write_transition(const transition& value, schema::Transition::Builder builder) {
  auto state = builder.initState(static_cast<unsigned>(value.state.size()));
  for (unsigned i = 0; i < state.size(); ++i)
    state.set(i, value.state[i]);
  builder.setAction(value.action);
  builder.setLogProbability(value.log_probability);
  builder.setValue(value.value);
  builder.setReward(value.reward);
}

} // namespace

void write_report(const window_report& value, schema::WindowReport::Builder builder) {
  builder.setHost(text_of(value.host));
  builder.setRank(value.rank);
  builder.setGeneration(value.generation);
  builder.setWindow(value.window);
  builder.setFirstStep(value.first_step);
  builder.setFinal(value.final);
  builder.setBatch(value.batch);
  write_key(value.decision, builder.initDecision());
  builder.setGlobalBatch(value.global_batch);
  builder.setEpoch(value.epoch);
  builder.setEpochSamples(value.epoch_samples);
  builder.setElapsedSeconds(value.elapsed_seconds);
  write_training(value.training, builder.initTraining());
  write_network(value.network, builder.initNetwork());
  write_system(value.system, builder.initSystem());
  builder.setTelemetrySeconds(value.telemetry_seconds);
  builder.setControlSeconds(value.control_seconds);
  if (value.gpu != gpu_statistics{})
    write_gpu(value.gpu, builder.initGpu());
  builder.setProgramSeconds(value.program_seconds);
  if (!value.telemetry_choice.empty())
    builder.setTelemetryChoice(text_of(value.telemetry_choice));
}

void write_heartbeat(const heartbeat& value, schema::Heartbeat::Builder builder) {
  builder.setRank(value.rank);
  builder.setIncarnation(value.incarnation);
  builder.setGeneration(value.generation);
  builder.setSteps(value.steps);
}

void write(const hello& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initHello();
  builder.setProtocol(value.protocol);
  builder.setCluster(text_of(value.cluster));
  builder.setClusterDigest(value.cluster_digest);
  builder.setHost(text_of(value.host));
  builder.setIncarnation(value.incarnation);
  builder.setHeartbeatIntervalMs(value.heartbeat_interval_ms);
  builder.setGeneration(value.generation);
  write_key(value.last_decision, builder.initLastDecision());
  builder.setTraining(value.training);
  write_ranks(value.members, builder.initMembers(static_cast<unsigned>(value.members.size())));
  builder.setSteps(value.steps);
  builder.setAttemptedSteps(value.attempted_steps);
  builder.setCheckpointSteps(value.checkpoint_steps);
}

void write(const welcome& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initWelcome();
  builder.setVerdict(to_wire<schema::WelcomeVerdict>(value.verdict));
  builder.setDetail(text_of(value.detail));
  builder.setTerm(value.term);
  builder.setGeneration(value.generation);
  builder.setRank(value.rank);
  builder.setLeader(text_of(value.leader));
}

void write(const placement& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initPlacement();
  builder.setGeneration(value.generation);
  write_ranks(value.members, builder.initMembers(static_cast<unsigned>(value.members.size())));
  builder.setSource(value.source);
  builder.setStorePrefix(text_of(value.store_prefix));
}

void write(const generation_notice& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initGenerationNotice();
  builder.setGeneration(value.generation);
  builder.setChange(to_wire<schema::GenerationChange>(value.change));
  builder.setReason(text_of(value.reason));
}

void write(const heartbeat& value, schema::Envelope::Builder envelope) {
  write_heartbeat(value, envelope.initHeartbeat());
}

void write(const window_report& value, schema::Envelope::Builder envelope) {
  write_report(value, envelope.initWindowReport());
}

void write(const evaluation_report& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initEvaluationReport();
  builder.setStep(value.step);
  builder.setEpoch(value.epoch);
  builder.setSamples(value.samples);
  builder.setElapsedSeconds(value.elapsed_seconds);
  builder.setTrainLoss(value.train_loss);
  builder.setTestLoss(value.test_loss);
  builder.setTestAccuracy(value.test_accuracy);
  builder.setGlobalBatch(value.global_batch);
  builder.setLearningRate(value.learning_rate);
}

void write(const farewell& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initFarewell();
  builder.setHost(text_of(value.host));
  builder.setRank(value.rank);
  builder.setSucceeded(value.succeeded);
  builder.setReason(text_of(value.reason));
  builder.setSteps(value.steps);
  builder.setSamples(value.samples);
  builder.setEpochs(value.epochs);
  builder.setWallSeconds(value.wall_seconds);
  builder.setFinalAccuracy(value.final_accuracy);
  builder.setSecondsToTarget(value.seconds_to_target);
  builder.setParameterChecksum(value.parameter_checksum);
  builder.setControlSeconds(value.control_seconds);
  builder.setTelemetrySeconds(value.telemetry_seconds);
  write_counts(value.decisions, builder.initDecisions());
  builder.setIncarnation(value.incarnation);
}

void write(const shard_report& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initShardReport();
  builder.setWindow(value.window);
  builder.setGeneration(value.generation);
  auto reports = builder.initReports(static_cast<unsigned>(value.reports.size()));
  for (unsigned i = 0; i < reports.size(); ++i)
    write_report(value.reports[i], reports[i]);
  builder.setExpected(value.expected);
  builder.setGatherSeconds(value.gather_seconds);
}

void write(const decision& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initDecision();
  write_key(value.key, builder.initKey());
  builder.setGeneration(value.generation);
  builder.setRank(value.rank);
  builder.setBatch(value.batch);
  builder.setFirstStep(value.first_step);
}

void write(const trajectory& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initTrajectory();
  builder.setRank(value.rank);
  builder.setPolicyVersion(value.policy_version);
  auto transitions = builder.initTransitions(static_cast<unsigned>(value.transitions.size()));
  for (unsigned i = 0; i < transitions.size(); ++i)
    write_transition(value.transitions[i], transitions[i]);
  builder.setBootstrapValue(value.bootstrap_value);
}

void write(const policy_version& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initPolicyVersion();
  builder.setVersion(value.version);
  builder.setParameters(data_of(value.parameters));
  builder.setPolicyLoss(value.policy_loss);
  builder.setValueLoss(value.value_loss);
  builder.setEntropy(value.entropy);
  builder.setApproximateKl(value.approximate_kl);
  builder.setClipFraction(value.clip_fraction);
}

void write(const store_operation& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initStoreOperation();
  builder.setVerb(to_wire<schema::StoreVerb>(value.verb));
  auto keys = builder.initKeys(static_cast<unsigned>(value.keys.size()));
  for (unsigned i = 0; i < keys.size(); ++i)
    keys.set(i, text_of(value.keys[i]));
  builder.setValue(data_of(value.value));
  builder.setAmount(value.amount);
}

void write(const store_result& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initStoreResult();
  builder.setStatus(to_wire<schema::StoreStatus>(value.status));
  builder.setValue(data_of(value.value));
  builder.setNumber(value.number);
}

} // namespace dynamix::messages::wire
