#include "messages/codec.hpp"
#include "messages/validation.hpp"
#include "tests/unit/messages/examples.hpp"
#include "tests/unit/messages/unchecked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace dynamix::messages {
namespace {

using testing::StartsWith;

constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
constexpr auto infinity = std::numeric_limits<double>::infinity();

struct broken {
  std::string field; ///< how the message of its refusal begins
  any_message value;
};

/// The example of T with one field broken.
template <class T>
broken with(std::string field, const std::function<void(T&)>& change) {
  T value = example<T>();
  change(value);
  return {std::move(field), std::move(value)};
}

/// The example of T with one number broken in every way: NaN, both infinities, and beyond its range.
template <class T, class Number>
void add_numbers(std::vector<broken>& all, const std::string& field, const std::function<Number&(T&)>& select,
                 std::vector<double> beyond) {
  beyond.insert(beyond.end(), {nan, infinity, -infinity});
  for (const auto number : beyond)
    all.push_back(with<T>(field + " = ", [&](T& value) { select(value) = static_cast<Number>(number); }));
}

// Names the field once, for its message and for its access.
#define NUMBER(type, field, ...)                                                                                       \
  add_numbers<type, double>(all, #field, [](type& value) -> double& { return value.field; }, {__VA_ARGS__})
#define BREAK(type, field, number) all.push_back(with<type>(#field, [](type& value) { value.field = number; }))

const std::string too_long_name(max_name_length + 1, 'n');

std::vector<broken> broken_handshakes() {
  std::vector<broken> all;
  BREAK(hello, protocol, 0);
  all.push_back(with<hello>("newest_protocol", [](hello& value) {
    value.protocol = 2;
    value.newest_protocol = 1;
  }));
  BREAK(hello, cluster, "");
  BREAK(hello, cluster, too_long_name);
  BREAK(hello, cluster, "new\nline");
  BREAK(hello, host, "");
  BREAK(hello, host, too_long_name);
  BREAK(hello, host, "broken \xc3");
  BREAK(hello, host, "\x7f");
  BREAK(hello, host, "\xc2\x80");
  BREAK(hello, host, "\xed\xa0\x80"); // a lone surrogate
  BREAK(hello, incarnation, 0);
  BREAK(hello, heartbeat_interval_ms, 0);
  BREAK(hello, heartbeat_interval_ms, 3'600'001);
  BREAK(hello, last_decision, (decision_key{.term = 1, .window = 0}));
  BREAK(hello, members, {}); // although it trains
  BREAK(hello, members, (std::vector<std::uint32_t>{2, 2}));
  BREAK(hello, members, (std::vector<std::uint32_t>{3, 2}));
  BREAK(hello, members, {max_workers});
  all.push_back(with<hello>("members", [](hello& value) { value.training = false; }));
  all.push_back(with<hello>("training", [](hello& value) { value.generation = 0; }));
  BREAK(hello, attempted_steps, 1199);
  BREAK(hello, left_because, "it trains");
  BREAK(hello, address, too_long_name);
  BREAK(hello, address, "10.0.0.9\n10.0.0.7");
  all.push_back(with<hello>("left_because", [](hello& value) {
    value.training = false;
    value.members = {};
    value.generation = 0;
    value.left_because = "it has trained in none";
  }));
  BREAK(welcome, verdict, static_cast<welcome_verdict>(0));
  BREAK(welcome, verdict, static_cast<welcome_verdict>(9));
  BREAK(welcome, detail, std::string(max_text_length + 1, 'd'));
  BREAK(welcome, detail, std::string("zero\0", 5));
  BREAK(welcome, detail, "\x1b[2J");
  BREAK(welcome, rank, max_workers);
  BREAK(welcome, leader, too_long_name);
  BREAK(welcome, leader, "two\nlines");
  return all;
}

std::vector<broken> broken_generations() {
  std::vector<broken> all;
  BREAK(placement, generation, 0);
  BREAK(placement, members, {});
  BREAK(placement, members, (std::vector<std::uint32_t>{0, 3, 2}));
  BREAK(placement, members, (std::vector<std::uint32_t>{2, max_workers}));
  BREAK(placement, source, 1);
  BREAK(placement, store_prefix, "");
  BREAK(placement, store_prefix, too_long_name);
  BREAK(placement, store_prefix, "two\nlines");
  BREAK(generation_notice, generation, 0);
  BREAK(generation_notice, change, static_cast<generation_change>(0));
  BREAK(generation_notice, change, static_cast<generation_change>(3));
  BREAK(generation_notice, reason, std::string(max_text_length + 1, 'r'));
  BREAK(heartbeat, rank, max_workers);
  BREAK(heartbeat, incarnation, 0);
  return all;
}

std::vector<broken> broken_window_reports() {
  std::vector<broken> all;
  BREAK(window_report, host, "");
  BREAK(window_report, host, too_long_name);
  BREAK(window_report, rank, max_workers);
  BREAK(window_report, generation, 0);
  BREAK(window_report, window, 0);
  BREAK(window_report, batch, max_batch + 1);
  BREAK(window_report, decision, (decision_key{.term = 1, .window = 0}));
  BREAK(window_report, global_batch, std::uint64_t{max_workers} * max_batch + 1);
  NUMBER(window_report, elapsed_seconds, -1);
  NUMBER(window_report, training.accuracy, -0.001, 1.001);
  NUMBER(window_report, training.loss, -1);
  NUMBER(window_report, training.iteration_seconds, -1);
  NUMBER(window_report, training.compute_seconds, -1);
  NUMBER(window_report, training.exchange_seconds, -1);
  NUMBER(window_report, training.data_seconds, -1);
  NUMBER(window_report, training.sigma_norm, -1);
  NUMBER(window_report, training.sigma2_norm, -1);
  NUMBER(window_report, training.gradient_norm, -1);
  NUMBER(window_report, training.noise_scale, -1);
  NUMBER(window_report, training.learning_rate, -1);
  NUMBER(window_report, training.gain, -1);
  NUMBER(window_report, network.throughput_bytes_per_second, -1);
  NUMBER(window_report, network.rtt_seconds, -1);
  NUMBER(window_report, system.cpu_time_ratio, -1, -65537);
  NUMBER(window_report, system.run_queue_wait_ratio, -1);
  NUMBER(window_report, system.memory_ratio, -1, 1.001);
  BREAK(window_report, network.source, static_cast<signal_source>(4));
  BREAK(window_report, network.source, signal_source::none); // although it is valid
  NUMBER(window_report, network.rtt_p50_seconds, -1);
  NUMBER(window_report, network.rtt_p99_seconds, -1);
  NUMBER(window_report, network.gradient_bytes_per_second, -1);
  NUMBER(window_report, network.control_bytes_per_second, -1);
  NUMBER(window_report, network.sender_blocked_ratio, -1);
  NUMBER(window_report, network.receiver_blocked_ratio, -1);
  NUMBER(window_report, network.congestion_window_segments, -1);
  BREAK(window_report, system.source, static_cast<signal_source>(4));
  NUMBER(window_report, system.training_cpu_ratio, -1, 1.001);
  NUMBER(window_report, system.training_wait_ratio, -1, 1.001);
  NUMBER(window_report, system.training_stalled_ratio, -1, 1.001);
  NUMBER(window_report, system.throttled_ratio, -1);
  NUMBER(window_report, system.cpu_pressure_ratio, -1, 1.001);
  NUMBER(window_report, system.memory_pressure_ratio, -1, 1.001);
  NUMBER(window_report, system.io_pressure_ratio, -1, 1.001);
  NUMBER(window_report, gpu.utilisation_ratio, -1, 1.001);
  NUMBER(window_report, gpu.memory_ratio, -1, 1.001);
  NUMBER(window_report, program_seconds, -1);
  BREAK(window_report, telemetry_choice, std::string(max_text_length + 1, 'c'));
  NUMBER(window_report, telemetry_seconds, -1);
  NUMBER(window_report, control_seconds, -1);
  return all;
}

std::vector<broken> broken_other_reports() {
  std::vector<broken> all;
  NUMBER(evaluation_report, elapsed_seconds, -1);
  NUMBER(evaluation_report, train_loss, -1);
  NUMBER(evaluation_report, test_loss, -1);
  NUMBER(evaluation_report, test_accuracy, -0.001, 1.001);
  BREAK(evaluation_report, global_batch, std::uint64_t{max_workers} * max_batch + 1);
  NUMBER(evaluation_report, learning_rate, -1);
  BREAK(farewell, host, "");
  BREAK(farewell, rank, max_workers);
  BREAK(farewell, reason, std::string(max_text_length + 1, 'r'));
  BREAK(farewell, reason, "\xff");
  NUMBER(farewell, wall_seconds, -1);
  NUMBER(farewell, final_accuracy, -0.001, 1.001);
  NUMBER(farewell, seconds_to_target, );
  NUMBER(farewell, control_seconds, -1);
  NUMBER(farewell, telemetry_seconds, -1);
  BREAK(farewell, decisions.late, 146);
  BREAK(farewell, decisions.applied, 150);
  BREAK(farewell, decisions.superseded, 5);
  BREAK(farewell, decisions.unapplied, 2);
  BREAK(farewell, end, farewell_end::failed); // although it has succeeded
  BREAK(shard_report, window, 0);
  BREAK(shard_report, generation, 0);
  BREAK(shard_report, expected, max_workers + 1);
  NUMBER(shard_report, gather_seconds, -1);
  all.push_back(with<shard_report>("reports size", [](auto& value) { value.expected = 1; }));
  BREAK(shard_report, reports[1].batch, max_batch + 1);
  all.push_back(with<shard_report>("reports[0] is of another", [](auto& value) { value.reports[0].generation = 4; }));
  all.push_back(with<shard_report>("reports[1] is of a later", [](auto& value) { value.reports[1].window = 42; }));
  all.push_back(with<shard_report>("reports[1] does not come", [](auto& value) { value.reports[1].rank = 0; }));
  all.push_back(with<shard_report>("reports size", [](auto& value) { value.reports.resize(max_workers + 1); }));
  return all;
}

std::vector<broken> broken_policies() {
  std::vector<broken> all;
  BREAK(decision, key.window, 0);
  BREAK(decision, generation, 0);
  BREAK(decision, rank, max_workers);
  BREAK(decision, batch, 0);
  BREAK(decision, batch, max_batch + 1);
  BREAK(trajectory, rank, max_workers);
  all.push_back(with<trajectory>("transitions size", [](auto& value) { value.transitions.clear(); }));
  all.push_back(with<trajectory>("transitions size", [](auto& value) {
    value.transitions.resize(max_trajectory_length + 1, value.transitions[0]);
  }));
  all.push_back(with<trajectory>("transitions[0].state size", [](auto& value) { value.transitions[0].state.clear(); }));
  all.push_back(with<trajectory>("transitions[1].state size",
                                 [](auto& value) { value.transitions[1].state.resize(max_state_size + 1); }));
  all.push_back(
      with<trajectory>("transitions[1] has a state", [](auto& value) { value.transitions[1].state.pop_back(); }));
  all.push_back(
      with<trajectory>("transitions[1].state holds", [](auto& value) { value.transitions[1].state[2] = NAN; }));
  BREAK(trajectory, transitions[1].action, max_actions);
  using floats = std::function<float&(trajectory&)>;
  const auto add = [&](const char* field, const floats& select, std::vector<double> beyond) {
    add_numbers<trajectory, float>(all, field, select, std::move(beyond));
  };
  add("transitions[0].log_probability", [](auto& v) -> float& { return v.transitions[0].log_probability; }, {0.01});
  add("transitions[0].value", [](auto& v) -> float& { return v.transitions[0].value; }, {});
  add("transitions[0].reward", [](auto& v) -> float& { return v.transitions[0].reward; }, {});
  add("bootstrap_value", [](auto& v) -> float& { return v.bootstrap_value; }, {});
  all.push_back(with<policy_version>("parameters size", [](auto& value) { value.parameters.clear(); }));
  all.push_back(
      with<policy_version>("parameters size", [](auto& value) { value.parameters.resize(max_policy_bytes + 1); }));
  NUMBER(policy_version, policy_loss, );
  NUMBER(policy_version, value_loss, -1);
  NUMBER(policy_version, entropy, -1);
  NUMBER(policy_version, approximate_kl, );
  NUMBER(policy_version, clip_fraction, -0.001, 1.001);
  return all;
}

std::vector<broken> broken_store_messages() {
  std::vector<broken> all; // the example of an operation is a set
  BREAK(store_operation, verb, static_cast<store_verb>(0));
  BREAK(store_operation, verb, static_cast<store_verb>(7));
  BREAK(store_operation, keys[0], "");
  BREAK(store_operation, keys[0], std::string(max_key_length + 1, 'k'));
  BREAK(store_operation, keys[0], "k\n");
  BREAK(store_operation, amount, 1);
  const auto add = [&](const char* field, const store_operation& value) { all.push_back({field, value}); };
  const std::vector<std::uint8_t> byte = {1};
  add("keys size", {.verb = store_verb::set, .keys = {}});
  for (const auto verb : {store_verb::set, store_verb::get, store_verb::add, store_verb::remove})
    add("keys size", {.verb = verb, .keys = {"a", "b"}});
  add("keys size", {.verb = store_verb::check, .keys = {}});
  add("keys size", {.verb = store_verb::check, .keys = std::vector<std::string>(max_store_keys + 1, "k")});
  add("keys size", {.verb = store_verb::count, .keys = {"k"}});
  add("value size",
      {.verb = store_verb::set, .keys = {"k"}, .value = std::vector<std::uint8_t>(max_store_value_bytes + 1)});
  for (const auto verb : {store_verb::get, store_verb::add, store_verb::check, store_verb::remove})
    add("value size", {.verb = verb, .keys = {"k"}, .value = byte});
  add("value size", {.verb = store_verb::count, .value = byte});
  BREAK(store_result, status, static_cast<store_status>(0));
  BREAK(store_result, status, static_cast<store_status>(3));
  BREAK(store_result, value, std::vector<std::uint8_t>(max_store_value_bytes + 1));
  BREAK(store_result, status, store_status::absent); // with a value
  all.back().field = "value size";
  return all;
}

std::vector<broken> broken_client_messages() {
  std::vector<broken> all;
  BREAK(client_hello, protocol, 0);
  BREAK(client_hello, newest_protocol, value.protocol - 1);
  BREAK(client_hello, position, 4); // of 4
  BREAK(client_hello, members, max_workers + 1);
  BREAK(client_hello, incarnation, 0);
  BREAK(client_welcome, verdict, static_cast<client_verdict>(0));
  BREAK(client_welcome, host, "");
  BREAK(client_welcome, rank, 4);          // of 4
  BREAK(client_welcome, settle_steps, 10); // of 10
  BREAK(client_welcome, window_steps, max_window_steps + 1);
  BREAK(client_welcome, lowest_batch, 0);
  BREAK(client_welcome, lowest_batch, 513);
  BREAK(client_welcome, initial_batch, 15);
  BREAK(client_welcome, initial_batch, 513);
  BREAK(client_welcome, rule, static_cast<rate_rule>(5));
  BREAK(client_notice, request, static_cast<client_request>(0));
  BREAK(client_notice, reason, std::string(max_text_length + 1, 'd'));
  return all;
}

/// 2^64-1 as a generation, a term, a window or a number of steps once wrapped where the next one was counted.
std::vector<broken> far_counters() {
  constexpr auto far = max_counter + 1;
  std::vector<broken> all;
  BREAK(hello, generation, far);
  BREAK(hello, last_decision.term, far);
  BREAK(hello, last_decision.window, far);
  BREAK(hello, attempted_steps, far);
  all.push_back(with<hello>("steps", [](hello& value) { value.steps = value.attempted_steps = far; }));
  BREAK(hello, checkpoint_steps, far);
  BREAK(welcome, term, far);
  BREAK(welcome, generation, far);
  BREAK(placement, generation, far);
  BREAK(generation_notice, generation, far);
  BREAK(heartbeat, generation, far);
  BREAK(heartbeat, steps, far);
  BREAK(window_report, generation, far);
  BREAK(window_report, window, far);
  BREAK(window_report, first_step, far);
  BREAK(window_report, decision.term, far);
  BREAK(window_report, decision.window, far);
  BREAK(evaluation_report, step, far);
  BREAK(farewell, steps, far);
  BREAK(shard_report, window, far);
  BREAK(shard_report, generation, far);
  BREAK(decision, key.term, far);
  BREAK(decision, key.window, far);
  BREAK(decision, generation, far);
  BREAK(decision, first_step, far);
  BREAK(shard_window, window, far);
  BREAK(shard_window, generation, far);
  BREAK(guidance, window, far);
  BREAK(guidance, generation, far);
  BREAK(shard_order, term, far);
  BREAK(client_welcome, generation, far);
  return all;
}

void expect_refused_on_both_sides(const std::vector<broken>& all) {
  for (const auto& [field, value] : all) {
    const auto encoded = encode(value);
    ASSERT_FALSE(encoded) << kind_name(value) << " " << field << " was encoded";
    EXPECT_EQ(encoded.error().code, codec_code::invalid_field);
    EXPECT_THAT(encoded.error().text, StartsWith(field)) << kind_name(value);

    const auto decoded = decode(encode_unchecked(value));
    ASSERT_FALSE(decoded) << kind_name(value) << " " << field << " was decoded";
    EXPECT_EQ(decoded.error().code, codec_code::invalid_field) << decoded.error().text;
    EXPECT_THAT(decoded.error().text, StartsWith(std::string(kind_name(value)) + ": " + field));
  }
}

TEST(Validation, RefusesEachBrokenFieldOfTheHandshake) {
  expect_refused_on_both_sides(broken_handshakes());
  expect_refused_on_both_sides(broken_generations());
}
TEST(Validation, RefusesEachBrokenFieldOfAWindow) {
  expect_refused_on_both_sides(broken_window_reports());
}
TEST(Validation, RefusesEachBrokenFieldOfOtherReports) {
  expect_refused_on_both_sides(broken_other_reports());
}
TEST(Validation, RefusesEachBrokenFieldOfPolicies) {
  expect_refused_on_both_sides(broken_policies());
}
TEST(Validation, RefusesEachBrokenFieldOfTheStore) {
  expect_refused_on_both_sides(broken_store_messages());
}

TEST(Validation, RefusesEachBrokenFieldOfAClientAndItsAgent) {
  expect_refused_on_both_sides(broken_client_messages());
}

TEST(Validation, AcceptsARefusalThatSaysNothingOfTheWorker) {
  EXPECT_EQ(validate(client_welcome{.verdict = client_verdict::slot_taken, .detail = "process 4711 trains"}), "");
}

TEST(Validation, RefusesCountersThatAreTooFar) {
  expect_refused_on_both_sides(far_counters());
}

TEST(Validation, SaysWhatIsAllowed) {
  auto report = example<window_report>();
  report.training.accuracy = 1.5;
  EXPECT_EQ(validate(report), "training.accuracy = 1.5 is not in [0, 1]");
}

TEST(Validation, AcceptsNewlinesAndTabsOnlyInTextForPeople) {
  auto last = example<farewell>();
  last.reason = "two\n\tlines";
  EXPECT_EQ(validate(last), "");
  last.host = "two\tcolumns";
  EXPECT_EQ(validate(last), "host holds control characters");
}

TEST(FitText, LeavesGoodTextAlone) {
  EXPECT_EQ(fit_text(""), "");
  EXPECT_EQ(fit_text("größer\n\tals 5 €"), "größer\n\tals 5 €");
  EXPECT_EQ(fit_text(std::string(max_text_length, 'x')), std::string(max_text_length, 'x'));
}

TEST(FitText, ReplacesWhatAPeerWouldRefuse) {
  EXPECT_EQ(fit_text("a\x1b[31m"), "a\xef\xbf\xbd[31m");
  EXPECT_EQ(fit_text("a\xff"
                     "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(fit_text(std::string("a\0b", 3)), "a\xef\xbf\xbd"
                                              "b");
}

TEST(FitText, MakesAnyBytesAcceptableAtAnyLength) {
  auto last = example<farewell>();
  for (const std::string unit : {"\xff", "\xed\xa0\x80", "€", "\xf0\x9f\x98\x80", "\xf4\x90\x80\x80", "\r", "x"}) {
    std::string text;
    while (text.size() < 3 * max_text_length)
      text += unit;
    last.reason = fit_text(text);
    EXPECT_EQ(validate(last), "");
    EXPECT_GT(last.reason.size(), max_text_length - 4) << "cut off more than needed";
  }
}

} // namespace
} // namespace dynamix::messages
