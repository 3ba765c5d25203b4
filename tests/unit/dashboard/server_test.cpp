#include "dashboard/access.hpp"
#include "dashboard/assets.hpp"
#include "dashboard/server.hpp"
#include "ledger/codec.hpp"
#include "tests/unit/dashboard/free_port.hpp"
#include "tests/unit/ledger/rows.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>

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

class Server : public ::testing::Test {
protected:
  void serve(server_options options = {}) {
    append(start_row());
    append(window_row(1));
    options.listen = {"127.0.0.1", port_};
    options.retry_interval = milliseconds(20);
    from_ = std::make_shared<feed>(small_cluster(), path(), feed_limits{.look_interval = milliseconds(5)});
    server_ = std::make_unique<server>(from_, options);
    wait_until([&] { return server_->listening(); });
  }
  static void wait_until(const std::function<bool()>& come_true) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!come_true() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(come_true());
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

  const node::testing::temporary_directory directory_;
  const std::uint16_t port_ = free_port();
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
  wait_until([&] { return from_->state(false).find("\"remaining_bytes\":0") != std::string::npos; });
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
  wait_until([&] { return stream_status() == 503; });
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
  wait_until([&] { return other.is_running(); });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(server_->listening());
  other.stop();
  listening.join();
  wait_until([&] { return server_->listening(); });
}

TEST_F(Server, StopsWhileStreamsAreOpen) {
  serve();
  auto one = stream_until("never");
  auto two = stream_until("never");
  const auto begin = std::chrono::steady_clock::now();
  server_->stop(std::chrono::seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8)) << "not at the next sign of life, 10 s";
  one.get();
  two.get();
}

TEST_F(Server, AClientThatTakesNothingIsDropped) {
  serve({.listen = {}, .token = {}, .streams = 1, .write_timeout = std::chrono::seconds(1)});
  const silent_client silent(port_, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  wait_until([&] { return stream_status() == 503; });
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

} // namespace
} // namespace dynamix::dashboard
