#include "actors/network/store_table.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace dynamix::actors {
namespace {

messages::store_result apply(store_table& table, messages::store_verb verb, std::vector<std::string> keys,
                             std::vector<std::uint8_t> value = {}, std::int64_t amount = 0) {
  return table.apply({.verb = verb, .keys = std::move(keys), .value = std::move(value), .amount = amount});
}

TEST(StoreTable, KeepsValuesAndCounters) {
  using enum messages::store_verb;
  store_table table(2);
  EXPECT_EQ(apply(table, get, {"a"}).status, messages::store_status::absent);
  apply(table, set, {"a"}, {1, 2});
  EXPECT_EQ(apply(table, get, {"a"}).value, (std::vector<std::uint8_t>{1, 2}));
  EXPECT_EQ(apply(table, add, {"n"}, {}, 2).number, 2);
  EXPECT_EQ(apply(table, add, {"n"}, {}, -5).number, -3);
  EXPECT_EQ(apply(table, get, {"n"}).value, (std::vector<std::uint8_t>{'-', '3'}));
  EXPECT_EQ(apply(table, check, {"a", "n"}).number, 1);
  EXPECT_EQ(apply(table, check, {"a", "b"}).number, 0);
  EXPECT_EQ(apply(table, count, {}).number, 2);
  EXPECT_EQ(apply(table, remove, {"a"}).number, 1);
  EXPECT_EQ(apply(table, remove, {"a"}).number, 0);
}

TEST(StoreTable, IsBounded) {
  using enum messages::store_verb;
  store_table table(2);
  for (std::size_t key = 0; key < table.max_keys(); ++key)
    ASSERT_EQ(apply(table, set, {std::to_string(key)}).status, messages::store_status::ok);
  EXPECT_EQ(apply(table, set, {"one too many"}).status, messages::store_status::absent);
  EXPECT_EQ(apply(table, add, {"one too many"}, {}, 1).status, messages::store_status::absent);
  EXPECT_EQ(apply(table, set, {"0"}, {9}).status, messages::store_status::ok) << "what is there may change";

  store_table heavy(2);
  const std::vector<std::uint8_t> value(messages::max_store_value_bytes);
  const auto fit = heavy.max_bytes() / value.size();
  for (std::size_t key = 0; key < fit; ++key)
    ASSERT_EQ(apply(heavy, set, {std::to_string(key)}, value).status, messages::store_status::ok);
  EXPECT_EQ(apply(heavy, set, {"one too many"}, value).status, messages::store_status::absent);
  EXPECT_EQ(apply(heavy, remove, {"0"}).number, 1);
  EXPECT_EQ(apply(heavy, set, {"one too many"}, value).status, messages::store_status::ok);
}

TEST(StoreTable, TakesAnyAmountFromAPeer) {
  using enum messages::store_verb;
  store_table table(2);
  const auto most = std::numeric_limits<std::int64_t>::max();
  apply(table, add, {"n"}, {}, most);
  EXPECT_EQ(apply(table, add, {"n"}, {}, 1).number, std::numeric_limits<std::int64_t>::min());
}

TEST(StoreTable, HoldsWhatAsManyWorkersAnnounceAsAClusterFileMayName) {
  store_table table(messages::max_workers);
  const std::vector<std::uint8_t> announcement(512);
  std::vector<std::string> present;
  for (std::uint32_t rank = 0; rank < messages::max_workers; ++rank) {
    present.push_back("generation-1/present/" + std::to_string(rank));
    ASSERT_EQ(apply(table, messages::store_verb::set, {present.back()}, announcement).status,
              messages::store_status::ok)
        << rank;
  }
  EXPECT_EQ(apply(table, messages::store_verb::check, present).number, 1);
}

} // namespace
} // namespace dynamix::actors
