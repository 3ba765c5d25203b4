#include "dashboard/state_json.hpp"
#include "ledger/file.hpp"
#include "links/private_file.hpp"
#include "node/commands/command.hpp"
#include "node/commands/top_view.hpp"
#include "node/launch/live_output.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/stop_signals.hpp"

#include <chrono>
#include <fmt/core.h>
#include <functional>
#include <httplib.h>
#include <memory>
#include <ostream>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds interval{1000};
constexpr int key_patience_ms = 200; ///< a resize or a signal is noticed as late as this
constexpr time_t patience_seconds = 3;
constexpr std::size_t answer_bytes_most = 32U << 20; ///< thousands of workers take some
constexpr std::chrono::seconds answer_patience{10};

struct top_arguments {
  std::string url = "http://127.0.0.1:8080";
  std::string run;
  std::string token_file;
  std::string authority;
};

/// Gives the state of a run as JSON, without the past. Empty, with a problem, where there is none now.
using state_source = std::function<std::string(std::string& problem)>;

/// Whether what answers is not the one that was called. cpp-httplib has one error for it before 0.18 and two since, and
/// gives them other names in between.
bool proves_no_name(httplib::Error error) {
  const auto name = httplib::to_string(error);
  return name.starts_with("SSLServer") || name.starts_with("SSL server");
}

state_source from_page(const std::string& url, const std::string& token, const std::string& authority) {
  const auto client = std::make_shared<httplib::Client>(url);
  client->set_connection_timeout(patience_seconds);
  client->set_read_timeout(patience_seconds);
  client->set_keep_alive(true);
  if (!authority.empty())
    client->set_ca_cert_path(authority.c_str());
  if (!token.empty())
    client->set_bearer_token_auth(token.c_str());
  return [url, client](std::string& problem) -> std::string {
    // Whoever answers there may never come to an end.
    const auto deadline = std::chrono::steady_clock::now() + answer_patience;
    std::string body;
    const auto answer = client->Get("/api/state?history=0", [&](const char* data, std::size_t size) {
      body.append(data, size);
      return body.size() <= answer_bytes_most && std::chrono::steady_clock::now() < deadline;
    });
    if (answer && answer->status == 200)
      return body;
    problem = !answer && proves_no_name(answer.error())
                  ? url + " does not prove its name; --ca says whose certificates are accepted"
              : !answer && answer.error() == httplib::Error::Canceled
                  ? fmt::format("{} answers with more than {} MiB, or for more than {} s", url, answer_bytes_most >> 20,
                                answer_patience.count())
              : !answer ? "nothing answers at " + url + "; is a cluster running, with [dashboard] listen there?"
              : answer->status == 401 ? url + " asks for its token: --token-file"
                                      : url + " answers " + std::to_string(answer->status);
    return "";
  };
}

state_source from_ledger(const run_directory& run, const cluster::cluster_file& file) {
  const auto tail = std::make_shared<ledger::tail>(run.ledger());
  const auto live = std::make_shared<ledger::run>(file);
  return [tail, live](std::string&) {
    tail->read([&](const ledger::row& row) { live->add(row); });
    return dashboard::state_json(*live, {.history = false});
  };
}

/// Keys come one by one and unseen, and the screen is another, until this ends.
class raw_terminal {
public:
  explicit raw_terminal(std::ostream& out) : out_(out) {
    ::tcgetattr(STDIN_FILENO, &before_);
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    out_ << "\x1b[?1049h\x1b[?25l"; // without a cursor
  }
  raw_terminal(const raw_terminal&) = delete;
  raw_terminal& operator=(const raw_terminal&) = delete;
  ~raw_terminal() {
    out_ << "\x1b[?25h\x1b[?1049l" << std::flush;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

private:
  std::ostream& out_;
  termios before_{};
};

top_screen look(bool colour) {
  winsize found{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0 || found.ws_row < 2)
    return {.colour = colour};
  return {.width = found.ws_col, .height = found.ws_row, .colour = colour};
}

/// Whether the reader asks to end, or is not there any more; another key may ask for another view.
bool quits(top_view& view) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  char key = 0;
  if (::poll(&input, 1, key_patience_ms) <= 0)
    return false;
  if (::read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q')
    return true;
  view = view_of(key).value_or(view);
  return false;
}

int watch(const state_source& source, bool colour, command_context& context) {
  const stop_signals signals;
  const raw_terminal terminal(context.out);
  std::string problem;
  std::string state; // the newest that came
  auto view = top_view::workers;
  auto due = std::chrono::steady_clock::now();
  do {
    if (std::chrono::steady_clock::now() >= due) {
      problem.clear();
      if (auto read = source(problem); !read.empty())
        state = std::move(read);
      due = std::chrono::steady_clock::now() + interval;
    }
    auto room = look(colour);
    --room.height;
    auto lines = draw_top(state, room, view).value_or(std::vector<std::string>());
    lines.push_back(cut(problem.empty() ? top_keys : problem + "  (q quits)", room.width));
    context.out << "\x1b[H"; // drawn over what was there
    for (std::size_t i = 0; i < lines.size(); ++i)
      context.out << (i == 0 ? "" : "\r\n") << lines[i] << "\x1b[K";
    context.out << "\x1b[J" << std::flush;
  } while (!quits(view) && !signals.token().stop_requested());
  return exit_done;
}

int top(const top_arguments& arguments, command_context& context) {
  std::string problem;
  std::string token;
  if (!arguments.token_file.empty())
    if (problem = links::read_secret_file(arguments.token_file, token); !problem.empty())
      return refuse(context.err, "--token-file: " + problem);
  auto source = from_page(arguments.url, token, arguments.authority);
  if (!arguments.run.empty()) {
    const run_directory run(arguments.run);
    cluster::cluster_file file;
    if (const auto none = read_cluster_of(run, file); !none.empty())
      return refuse(context.err, none);
    source = from_ledger(run, file);
  }
  const auto style = output_style::detect();
  if (style.redraw && ::isatty(STDIN_FILENO) == 1)
    return watch(source, style.colour, context);
  const auto lines = draw_top(source(problem), {.width = 200, .height = 10000});
  if (!lines)
    return refuse(context.err, problem.empty() ? "the answer is not the state of a run" : problem);
  for (const auto& line : *lines)
    context.out << line << "\n";
  return exit_done;
}

} // namespace

void add_top(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<top_arguments>();
  auto* command = app.add_subcommand("top", "Watch a running cluster in the terminal; h lists the keys");
  auto* url = command->add_option("--url", arguments->url, "The cluster's page")->capture_default_str();
  command->add_option("--run", arguments->run, "Run directory to read instead, of a running or finished run")
      ->excludes(url);
  command->add_option("--token-file", arguments->token_file, "File with the page's bearer token");
  command->add_option("--ca", arguments->authority,
                      "For https: PEM of the authority that issued the page's certificate (default: the system's)");
  add_work(*command, context, arguments, top);
}

} // namespace dynamix::node
