#include "ledger/thinned.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace dynamix::ledger {
namespace {

TEST(ThinnedTable, KeepsWhatFits) {
  thinned_table table(2, 4);
  for (const float value : {1.0F, 2.0F, 3.0F, 4.0F})
    table.add(std::vector{value, 10 * value});
  ASSERT_EQ(table.rows(), 4U);
  EXPECT_EQ(table.stride(), 1U);
  EXPECT_EQ(table.row(2)[0], 3);
  EXPECT_EQ(table.row(2)[1], 30);
}

TEST(ThinnedTable, JoinsNeighboursWhenItIsFull) {
  thinned_table table(1, 4);
  for (int i = 0; i < 8; ++i)
    table.add(std::vector{static_cast<float>(i)});
  EXPECT_EQ(table.stride(), 2U);
  ASSERT_EQ(table.rows(), 4U);
  EXPECT_EQ(table.row(0)[0], 0.5F);
  EXPECT_EQ(table.row(3)[0], 6.5F);
}

TEST(ThinnedTable, TheMeanOfARowIsThatOfWhatItStandsFor) {
  thinned_table table(1, 8);
  double sum = 0;
  for (int i = 0; i < 4096; ++i) {
    table.add(std::vector{static_cast<float>(i % 7)});
    sum += i % 7;
  }
  double kept = 0;
  for (std::size_t i = 0; i < table.rows(); ++i)
    kept += table.row(i)[0];
  EXPECT_EQ(table.stride() * table.rows(), 4096U);
  EXPECT_NEAR(kept / static_cast<double>(table.rows()), sum / 4096, 1e-3);
}

TEST(ThinnedTable, WhatIsNotKnownCountsForNothing) {
  thinned_table table(1, 2);
  for (const float value : {3.0F, std::nanf(""), std::nanf(""), std::nanf("")})
    table.add(std::vector{value});
  ASSERT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.row(0)[0], 3);
  EXPECT_TRUE(std::isnan(table.row(1)[0]));
}

} // namespace
} // namespace dynamix::ledger
