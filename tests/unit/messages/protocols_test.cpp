#include "messages/types.hpp"

#include <gtest/gtest.h>

namespace dynamix::messages {
namespace {

TEST(Protocols, TheNewestThatBothSpeakIsSpoken) {
  struct meeting {
    protocol_range one;
    protocol_range other;
    std::uint32_t spoken;
  };
  for (const auto& [one, other, spoken] :
       {meeting{{3, 3}, {3, 4}, 3}, meeting{{3, 4}, {3, 4}, 4}, meeting{{3, 4}, {4, 5}, 4}, meeting{{3, 6}, {4, 5}, 5},
        meeting{{3, 4}, {5, 6}, 0}, meeting{{1, 2}, {3, 4}, 0}}) {
    EXPECT_EQ(common_protocol(one, other), spoken) << to_text(one) << ", " << to_text(other);
    EXPECT_EQ(common_protocol(other, one), spoken) << to_text(other) << ", " << to_text(one);
  }
}

TEST(Protocols, OfReleasesBeforeTheyWereNegotiatedThereIsOne) {
  // What they say, and what they compare with their own for equality.
  EXPECT_EQ(to_text(protocols_of(hello{.protocol = 3, .newest_protocol = 0})), "protocol 3");
  EXPECT_EQ(to_text(protocols_of(hello{.protocol = 3, .newest_protocol = 4})), "protocols 3 to 4");
  for (const auto& own : {protocols_of(hello()), protocols_of(shard_hello()), protocols_of(client_hello())})
    EXPECT_EQ(to_text(own), "protocol 6");
  EXPECT_EQ(common_protocol({3, 4}), 0U) << "their blocks of gradients are others";
}

} // namespace
} // namespace dynamix::messages
