// The rules between fields, on both sides. What a single field may be is held against its row by fields_test.cpp.

#include "messages/codec.hpp"
#include "messages/validation.hpp"
#include "tests/unit/messages/examples.hpp"
#include "tests/unit/messages/unchecked.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace dynamix::messages {
namespace {

using testing::StartsWith;

/// The example of T with this change is refused for `field`, with which the refusal begins.
template <class T>
void expect_refused(const std::string& field, const std::function<void(T&)>& change) {
  T value = example<T>();
  change(value);
  const std::string kind(kind_name(any_message(value)));
  const auto encoded = encode(value);
  ASSERT_FALSE(encoded) << kind << " " << field << " was encoded";
  EXPECT_EQ(encoded.error().code, codec_code::invalid_field);
  EXPECT_THAT(encoded.error().text, StartsWith(field)) << kind;

  const auto decoded = decode(encode_unchecked(any_message(value)));
  ASSERT_FALSE(decoded) << kind << " " << field << " was decoded";
  EXPECT_EQ(decoded.error().code, codec_code::invalid_field) << decoded.error().text;
  EXPECT_THAT(decoded.error().text, StartsWith(kind + ": " + field));
}

// Names the field once, for its message and for its access.
#define BREAK(type, field, wrong) expect_refused<type>(#field, [](type& value) { value.field = wrong; })

TEST(Validation, RefusesHellosThatContradictThemselves) {
  expect_refused<hello>("newest_protocol", [](auto& value) {
    value.protocol = 2;
    value.newest_protocol = 1;
  });
  BREAK(hello, last_decision, (decision_key{.term = 1, .window = 0}));
  BREAK(hello, members, {}); // although it trains
  expect_refused<hello>("members", [](auto& value) { value.training = false; });
  expect_refused<hello>("training", [](auto& value) { value.generation = 0; });
  BREAK(hello, attempted_steps, value.steps - 1);
  BREAK(hello, left_because, "it trains");
  expect_refused<hello>("left_because", [](auto& value) {
    value.training = false;
    value.members = {};
    value.generation = 0;
    value.left_because = "it has trained in none";
  });
  BREAK(shard_hello, newest_protocol, value.protocol - 1);
  BREAK(client_hello, newest_protocol, value.protocol - 1);
  BREAK(client_hello, position, 4); // of 4
  BREAK(placement, source, 1);      // who is no member
}

TEST(Validation, RefusesReportsThatContradictThemselves) {
  BREAK(window_report, decision, (decision_key{.term = 1, .window = 0}));
  BREAK(window_report, network.source, signal_source::none); // although it is valid
  BREAK(window_report, system.source, signal_source::none);
  BREAK(farewell, decisions.late, 146);
  BREAK(farewell, decisions.applied, 150);
  BREAK(farewell, decisions.superseded, 5);
  BREAK(farewell, decisions.unapplied, 2);
  BREAK(farewell, end, farewell_end::failed); // although it has succeeded
  expect_refused<shard_report>("reports size", [](auto& value) { value.expected = 1; });
  expect_refused<shard_report>("reports[0] is of another", [](auto& value) { value.reports[0].generation = 4; });
  expect_refused<shard_report>("reports[1] is of a later", [](auto& value) { value.reports[1].window = 42; });
  expect_refused<shard_report>("reports[1] does not come", [](auto& value) { value.reports[1].rank = 0; });
  expect_refused<shard_window>("choices", [](auto& value) { value.choices.clear(); });
  expect_refused<shard_window>("choices[0]", [](auto& value) { value.choices[0].rank = 2; });
  expect_refused<shard_window>("choices[0].acted", [](auto& value) { value.choices[0].vote = -1; });
  expect_refused<shard_window>("reports size", [](auto& value) { value.expected = 0; });
  expect_refused<shard_window>("reports[0]", [](auto& value) { value.window = 1; });
  BREAK(decision, key.window, 0);
  expect_refused<trajectory>("transitions[1] has a state", [](auto& value) { value.transitions[1].state.pop_back(); });
}

TEST(Validation, RefusesOperationsOfAStoreThatMeanNothing) {
  BREAK(store_operation, amount, 1); // the example is a set
  const auto refuse = [](const std::string& field, const store_operation& wrong) {
    expect_refused<store_operation>(field, [&](auto& value) { value = wrong; });
  };
  const std::vector<std::uint8_t> byte = {1};
  refuse("keys size", {.verb = store_verb::set, .keys = {}});
  for (const auto verb : {store_verb::set, store_verb::get, store_verb::add, store_verb::remove})
    refuse("keys size", {.verb = verb, .keys = {"a", "b"}});
  refuse("keys size", {.verb = store_verb::check, .keys = {}});
  refuse("keys size", {.verb = store_verb::count, .keys = {"k"}});
  for (const auto verb : {store_verb::get, store_verb::add, store_verb::check, store_verb::remove})
    refuse("value size", {.verb = verb, .keys = {"k"}, .value = byte});
  refuse("value size", {.verb = store_verb::count, .value = byte});
  expect_refused<store_result>("value size", [](auto& value) { value.status = store_status::absent; });
}

TEST(Validation, RefusesAWelcomeToAClientThatItCouldNotFollow) {
  BREAK(client_welcome, host, "");
  BREAK(client_welcome, rank, 4);          // of 4
  BREAK(client_welcome, settle_steps, 10); // of 10
  BREAK(client_welcome, lowest_batch, 0);
  BREAK(client_welcome, lowest_batch, 513);
  BREAK(client_welcome, initial_batch, 15);
  BREAK(client_welcome, initial_batch, 513);
}

/// It once wrapped where the next one was counted.
TEST(Validation, RefusesCountersThatAreTooFar) {
  BREAK(placement, generation, ~std::uint64_t{0});
  BREAK(window_report, window, max_counter + 1);
}

TEST(Validation, AcceptsARefusalThatSaysNothingOfTheWorker) {
  EXPECT_EQ(validate(client_welcome{.verdict = client_verdict::slot_taken, .detail = "process 4711 trains"}), "");
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
