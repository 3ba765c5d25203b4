#include "tests/unit/messages/examples.hpp"

namespace dynamix::messages {
namespace {

window_report report_of(std::uint32_t rank) {
  return {
      .host = "höst-" + std::to_string(rank),
      .rank = rank,
      .generation = 3,
      .window = 41 - rank,
      .first_step = 400,
      .final = true,
      .batch = 96,
      .decision = {.term = 2, .window = 39},
      .global_batch = 224,
      .epoch = 1,
      .epoch_samples = 38912,
      .elapsed_seconds = 17.25,
      .training = {.steps = 10,
                   .samples = 960,
                   .accuracy = 0.8125,
                   .loss = 0.546875,
                   .iteration_seconds = 0.046875,
                   .compute_seconds = 0.03125,
                   .exchange_seconds = 0.01171875,
                   .data_seconds = 0.00390625,
                   .gradient_valid = true,
                   .sigma_norm = 1.5,
                   .sigma2_norm = 2.25,
                   .gradient_norm = 0.75,
                   .noise_scale = 512.5,
                   .learning_rate = 0.0625,
                   .gain = 1.375},
      .network = {.valid = true,
                  .throughput_bytes_per_second = 1.25e8,
                  .rtt_seconds = 0.000244140625,
                  .retransmissions = 7},
      .system = {.valid = true, .cpu_time_ratio = 1.75, .run_queue_wait_ratio = 0.125, .memory_ratio = 0.0625},
      .telemetry_seconds = 0.0009765625,
      .control_seconds = 0.001953125,
  };
}

/// With everything that has been added since the first release.
window_report grown_report() {
  auto report = report_of(1);
  report.network.source = signal_source::ebpf;
  report.network.rtt_p50_seconds = 0.000122070312;
  report.network.rtt_p99_seconds = 0.0009765625;
  report.network.gradient_bytes_per_second = 1.125e8;
  report.network.control_bytes_per_second = 0.125e8;
  report.network.segments_sent = 81'000;
  report.network.sender_blocked_ratio = 0.375;
  report.network.receiver_blocked_ratio = 0.0625;
  report.network.connection_resets = 2;
  report.network.connections = 6;
  report.network.congestion_window_segments = 41.5;
  report.system.source = signal_source::unprivileged;
  report.system.training_valid = true;
  report.system.training_cpu_ratio = 0.625;
  report.system.training_wait_ratio = 0.1875;
  report.system.training_stalled_ratio = 0.03125;
  report.system.involuntary_switches = 212;
  report.system.page_faults = 3000;
  report.system.major_page_faults = 4;
  report.system.cgroup_memory_bytes = 512U << 20;
  report.system.throttled_ratio = 0.25;
  report.system.pressure_valid = true;
  report.system.cpu_pressure_ratio = 0.5;
  report.system.memory_pressure_ratio = 0.015625;
  report.system.io_pressure_ratio = 0.0078125;
  report.gpu = {.valid = true, .utilisation_ratio = 0.9375, .memory_ratio = 0.75, .throttled = true};
  report.program_seconds = 0.000244140625;
  report.telemetry_choice = "network: ebpf; system: unprivileged";
  return report;
}

hello hello_example() {
  return {
      .protocol = 1,
      .cluster = "local-4",
      .cluster_digest = 0x0123456789abcdef,
      .host = "ana",
      .incarnation = 0xfedcba9876543210,
      .heartbeat_interval_ms = 1000,
      .generation = 3,
      .last_decision = {.term = 2, .window = 39},
      .training = true,
      .members = {0, 2, 3},
      .steps = 1200,
      .attempted_steps = 1201,
      .checkpoint_steps = 1000,
      .newest_protocol = 0, // as it was recorded
  };
}

welcome welcome_example() {
  return {
      .verdict = welcome_verdict::not_leader,
      .detail = "another replica leads;\n\task it",
      .term = 2,
      .generation = 3,
      .rank = 1,
      .leader = "north",
  };
}

evaluation_report evaluation_example() {
  return {
      .step = 1200,
      .epoch = 4,
      .samples = 240000,
      .elapsed_seconds = 93.5,
      .train_loss = 0.3125,
      .test_loss = 0.34375,
      .test_accuracy = 0.890625,
      .global_batch = 1024,
      .learning_rate = 0.125,
  };
}

farewell farewell_example() {
  return {
      .host = "cy",
      .rank = 2,
      .succeeded = true,
      .reason = "trained 5 epochs",
      .steps = 1500,
      .samples = 75000,
      .epochs = 5,
      .wall_seconds = 120.5,
      .final_accuracy = 0.8984375,
      .seconds_to_target = 101.75,
      .parameter_checksum = 0xdeadbeefcafef00d,
      .control_seconds = 0.5,
      .telemetry_seconds = 0.25,
      .decisions = {.received = 149,
                    .applied = 145,
                    .late = 2,
                    .superseded = 3,
                    .unapplied = 1,
                    .stale_refused = 4,
                    .duplicated = 5},
  };
}

farewell grown_farewell() {
  auto value = farewell_example();
  value.incarnation = 0xfedcba9876543210;
  return value;
}

client_welcome client_welcome_example() {
  return {
      .verdict = client_verdict::accepted,
      .detail = "process 4711 is the training process of ben",
      .host = "ben",
      .rank = 1,
      .workers = 4,
      .window_steps = 10,
      .settle_steps = 2,
      .lowest_batch = 16,
      .highest_batch = 512,
      .initial_batch = 64,
      .rule = rate_rule::adascale,
      .seed = 42,
      .generation = 3,
  };
}

trajectory trajectory_example() {
  const transition first{
      .state = {0.5F, -1.25F, 3}, .action = 4, .log_probability = -1.5F, .value = 0.75F, .reward = -0.5F};
  const transition second{
      .state = {0.25F, 0, -3}, .action = 2, .log_probability = -0.125F, .value = -0.25F, .reward = 1.5F};
  return {.rank = 3, .policy_version = 12, .transitions = {first, second}, .bootstrap_value = 0.375F};
}

policy_version policy_example() {
  return {
      .version = 13,
      .parameters = {0, 1, 2, 3, 254, 255, 128, 64, 32},
      .policy_loss = -0.015625,
      .value_loss = 0.4375,
      .entropy = 1.5625,
      .approximate_kl = -0.0078125,
      .clip_fraction = 0.1875,
  };
}

shard_window shard_window_example() {
  return {.window = 41,
          .generation = 3,
          .expected = 4,
          .gather_seconds = 0.0625,
          .decide_seconds = 0.00390625,
          .untrained = "the policy was trained on loss from 0.5 to 2",
          .reports = {report_of(1)},
          .choices = {{.rank = 1,
                       .key = {.term = 2, .window = 41},
                       .policy_version = 13,
                       .assigned = 96,
                       .batch = 121,
                       .proposed = 140,
                       .vote = 5,
                       .acted = true,
                       .log_probability = -1.5F,
                       .value = 0.75F,
                       .state = {0.5F, -1.25F},
                       .probabilities = {0.25F, 0.75F},
                       .reason = "votes 100 %"}}};
}

guidance guidance_example() {
  return {.generation = 3,
          .window = 40,
          .sums = {.reports = 4,
                   .weight = 3840,
                   .accuracy = 3072.5,
                   .loss = 2048.25,
                   .iteration_seconds_max = 0.0625,
                   .noise_scale = 98304,
                   .noise_weight = 1920,
                   .global_batch = 384,
                   .batch_lowest = 64,
                   .batch_highest = 128,
                   .compute_seconds = 0.125,
                   .compute_seconds_max = 0.046875,
                   .speed = 12288,
                   .speed_reports = 3},
          .planned = true,
          .planned_total = 512,
          .assigned_total = 400,
          .gain = 1.125,
          .surprise_largest = -0.25,
          .exchange_over_step = 0.375,
          .noise_trend = 1.0625,
          .target_seconds = 0.03125,
          .ruled_total = 520,
          .intervention = "slower than goodput",
          .reason = "the policy's batch sizes promise less",
          .workers = {{.rank = 1, .planned = 128, .ruled = 130}}};
}

} // namespace

std::vector<any_message> examples() {
  return {
      hello_example(),
      welcome_example(),
      report_of(1),
      grown_report(),
      evaluation_example(),
      farewell_example(),
      grown_farewell(),
      shard_report{.window = 41,
                   .generation = 3,
                   .reports = {report_of(0), report_of(1)},
                   .expected = 4,
                   .gather_seconds = 0.0625},
      decision{.key = {.term = 2, .window = 41}, .generation = 3, .rank = 1, .batch = 121, .first_step = 420},
      trajectory_example(),
      policy_example(),
      store_operation{.verb = store_verb::set, .keys = {"generation-3/rank_0"}, .value = {9, 8, 7}},
      store_operation{.verb = store_verb::add, .keys = {"generation-3/count"}, .amount = -2},
      store_operation{.verb = store_verb::check, .keys = {"generation-3/rank_0", "generation-3/rank_1"}},
      store_result{.status = store_status::ok, .value = {9, 8, 7}, .number = -2},
      placement{.generation = 4, .members = {0, 2, 3}, .source = 2, .store_prefix = "generation-4"},
      generation_notice{.generation = 3, .change = generation_change::regroup, .reason = "ben wants to join"},
      heartbeat{.rank = 2, .incarnation = 0xfedcba9876543210, .generation = 4, .steps = 1234},
      shard_hello{.protocol = 2,
                  .cluster = "local-4",
                  .cluster_digest = 0x0123456789abcdef,
                  .host = "ana",
                  .node = "shard-2",
                  .parent = "root",
                  .incarnation = 0xfedcba9876543210,
                  .heartbeat_interval_ms = 1000,
                  .newest_protocol = 0},
      absence{.rank = 2, .incarnation = 0xfedcba9876543210, .detail = "the connection to it broke"},
      beat_summary{.node = "shard-2", .beats = {{.rank = 2, .incarnation = 7, .generation = 4, .steps = 1234}}},
      shard_window_example(),
      guidance_example(),
      shard_order{
          .term = 3, .leaving = {1, 2}, .finished = true, .succeeded = true, .reason = "all workers have finished"},
      recipients{.ranks = {1, 3}},
      client_hello{.protocol = 3, .position = 2, .members = 4, .incarnation = 0xfedcba9876543210, .newest_protocol = 0},
      client_welcome_example(),
      client_notice{.request = client_request::stop, .reason = "asked for on the command line"},
  };
}

} // namespace dynamix::messages
