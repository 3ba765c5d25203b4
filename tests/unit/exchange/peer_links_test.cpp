/// Real process groups whose connections go over links: the same sums, and no stranger's byte reaches the collective.

#include "exchange/peer_links.hpp"
#include "faults/proxy.hpp"
#include "links/door.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tests/unit/links/raw_client.hpp"
#include "tests/unit/links/temporary_keys.hpp"
#include "tests/unit/links/told_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>

namespace dynamix::exchange {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> names = {"ada", "ben", "cy", "dot"};

/// Hosts whose workers' ranks are 0 to 3.
class PeerLinks : public testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(links::make_keys(keys_.path(), links::testing::request_of(names)), ""); }

  std::shared_ptr<peer_links> start(std::uint32_t rank, const std::vector<std::string>& by_rank = names) {
    std::vector<member_host> hosts;
    for (const auto& name : by_rank)
      hosts.push_back({.name = name, .address = "127.0.0.1"});
    return start_behind_a_door({.directory = links::host_directory(keys_.path(), names[rank]),
                                .host = names[rank],
                                .accepted = {names.begin(), names.end()},
                                .protocol = protocol_},
                               hosts);
  }
  std::shared_ptr<peer_links> start_behind_a_door(links::pump_options options, const std::vector<member_host>& hosts) {
    options.report = lines_.report();
    std::string problem;
    doors_.push_back(
        links::door::start({.directory = options.directory, .host = options.host, .report = options.report}, problem));
    EXPECT_NE(doors_.back(), nullptr) << problem;
    auto started = peer_links::start(std::move(options), doors_.back(), "127.0.0.1", hosts, problem);
    EXPECT_NE(started, nullptr) << problem;
    EXPECT_EQ(doors_.back()->listen("127.0.0.1", 0), "");
    return started;
  }
  bool says(const std::string& text) const { return lines_.say(text); }

  /// `body(rank, group)` on a thread for each of the members, joined over their links.
  template <class Body>
  void run(const std::vector<std::shared_ptr<peer_links>>& links, const std::vector<std::uint32_t>& members,
           const std::string& prefix, Body body) {
    std::vector<std::jthread> threads;
    for (const auto rank : members)
      threads.emplace_back([&, rank] {
        const interruption never;
        try {
          auto peers =
              join({.rank = rank, .members = members, .store_prefix = prefix, .links = links[rank]}, meeting_, never);
          body(rank, *peers);
          peers->leave();
        } catch (const std::exception& problem) {
          ADD_FAILURE() << "rank " << rank << ": " << problem.what();
        }
      });
  }
  std::vector<std::shared_ptr<peer_links>> start_all() {
    std::vector<std::shared_ptr<peer_links>> started;
    for (std::uint32_t rank = 0; rank < names.size(); ++rank)
      started.push_back(start(rank));
    return started;
  }

  links::testing::temporary_keys keys_;
  std::string protocol_ = links::gradient_protocol;
  memory_store meeting_;
  links::testing::told_lines lines_;
  std::vector<std::shared_ptr<links::door>> doors_;
};

/// The sum over ranks r of `members` of (r + 1) in every gradient.
void expect_sums(group& peers, std::uint32_t rank, const std::vector<std::uint32_t>& members, std::size_t gradients) {
  const auto summed = peers.make_bucket(element::float32, gradients, 1);
  auto values = std::get<std::span<float>>(summed->gradients());
  std::ranges::fill(values, static_cast<float>(rank + 1));
  summed->sums()[0] = rank + 1;
  summed->start();
  summed->wait();
  float expected = 0;
  for (const auto member : members)
    expected += static_cast<float>(member + 1);
  EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == expected; }));
  EXPECT_EQ(summed->sums()[0], expected);
}

/// In both forms.
class PeerLinksForm : public PeerLinks, public testing::WithParamInterface<const char*> {
protected:
  PeerLinksForm() { protocol_ = GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Of, PeerLinksForm, testing::Values(links::gradient_protocol, links::clear_gradient_protocol),
                         [](const auto& form) {
                           return form.param == std::string(links::gradient_protocol) ? "EncryptedData" : "ClearData";
                         });

TEST_P(PeerLinksForm, SumTheSameInOneGenerationAfterAnother) {
  const auto links = start_all();
  std::uint32_t generation = 0;
  for (const std::vector<std::uint32_t>& members :
       {std::vector<std::uint32_t>{0, 1, 2, 3}, {0, 2}, {1, 2, 3}, {0, 1, 2, 3}})
    run(links, members, "generation-" + std::to_string(++generation), [&](std::uint32_t rank, group& peers) {
      for (const std::size_t gradients : {1U, 1000U, 2'000'000U})
        expect_sums(peers, rank, members, gradients);
    });
  EXPECT_THAT(lines_.all(), IsEmpty());
}

TEST_F(PeerLinks, CutStrangersWhileTheGroupGoesOn) {
  const auto links = start_all();
  std::barrier met(5);
  std::jthread stranger([&] {
    met.arrive_and_wait();
    for (const auto& each : links) {
      const links::testing::raw_socket plain(each->port());
      plain.send(std::string(112, '\x01'));
      std::string received;
      EXPECT_TRUE(plain.wait_for_end(received));
      EXPECT_EQ(received, "");
    }
    const auto now = std::time(nullptr);
    const links::validity valid{.from_seconds = now - 60, .until_seconds = now + 3600};
    links::credential other;
    ASSERT_EQ(links::issue_certificate(links::make_authority("pair", valid), "ben", valid, other), "");
    EXPECT_EQ(links::testing::read_as_client(links[0]->port(), {.own = other, .protocol = links::gradient_protocol}),
              "");
    met.arrive_and_wait();
  });
  run(links, {0, 1, 2, 3}, "generation-1", [&](std::uint32_t rank, group& peers) {
    expect_sums(peers, rank, {0, 1, 2, 3}, 1000);
    met.arrive_and_wait();
    for (int step = 0; step < 50; ++step)
      expect_sums(peers, rank, {0, 1, 2, 3}, 1000);
    met.arrive_and_wait();
    expect_sums(peers, rank, {0, 1, 2, 3}, 1000);
  });
  EXPECT_TRUE(says("it does not speak TLS"));
  EXPECT_TRUE(says("issued by an authority that this host does not accept"));
}

/// A stranger connects to each address that is announced, and talks, before the peer hears of it.
class overheard_store final : public memory_store {
public:
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    {
      const std::lock_guard lock(mutex_);
      strangers_.emplace_back(static_cast<std::uint16_t>(value[0] << 8 | value[1]));
      strangers_.back().send(std::string(112, '\x01'));
    }
    memory_store::set(key, value);
  }
  std::size_t strangers() const { return strangers_.size(); }

private:
  std::mutex mutex_;
  std::vector<links::testing::raw_socket> strangers_;
};

TEST(GroupInTheClear, GoesOnWhereAStrangerTalksToIt) {
  overheard_store meeting;
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const interruption never;
      auto peers = join({.rank = rank, .members = {0, 1}, .store_prefix = "g1"}, meeting, never);
      expect_sums(*peers, rank, {0, 1}, 1000);
      peers->leave();
    });
  threads.clear();
  EXPECT_EQ(meeting.strangers(), 2U);
}

/// Where rank 0 is said to be reached at another port than its own.
class redirecting_store final : public memory_store {
public:
  explicit redirecting_store(std::uint16_t port) : port_(port) {}
  std::optional<std::vector<std::uint8_t>> get(const std::string& key) override {
    if (key.ends_with("/present/0"))
      return std::vector{static_cast<std::uint8_t>(port_ >> 8), static_cast<std::uint8_t>(port_)};
    return memory_store::get(key);
  }

private:
  const std::uint16_t port_;
};

/// Ranks 0 and 1 sum over a path that breaks as `harm` says, in the middle of it. Returns what each of them got: the
/// first problem, or an empty string.
template <class Harm>
std::array<std::string, 2> sum_over_a_harmed_path(const std::array<std::shared_ptr<peer_links>, 2>& links, Harm harm) {
  faults::proxy path;
  const auto port = path.add_link("pair", "127.0.0.1", links[0]->port());
  redirecting_store meeting(port);
  std::array<std::string, 2> problems;
  std::barrier met(3);
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      const interruption never;
      bool joined = false;
      try {
        auto peers =
            join({.rank = rank, .members = {0, 1}, .store_prefix = "g1", .links = links[rank]}, meeting, never);
        const auto summed = peers->make_bucket(element::float32, 2'000'000, 0);
        auto values = std::get<std::span<float>>(summed->gradients());
        std::ranges::fill(values, static_cast<float>(rank + 1));
        met.arrive_and_wait();
        joined = true;
        met.arrive_and_wait();
        summed->start();
        summed->wait();
      } catch (const error& problem) {
        problems[rank] = problem.what();
      }
      if (!joined) {
        met.arrive_and_drop();
        ADD_FAILURE() << problems[rank];
      }
    });
  met.arrive_and_wait();
  for (const auto way : {faults::way::to_server, faults::way::to_client}) // 4 MB each way take four seconds
    path.set("pair", way, {.bytes_per_second = 1e6});
  const auto passed = [&] { return path.counters("pair").of(faults::way::to_server).passed_bytes; };
  const auto before = passed();
  met.arrive_and_wait();
  EXPECT_TRUE(wait_until([&] { return passed() > before + 500'000; }));
  harm(path);
  threads.clear();
  return problems;
}

TEST_F(PeerLinks, BreakWhereAByteIsChangedOnThePath) {
  const auto problems = sum_over_a_harmed_path(
      {start(0), start(1)}, [](faults::proxy& path) { path.corrupt_next("pair", faults::way::to_server); });
  EXPECT_THAT(problems, testing::Each(testing::Not(IsEmpty())));
  EXPECT_TRUE(says("broke: "));
}

TEST_P(PeerLinksForm, BreakWhereThePathEndsInTheMiddle) {
  const auto problems = sum_over_a_harmed_path(
      {start(0), start(1)}, [](faults::proxy& path) { path.truncate_next("pair", faults::way::to_client); });
  EXPECT_THAT(problems, testing::Each(testing::Not(IsEmpty())));
}

TEST_F(PeerLinks, JoinNobodyWhoIsAnotherHost) {
  // Whoever answers at rank 0's port is ada, and rank 0 is cy's here.
  const auto ada = start(0);
  const auto ben = start(1, {"cy", "ben"});
  std::vector<std::string> problems(2);
  {
    std::vector<std::jthread> threads;
    for (const auto& [rank, links] : {std::pair(0U, ada), std::pair(1U, ben)})
      threads.emplace_back([&, rank = rank, links = links] {
        const interruption never;
        try {
          auto peers = join({.rank = rank, .members = {0, 1}, .store_prefix = "g1", .links = links}, meeting_, never);
          const std::int64_t row[] = {1};
          if (rank == 1)
            peers->all_gather(row)->wait();
        } catch (const error& problem) {
          problems[rank] = problem.what();
        }
      });
  }
  EXPECT_NE(problems[1], "");
  EXPECT_TRUE(says("it is host \"ada\", and \"cy\" was called"));
}

TEST_F(PeerLinks, ReachMembersThatAnnounceWhoTheyAre) {
  const std::vector<member_host> hosts = {
      {.name = "ada", .address = "127.0.0.1"}, {.name = "+1", .announced = true}, {.name = "+2", .announced = true}};
  std::vector<std::shared_ptr<peer_links>> links;
  for (const auto* name : {"ada", "ben", "cy"})
    links.push_back(start_behind_a_door({.directory = links::host_directory(keys_.path(), name),
                                         .host = name,
                                         .accepted = {},
                                         .accepts_all = true,
                                         .protocol = protocol_},
                                        hosts));
  for (const std::vector<std::uint32_t>& members : {std::vector<std::uint32_t>{0, 1, 2}, {1, 2}})
    run(links, members, "g" + std::to_string(members.size()),
        [&](std::uint32_t rank, group& peers) { expect_sums(peers, rank, members, 100); });
}

TEST_F(PeerLinks, RefuseAnAnnouncementThatIsNone) {
  const auto ben = start(1);
  const interruption never;
  for (const std::vector<std::uint8_t>& said : {std::vector<std::uint8_t>{}, std::vector<std::uint8_t>(513, 'a')}) {
    meeting_.set("g1/present/0", said);
    EXPECT_THROW(join({.rank = 1, .members = {0, 1}, .store_prefix = "g1", .links = ben}, meeting_, never), error);
  }
}

TEST_F(PeerLinks, NameAMemberWithoutKeys) {
  const auto ben = start(1);
  meeting_.set("g1/present/0", {1});
  const interruption never;
  try {
    join({.rank = 1, .members = {0, 1}, .store_prefix = "g1", .links = ben}, meeting_, never);
    FAIL() << "joined a member that has no links";
  } catch (const error& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("host \"ada\" has announced no port for links"));
  }
}

TEST_F(PeerLinks, TellAMemberThatIsGone) {
  const auto links = start_all();
  std::barrier met(2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    const interruption never;
    auto peers = join({.rank = 1, .members = {0, 1}, .store_prefix = "g1", .links = links[1]}, meeting_, never);
    expect_sums(*peers, 1, {0, 1}, 10);
    met.arrive_and_wait();
  });
  threads.emplace_back([&] {
    const interruption never;
    auto peers = join({.rank = 0, .members = {0, 1}, .store_prefix = "g1", .links = links[0]}, meeting_, never);
    expect_sums(*peers, 0, {0, 1}, 10);
    met.arrive_and_wait();
    const auto summed = peers->make_bucket(element::float32, 4, 0);
    EXPECT_THROW(
        {
          summed->start();
          summed->wait();
        },
        error);
  });
}

} // namespace
} // namespace dynamix::exchange
