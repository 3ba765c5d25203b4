/// The live page of real clusters; tests/browser looks at it in a browser.

#include "node/launch/port_check.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <httplib.h>
#include <thread>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class LivePage : public trial {
protected:
  void write_file_with_page(trial_options options) {
    page_ = static_cast<std::uint16_t>(18'000 + ::getpid() % 2'000); // below the hosts'
    while (!node::can_listen("127.0.0.1", page_))
      ++page_;
    options.page = "127.0.0.1:" + std::to_string(page_);
    write_file(options);
  }
  std::string get(const std::string& what) const {
    httplib::Client client("127.0.0.1", page_);
    const auto answer = client.Get(what);
    return answer && answer->status == 200 ? answer->body : "";
  }
  json state() const {
    const auto text = get("/api/state");
    return text.empty() ? json() : json::parse(text);
  }
  bool shows_windows(std::size_t count) const {
    return wait_until([&] {
      const auto now = state();
      return !now.is_null() && now["now"]["windows"] >= count;
    });
  }

  std::uint16_t page_ = 0;
};

TEST_F(LivePage, ShowsTheRunAlsoWhenTheArbitratorWasKilled) {
  write_file_with_page({.epochs = 100});
  auto local = start_local();
  ASSERT_TRUE(shows_windows(3)) << local.said();
  EXPECT_TRUE(local.says("page http://127.0.0.1:" + std::to_string(page_) + "/"));
  EXPECT_THAT(get("/metrics"), HasSubstr("dynamix_worker_batch_size{worker=\"w1\"}"));
  const auto before = windows().size();
  ASSERT_TRUE(local.signal_host("hub", SIGKILL));
  ASSERT_TRUE(shows_windows(before + 3)) << local.said();
  ASSERT_TRUE(wait_until([&] { // the page that has just gone may have shown those windows
    const auto now = state();
    return !now.is_null() && !now["marks"].empty();
  })) << local.said();
  const auto now = state();
  EXPECT_EQ(now["marks"][0]["kind"], "arbitrator");
  EXPECT_EQ(now["history"]["elapsed_seconds"].size(), now["now"]["windows"]);
  local.signal(SIGINT);
  local.wait();
  EXPECT_EQ(get("/healthz"), "") << "the page ends with the run";
}

TEST_F(LivePage, APortThatIsTakenHindersNothing) {
  write_file_with_page({});
  httplib::Server other;
  other.set_socket_options([](int socket) { // an earlier test's connections may still be closing
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  ASSERT_TRUE(other.bind_to_port("127.0.0.1", page_));
  std::thread listening([&] { other.listen_after_bind(); });
  auto local = start_local();
  const auto ended = local.wait();
  other.stop();
  listening.join();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("no page: 127.0.0.1:" + std::to_string(page_) + " is in use"));
  EXPECT_THAT(contents_of(run().log("hub")), HasSubstr("dashboard_port_taken"));
}

TEST_F(LivePage, WithoutItsTokenARunDoesNotStart) {
  write_file_with_page({});
  replace_in_file("[dashboard]\n", "[dashboard]\ntoken_file = \"token\"\n");
  const auto refused = end_of({"local", "--cluster", file(), "--out", run().path()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("cluster.toml:"));
  EXPECT_THAT(refused.output, HasSubstr("token: No such file or directory"));
  EXPECT_FALSE(run().exists());
}

TEST_F(LivePage, ServesARunThatIsOver) {
  write_file_with_page({});
  const auto trained = end_of({"local", "--cluster", file(), "--out", run().path(), "--quiet"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  const auto listen = "127.0.0.1:" + std::to_string(page_);
  auto page = start({"dashboard", "--run", run().path(), "--listen", listen});
  ASSERT_TRUE(wait_until([&] { return !state().is_null() && state()["now"]["phase"] == "ended"; }));
  EXPECT_EQ(state()["now"]["windows"], windows().size());
  const auto second = end_of({"dashboard", "--run", run().path(), "--listen", listen});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output, HasSubstr("cannot listen at " + listen));
  const auto open = end_of({"dashboard", "--run", run().path(), "--listen", "0.0.0.0:" + std::to_string(page_)});
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.output, HasSubstr("needs a token file"));
  EXPECT_THAT(end_of({"dashboard", "--run", "nowhere"}).output, HasSubstr("nowhere is not a run directory"));
  EXPECT_THAT(end_of({"dashboard", "--run", run().path(), "--listen", "8080"}).output, HasSubstr("must be an address"));
  page.signal(SIGINT);
  EXPECT_EQ(page.wait().code, 0);
}

} // namespace
} // namespace dynamix::cluster_test
