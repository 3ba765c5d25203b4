/// Connections within a process that links carry to another, encrypted or in the clear once both ends are proven.

#include "tests/unit/links/link_pair.hpp"
#include "tests/unit/links/raw_client.hpp"

#include <gmock/gmock.h>

namespace dynamix::links {
namespace {

using namespace testing;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using std::chrono::milliseconds;

class Carriage : public LinkPair, public ::testing::WithParamInterface<const char*> {
protected:
  void SetUp() override {
    LinkPair::SetUp();
    ada_ = start_with("ada", GetParam());
    ASSERT_EQ(ada_->listen_for_carriages("127.0.0.1", 0, port_), "");
  }
  std::unique_ptr<pump> start_with(const std::string& host, const char* protocol) {
    auto options = options_of(host);
    options.protocol = protocol;
    return start(std::move(options));
  }
  /// The user's end of a carriage for `purpose`; ada takes, and ben calls.
  int take(const std::string& purpose) {
    auto [ours, theirs] = make_pair();
    ada_->carry_from({.host = "ben", .purpose = purpose}, ours);
    return theirs;
  }
  int call(pump& ben, const std::string& purpose) {
    auto [ours, theirs] = make_pair();
    EXPECT_EQ(ben.carry_to({.host = "ada", .purpose = purpose}, "127.0.0.1", port_, milliseconds(5000), ours), "");
    return theirs;
  }
  bool says(const std::string& text) {
    return wait_until([&] {
      const auto said = lines();
      return std::ranges::any_of(said, [&](const auto& line) { return line.find(text) != std::string::npos; });
    });
  }

  std::unique_ptr<pump> ada_;
  std::uint16_t port_ = 0;

private:
  static std::pair<int, int> make_pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {ends[0], ends[1]};
  }
};

INSTANTIATE_TEST_SUITE_P(Of, Carriage, ::testing::Values(gradient_protocol, clear_gradient_protocol),
                         [](const auto& form) {
                           return form.param == std::string(gradient_protocol) ? "EncryptedData" : "ClearData";
                         });

TEST_P(Carriage, LosesNothingBothWaysAtOnce) {
  const auto ben = start_with("ben", GetParam());
  const auto there = random_bytes(5'000'000);
  const auto back = random_bytes(7'000'001);
  const plain_end at_ben(call(*ben, "g1"));
  std::thread writer([&] { EXPECT_TRUE(at_ben.write(there)); }); // before ada's end is there
  const plain_end at_ada(take("g1"));
  std::thread answerer([&] { EXPECT_TRUE(at_ada.write(back)); });
  std::thread reader([&] { EXPECT_TRUE(at_ben.read(back.size()) == back); });
  EXPECT_TRUE(at_ada.read(there.size()) == there);
  for (auto* each : {&writer, &answerer, &reader})
    each->join();
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_P(Carriage, DeliversWhatWasWrittenBeforeItsUserOrItsHostHasLeft) {
  const auto last_words = random_bytes(3'000'000);
  for (const bool host_ends : {false, true}) {
    auto ben = start_with("ben", GetParam());
    plain_end at_ben(call(*ben, "g1"));
    const plain_end at_ada(take("g1"));
    std::string heard;
    std::thread listener([&] { heard = at_ada.read(last_words.size() + 1); });
    EXPECT_TRUE(at_ben.write(last_words));
    if (host_ends)
      ben.reset();
    else
      at_ben.close();
    listener.join();
    EXPECT_TRUE(heard == last_words) << heard.size() << (host_ends ? " of the host" : " of the user");
  }
}

TEST_P(Carriage, IsOnTheWireAsItIsSetToBe) {
  credential authority;
  credential own;
  ASSERT_EQ(read_private_file(keys_.path("keys/authority/ca.crt"), authority.certificate), "");
  ASSERT_EQ(read_private_file(keys_.path("keys/authority/ca.key"), authority.key), "");
  ASSERT_EQ(issue_certificate(authority, "ben", valid_for_days(std::time(nullptr), 1), own), "");
  const plain_end at_ada(take("g1"));
  const std::string gradients = "gradients in the clear";
  EXPECT_TRUE(at_ada.write(gradients));
  const auto wire = read_wire_as_caller(port_, {.own = own, .protocol = GetParam()}, "\x02g1", gradients.size());
  if (GetParam() == std::string(gradient_protocol)) {
    EXPECT_THAT(wire, StartsWith("\x17\x03\x03")) << "a record of application data";
    return;
  }
  EXPECT_EQ(wire, gradients);
  EXPECT_EQ(read_wire_as_caller(port_, {.own = own, .protocol = GetParam()}, "\x02g2 and more", 1), "");
  EXPECT_TRUE(says("it said more than what the link is for"));
}

TEST_P(Carriage, IsRefusedByBothWhereTheOtherIsSetOtherwise) {
  const bool clear = GetParam() == std::string(clear_gradient_protocol);
  const auto ben = start_with("ben", clear ? gradient_protocol : clear_gradient_protocol);
  const plain_end at_ada(take("g1"));
  const plain_end at_ben(call(*ben, "g1"));
  EXPECT_EQ(at_ben.read(1), "");
  EXPECT_TRUE(says(clear ? "it encrypts gradients, and this host sends them in the clear: security.data must be"
                         : "it sends gradients in the clear, and this host encrypts them: security.data must be"));
  EXPECT_TRUE(says("it speaks another protocol than this host (where that is of gradients, security.data must be"));
}

} // namespace
} // namespace dynamix::links
