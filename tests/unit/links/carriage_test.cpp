/// Connections within a process that links carry to another, encrypted or in the clear once both ends are proven.

#include "faults/proxy.hpp"
#include "tests/unit/links/link_pair.hpp"
#include "tests/unit/links/raw_client.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <netinet/in.h>

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
    port_ = open_door({ada_});
  }
  std::shared_ptr<pump> start_with(const std::string& host, const char* protocol) {
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

  std::shared_ptr<pump> ada_;
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
  plain_end at_ben(call(*ben, "g1"));
  std::thread writer([&] { EXPECT_TRUE(at_ben.write(there)); }); // before ada's end is there
  const plain_end at_ada(take("g1"));
  std::thread answerer([&] { EXPECT_TRUE(at_ada.write(back)); });
  std::thread reader([&] { EXPECT_TRUE(at_ben.read(back.size()) == back); });
  EXPECT_TRUE(at_ada.read(there.size()) == there);
  for (auto* each : {&writer, &answerer, &reader})
    each->join();
  at_ben.close();
  EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 0 && ben->counts().open == 0; }));
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

/// How many TCP connections of this process have both the port at one end and a priority.
std::size_t connections_with(std::uint16_t port, int priority) {
  std::size_t found = 0;
  for (int number = 0; number < 1024; ++number) {
    sockaddr_in ends[2] = {};
    int own = -1;
    socklen_t own_size = sizeof own;
    socklen_t size = sizeof ends[0];
    const bool connected = ::getsockname(number, reinterpret_cast<sockaddr*>(&ends[0]), &size) == 0 &&
                           ::getpeername(number, reinterpret_cast<sockaddr*>(&ends[1]), &size) == 0 &&
                           ::getsockopt(number, SOL_SOCKET, SO_PRIORITY, &own, &own_size) == 0;
    const bool here = std::ranges::any_of(ends, [&](const auto& end) { return ntohs(end.sin_port) == port; });
    found += connected && here && ends[0].sin_family == AF_INET && own == priority ? 1 : 0;
  }
  return found;
}

/// Control beside gradients at ada's one port.
class CarriageBesideControl : public Carriage {
protected:
  void SetUp() override {
    Carriage::SetUp();
    control_ = start(options_of("ada"));
    door_->lead_to(control_);
    take_links_of(*control_);
    caller_ = start(options_of("ben"));
    std::string problem;
    asking_ = std::make_unique<plain_end>(caller_->connect("ada", "127.0.0.1", port_, milliseconds(5000), problem));
    ASSERT_GE(asking_->get(), 0) << problem;
    answering_ = std::make_unique<plain_end>(next_link());
    ben_ = start_with("ben", GetParam());
    at_ben_ = std::make_unique<plain_end>(call(*ben_, "g1"));
    at_ada_ = std::make_unique<plain_end>(take("g1"));
  }

  std::shared_ptr<pump> control_;
  std::shared_ptr<pump> caller_;
  std::shared_ptr<pump> ben_;
  std::unique_ptr<plain_end> asking_;
  std::unique_ptr<plain_end> answering_;
  std::unique_ptr<plain_end> at_ben_;
  std::unique_ptr<plain_end> at_ada_;
};

INSTANTIATE_TEST_SUITE_P(Of, CarriageBesideControl, ::testing::Values(gradient_protocol, clear_gradient_protocol),
                         [](const auto& form) {
                           return form.param == std::string(gradient_protocol) ? "EncryptedData" : "ClearData";
                         });

TEST_P(CarriageBesideControl, HasThePriorityOfGradientsAtBothEndsAndControlHasNot) {
  ASSERT_TRUE(at_ben_->write("!") && at_ada_->read(1) == "!");
  EXPECT_EQ(connections_with(port_, bulk_priority), 2U);
  EXPECT_EQ(connections_with(port_, 0), 2U);
}

TEST_P(CarriageBesideControl, HoldsUpNoControlMessageHoweverMuchItCarries) {
  const auto gradients = random_bytes(64'000'000);
  std::thread sender([&] { EXPECT_TRUE(at_ben_->write(gradients)); });
  const auto ask_often = [&] {
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(asking_->write("?") && answering_->read(1) == "?" && answering_->write("!") &&
                  asking_->read(1) == "!");
  };
  ask_often(); // while nobody takes them, so that all buffers on the way are full
  std::thread receiver([&] { EXPECT_TRUE(at_ada_->read(gradients.size()) == gradients); });
  ask_often();
  sender.join();
  receiver.join();
}

TEST_P(Carriage, IsOnTheWireAsItIsSetToBe) {
  const auto own = issued("ben");
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

TEST_P(Carriage, IsRefusedThatNobodyTakesOrThatDoesNotSayWhatItIsFor) {
  const auto ben = start_with("ben", GetParam());
  const plain_end first(call(*ben, "g1"));
  const plain_end second(call(*ben, "g1"));
  EXPECT_TRUE(says("its host has called once more for the same"));
  EXPECT_TRUE(wait_until([&] { return ada_->counts().refused == 1; }));
  EXPECT_EQ(ada_->counts().opened, 0U) << "they wait to be taken";
  const plain_end at_ada(take("g1"));
  first.write("!"); // whichever of the two came first was refused
  second.write("!");
  EXPECT_EQ(at_ada.read(1), "!");
  EXPECT_EQ(ada_->counts().opened, 1U);

  EXPECT_EQ(read_as_client(port_, {.own = issued("ben"), .protocol = GetParam()}), "\x01");
  EXPECT_TRUE(says("it did not say what it is for within 3 s"));
  EXPECT_TRUE(wait_until([&] { return ada_->counts().refused == 2; }));
  EXPECT_EQ(ada_->counts().opened, 1U);
  EXPECT_EQ(ada_->counts().open, 1U);
}

/// Over a path that a test harms, in the way from ben to ada.
class CarriageOverAPath : public Carriage {
protected:
  void SetUp() override {
    Carriage::SetUp();
    port_ = path_.add_link("path", "127.0.0.1", port_);
    ben_ = start_with("ben", GetParam());
    expect_carried("before");
  }
  bool clear() const { return GetParam() == std::string(clear_gradient_protocol); }
  void expect_carried(const std::string& purpose) {
    at_ben_ = std::make_unique<plain_end>(call(*ben_, purpose));
    at_ada_ = std::make_unique<plain_end>(take(purpose));
    EXPECT_TRUE(at_ben_->write(purpose));
    EXPECT_EQ(at_ada_->read(purpose.size()), purpose);
  }

  faults::proxy path_;
  std::shared_ptr<pump> ben_;
  std::unique_ptr<plain_end> at_ben_;
  std::unique_ptr<plain_end> at_ada_;
};

INSTANTIATE_TEST_SUITE_P(Of, CarriageOverAPath, ::testing::Values(gradient_protocol, clear_gradient_protocol),
                         [](const auto& form) {
                           return form.param == std::string(gradient_protocol) ? "EncryptedData" : "ClearData";
                         });

TEST_P(CarriageOverAPath, IsBrokenByAChangedByteWhichNobodyNoticesInTheClear) {
  const std::string sent = "gradients";
  path_.corrupt_next("path", faults::way::to_server);
  EXPECT_TRUE(at_ben_->write(sent));
  const auto received = at_ada_->read(sent.size());
  EXPECT_EQ(path_.counters("path").of(faults::way::to_server).corrupted, 1U);
  if (clear()) {
    EXPECT_EQ(received.size(), sent.size());
    EXPECT_NE(received, sent);
  } else {
    EXPECT_EQ(received, "");
    EXPECT_EQ(at_ben_->read(1), "");
    EXPECT_TRUE(says("broke: "));
  }
  expect_carried("after");
}

TEST_P(CarriageOverAPath, EndsWhereThePathIsCutShortAndIsCalledAgain) {
  const std::string sent = "gradients";
  path_.truncate_next("path", faults::way::to_server);
  EXPECT_TRUE(at_ben_->write(sent));
  const auto received = at_ada_->read(sent.size());
  EXPECT_EQ(path_.counters("path").of(faults::way::to_server).truncated, 1U);
  EXPECT_EQ(received, clear() ? "grad" : "") << "a record that is not whole is none";
  EXPECT_EQ(at_ben_->read(1), "");
  expect_carried("after");
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
