#include "dashboard/access.hpp"
#include "dashboard/assets.hpp"
#include "dashboard/server.hpp"
#include "ledger/codec.hpp"
#include "links/certificate.hpp"
#include "links/free_port.hpp"
#include "links/private_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/dashboard/silent_client.hpp"
#include "tests/unit/ledger/rows.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <future>
#include <httplib.h>

namespace dynamix::dashboard {
namespace {

using namespace ledger::testing;
using namespace testing;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

const std::string server_token = "0123456789abcdef0123";
constexpr std::size_t mebibyte = 1U << 20;

/// Of this process, in which the server runs.
std::size_t resident_bytes() {
  std::size_t whole = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Of all threads of this process, in which the server runs, as a share of one core.
double busy_share(milliseconds window) {
  const auto used = [] {
    timespec spent{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return static_cast<double>(spent.tv_sec) + 1e-9 * static_cast<double>(spent.tv_nsec);
  };
  const auto before = used();
  std::this_thread::sleep_for(window);
  return (used() - before) / std::chrono::duration<double>(window).count();
}

/// A connection that says what no client would.
class raw_client {
public:
  explicit raw_client(std::uint16_t port) : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = loopback_address(port);
    EXPECT_EQ(::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  }
  raw_client(raw_client&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;
  ~raw_client() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  /// How many bytes are taken within `patience`; fewer than all where the server cuts the connection.
  std::size_t send(const std::string& text, milliseconds patience = milliseconds(5000)) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::size_t sent = 0;
    while (sent < text.size() && std::chrono::steady_clock::now() < deadline) {
      const auto count = ::send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN)
        break;
      if (count < 0)
        std::this_thread::sleep_for(milliseconds(1));
      sent += count < 0 ? 0 : static_cast<std::size_t>(count);
    }
    return sent;
  }
  bool is_cut() const {
    char bytes[4096];
    ssize_t count = 0;
    while ((count = ::recv(descriptor_, bytes, sizeof bytes, 0)) > 0) {
    }
    return count == 0 || errno != EAGAIN;
  }

private:
  int descriptor_;
};

class Server : public ::testing::Test {
protected:
  void serve(server_options options = {}) {
    append(start_row());
    append(window_row(1));
    options.listen = {"127.0.0.1", port_};
    options.retry_interval = milliseconds(20);
    from_ = std::make_shared<feed>(small_cluster(), path(), feed_limits{.look_interval = milliseconds(5)});
    server_ = std::make_unique<server>(from_, options);
    EXPECT_TRUE(wait_until([&] { return server_->listening(); }));
  }
  void append(const ledger::row& row) { std::ofstream(path(), std::ios::app) << ledger::to_json_line(row) + "\n"; }
  std::string path() const { return directory_.path() + "/windows.jsonl"; }
  httplib::Result get(const std::string& what, const httplib::Headers& headers = {}) {
    httplib::Client client("127.0.0.1", port_);
    return client.Get(what, headers);
  }
  /// What a client that asks for a stream is told; it does not stay.
  int stream_status() {
    httplib::Client client("127.0.0.1", port_);
    int status = 0;
    client.Get(
        "/events",
        [&](const httplib::Response& response) {
          status = response.status;
          return false;
        },
        [](const char*, std::size_t) { return false; });
    return status;
  }
  /// Reads a new stream, which begins here, until its text holds `wanted`.
  std::future<std::string> stream_until(const std::string& wanted) {
    const auto begun = std::make_shared<std::promise<void>>();
    auto text = std::async(std::launch::async, [this, wanted, begun] {
      httplib::Client client("127.0.0.1", port_);
      client.set_read_timeout(20);
      std::string text;
      bool told = false;
      client.Get("/events", [&](const char* data, std::size_t size) {
        text.append(data, size);
        // From here on it misses nothing.
        if (!told && text.find("event: reset\n") != std::string::npos) {
          begun->set_value();
          told = true;
        }
        return text.find(wanted) == std::string::npos;
      });
      if (!told)
        begun->set_value(); // refused
      return text;
    });
    begun->get_future().wait();
    return text;
  }

  const temporary_directory directory_;
  const std::uint16_t port_ = links::take_free_port();
  std::shared_ptr<feed> from_;
  std::unique_ptr<server> server_;
};

TEST_F(Server, ServesThePageWithHeadersThatKeepItAlone) {
  serve();
  const auto page = get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  const auto policy = page->get_header_value("Content-Security-Policy");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  for (const auto& one : page_assets()) {
    EXPECT_EQ(one.content.find("style=\""), std::string::npos) << one.path << ": inline, which the policy forbids";
    const bool names_its_home = one.path == "/uplot.js"; // in its licence
    EXPECT_TRUE(names_its_home || one.content.find("https://") == std::string::npos) << one.path << " reaches out";
  }
  if (!page_assets().empty()) {
    EXPECT_THAT(get("/licenses.txt")->body, HasSubstr("MIT"));
    const auto style = get("/style.css");
    EXPECT_EQ(get("/style.css", {{"If-None-Match", style->get_header_value("ETag")}})->status, 304);
  }
  EXPECT_EQ(get("/healthz")->body, "ok\n");
  EXPECT_EQ(get("/../etc/passwd")->status, 404);
  EXPECT_EQ(get("/nothing")->status, 404);
}

TEST_F(Server, IsReadOnly) {
  serve();
  httplib::Client client("127.0.0.1", port_);
  EXPECT_EQ(client.Post("/", "x", "text/plain")->status, 405);
  EXPECT_EQ(client.Put("/api/state", "x", "text/plain")->status, 405);
  EXPECT_EQ(client.Delete("/metrics")->status, 405);
  EXPECT_EQ(client.Post("/login", "token=x", "application/x-www-form-urlencoded")->status, 405);
}

TEST_F(Server, ExplainsAWindowWhereItHasFoundIt) {
  serve();
  EXPECT_EQ(get("/api/explain?at=1")->status, 202) << "it is looked for elsewhere than where requests are answered";
  EXPECT_TRUE(wait_until([&] { return get("/api/explain?at=1")->status == 200; }));
  EXPECT_THAT(get("/api/explain?at=1")->body, HasSubstr("\"window\":1,"));
  for (const auto* what : {"/api/explain", "/api/explain?at=-1", "/api/explain?at=nan", "/api/explain?at=1x"})
    EXPECT_EQ(get(what)->status, 400) << what;
}

TEST_F(Server, AnswersLoopbackNamesOnly) {
  serve();
  EXPECT_EQ(get("/api/state", {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(get("/", {{"Host", "evil.example:8080"}})->status, 403);
  EXPECT_EQ(get("/api/state", {{"Host", "localhost:1234"}})->status, 200);
}

TEST_F(Server, AsksForTheToken) {
  serve({.listen = {}, .token = server_token});
  for (const char* what : {"/", "/api/state", "/events", "/metrics"}) {
    const auto refused = get(what);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status, 401) << what;
    EXPECT_EQ(refused->get_header_value("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(get(what, {{"Authorization", "Bearer wrong"}})->status, 401) << what;
  }
  EXPECT_EQ(get("/metrics", {{"Authorization", "Bearer " + server_token}})->status, 200);
  EXPECT_EQ(get("/healthz")->status, 200);
  httplib::Client client("127.0.0.1", port_);
  const auto wrong = client.Post("/login", "token=wrong", "application/x-www-form-urlencoded");
  EXPECT_EQ(wrong->get_header_value("Set-Cookie"), "");
  const auto login = client.Post("/login", "token=" + server_token, "application/x-www-form-urlencoded");
  ASSERT_TRUE(login);
  EXPECT_EQ(login->status, 303);
  const auto cookie = login->get_header_value("Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_EQ(cookie.find(server_token), std::string::npos);
  EXPECT_EQ(get("/api/state", {{"Cookie", cookie.substr(0, cookie.find(';'))}})->status, 200);
}

TEST_F(Server, StreamsWhatHappens) {
  serve();
  EXPECT_TRUE(wait_until([&] { return from_->state(false).find("\"remaining_bytes\":0") != std::string::npos; }));
  auto reset = stream_until("event: reset\n");
  EXPECT_THAT(reset.get(), HasSubstr("retry: 1000\n\n"));
  auto window = stream_until("\"kind\":\"window\"");
  append(window_row(2));
  EXPECT_THAT(window.get(), HasSubstr("\"window\":2"));
}

TEST_F(Server, HasRoomForSoManyStreamsAndNoMore) {
  serve({.listen = {}, .token = {}, .streams = 2});
  auto first = stream_until("\"window\":2");
  auto second = stream_until("\"window\":2");
  EXPECT_TRUE(wait_until([&] { return stream_status() == 503; }));
  EXPECT_EQ(get("/healthz")->status, 200) << "the streams leave threads for others";
  append(window_row(2));
  first.get();
  second.get();
}

TEST_F(Server, WaitsForAPortThatIsTaken) {
  httplib::Server other;
  other.set_socket_options([](int) {});
  ASSERT_TRUE(other.bind_to_port("127.0.0.1", port_));
  std::thread listening([&] { other.listen_after_bind(); });
  from_ = std::make_shared<feed>(small_cluster(), path());
  server_ = std::make_unique<server>(
      from_, server_options{.listen = {"127.0.0.1", port_}, .token = {}, .retry_interval = milliseconds(20)});
  EXPECT_TRUE(wait_until([&] { return other.is_running(); }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(server_->listening());
  other.stop();
  listening.join();
  EXPECT_TRUE(wait_until([&] { return server_->listening(); }));
}

TEST_F(Server, StopsWhileStreamsAreOpen) {
  serve();
  auto one = stream_until("never");
  auto two = stream_until("never");
  const auto begin = std::chrono::steady_clock::now();
  server_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8)) << "not at the next sign of life, 10 s";
  one.get();
  two.get();
}

TEST_F(Server, AClientThatTakesNothingIsDropped) {
  serve({.listen = {}, .token = {}, .streams = 1, .write_timeout = std::chrono::seconds(1)});
  const silent_client silent(port_, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(wait_until([&] { return stream_status() == 503; }));
  const std::string much(300, 'x');
  bool free = false;
  for (int i = 0; i < 200 && !free; ++i) {
    for (int row = 0; row < 50; ++row)
      append(event_row(ledger::event_kind::warning, "w0", much));
    std::this_thread::sleep_for(milliseconds(50));
    free = stream_status() == 200;
  }
  EXPECT_TRUE(free);
}

/// With 0.11 of cpp-httplib this took 800 MB.
TEST_F(Server, AHeaderThatNeverEndsIsCutAndCostsNothing) {
  serve();
  const auto before = resident_bytes();
  const raw_client client(port_);
  EXPECT_EQ(client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: "), 36U);
  const std::string line(mebibyte, 'a');
  std::size_t sent = 0;
  for (int i = 0; i < 200 && !client.is_cut(); ++i)
    sent += client.send(line, milliseconds(100));
  EXPECT_LT(sent, 16 * mebibyte) << "the kernel's buffers";
  EXPECT_TRUE(wait_until([&] { return client.is_cut(); }));
  EXPECT_LT(resident_bytes(), before + 32 * mebibyte);
}

/// With 0.11 of cpp-httplib it was answered with 133 MB.
TEST_F(Server, ARangeIsNotAnsweredManyTimesOver) {
  serve();
  std::string ranges = "bytes=0-";
  while (ranges.size() < 7800)
    ranges += ",0-";
  const auto whole = get("/metrics");
  const auto answer = get("/metrics", {{"Range", ranges}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_LT(answer->body.size(), 2 * whole->body.size());
}

TEST_F(Server, ABodyThatNobodyWantsIsNotTaken) {
  serve({.listen = {}, .token = server_token});
  const raw_client client(port_);
  client.send("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\ntoken=");
  EXPECT_LT(client.send(std::string(100 * mebibyte, 'a')), 16 * mebibyte);
  EXPECT_TRUE(wait_until([&] { return client.is_cut(); }));
}

TEST_F(Server, AThousandSilentConnectionsAreCutAndKeepNobodyOut) {
  serve({.listen = {}, .token = {}, .connections = {.most = 64, .reading = std::chrono::seconds(1)}});
  const auto before = resident_bytes();
  std::vector<raw_client> silent;
  for (int i = 0; i < 1000; ++i)
    silent.emplace_back(port_);
  bool answered = false;
  EXPECT_TRUE(wait_until([&] { // more came than are let in at once
    const auto answer = get("/healthz");
    return answered = answered || (answer && answer->status == 200);
  }));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(wait_until([&] { return std::ranges::all_of(silent, &raw_client::is_cut); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  EXPECT_LT(resident_bytes(), before + 32 * mebibyte);
}

TEST_F(Server, ARequestThatComesByteByByteIsCut) {
  serve({.listen = {}, .token = {}, .connections = {.reading = std::chrono::seconds(1)}});
  const raw_client client(port_);
  const auto begin = std::chrono::steady_clock::now();
  while (client.send("G") == 1 && !client.is_cut() &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(10))
    std::this_thread::sleep_for(milliseconds(50));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(Server, WhoAsksTooOftenIsToldSoAndTakesNothingFromThoseWithTheToken) {
  serve({.listen = {}, .token = server_token});
  httplib::Client stranger("127.0.0.1", port_);
  stranger.set_keep_alive(true);
  int status = 0;
  for (int i = 0; i < 2000 && status != 429; ++i)
    status = stranger.Get("/healthz")->status;
  EXPECT_EQ(status, 429);
  EXPECT_EQ(get("/metrics", {{"Authorization", "Bearer " + server_token}})->status, 200);
}

/// Keys of a host "localhost" that a client can check.
class EncryptedServer : public Server {
protected:
  EncryptedServer() { issue(); }
  void issue() const {
    links::credential own;
    EXPECT_EQ(links::issue_certificate(authority_, "localhost", now_, own), "");
    for (const auto& [name, text] : {std::pair("host.key", own.key), std::pair("host.crt", own.certificate),
                                     std::pair("ca.crt", authority_.certificate)})
      EXPECT_EQ(links::write_private_file(directory_.path() + "/" + name, text), "");
  }
  server_options encrypted() const {
    return {.listen = {},
            .token = server_token,
            .certificate_file = directory_.path() + "/host.crt",
            .key_file = directory_.path() + "/host.key"};
  }
  httplib::Result fetch(const std::string& what, const std::string& host = "localhost") {
    httplib::SSLClient client(host, port_);
    client.set_ca_cert_path((directory_.path() + "/ca.crt").c_str());
    client.enable_server_certificate_verification(true);
    client.set_bearer_token_auth(server_token.c_str());
    return client.Get(what);
  }

  const links::validity now_ = links::valid_for_days(std::time(nullptr), 10);
  links::credential authority_ = links::make_authority("page", now_);
};

TEST_F(EncryptedServer, ProvesItsNameAndTakesNothingInTheClear) {
  serve(encrypted());
  const auto answer = fetch("/metrics");
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(answer->status, 200);
  EXPECT_FALSE(fetch("/metrics", "127.0.0.1")) << "another name than the certificate's";
  const auto plain = get("/healthz");
  EXPECT_FALSE(plain);
  httplib::SSLClient client("localhost", port_);
  client.enable_server_certificate_verification(false);
  const auto login = client.Post("/login", "token=" + server_token, "application/x-www-form-urlencoded");
  ASSERT_TRUE(login);
  EXPECT_THAT(login->get_header_value("Set-Cookie"), HasSubstr("; Secure"));
}

TEST_F(EncryptedServer, StreamsAndCutsSilentClients) {
  auto options = encrypted();
  options.connections.reading = std::chrono::seconds(1);
  serve(options);
  const raw_client silent(port_);
  const raw_client hello(port_);
  hello.send(std::string("\x16\x03\x01\x02\x00\x01", 6)); // a handshake that does not go on
  httplib::SSLClient client("localhost", port_);
  client.enable_server_certificate_verification(false);
  client.set_bearer_token_auth(server_token.c_str());
  std::string text;
  int windows = 1;
  client.Get("/events", [&](const char* data, std::size_t size) {
    text.append(data, size);
    // Only now is it known from where on events are told; what has come before is not an event.
    if (windows == 1 && text.find("event: reset") != std::string::npos)
      append(window_row(static_cast<std::uint64_t>(++windows)));
    return text.find("\"kind\":\"window\"") == std::string::npos;
  });
  EXPECT_THAT(text, HasSubstr("\"kind\":\"window\""));
  EXPECT_TRUE(wait_until([&] { return silent.is_cut() && hello.is_cut(); }));
}

/// With epoll the page's thread asked for the rest again without end, and took a core.
TEST_F(EncryptedServer, HalfARecordOfAHandshakeCostsNothing) {
  auto options = encrypted();
  options.write_timeout = std::chrono::seconds(60); // it is not cut meanwhile
  options.connections.reading = std::chrono::seconds(60);
  serve(options);
  std::vector<raw_client> halves;
  for (int i = 0; i < 8; ++i) {
    halves.emplace_back(port_);
    EXPECT_EQ(halves.back().send(std::string("\x16\x03\x01\x02\x00", 5)), 5U);
  }
  std::this_thread::sleep_for(milliseconds(200)); // the thread has read them
  EXPECT_LT(busy_share(milliseconds(3000)), 0.2);
  for (const auto& one : halves)
    EXPECT_FALSE(one.is_cut()) << "it waited all the while";
  EXPECT_TRUE(fetch("/healthz"));
}

TEST_F(EncryptedServer, TakesNewKeysByItself) {
  serve(encrypted());
  ASSERT_TRUE(fetch("/healthz"));
  authority_ = links::make_authority("renewed", now_);
  issue(); // clients that trust the new authority alone
  EXPECT_TRUE(wait_until([&] { return static_cast<bool>(fetch("/healthz")); }));
  std::ofstream(directory_.path() + "/host.key", std::ios::trunc) << "no key";
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_TRUE(fetch("/healthz")) << "what cannot be used is not taken";
}

} // namespace
} // namespace dynamix::dashboard
