// A mesh whose peers are real sockets that the tests write to, and collectives on meshes of up to five members.
#include "exchange/collectives.hpp"
#include "exchange/group.hpp"
#include "exchange/mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <future>
#include <malloc.h>
#include <numeric>
#include <random>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dynamix::exchange {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::uint64_t ready_word = 0x7964616572;
constexpr std::uint64_t data_word = 0x61746164;

/// What a mesh tells of a message.
struct told {
  std::promise<std::string> promise;
  std::future<std::string> result = promise.get_future();
  mesh::completion completion() {
    return [this](const std::string& problem) { promise.set_value(problem); };
  }
};

/// A mesh of two, of whose second member the test is the bytes.
class Mesh : public testing::Test {
protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    peer_ = ends[1];
    mesh_ = mesh::start({-1, ends[0]}, {3, 5}, 0);
  }
  void TearDown() override {
    mesh_->break_up("the test is over");
    ::close(peer_);
  }

  void write(const void* bytes, std::size_t size) const {
    ASSERT_EQ(::send(peer_, bytes, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  void write_header(std::uint64_t what, std::uint64_t lane, std::uint64_t bytes) const {
    const std::array<std::uint64_t, 3> header = {what, lane, bytes};
    write(header.data(), sizeof header);
  }
  std::array<std::uint64_t, 3> read_header() const {
    std::array<std::uint64_t, 3> header{};
    EXPECT_EQ(::recv(peer_, header.data(), sizeof header, MSG_WAITALL), static_cast<ssize_t>(sizeof header));
    return header;
  }
  void receive(std::uint64_t lane, std::span<std::byte> into, told& what) {
    mesh_->run([this, lane, into, done = what.completion()] { mesh_->receive(1, lane, into, done); });
  }
  void send(std::uint64_t lane, std::span<const std::byte> bytes, told& what) {
    mesh_->run([this, lane, bytes, done = what.completion()] { mesh_->send(1, lane, bytes, done); });
  }
  /// `harm` is done while a message is awaited, which then fails.
  template <typename Harm>
  void expect_the_end(Harm harm, const std::string& why) {
    std::array<std::byte, 8> into{};
    told awaited;
    receive(1, into, awaited);
    read_header();
    harm();
    EXPECT_THAT(awaited.result.get(), HasSubstr(why));
    told later;
    send(1, into, later);
    EXPECT_THAT(later.result.get(), HasSubstr(why));
  }

  int peer_ = -1;
  std::shared_ptr<mesh> mesh_;
};

TEST_F(Mesh, SaysThatItWaitsBeforeAnythingTravels) {
  std::array<std::byte, 8> into{};
  told came;
  receive(7, into, came);
  EXPECT_EQ(read_header(), (std::array<std::uint64_t, 3>{ready_word, 7, 8}));
  write_header(data_word, 7, 8);
  write("12345678", 8);
  EXPECT_EQ(came.result.get(), "");
  EXPECT_EQ(std::memcmp(into.data(), "12345678", 8), 0);
}

TEST_F(Mesh, SendsWhatIsWaitedForInTheOrderOfItsLane) {
  const std::array<std::byte, 2> first{std::byte{1}, std::byte{2}};
  const std::array<std::byte, 1> second{std::byte{3}};
  told sent_first, sent_second, sent_other;
  send(7, first, sent_first);
  send(7, second, sent_second);
  send(8, second, sent_other);
  write_header(ready_word, 8, 1);
  EXPECT_EQ(read_header(), (std::array<std::uint64_t, 3>{data_word, 8, 1}));
  std::array<std::byte, 2> got{};
  ASSERT_EQ(::recv(peer_, got.data(), 1, MSG_WAITALL), 1);
  write_header(ready_word, 7, 2);
  write_header(ready_word, 7, 1);
  EXPECT_EQ(read_header(), (std::array<std::uint64_t, 3>{data_word, 7, 2}));
  ASSERT_EQ(::recv(peer_, got.data(), 2, MSG_WAITALL), 2);
  EXPECT_EQ(got, first);
  EXPECT_EQ(read_header(), (std::array<std::uint64_t, 3>{data_word, 7, 1}));
  EXPECT_EQ(sent_first.result.get() + sent_second.result.get() + sent_other.result.get(), "");
}

TEST_F(Mesh, TakesFramesThatComeInAnyPieces) {
  std::array<std::byte, 5> first{};
  std::array<std::byte, 3> second{};
  told came_first, came_second;
  receive(1, first, came_first);
  receive(2, second, came_second);
  const std::array<std::uint64_t, 3> header_of_first = {data_word, 1, 5};
  const std::array<std::uint64_t, 3> header_of_second = {data_word, 2, 3};
  std::string stream(reinterpret_cast<const char*>(header_of_first.data()), sizeof header_of_first);
  stream += "abcde";
  stream.append(reinterpret_cast<const char*>(header_of_second.data()), sizeof header_of_second);
  stream += "fgh";
  for (const char each : stream) {
    write(&each, 1);
    std::this_thread::yield();
  }
  EXPECT_EQ(came_first.result.get() + came_second.result.get(), "");
  EXPECT_EQ(std::memcmp(first.data(), "abcde", 5) + std::memcmp(second.data(), "fgh", 3), 0);
}

TEST_F(Mesh, EndsAPeerThatTalksNonsense) {
  expect_the_end([this] { write(std::string(112, '\x01').data(), 112); }, "rank 5 has sent what nobody waits for");
}

TEST_F(Mesh, EndsAPeerThatSendsToALaneInWhichNobodyWaits) {
  expect_the_end([this] { write_header(data_word, 2, 8); }, "rank 5 has sent what nobody waits for");
}

TEST_F(Mesh, EndsAPeerThatSendsMoreThanIsWaitedFor) {
  expect_the_end([this] { write_header(data_word, 1, std::uint64_t{1} << 60); },
                 "rank 5 has sent what nobody waits for");
}

TEST_F(Mesh, EndsAPeerThatWaitsForNothing) {
  expect_the_end([this] { write_header(ready_word, 1, 0); }, "rank 5 waits for more than a member can send");
}

TEST_F(Mesh, EndsAPeerThatWaitsForMoreAndMore) {
  expect_the_end(
      [this] {
        for (std::uint64_t i = 0; i <= 1 << 12; ++i) {
          const std::array<std::uint64_t, 3> header = {ready_word, 1, 8 + i % 2};
          if (::send(peer_, header.data(), sizeof header, MSG_NOSIGNAL) < 0)
            return; // ended already
        }
      },
      "rank 5 waits for more than a member can send");
}

TEST_F(Mesh, GivesAPeerThatWaitsInThousandsOfLanesLittleMemory) {
  const auto in_use = [] { return ::mallinfo2().uordblks; }; // none of it is counted under AddressSanitizer
  const auto before = in_use();
  constexpr std::uint64_t lanes = 4000;
  for (std::uint64_t lane = 1; lane <= lanes; ++lane)
    write_header(ready_word, lane, 8);
  const std::array<std::byte, 8> bytes{};
  told sent;
  send(lanes, bytes, sent);
  EXPECT_EQ(sent.result.get(), "") << "it has read all of them";
  EXPECT_LT(in_use(), before + (1 << 20));
}

TEST_F(Mesh, LetsAPeerWaitForAnyNumberOfPiecesOfOneLength) {
  for (int piece = 0; piece < 100'000; ++piece)
    write_header(ready_word, 7, 8);
  const std::array<std::byte, 8> bytes{};
  told sent;
  send(7, bytes, sent);
  EXPECT_EQ(sent.result.get(), "");
}

TEST_F(Mesh, SaysThatMembersDoNotExchangeTheSame) {
  const std::array<std::byte, 4> bytes{};
  told sent;
  send(1, bytes, sent);
  write_header(ready_word, 1, 12);
  EXPECT_EQ(sent.result.get(), "rank 5 waits for 12 bytes where 4 are sent: members do not exchange the same");
}

TEST_F(Mesh, FailsWhatWaitsForAPeerThatEndsWithinAMessage) {
  expect_the_end(
      [this] {
        write_header(data_word, 1, 8);
        write("123", 3);
        ::shutdown(peer_, SHUT_RDWR);
      },
      "rank 5 has closed its connection");
}

TEST_F(Mesh, FailsWhatIsAskedForOnceItHasEnded) {
  mesh_->break_up("all is over");
  std::array<std::byte, 8> into{};
  told came;
  receive(1, into, came);
  EXPECT_EQ(came.result.get(), "all is over");
  told again; // the thread may be gone by now
  receive(1, into, again);
  EXPECT_EQ(again.result.get(), "all is over");
}

TEST(MeshWithoutDescriptors, IsNotStarted) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_THROW(mesh::start({-1, ends[0]}, {0, 1}, 0), error);
  ::setrlimit(RLIMIT_NOFILE, &before);
  char byte = 0;
  EXPECT_EQ(::read(ends[1], &byte, 1), 0) << "its connections are closed";
  ::close(ends[1]);
}

// --- collectives -----------------------------------------------------------------------------------------------------

/// `body(position, mesh)` on a thread for each of `size` members with connections between all of them.
template <typename Body>
void run_members(std::uint32_t size, Body body) {
  std::vector<std::vector<int>> sockets(size, std::vector<int>(size, -1));
  for (std::uint32_t i = 0; i < size; ++i)
    for (std::uint32_t j = 0; j < i; ++j) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
      sockets[i][j] = ends[0];
      sockets[j][i] = ends[1];
    }
  std::vector<std::uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  std::vector<std::jthread> threads;
  for (std::uint32_t i = 0; i < size; ++i)
    threads.emplace_back([&, i] {
      const auto own = mesh::start(sockets[i], ranks, i);
      body(i, own);
      own->finish();
    });
}

/// Small whole numbers, whose sums are exact in any order.
template <typename Element>
std::vector<Element> drawn(std::uint32_t member, std::size_t count) {
  std::mt19937_64 random(member * 1000 + count);
  std::vector<Element> values(count);
  for (auto& each : values)
    each = static_cast<Element>(random() % 1000);
  return values;
}

template <typename Element, typename Operation>
void expect_reduced(std::uint32_t size, std::size_t count, arithmetic how, Operation operation) {
  std::vector<Element> expected = drawn<Element>(0, count);
  for (std::uint32_t i = 1; i < size; ++i) {
    const auto more = drawn<Element>(i, count);
    std::ranges::transform(expected, more, expected.begin(), operation);
  }
  run_members(size, [&](std::uint32_t own, const std::shared_ptr<mesh>& through) {
    const auto data = std::make_shared<std::vector<Element>>(drawn<Element>(own, count));
    const interruption never;
    const auto sum = all_reduce(through, 1, std::as_writable_bytes(std::span(*data)), data, how);
    sum->start(never);
    sum->wait(never, milliseconds(60000));
    EXPECT_EQ(*data, expected) << count << " of " << size;
  });
}

class Collectives : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Of, Collectives, testing::Values(2, 3, 5), testing::PrintToStringParamName());

/// Counts on both sides of each border: of what is gathered, of pieces, of chunks that are longer by one.
TEST_P(Collectives, ReduceAnyNumberOfElements) {
  constexpr std::size_t gathered = (16 << 10) / sizeof(float);
  constexpr std::size_t piece = (256 << 10) / sizeof(float);
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, gathered, gathered + 1, piece + 1, 2 * piece,
                                  GetParam() * piece - 1, GetParam() * piece, 10 * GetParam() * piece + 7})
    expect_reduced<float>(GetParam(), count, arithmetic::add_float32, std::plus());
}

TEST_P(Collectives, ReduceEachKindOfElement) {
  for (const std::size_t count : {3U, 100'003U}) {
    expect_reduced<double>(GetParam(), count, arithmetic::add_float64, std::plus());
    expect_reduced<std::uint64_t>(GetParam(), count, arithmetic::add_words, std::plus());
    expect_reduced<std::uint64_t>(GetParam(), count, arithmetic::or_words, std::bit_or());
  }
}

/// Of numbers that add up differently in another order.
TEST_P(Collectives, GiveTheSameBitsToAllMembers) {
  for (const std::size_t count : {1000U, 300'001U}) {
    std::vector<std::vector<float>> sums(GetParam());
    run_members(GetParam(), [&](std::uint32_t own, const std::shared_ptr<mesh>& through) {
      std::mt19937 random(own);
      std::normal_distribution<float> normal;
      const auto data = std::make_shared<std::vector<float>>(count);
      std::ranges::generate(*data, [&] { return normal(random); });
      const interruption never;
      const auto sum = all_reduce(through, 1, std::as_writable_bytes(std::span(*data)), data, arithmetic::add_float32);
      sum->start(never);
      sum->wait(never, milliseconds(60000));
      sums[own] = *data;
    });
    EXPECT_THAT(sums, testing::Each(sums[0]));
  }
}

TEST_P(Collectives, GoOnBesideEachOther) {
  run_members(GetParam(), [&](std::uint32_t own, const std::shared_ptr<mesh>& through) {
    const interruption never;
    std::vector<std::shared_ptr<std::vector<float>>> all;
    std::vector<std::shared_ptr<collective>> begun;
    for (std::uint64_t lane = 0; lane < 12; ++lane) {
      all.push_back(std::make_shared<std::vector<float>>(lane % 3 == 0 ? 200'000 : 10, static_cast<float>(own + lane)));
      begun.push_back(all_reduce(through, lane, std::as_writable_bytes(std::span(*all.back())), all.back(),
                                 arithmetic::add_float32));
      begun.back()->start(never);
    }
    for (std::size_t i = begun.size(); i-- > 0;) {
      begun[i]->wait(never, milliseconds(60000));
      const auto members = static_cast<float>(GetParam());
      EXPECT_THAT(*all[i], testing::Each(members * (members - 1) / 2 + members * static_cast<float>(i)));
    }
  });
}

TEST_P(Collectives, BroadcastFromEachMember) {
  for (const std::size_t count : {1U, 300'000U, 3'000'000U})
    run_members(GetParam(), [&](std::uint32_t own, const std::shared_ptr<mesh>& through) {
      const interruption never;
      for (std::uint32_t root = 0; root < GetParam(); ++root) {
        const auto data = std::make_shared<std::vector<std::uint8_t>>(count);
        const auto sent = drawn<std::uint8_t>(root, count);
        if (own == root)
          *data = sent;
        const auto around = broadcast(through, root, root, std::as_writable_bytes(std::span(*data)), data);
        around->start(never);
        around->wait(never, milliseconds(60000));
        EXPECT_EQ(*data, sent);
      }
    });
}

TEST(CollectivesOfTwo, EndTheMeshWhereNothingComes) {
  run_members(2, [&](std::uint32_t own, const std::shared_ptr<mesh>& through) {
    const auto data = std::make_shared<std::vector<float>>(100);
    const interruption never;
    const auto sum = all_reduce(through, 1, std::as_writable_bytes(std::span(*data)), data, arithmetic::add_float32);
    if (own == 1)
      std::this_thread::sleep_for(milliseconds(200));
    sum->start(never);
    EXPECT_THROW(sum->wait(never, milliseconds(own == 0 ? 50 : 60000)), error);
  });
}

TEST(CollectivesOfTwo, AreCompleteHoweverLateSomebodyWaitsForThem) {
  run_members(2, [&](std::uint32_t own, const std::shared_ptr<mesh>& through) {
    const auto all = std::make_shared<std::vector<std::byte>>(64);
    const interruption never;
    const auto gathered = all_gather(through, 1, *all, all);
    gathered->start(never);
    const auto later = all_gather(through, 2, *all, all);
    later->start(never);
    later->wait(never, milliseconds(60000));
    std::this_thread::sleep_for(milliseconds(own == 0 ? 100 : 0));
    EXPECT_NO_THROW(gathered->wait(never, milliseconds(1)));
  });
}

/// At most 64 KiB every 20 ms.
void pass_on_slowly(int from, int to) {
  std::vector<char> block(64 << 10);
  for (;;) {
    const auto got = ::recv(from, block.data(), block.size(), 0);
    if (got <= 0 || ::send(to, block.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) != got)
      break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  ::shutdown(to, SHUT_WR);
}

TEST(CollectivesOfTwo, WaitAsLongAsBytesCome) {
  std::array<int, 2> left{};
  std::array<int, 2> right{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, left.data()), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, right.data()), 0);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { pass_on_slowly(left[1], right[1]); });
  threads.emplace_back([&] { pass_on_slowly(right[1], left[1]); });
  const std::vector through = {mesh::start({-1, left[0]}, {0, 1}, 0), mesh::start({right[0], -1}, {0, 1}, 1)};
  for (std::size_t own = 0; own < 2; ++own)
    threads.emplace_back([own = through[own]] {
      const auto all = std::make_shared<std::vector<std::byte>>(16 << 20);
      const auto from = std::make_shared<std::vector<std::byte>>(all->size());
      const interruption never;
      for (const auto& each : {all_gather(own, 1, *all, all), all_to_all(own, 2, *from, *all, from)}) {
        each->start(never);
        EXPECT_NO_THROW(each->wait(never, milliseconds(1500))); // a block of half of that takes 2.5 s
      }
      own->finish();
    });
  for (auto& each : threads)
    each.join();
  ::close(left[1]);
  ::close(right[1]);
}

} // namespace
} // namespace dynamix::exchange
