#include "links/pump.hpp"

#include "links/pump_entries.hpp"
#include "links/refusals.hpp"
#include "links/sockets.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <string_view>
#include <sys/socket.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dynamix::links {
namespace {

using time_point = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr milliseconds carriage_wait{20'000}; ///< of either end, for the other
constexpr milliseconds departure_time{2000};  ///< for what local users have written, at the pump's end
constexpr const char* nobody_takes = "nobody takes links here yet, or any more";

/// One message of a queue: the peer's address and name in two lines, and a copy of the descriptor, which the kernel
/// closes where nobody reads it. The header points to the other members.
struct queued_link {
  queued_link() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  queued_link(const queued_link&) = delete;

  std::array<char, 512> text; // NOLINT: filled by whoever uses it
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

/// As `take_link` reads it. Returns why it cannot be.
std::string send_link(int queue, int plain, const connection& from) {
  queued_link link;
  const auto text = peer_address(from.peer_socket()) + '\n' + from.peer_name();
  link.part.iov_len = text.copy(link.text.data(), link.text.size());
  auto* attached = CMSG_FIRSTHDR(&link.header);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof plain);
  std::memcpy(CMSG_DATA(attached), &plain, sizeof plain);
  if (::sendmsg(queue, &link.header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
    return "";
  return errno == EAGAIN || errno == ETOOMANYREFS ? "too many links wait here to be taken" : nobody_takes;
}

} // namespace

class pump::loop final : public event_thread {
public:
  loop(pump_options options, tls_identity identity)
      : options_(std::move(options)), identity_(std::move(identity)), lines_(options_.report) {
    start();
  }
  ~loop() override { end(); }

  const pump_options& options() const { return options_; }

  int take_links() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return -1;
    auto ours = std::make_shared<descriptor>(ends[0]);
    ask([&] {
      queue_ = std::move(*ours);
      queue_id_ = next_id_++;
      queue_watched_ = {};
      queue_watched_.want(epoll(), queue_.get(), EPOLLRDHUP, tag(queue_id_, source::queue));
    });
    return ends[1];
  }

  bool take_over(std::unique_ptr<connection> proven) {
    auto handed = std::make_shared<std::unique_ptr<connection>>(std::move(proven));
    return post([this, handed] { receive(std::move(*handed)); });
  }

  std::string carry_to(const carriage& wanted, const std::string& address, std::uint16_t port, milliseconds timeout,
                       int plain) {
    auto local = std::make_shared<descriptor>(plain);
    std::string problem;
    auto socket = std::make_shared<descriptor>(connect_tcp(address, port, timeout, problem));
    if (!*socket)
      return problem;
    const bool posted = post([this, local, socket, wanted, place = fmt::format("{}:{}", address, port)] {
      prepare(socket->get());
      refresh_identity();
      auto link =
          std::make_unique<connection>(std::move(*socket), place, wanted.host, now() + options_.handshake_timeout);
      link->introduce(wanted.purpose, continues());
      add({.link = std::move(link), .adopted = std::move(*local), .introduces = true});
    });
    return posted ? "" : host_ends;
  }

  void carry_from(const carriage& wanted, int plain) {
    auto local = std::make_shared<descriptor>(plain);
    post([this, local, wanted] {
      auto& half = halves_[{wanted.host, wanted.purpose}];
      half.plain = std::move(*local);
      half.until = now() + carriage_wait;
      if (half.link != 0)
        join(half.link);
    });
  }

  call_result connect(const std::string& host, const std::string& address, std::uint16_t port, milliseconds timeout,
                      connect_failure* kind) {
    call_result result;
    auto socket = connect_tcp(address, port, timeout, result.problem, kind);
    if (!socket)
      return result;
    auto opened = std::make_shared<std::promise<call_result>>();
    auto told = opened->get_future();
    auto handed = std::make_shared<descriptor>(std::move(socket));
    const bool posted = post([this, handed, opened, host, place = fmt::format("{}:{}", address, port)] {
      prepare(handed->get());
      entry calling{
          .link = std::make_unique<connection>(std::move(*handed), place, host, now() + options_.handshake_timeout),
          .opened = std::move(*opened)};
      refresh_identity();
      add(std::move(calling));
    });
    return posted ? told.get() : call_result{.plain = -1, .problem = host_ends};
  }

  int adopt(int socket, const std::string& expected) {
    auto [ours, theirs] = make_plain_pair();
    auto taken = std::make_shared<descriptor>(socket);
    if (!ours)
      return -1;
    auto end = std::make_shared<descriptor>(std::move(ours));
    // Where the thread has ended, both are closed with this work.
    post([this, taken, end, expected] {
      prepare(taken->get());
      auto place = peer_text(taken->get());
      refresh_identity();
      add({.link = std::make_unique<connection>(std::move(*taken), std::move(place), expected,
                                                now() + options_.handshake_timeout),
           .adopted = std::move(*end)});
    });
    return theirs.release();
  }

  pump_counts counts() const { return {.opened = opened_, .refused = refused_, .open = open_}; }

private:
  bool carries() const {
    return options_.protocol == gradient_protocol || options_.protocol == clear_gradient_protocol;
  }
  /// How carriages go on once both ends are proven.
  protection continues() const {
    return options_.protocol == clear_gradient_protocol ? protection::none : protection::tls;
  }

  void prepare(int socket) const {
    prepare_tcp(socket);
    if (options_.silent_peer_ms > 0)
      end_silent(socket, options_.silent_peer_ms);
    if (carries())
      mark_bulk(socket);
  }

  int wait_ms() const override {
    const bool timed = !timed_.empty() || !halves_.empty() || departing_;
    return !again_.empty() ? 0 : timed ? static_cast<int>(look_interval.count()) : -1;
  }

  void after_events() override {
    for (const auto id : std::exchange(again_, {}))
      advance(id);
    look_at_times();
  }

  bool departed() const override { return departing_ && (entries_.empty() || now() >= departed_at_); }

  void clear() override {
    entries_.clear();
    queue_ = {};
  }

  void handle(source from, std::uint64_t id) override {
    if (from != source::queue)
      return advance(id);
    if (id == queue_id_) // whoever took links from it is gone
      queue_ = {};
  }

  void refresh_identity() {
    if (const auto problem = identity_.refresh(now()); !problem.empty())
      lines_.add(now(), "new keys are not used: " + problem);
  }

  /// A proven peer's connection, which a door has accepted.
  void receive(std::unique_ptr<connection> proven) {
    const auto id = next_id_++;
    auto& taken = entries_[id];
    taken.link = std::move(proven);
    auto& link = *taken.link;
    prepare(link.peer_socket());
    if (options_.inspect)
      link.inspect(options_.inspect());
    if (has_too_many(link))
      link.refuse(fmt::format("host \"{}\" has {} links already", link.peer_name(), options_.links_a_host_max));
    else if (departing_)
      link.refuse(host_ends);
    else if (carries())
      link.expect_introduction(continues());
    else if (const auto problem = hand_over(link); !problem.empty())
      link.refuse(problem);
    if (link.phase() != link_phase::over)
      count_for_host(taken); // one that waits for its other end, too, so that those of one host are limited
    if (link.phase() == link_phase::open)
      opened(taken);
    advance(id);
  }

  bool has_too_many(const connection& link) const {
    const auto count = links_of_.find(link.peer_name());
    return count != links_of_.end() && count->second >= options_.links_a_host_max;
  }

  void add(entry added) {
    const auto id = next_id_++;
    entries_.emplace(id, std::move(added));
    advance(id);
  }

  /// Does for a connection what can be done now.
  void advance(std::uint64_t id) {
    const auto found = entries_.find(id);
    if (found == entries_.end())
      return;
    auto& link = found->second.link;
    if (link->phase() < link_phase::open && link->shake_hands(identity_, nullptr))
      open(id, found->second);
    if (link->phase() == link_phase::open || link->phase() == link_phase::closing)
      if (link->transfer(now()))
        again_.push_back(id);
    if (link->phase() == link_phase::over)
      return finish(id);
    const auto wanted = link->wanted();
    found->second.peer.want(epoll(), link->peer_socket(), wanted.peer, tag(id, source::peer));
    if (link->local_socket() >= 0)
      found->second.local.want(epoll(), link->local_socket(), wanted.local, tag(id, source::local));
    if (link->deadline())
      timed_.insert(id);
    else
      timed_.erase(id);
  }

  /// The host that was called is proven; or one that has called has said for what.
  void open(std::uint64_t id, entry& proven) {
    auto& link = *proven.link;
    if (!link.calls())
      return meet(id, proven);
    if (has_too_many(link))
      return link.refuse(fmt::format("host \"{}\" has {} links already", link.peer_name(), options_.links_a_host_max));
    if (proven.introduces)
      link.open(std::move(proven.adopted), "");
    else if (proven.adopted)
      link.open(std::move(proven.adopted), static_cast<char>(link.peer_name().size()) + link.peer_name());
    else if (auto [ours, theirs] = make_plain_pair(); ours) {
      proven.opened.set_value({.plain = theirs.release(), .problem = ""});
      link.open(std::move(ours), "");
    } else {
      return link.refuse("there is no descriptor left");
    }
    count_for_host(proven);
    opened(proven);
  }

  /// A carriage's link has come: where its other end has not, it waits.
  void meet(std::uint64_t id, entry& proven) {
    auto& half = halves_[{proven.link->peer_name(), proven.link->introduction()}];
    const auto before = std::exchange(half.link, id);
    proven.link->wait_until(now() + carriage_wait);
    if (half.plain)
      return join(id);
    if (before != 0) {
      entries_.at(before).link->refuse("its host has called once more for the same");
      finish(before);
    }
  }

  /// Both ends are there.
  void join(std::uint64_t id) {
    auto& proven = entries_.at(id);
    auto found = halves_.extract({proven.link->peer_name(), proven.link->introduction()});
    proven.link->open(std::move(found.mapped().plain), "");
    opened(proven);
    again_.push_back(id);
  }

  void count_for_host(entry& proven) {
    ++links_of_[proven.link->peer_name()];
    proven.counted = true;
  }

  void opened(entry& proven) {
    proven.is_open = true;
    ++opened_;
    ++open_;
  }

  /// Its plain end goes to who takes links. Returns why not.
  std::string hand_over(connection& link) {
    auto [ours, theirs] = make_plain_pair();
    if (!ours)
      return "there is no descriptor left";
    auto problem = queue_ ? send_link(queue_.get(), theirs.get(), link) : nobody_takes;
    if (problem.empty())
      link.open(std::move(ours), "");
    return problem;
  }

  void finish(std::uint64_t id) {
    const auto found = entries_.find(id);
    const auto& link = found->second.link;
    if (found->second.counted && --links_of_[link->peer_name()] == 0)
      links_of_.erase(link->peer_name());
    if (found->second.is_open) {
      if (!link->problem().empty() && link->problem() != closed_by_peer)
        lines_.add(now(),
                   fmt::format("link to {} at {} broke: {}", link->peer_name(), link->address(), link->problem()));
      --open_;
    } else if (link->calls()) {
      // Of carriages alone: whose host closes without a word has no taker yet, and is called again.
      if (found->second.adopted && (found->second.introduces || link->problem() != closed_by_peer))
        lines_.add(now(), fmt::format("link to {} failed: {}", link->address(), link->problem()));
      found->second.opened.set_value({.plain = -1, .problem = link->problem()});
    } else {
      if (carries() || queue_id_ != 0) // not while this host is starting
        lines_.add(now(), fmt::format("refused {}: {}", link->address(), link->problem()));
      ++refused_;
    }
    if (carries())
      std::erase_if(halves_, [id](const auto& half) { return half.second.link == id; });
    timed_.erase(id);
    entries_.erase(found); // its descriptors leave the epoll set as they are closed
  }

  void look_at_times() {
    const auto moment = now();
    std::erase_if(halves_, [&](const auto& half) { return half.second.link == 0 && half.second.until <= moment; });
    std::vector<std::uint64_t> late;
    for (const auto id : timed_)
      if (*entries_.at(id).link->deadline() <= moment)
        late.push_back(id);
    for (const auto id : late) {
      auto& link = *entries_.at(id).link;
      const auto seconds = static_cast<double>(options_.handshake_timeout.count()) / 1000;
      if (link.phase() == link_phase::introduced)
        link.refuse("nothing here has waited for what it carries");
      else if (link.phase() == link_phase::introducing && !link.calls())
        link.refuse(fmt::format("it did not say what it is for within {} s", seconds));
      else if (link.phase() < link_phase::open)
        link.refuse(fmt::format("it did not finish its handshake within {} s", seconds));
      finish(id);
    }
  }

  /// What local users have written is sent; nobody new is taken.
  void depart() override {
    departing_ = true;
    departed_at_ = now() + departure_time;
    std::erase_if(halves_, [](const auto& half) { return half.second.link == 0; });
    std::vector<std::uint64_t> ids;
    for (const auto& [id, each] : entries_)
      ids.push_back(id);
    for (const auto id : ids) {
      auto& link = *entries_.at(id).link;
      if (link.phase() < link_phase::open) {
        link.refuse(host_ends);
        finish(id);
        continue;
      }
      link.leave();
      advance(id);
    }
  }

  const pump_options options_;
  std::atomic<std::uint64_t> opened_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::size_t> open_ = 0;

  // The thread's own.
  tls_identity identity_;
  refusal_lines lines_;
  std::uint64_t next_id_ = 1; ///< never used twice, so that a late event finds nobody
  std::unordered_map<std::uint64_t, entry> entries_;
  descriptor queue_; ///< of accepted links, where somebody takes them
  watched queue_watched_;
  std::uint64_t queue_id_ = 0;
  std::map<std::pair<std::string, std::string>, half_carriage> halves_; ///< by host and purpose
  std::unordered_set<std::uint64_t> timed_;
  std::vector<std::uint64_t> again_;
  std::map<std::string, std::size_t> links_of_;
  bool departing_ = false;
  time_point departed_at_;
};

taken_link take_link(int queue) {
  queued_link link;
  const auto count = ::recvmsg(queue, &link.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const auto* attached = count > 0 ? CMSG_FIRSTHDR(&link.header) : nullptr;
  taken_link taken;
  if (attached == nullptr) // none, or no descriptor was left for it: then it has ended
    return taken;
  std::memcpy(&taken.plain, CMSG_DATA(attached), sizeof taken.plain);
  const std::string_view text(link.text.data(), static_cast<std::size_t>(count));
  const auto line = text.find('\n');
  taken.address = text.substr(0, line);
  taken.host = text.substr(line + 1);
  return taken;
}

std::unique_ptr<pump> pump::start(pump_options options, std::string& problem) {
  tls_identity identity(options.directory, options.host, options.protocol);
  problem = identity.load();
  if (!problem.empty())
    return nullptr;
  return std::unique_ptr<pump>(new pump(std::make_unique<loop>(std::move(options), std::move(identity))));
}

pump::pump(std::unique_ptr<loop> running) : loop_(std::move(running)) {}

pump::~pump() = default;

int pump::take_links() {
  return loop_->take_links();
}

const pump_options& pump::options() const {
  return loop_->options();
}

bool pump::take_over(std::unique_ptr<connection> proven) {
  return loop_->take_over(std::move(proven));
}

int pump::connect(const std::string& host, const std::string& address, std::uint16_t port, milliseconds timeout,
                  std::string& problem, connect_failure* kind) {
  auto result = loop_->connect(host, address, port, timeout, kind);
  problem = std::move(result.problem);
  return result.plain;
}

void pump::end() {
  loop_->end();
}

int pump::adopt(int socket, const std::string& expected) {
  return loop_->adopt(socket, expected);
}

std::string pump::carry_to(const carriage& wanted, const std::string& address, std::uint16_t port,
                           std::chrono::milliseconds timeout, int plain) {
  return loop_->carry_to(wanted, address, port, timeout, plain);
}

void pump::carry_from(const carriage& wanted, int plain) {
  loop_->carry_from(wanted, plain);
}

pump_counts pump::counts() const {
  return loop_->counts();
}

} // namespace dynamix::links
