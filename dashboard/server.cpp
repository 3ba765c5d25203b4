#include "dashboard/server.hpp"

#include "cluster/cluster_file.hpp"
#include "dashboard/access.hpp"
#include "dashboard/assets.hpp"
#include "dashboard/bounded_tasks.hpp"
#include "storage/fnv1a.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <charconv>
#include <fmt/core.h>
#include <future>
#include <httplib.h>
#include <limits>

namespace dynamix::dashboard {
namespace {

using httplib::Request;
using httplib::Response;

constexpr std::size_t request_bytes_max = 4096;
constexpr std::size_t waiting_connections_max = 32;
constexpr std::chrono::milliseconds news_patience{1000};
constexpr std::chrono::milliseconds last_news_patience{300};
constexpr std::chrono::seconds sign_of_life_interval{10};
constexpr char plain_text[] = "text/plain; charset=utf-8";

/// Everything comes from this server, nothing is inline, nobody may frame it.
const httplib::Headers& security_headers() {
  static const httplib::Headers headers = {
      {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                                  "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"}};
  return headers;
}

std::string entity_tag(std::string_view content) {
  return fmt::format("\"{}\"", storage::fnv1a().add(content).value());
}

void answer(Response& response, int status, const std::string& text) {
  response.status = status;
  response.set_header("Cache-Control", "no-store");
  response.set_content(text + "\n", plain_text);
}

const asset* find_asset(std::string_view path) {
  for (const auto& one : page_assets())
    if (one.path == path)
      return &one;
  return nullptr;
}

/// One client's stream of events.
struct stream {
  std::shared_ptr<feed> from;
  std::atomic<std::size_t>* open;
  std::uint64_t position;
  bool begun = false;
  std::chrono::steady_clock::time_point written = std::chrono::steady_clock::now();

  stream(std::shared_ptr<feed> feed, std::atomic<std::size_t>* count, std::uint64_t behind)
      : from(std::move(feed)), open(count), position(behind) {
    from->subscribe();
  }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() {
    from->unsubscribe();
    --*open;
  }

  /// Sends what is new. False when the client is gone or takes nothing.
  bool go_on(httplib::DataSink& sink) {
    const auto news = from->read_behind(position, begun ? news_patience : std::chrono::milliseconds(0));
    if (news.stopped)
      return sink.done(), true;
    std::string text = begun ? "" : "retry: 1000\n\n";
    begun = true;
    if (news.gap)
      text += fmt::format("id: {}\nevent: reset\ndata: {{}}\n\n", news.position);
    for (const auto& frame : news.frames)
      text += *frame;
    position = news.position;
    const auto now = std::chrono::steady_clock::now();
    if (text.empty() && now - written > sign_of_life_interval)
      text = ":\n\n";
    if (text.empty())
      return sink.is_writable();
    written = now;
    return sink.write(text.data(), text.size());
  }
};

} // namespace

/// Outlives the server where a connection does not end in time.
struct server::shared {
  shared(std::shared_ptr<feed> source, server_options chosen)
      : from(std::move(source)), options(std::move(chosen)), loopback(cluster::is_loopback(options.listen.address)) {}

  void listen();
  void serve(httplib::Server& http);
  httplib::Server::HandlerResponse admit(const Request& request, Response& response) const;
  void log_in(const Request& request, Response& response) const;
  void stream_events(const Request& request, Response& response);
  void configure(httplib::Server& http);

  const std::shared_ptr<feed> from;
  const server_options options;
  const bool loopback;
  std::atomic<std::size_t> streams{0};
  std::mutex mutex;
  std::condition_variable changed;
  httplib::Server* current = nullptr; ///< guarded by `mutex`
  bool stopping = false;              ///< guarded by `mutex`
  bool told = false;                  ///< `current` to stop; guarded by `mutex`
  std::promise<void> gone;
  std::future<void> ended = gone.get_future();
};

/// Whether a request may be answered; otherwise it is answered with the reason.
httplib::Server::HandlerResponse server::shared::admit(const Request& request, Response& response) const {
  using outcome = httplib::Server::HandlerResponse;
  // Brotli at its best takes seconds for a large state, and most clients are near.
  const_cast<Request&>(request).headers.erase("Accept-Encoding");
  const bool login = request.method == "POST" && request.path == "/login" && !options.token.empty();
  if (request.method != "GET" && request.method != "HEAD" && !login) {
    response.set_header("Allow", "GET, HEAD");
    return answer(response, 405, "read-only: GET and HEAD"), outcome::Handled;
  }
  if (loopback && !names_loopback(request.get_header_value("Host")))
    return answer(response, 403, "this listener answers to localhost and loopback addresses only"), outcome::Handled;
  const bool open = login || request.path == "/healthz" || (request.path != "/" && find_asset(request.path));
  if (options.token.empty() || open ||
      is_authorised(request.get_header_value("Authorization"), request.get_header_value("Cookie"), options.token))
    return outcome::Unhandled;
  const auto* page = find_asset("/login.html");
  response.set_header("WWW-Authenticate", "Bearer");
  answer(response, 401, "a bearer token is needed");
  if (request.path == "/" && page != nullptr)
    response.set_content(std::string(page->content), std::string(page->type));
  return outcome::Handled;
}

void server::shared::log_in(const Request& request, Response& response) const {
  if (!same_text(request.get_param_value("token"), options.token))
    return response.set_redirect("/login.html?wrong", 303);
  response.set_header("Set-Cookie",
                      "dynamix_session=" + session_of(options.token) + "; Path=/; HttpOnly; SameSite=Strict");
  response.set_redirect("/", 303);
}

void server::shared::stream_events(const Request& request, Response& response) {
  if (++streams > options.streams) {
    --streams;
    response.set_header("Retry-After", "5");
    return answer(response, 503, "too many pages are open");
  }
  auto behind = std::numeric_limits<std::uint64_t>::max(); // nothing is known yet
  const auto last = request.get_header_value("Last-Event-ID");
  std::from_chars(last.data(), last.data() + last.size(), behind);
  const auto client = std::make_shared<stream>(from, &streams, behind);
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Accel-Buffering", "no");
  response.set_chunked_content_provider("text/event-stream",
                                        [client](std::size_t, httplib::DataSink& sink) { return client->go_on(sink); });
}

void server::shared::configure(httplib::Server& http) {
  http.new_task_queue = [this] {
    return new bounded_tasks(options.streams + options.threads, waiting_connections_max);
  };
  http.set_default_headers(security_headers());
  http.set_payload_max_length(request_bytes_max);
  http.set_read_timeout(std::chrono::seconds(5));
  http.set_write_timeout(options.write_timeout);
  http.set_keep_alive_timeout(1); // an idle connection holds a thread
  http.set_tcp_nodelay(true);
  // Without SO_REUSEPORT, which is httplib's default: two runs must not share a port by accident.
  http.set_socket_options([](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http.set_pre_routing_handler([this](const Request& request, Response& response) { return admit(request, response); });
  http.set_error_handler([](const Request&, Response& response) {
    if (response.body.empty() && response.status == 404)
      answer(response, 404, "not here; see / , /api/state, /events, /metrics, /healthz");
  });
}

void server::shared::serve(httplib::Server& http) {
  configure(http);
  for (const auto& one : page_assets()) {
    const auto path = one.path == "/index.html" ? std::string("/") : std::string(one.path);
    http.Get(path, [&one, tag = entity_tag(one.content)](const Request& request, Response& response) {
      response.set_header("ETag", tag);
      response.set_header("Cache-Control", "no-cache");
      if (request.get_header_value("If-None-Match") == tag)
        response.status = 304;
      else
        response.set_content(one.content.data(), one.content.size(), std::string(one.type));
    });
  }
  if (page_assets().empty())
    http.Get("/", [](const Request&, Response& response) {
      answer(response, 200, "built without the page (-DDYNAMIX_DASHBOARD=OFF); /metrics and /api/state are here");
    });
  http.Get("/healthz", [](const Request&, Response& response) { answer(response, 200, "ok"); });
  http.Get("/api/state", [this](const Request& request, Response& response) {
    response.set_header("Cache-Control", "no-store");
    response.set_content(from->state(request.get_param_value("history") != "0"), "application/json; charset=utf-8");
  });
  http.Get("/metrics", [this](const Request&, Response& response) {
    response.set_header("Cache-Control", "no-store");
    response.set_content(from->metrics(), "text/plain; version=0.0.4; charset=utf-8");
  });
  http.Get("/events", [this](const Request& request, Response& response) { stream_events(request, response); });
  http.Post("/login", [this](const Request& request, Response& response) { log_in(request, response); });
}

/// Until it is stopped.
void server::shared::listen() {
  yield_to_training("page-listen");
  for (bool told = false;;) {
    httplib::Server http;
    serve(http);
    const bool bound = http.bind_to_port(options.listen.address, options.listen.port);
    std::unique_lock lock(mutex);
    if (bound && !stopping) {
      current = &http;
      lock.unlock();
      spdlog::info("dashboard_listening address={} port={}", options.listen.address, options.listen.port);
      http.listen_after_bind();
      lock.lock();
      current = nullptr;
    } else if (!bound && !std::exchange(told, true)) {
      spdlog::warn("dashboard_port_taken address={} port={} the run goes on without its page until the port is free",
                   options.listen.address, options.listen.port);
    }
    if (changed.wait_for(lock, bound ? std::chrono::milliseconds(0) : options.retry_interval,
                         [this] { return stopping; }))
      return;
  }
}

server::server(std::shared_ptr<feed> from, server_options options)
    : shared_(std::make_shared<shared>(std::move(from), std::move(options))) {
  std::thread([kept = shared_] {
    kept->listen();
    kept->gone.set_value();
  }).detach();
}

bool server::listening() const {
  const std::scoped_lock lock(shared_->mutex);
  return shared_->current != nullptr && shared_->current->is_running();
}

void server::stop(std::chrono::milliseconds patience) {
  if (shared_->streams > 0) // so that open pages see how the run ended
    std::this_thread::sleep_for(last_news_patience);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  shared_->from->stop();
  for (;;) {
    {
      const std::scoped_lock lock(shared_->mutex);
      shared_->stopping = true;
      shared_->changed.notify_all();
      // It does nothing before it listens, and must not be called twice.
      if (shared_->current != nullptr && shared_->current->is_running() && !std::exchange(shared_->told, true))
        shared_->current->stop();
    }
    if (!shared_->ended.valid() || shared_->ended.wait_for(std::chrono::milliseconds(10)) == std::future_status::ready)
      return;
    if (std::chrono::steady_clock::now() > deadline)
      return spdlog::warn("dashboard_still_serving after {} ms; left to the process's end", patience.count());
  }
}

} // namespace dynamix::dashboard
