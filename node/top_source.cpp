#include "node/top_source.hpp"

#include "dashboard/live_run.hpp"
#include "dashboard/state_json.hpp"
#include "ledger/file.hpp"
#include "node/run_directory.hpp"

#include <httplib.h>
#include <optional>

namespace dynamix::node {
namespace {

constexpr time_t patience_seconds = 3;

class page_source final : public top_source {
public:
  page_source(const std::string& url, const std::string& token) : url_(url), client_(url) {
    client_.set_connection_timeout(patience_seconds);
    client_.set_read_timeout(patience_seconds);
    client_.set_keep_alive(true);
    if (!token.empty())
      client_.set_bearer_token_auth(token.c_str());
  }

  std::string read(std::string& problem) override {
    const auto answer = client_.Get("/api/state?history=0");
    if (!answer)
      problem = "nothing answers at " + url_ + "; is a cluster running, with [dashboard] listen there?";
    else if (answer->status == 401)
      problem = url_ + " asks for its token: --token-file";
    else if (answer->status != 200)
      problem = url_ + " answers " + std::to_string(answer->status);
    else
      return answer->body;
    return "";
  }

private:
  std::string url_;
  httplib::Client client_;
};

class ledger_source final : public top_source {
public:
  explicit ledger_source(const std::string& run) : run_(run), tail_(run_.ledger()) {}

  std::string read(std::string& problem) override {
    if (!live_) {
      auto parsed = cluster::read_cluster_file(run_.cluster_file());
      if (!parsed.errors.empty()) {
        problem = run_.path() + " is no run directory: " + cluster::to_string(parsed.errors.front());
        return "";
      }
      live_.emplace(std::move(parsed.file));
    }
    for (const auto& row : tail_.read())
      live_->take(row);
    return dashboard::state_json(*live_, {.history = false});
  }

private:
  run_directory run_;
  ledger::tail tail_;
  std::optional<dashboard::live_run> live_;
};

} // namespace

std::unique_ptr<top_source> make_page_source(const std::string& url, const std::string& token) {
  return std::make_unique<page_source>(url, token);
}

std::unique_ptr<top_source> make_ledger_source(const std::string& run) {
  return std::make_unique<ledger_source>(run);
}

} // namespace dynamix::node
