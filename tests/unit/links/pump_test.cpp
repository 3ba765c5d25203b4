#include "tests/unit/links/link_pair.hpp"

#include <gmock/gmock.h>

#include <array>
#include <filesystem>
#include <map>
#include <sys/resource.h>

namespace dynamix::links {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using std::chrono::milliseconds;

class Pump : public LinkPair {
protected:
  void SetUp() override {
    LinkPair::SetUp();
    ada_ = start(options_of("ada"));
    ben_ = start(options_of("ben"));
    port_ = open_door({ada_});
    take_links_of(*ada_);
  }
  int call(const std::string& host = "ada") {
    return ben_->connect(host, "127.0.0.1", port_, milliseconds(5000), problem_);
  }

  std::shared_ptr<pump> ada_;
  std::shared_ptr<pump> ben_;
  std::uint16_t port_ = 0;
  std::string problem_;
};

TEST_F(Pump, CarriesBytesBothWaysAtOnce) {
  plain_end from_ben(call());
  ASSERT_GE(from_ben.get(), 0) << problem_;
  const plain_end at_ada(next_link());
  const auto there = random_bytes(5'000'000);
  const auto back = random_bytes(7'000'001);
  std::thread writer([&] { EXPECT_TRUE(from_ben.write(there)); });
  std::thread answerer([&] { EXPECT_TRUE(at_ada.write(back)); });
  std::thread reader([&] { EXPECT_TRUE(from_ben.read(back.size()) == back); });
  EXPECT_TRUE(at_ada.read(there.size()) == there);
  for (auto* each : {&writer, &answerer, &reader})
    each->join();
  EXPECT_EQ(ada_->counts().open, 1U);
  from_ben.close();
  EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 0 && ben_->counts().open == 0; }));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Pump, KeepsApartManyLinks) {
  constexpr int links = 40;
  for (int i = 0; i < links; ++i) {
    const plain_end from_ben(call());
    ASSERT_GE(from_ben.get(), 0) << problem_;
    const plain_end at_ada(next_link());
    ASSERT_TRUE(from_ben.write(std::to_string(i)));
    EXPECT_EQ(at_ada.read(std::to_string(i).size()), std::to_string(i));
  }
  EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 0 && ben_->counts().open == 0; }));
  EXPECT_EQ(ada_->counts().opened, 40U);
}

/// Two ends of a connection, as a carriage's user has them: the pump gets one.
struct plain_pair {
  plain_pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    given = ends[0];
    kept = std::make_unique<plain_end>(ends[1]);
  }
  int given = -1;
  std::unique_ptr<plain_end> kept;
};

/// Both have pumps for gradients.
class CarryingPump : public Pump {
protected:
  void SetUp() override {
    LinkPair::SetUp();
    for (auto* each : {&ada_, &ben_}) {
      auto options = options_of(each == &ada_ ? "ada" : "ben");
      options.protocol = gradient_protocol;
      *each = start(std::move(options));
    }
    port_ = open_door({ada_});
  }
};

TEST_F(CarryingPump, CarriesConnectionsByPurposeWhicheverEndComesFirst) {
  for (const bool caller_first : {true, false}) {
    std::map<std::string, plain_pair> at_ada;
    std::map<std::string, plain_pair> at_ben;
    const auto take = [&] {
      for (const auto* purpose : {"one", "two"})
        ada_->carry_from({.host = "ben", .purpose = purpose}, at_ada[purpose].given);
    };
    if (!caller_first)
      take();
    for (const auto* purpose : {"two", "one"}) {
      ASSERT_TRUE(at_ben[purpose].kept->write(std::string("begun ") + purpose));
      ASSERT_EQ(ben_->carry_to({.host = "ada", .purpose = purpose}, "127.0.0.1", port_, milliseconds(5000),
                               at_ben[purpose].given),
                "");
    }
    if (caller_first) {
      EXPECT_TRUE(wait_until([&] { return ben_->counts().open == 2; }));
      take();
    }
    for (const auto* purpose : {"one", "two"}) {
      EXPECT_EQ(at_ada[purpose].kept->read(9), std::string("begun ") + purpose);
      ASSERT_TRUE(at_ada[purpose].kept->write("back"));
      EXPECT_EQ(at_ben[purpose].kept->read(4), "back");
      at_ben[purpose].kept->close();
      EXPECT_EQ(at_ada[purpose].kept->read(1), "");
    }
    EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 0 && ben_->counts().open == 0; }));
  }
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(CarryingPump, CarriesNothingToAnotherHostThanTheCalled) {
  plain_pair calling;
  plain_pair waiting;
  ada_->carry_from({.host = "cy", .purpose = "one"}, waiting.given);
  ASSERT_EQ(ben_->carry_to({.host = "cy", .purpose = "one"}, "127.0.0.1", port_, milliseconds(5000), calling.given),
            "");
  EXPECT_EQ(calling.kept->read(1), "") << "it ends";
  EXPECT_TRUE(says("it is host \"ada\", and \"cy\" was called"));
  EXPECT_TRUE(wait_until([&] { return door_->counts().refused == 1; }));
  EXPECT_EQ(door_->counts().proven, 0U);
  EXPECT_EQ(ada_->counts().opened, 0U);
}

TEST_F(Pump, TellsTheEndOfEitherSide) {
  {
    plain_end from_ben(call());
    plain_end at_ada(next_link());
    from_ben.close();
    EXPECT_EQ(at_ada.read(1), "");
  }
  plain_end from_ben(call());
  plain_end at_ada(next_link());
  at_ada.close();
  EXPECT_EQ(from_ben.read(1), "");
}

TEST_F(Pump, DeliversWhatWasWrittenBeforeTheEndOfItsUserAndItsOwn) {
  const auto last_words = random_bytes(3'000'000);
  plain_end from_ben(call());
  const plain_end at_ada(next_link());
  std::string heard;
  std::thread listener([&] { heard = at_ada.read(last_words.size() + 1); });
  EXPECT_TRUE(from_ben.write(last_words));
  from_ben.close();
  ben_.reset();
  listener.join();
  EXPECT_TRUE(heard == last_words) << heard.size();
}

TEST_F(Pump, DeliversWhatWasWrittenThoughItsUserNeverCloses) {
  const plain_end from_ben(call());
  const plain_end at_ada(next_link());
  EXPECT_TRUE(from_ben.write("farewell"));
  ben_.reset();
  EXPECT_EQ(at_ada.read(9), "farewell");
}

TEST_F(Pump, ReachesNobodyOnceItHasEnded) {
  const plain_end from_ben(call());
  ben_->end();
  EXPECT_EQ(from_ben.read(1), "");
  EXPECT_EQ(call(), -1);
  EXPECT_EQ(problem_, "this host ends");
  const plain_end none(ben_->take_links());
  EXPECT_EQ(none.read(1), "");
  ben_->end();
  ada_->end(); // whom its door still leads to
  const auto other = start(options_of("ben"));
  EXPECT_EQ(other->connect("ada", "127.0.0.1", port_, milliseconds(5000), problem_), -1);
  EXPECT_TRUE(wait_until([&] { return door_->counts().refused == 2; })) << "and the call that did not begin";
  EXPECT_TRUE(says("this host ends"));
}

TEST_F(Pump, HoldsASenderBackWhoseReceiverReadsNothing) {
  const plain_end from_ben(call());
  const plain_end at_ada(next_link());
  const std::string block(1 << 20, 'x');
  std::size_t sent = 0;
  for (;;) { // until all buffers are full
    pollfd waiting{.fd = from_ben.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&waiting, 1, 1000) != 1)
      break;
    const auto count = ::send(from_ben.get(), block.data(), block.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    ASSERT_GE(count, 0);
    sent += static_cast<std::size_t>(count);
    ASSERT_LT(sent, 64U << 20) << "it holds whatever it is given";
  }
  EXPECT_EQ(at_ada.read(sent).size(), sent);
}

TEST_F(Pump, HandsLinksToWhoeverTakesThemNow) {
  const auto first = std::exchange(queue_, nullptr);
  take_links_of(*ada_);
  const plain_end from_ben(call());
  EXPECT_GE(from_ben.get(), 0) << problem_;
  const plain_end at_ada(next_link());
  EXPECT_GE(at_ada.get(), 0);
  EXPECT_EQ(first->read(1), "") << "it is told";
  queue_->close();
  EXPECT_TRUE(wait_until([&] { return call() == -1; }));
  EXPECT_TRUE(from_ben.write("!") && at_ada.read(1) == "!") << "links that are open stay open";
  EXPECT_TRUE(says("nobody takes links here"));
  EXPECT_THAT(lines(), ::testing::Each(HasSubstr("nobody takes links here")));
  take_links_of(*ada_);
  const plain_end again(call());
  EXPECT_GE(again.get(), 0) << problem_;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_F(Pump, KeepsNothingOfLinksThatWaitedForATakerWhoIsGone) {
  const auto before = open_descriptors();
  for (int life = 0; life < 2; ++life) {
    std::vector<std::unique_ptr<plain_end>> from_ben;
    for (std::uint64_t i = 0; i < 5; ++i) {
      from_ben.push_back(std::make_unique<plain_end>(call()));
      ASSERT_GE(from_ben.back()->get(), 0) << problem_;
    }
    EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 5; }));
    queue_->close();
    if (life == 1)
      ada_->end(); // it ends beside its taker
    for (const auto& each : from_ben)
      EXPECT_EQ(each->read(1), "") << "it is told";
    from_ben.clear();
    EXPECT_TRUE(wait_until([&] { return ada_->counts().open == 0 && ben_->counts().open == 0; }));
    if (life == 0)
      take_links_of(*ada_);
  }
  EXPECT_TRUE(wait_until([&] { return open_descriptors() <= before; })) << open_descriptors() << " of " << before;
}

TEST_F(Pump, SaysThatTooManyLinksWaitToBeTaken) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4096)
    GTEST_SKIP() << "no room for as many links as wait here";
  const auto usual = std::exchange(limit.rlim_cur, limit.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  auto options = options_of("ada");
  options.links_a_host_max = 2000;
  ada_ = start(options);
  options = options_of("ben");
  options.links_a_host_max = 2000;
  ben_ = start(options);
  port_ = open_door({ada_});
  take_links_of(*ada_);
  std::vector<std::unique_ptr<plain_end>> waiting;
  while (waiting.size() < 2000 && (waiting.empty() || waiting.back()->get() >= 0))
    waiting.push_back(std::make_unique<plain_end>(call()));
  EXPECT_TRUE(says("too many links wait here to be taken"));
  EXPECT_EQ(ada_->counts().refused, 1U);
  const plain_end taken(next_link());
  const plain_end another(call());
  EXPECT_GE(another.get(), 0) << "there is room again: " << problem_;
  limit.rlim_cur = usual;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(Pump, IsAsIfNobodyWereThereWhileItsHostIsStarting) {
  const auto raft = [&](const char* host) {
    auto options = options_of(host);
    options.protocol = raft_protocol;
    return start(std::move(options));
  };
  const auto at_ada = raft("ada");
  door_->lead_to(at_ada);
  const auto at_ben = raft("ben");
  EXPECT_EQ(at_ben->connect("ada", "127.0.0.1", port_, milliseconds(5000), problem_), -1);
  EXPECT_EQ(problem_, "it closed the connection");
  EXPECT_TRUE(wait_until([&] { return at_ada->counts().refused == 1; }));
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Pump, IsReachedNoMoreOnceItsDoorIsClosed) {
  const plain_end from_ben(call());
  const plain_end at_ada(next_link());
  door_->end();
  EXPECT_EQ(call(), -1);
  EXPECT_THAT(problem_, HasSubstr("refused"));
  EXPECT_TRUE(from_ben.write("!") && at_ada.read(1) == "!") << "links that are open stay open";
}

TEST_F(Pump, SaysWhyAPortCannotBeHad) {
  const auto taken = std::exchange(door_, nullptr);
  open_door({});
  EXPECT_THAT(door_->listen("127.0.0.1", taken->port()), HasSubstr("in use"));
  EXPECT_THAT(door_->listen("203.0.113.1", 0), HasSubstr("assign"));
}

TEST_F(Pump, ReadsNewKeysWhileItRuns) {
  const plain_end before(call());
  const plain_end at_ada(next_link());
  key_request request = request_of({"ada", "ben"});
  rotation_step made{};
  for (int step = 0; step < 3; ++step) {
    ASSERT_EQ(rotate_keys(keys_.path(), request, made), "");
    // Whichever of the two has read the step already.
    const plain_end from_ben(call());
    ASSERT_GE(from_ben.get(), 0) << problem_ << " in step " << step;
    const plain_end link(next_link());
    std::this_thread::sleep_for(milliseconds(1100)); // they look once a second
  }
  EXPECT_EQ(made, rotation_step::finished);
  EXPECT_TRUE(before.write("still")) << "a link that is open lives on";
  EXPECT_EQ(at_ada.read(5), "still");
}

TEST_F(Pump, KeepsItsKeysWhenNewOnesAreBroken) {
  ASSERT_EQ(write_private_file(host_directory(keys_.path(), "ada") + "/" + key_file, "nothing"), "");
  std::this_thread::sleep_for(milliseconds(1100));
  const plain_end from_ben(call());
  EXPECT_GE(from_ben.get(), 0) << problem_;
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("new keys are not used: ")));
}

} // namespace
} // namespace dynamix::links
