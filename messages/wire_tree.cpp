/// The messages of the tree (messages/tree.hpp).

#include "messages/wire.hpp"
#include "messages/wire_parts.hpp"

namespace dynamix::messages::wire {
namespace {

std::vector<float> read_floats(capnp::List<float>::Reader list, std::size_t limit) {
  const auto count = static_cast<unsigned>(bounded(list, limit));
  std::vector<float> values;
  values.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    values.push_back(list[i]);
  return values;
}

void write_floats(const std::vector<float>& values, capnp::List<float>::Builder builder) {
  for (unsigned i = 0; i < builder.size(); ++i)
    builder.set(i, values[i]);
}

unsigned size_of(const auto& list) {
  return static_cast<unsigned>(list.size());
}

void write_choice(const worker_choice& value, schema::WorkerChoice::Builder builder) {
  builder.setRank(value.rank);
  write_key(value.key, builder.initKey());
  builder.setPolicyVersion(value.policy_version);
  builder.setAssigned(value.assigned);
  builder.setBatch(value.batch);
  builder.setProposed(value.proposed);
  builder.setVote(value.vote);
  builder.setActed(value.acted);
  builder.setLogProbability(value.log_probability);
  builder.setValue(value.value);
  write_floats(value.state, builder.initState(size_of(value.state)));
  write_floats(value.probabilities, builder.initProbabilities(size_of(value.probabilities)));
  builder.setReason(text_of(value.reason));
}

worker_choice read_choice(schema::WorkerChoice::Reader reader) {
  return {.rank = reader.getRank(),
          .key = read_key(reader.getKey()),
          .policy_version = reader.getPolicyVersion(),
          .assigned = reader.getAssigned(),
          .batch = reader.getBatch(),
          .proposed = reader.getProposed(),
          .vote = reader.getVote(),
          .acted = reader.getActed(),
          .log_probability = reader.getLogProbability(),
          .value = reader.getValue(),
          .state = read_floats(reader.getState(), max_state_size),
          .probabilities = read_floats(reader.getProbabilities(), max_actions),
          .reason = read_text(reader.getReason(), max_text_length)};
}

void write_sums(const global_sums& value, schema::GlobalSums::Builder builder) {
  builder.setReports(value.reports);
  builder.setWeight(value.weight);
  builder.setAccuracy(value.accuracy);
  builder.setLoss(value.loss);
  builder.setIterationSecondsMax(value.iteration_seconds_max);
  builder.setNoiseScale(value.noise_scale);
  builder.setNoiseWeight(value.noise_weight);
  builder.setGlobalBatch(value.global_batch);
  builder.setBatchLowest(value.batch_lowest);
  builder.setBatchHighest(value.batch_highest);
  builder.setComputeSeconds(value.compute_seconds);
  builder.setComputeSecondsMax(value.compute_seconds_max);
  builder.setSpeed(value.speed);
  builder.setSpeedReports(value.speed_reports);
}

global_sums read_sums(schema::GlobalSums::Reader reader) {
  return {.reports = reader.getReports(),
          .weight = reader.getWeight(),
          .accuracy = reader.getAccuracy(),
          .loss = reader.getLoss(),
          .iteration_seconds_max = reader.getIterationSecondsMax(),
          .noise_scale = reader.getNoiseScale(),
          .noise_weight = reader.getNoiseWeight(),
          .global_batch = reader.getGlobalBatch(),
          .batch_lowest = reader.getBatchLowest(),
          .batch_highest = reader.getBatchHighest(),
          .compute_seconds = reader.getComputeSeconds(),
          .compute_seconds_max = reader.getComputeSecondsMax(),
          .speed = reader.getSpeed(),
          .speed_reports = reader.getSpeedReports()};
}

} // namespace

void write(const shard_hello& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initShardHello();
  builder.setProtocol(value.protocol);
  builder.setCluster(text_of(value.cluster));
  builder.setClusterDigest(value.cluster_digest);
  builder.setHost(text_of(value.host));
  builder.setNode(text_of(value.node));
  builder.setParent(text_of(value.parent));
  builder.setIncarnation(value.incarnation);
  builder.setHeartbeatIntervalMs(value.heartbeat_interval_ms);
}

void write(const absence& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initAbsence();
  builder.setRank(value.rank);
  builder.setIncarnation(value.incarnation);
  builder.setDetail(text_of(value.detail));
}

void write(const beat_summary& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initBeatSummary();
  builder.setNode(text_of(value.node));
  auto beats = builder.initBeats(size_of(value.beats));
  for (unsigned i = 0; i < beats.size(); ++i)
    write_heartbeat(value.beats[i], beats[i]);
}

void write(const shard_window& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initShardWindow();
  builder.setWindow(value.window);
  builder.setGeneration(value.generation);
  builder.setExpected(value.expected);
  builder.setGatherSeconds(value.gather_seconds);
  builder.setDecideSeconds(value.decide_seconds);
  builder.setUntrained(text_of(value.untrained));
  auto reports = builder.initReports(size_of(value.reports));
  for (unsigned i = 0; i < reports.size(); ++i)
    write_report(value.reports[i], reports[i]);
  auto choices = builder.initChoices(size_of(value.choices));
  for (unsigned i = 0; i < choices.size(); ++i)
    write_choice(value.choices[i], choices[i]);
}

void write(const guidance& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initGuidance();
  builder.setGeneration(value.generation);
  builder.setWindow(value.window);
  write_sums(value.sums, builder.initSums());
  builder.setPlanned(value.planned);
  builder.setPlannedTotal(value.planned_total);
  builder.setAssignedTotal(value.assigned_total);
  builder.setGain(value.gain);
  builder.setSurpriseLargest(value.surprise_largest);
  builder.setExchangeOverStep(value.exchange_over_step);
  builder.setNoiseTrend(value.noise_trend);
  builder.setTargetSeconds(value.target_seconds);
  builder.setRuledTotal(value.ruled_total);
  builder.setIntervention(text_of(value.intervention));
  builder.setReason(text_of(value.reason));
  auto workers = builder.initWorkers(size_of(value.workers));
  for (unsigned i = 0; i < workers.size(); ++i) {
    workers[i].setRank(value.workers[i].rank);
    workers[i].setPlanned(value.workers[i].planned);
    workers[i].setRuled(value.workers[i].ruled);
  }
}

void write(const shard_order& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initShardOrder();
  builder.setTerm(value.term);
  write_ranks(value.leaving, builder.initLeaving(size_of(value.leaving)));
  builder.setFinished(value.finished);
  builder.setSucceeded(value.succeeded);
  builder.setReason(text_of(value.reason));
}

void write(const recipients& value, schema::Envelope::Builder envelope) {
  auto builder = envelope.initRecipients();
  write_ranks(value.ranks, builder.initRanks(size_of(value.ranks)));
}

recipients read(schema::Recipients::Reader reader) {
  return {.ranks = read_ranks(reader.getRanks())};
}

shard_hello read(schema::ShardHello::Reader reader) {
  return {.protocol = reader.getProtocol(),
          .cluster = read_text(reader.getCluster(), max_name_length),
          .cluster_digest = reader.getClusterDigest(),
          .host = read_text(reader.getHost(), max_name_length),
          .node = read_text(reader.getNode(), max_name_length),
          .parent = read_text(reader.getParent(), max_name_length),
          .incarnation = reader.getIncarnation(),
          .heartbeat_interval_ms = reader.getHeartbeatIntervalMs()};
}

absence read(schema::Absence::Reader reader) {
  return {.rank = reader.getRank(),
          .incarnation = reader.getIncarnation(),
          .detail = read_text(reader.getDetail(), max_text_length)};
}

beat_summary read(schema::BeatSummary::Reader reader) {
  beat_summary value{.node = read_text(reader.getNode(), max_name_length), .beats = {}};
  const auto beats = reader.getBeats();
  const auto count = static_cast<unsigned>(bounded(beats, max_workers));
  value.beats.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.beats.push_back(read(beats[i]));
  return value;
}

shard_window read(schema::ShardWindow::Reader reader) {
  shard_window value{.window = reader.getWindow(),
                     .generation = reader.getGeneration(),
                     .expected = reader.getExpected(),
                     .gather_seconds = reader.getGatherSeconds(),
                     .decide_seconds = reader.getDecideSeconds(),
                     .untrained = read_text(reader.getUntrained(), max_text_length),
                     .reports = {},
                     .choices = {}};
  const auto reports = reader.getReports();
  const auto count = static_cast<unsigned>(bounded(reports, max_workers));
  value.reports.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.reports.push_back(read(reports[i]));
  const auto choices = reader.getChoices();
  const auto chosen = static_cast<unsigned>(bounded(choices, max_workers));
  value.choices.reserve(chosen);
  for (unsigned i = 0; i < chosen; ++i)
    value.choices.push_back(read_choice(choices[i]));
  return value;
}

guidance read(schema::Guidance::Reader reader) {
  guidance value{.generation = reader.getGeneration(),
                 .window = reader.getWindow(),
                 .sums = read_sums(reader.getSums()),
                 .planned = reader.getPlanned(),
                 .planned_total = reader.getPlannedTotal(),
                 .assigned_total = reader.getAssignedTotal(),
                 .gain = reader.getGain(),
                 .surprise_largest = reader.getSurpriseLargest(),
                 .exchange_over_step = reader.getExchangeOverStep(),
                 .noise_trend = reader.getNoiseTrend(),
                 .target_seconds = reader.getTargetSeconds(),
                 .ruled_total = reader.getRuledTotal(),
                 .intervention = read_text(reader.getIntervention(), max_text_length),
                 .reason = read_text(reader.getReason(), max_text_length),
                 .workers = {}};
  const auto workers = reader.getWorkers();
  const auto count = static_cast<unsigned>(bounded(workers, max_workers));
  value.workers.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    value.workers.push_back({workers[i].getRank(), workers[i].getPlanned(), workers[i].getRuled()});
  return value;
}

shard_order read(schema::ShardOrder::Reader reader) {
  return {.term = reader.getTerm(),
          .leaving = read_ranks(reader.getLeaving()),
          .finished = reader.getFinished(),
          .succeeded = reader.getSucceeded(),
          .reason = read_text(reader.getReason(), max_text_length)};
}

} // namespace dynamix::messages::wire
