#include "dashboard/server.hpp"

#include "cluster/cluster_file.hpp"
#include "dashboard/access.hpp"
#include "dashboard/assets.hpp"
#include "dashboard/politeness.hpp"
#include "links/identity.hpp"
#include "storage/fnv1a.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fmt/core.h>
#include <limits>
#include <list>
#include <microhttpd.h>
#include <mutex>
#include <netdb.h>
#include <poll.h>
#include <thread>
#include <utility>

namespace dynamix::dashboard {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t connection_memory = 16384; ///< for a request's head, and for an answer's
constexpr std::size_t body_bytes_max = 4096;
constexpr std::size_t stream_block_bytes = 8192;
constexpr unsigned int spare_connections = 32; ///< beyond those that may stay, until others are cut
constexpr milliseconds state_age_max{100};     ///< as old as the feed lets it become
constexpr milliseconds last_news_patience{300};
constexpr milliseconds tick{1000};
constexpr std::chrono::seconds sign_of_life_interval{10};
constexpr const char* plain_text = "text/plain; charset=utf-8";
constexpr const char* json_type = "application/json; charset=utf-8";

/// Everything comes from this server, nothing is inline, nobody may frame it.
constexpr std::pair<const char*, const char*> security_headers[] = {
    {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                                "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"}};

using shared_text = std::shared_ptr<const std::string>;
using header = std::pair<const char*, std::string>;
using daemon_handle = std::unique_ptr<MHD_Daemon, void (*)(MHD_Daemon*)>;

/// A response with its headers; it takes `made`.
MHD_Result send(MHD_Connection* to, unsigned int status, MHD_Response* made, std::initializer_list<header> headers) {
  for (const auto& [name, value] : security_headers)
    MHD_add_response_header(made, name, value);
  for (const auto& [name, value] : headers)
    MHD_add_response_header(made, name, value.c_str());
  const auto sent = MHD_queue_response(to, status, made);
  MHD_destroy_response(made); // once it is sent
  return sent;
}

MHD_Response* copied(const std::string& text) {
  return MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
}

MHD_Result say(MHD_Connection* to, unsigned int status, const std::string& text, header more = {"Vary", "Cookie"}) {
  return send(to, status, copied(text + "\n"), {{"Content-Type", plain_text}, {"Cache-Control", "no-store"}, more});
}

std::string header_of(MHD_Connection* of, const char* name) {
  const char* value = MHD_lookup_connection_value(of, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

/// Of the query; empty where it is not there.
std::string argument_of(MHD_Connection* of, const char* name) {
  const char* value = MHD_lookup_connection_value(of, MHD_GET_ARGUMENT_KIND, name);
  return value == nullptr ? "" : value;
}

const asset* find_asset(std::string_view path) {
  for (const auto& one : page_assets())
    if (one.path == (path == "/" ? "/index.html" : path))
      return &one;
  return nullptr;
}

MHD_Result send_asset(MHD_Connection* to, const asset& one, unsigned int status) {
  const auto tag = fmt::format("\"{}\"", storage::fnv1a().add(one.content).value());
  const bool known = status == MHD_HTTP_OK && header_of(to, "If-None-Match") == tag;
  const auto content = known ? std::string_view() : one.content;
  auto* made = MHD_create_response_from_buffer(content.size(), const_cast<char*>(content.data()),
                                               MHD_RESPMEM_PERSISTENT); // it is part of the program
  return send(to, known ? MHD_HTTP_NOT_MODIFIED : status, made,
              {{"Content-Type", std::string(one.type)},
               {"ETag", tag},
               {"Cache-Control", status == MHD_HTTP_OK ? "no-cache" : "no-store"},
               {"WWW-Authenticate", "Bearer"}});
}

/// What many clients ask for at once is made once; and what is on its way to slow ones does not add up.
class shared_answer {
public:
  /// Null where `bytes_max` are on their way already.
  /// `what`: of which run, where there are many.
  template <class Make>
  shared_text get(const std::string& what, steady_clock::time_point now, std::size_t bytes_max, Make make) {
    if (newest_ && what == what_ && now - made_ < state_age_max)
      return newest_;
    what_ = what;
    newest_.reset();
    std::size_t bytes = 0;
    std::erase_if(sent_, [&](const auto& one) {
      const auto kept = one.lock();
      bytes += kept ? kept->size() : 0;
      return !kept;
    });
    if (bytes > bytes_max)
      return nullptr;
    newest_ = std::make_shared<const std::string>(make());
    sent_.push_back(newest_);
    made_ = now;
    return newest_;
  }

private:
  std::string what_;
  shared_text newest_;
  steady_clock::time_point made_;
  std::vector<std::weak_ptr<const std::string>> sent_;
};

/// A request whose body is needed.
struct login {
  std::string body;
};

} // namespace

struct server::shared {
  /// One client's stream of events; guarded by `mutex` but for what is not said.
  struct stream {
    shared& owner;
    MHD_Connection* client;
    int socket;
    std::uint64_t position;                                                    ///< of what it has
    shared_text text = std::make_shared<const std::string>("retry: 1000\n\n"); ///< of the daemon's thread
    std::size_t sent = 0;                                                      ///< of it; of the daemon's thread
    steady_clock::time_point written = steady_clock::now();
    bool suspended = false;
    bool gone = false; ///< its client is
    std::list<stream>::iterator place{};
  };

  shared(std::shared_ptr<feed> source, std::shared_ptr<run_library> library, server_options chosen)
      : from(std::move(source)), runs(std::move(library)), options(std::move(chosen)),
        plain_loopback(cluster::is_loopback(options.listen.address) && options.certificate_file.empty()),
        open(options.connections) {}

  void run();
  bool serve();
  daemon_handle start_daemon(const links::credential& shown);
  bool keys_changed(const links::credential& shown);
  void look_after_clients();
  MHD_Result handle(MHD_Connection* client, const std::string& path, const std::string& method, login*& request);
  MHD_Result answer(MHD_Connection* client, const std::string& path);
  MHD_Result answer_of_runs(MHD_Connection* client, const std::string& path);
  MHD_Result explain(MHD_Connection* client, feed& of);
  MHD_Result answer_state(MHD_Connection* client, const std::string& run, const feed& of);
  MHD_Result answer_with(MHD_Connection* client, const shared_text& text, const char* type);
  MHD_Result log_in(MHD_Connection* client, std::string body) const;
  MHD_Result stream_events(MHD_Connection* client);
  ssize_t go_on(stream& one, char* buffer, std::size_t room);

  const std::shared_ptr<feed> from;        ///< of one run; null where there are
  const std::shared_ptr<run_library> runs; ///< many
  const server_options options;
  const bool plain_loopback; ///< where foreign names are refused; under TLS the certificate does that
  mutable std::mutex mutex;
  std::condition_variable changed;
  connections open;          ///< guarded by `mutex`
  std::list<stream> streams; ///< guarded by `mutex`
  bool stopping = false;     ///< guarded by `mutex`
  bool ending = false;       ///< this listener's streams; guarded by `mutex`
  std::atomic<bool> listening{false};

  // Of the daemon's thread alone.
  rate_limit arrivals{200, 500};
  rate_limit unproven_requests{50, 200};
  rate_limit proven_requests{200, 400};
  shared_answer whole_state;
  shared_answer present_state;
  shared_answer metrics;

  std::string told_problem; ///< of the thread
  std::thread thread;
};

namespace {

/// Where the daemon keeps what we know of a connection.
connections::place& place_of(void* context) {
  return *static_cast<connections::place*>(context);
}

connections::place& place_of(MHD_Connection* client) {
  return place_of(MHD_get_connection_info(client, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
}

} // namespace

/// Called with a request's head.
MHD_Result server::shared::handle(MHD_Connection* client, const std::string& path, const std::string& method,
                                  login*& request) {
  const auto now = steady_clock::now();
  {
    const std::scoped_lock lock(mutex);
    open.enter(place_of(client), connection_phase::answering, now);
  }
  const bool proven = options.token.empty() ||
                      is_authorised(header_of(client, "Authorization"), header_of(client, "Cookie"), options.token);
  if (!(proven ? proven_requests : unproven_requests).take(now))
    return say(client, MHD_HTTP_TOO_MANY_REQUESTS, "too many requests", {"Retry-After", "1"});
  const bool wants_in = method == "POST" && path == "/login" && !options.token.empty();
  if (method != "GET" && method != "HEAD" && !wants_in)
    return say(client, MHD_HTTP_METHOD_NOT_ALLOWED, "read-only: GET and HEAD", {"Allow", "GET, HEAD"});
  if (plain_loopback && !names_loopback(header_of(client, "Host")))
    return say(client, MHD_HTTP_FORBIDDEN, "this listener answers to localhost and loopback addresses only");
  if (wants_in) {
    request = new login; // freed with the request
    return MHD_YES;
  }
  if (proven || path == "/healthz" || (path != "/" && find_asset(path) != nullptr))
    return answer(client, path);
  if (const auto* page = find_asset("/login.html"); page != nullptr && path == "/")
    return send_asset(client, *page, MHD_HTTP_UNAUTHORIZED);
  return say(client, MHD_HTTP_UNAUTHORIZED, "a bearer token is needed", {"WWW-Authenticate", "Bearer"});
}

MHD_Result server::shared::answer(MHD_Connection* client, const std::string& path) {
  const auto now = steady_clock::now();
  const bool is_list = runs && path == "/" && argument_of(client, "run").empty();
  if (const auto* one = find_asset(is_list ? "/runs.html" : path))
    return send_asset(client, *one, MHD_HTTP_OK);
  if (path == "/")
    return say(client, MHD_HTTP_OK,
               "built without the page (-DDYNAMIX_DASHBOARD=OFF); /metrics and /api/state are here");
  if (path == "/healthz")
    return say(client, MHD_HTTP_OK, "ok");
  if (runs)
    return answer_of_runs(client, path);
  if (path == "/events")
    return stream_events(client);
  if (path == "/metrics")
    return answer_with(client, metrics.get("", now, options.answer_bytes, [this] { return from->metrics(); }),
                       "text/plain; version=0.0.4; charset=utf-8");
  if (path == "/api/state")
    return answer_state(client, "", *from);
  if (path == "/api/explain")
    return explain(client, *from);
  return say(client, MHD_HTTP_NOT_FOUND, "not here; see / , /api/state, /api/explain, /events, /metrics, /healthz");
}

MHD_Result server::shared::answer_of_runs(MHD_Connection* client, const std::string& path) {
  if (path == "/api/runs")
    return answer_with(
        client, metrics.get("", steady_clock::now(), options.answer_bytes, [this] { return runs->list(); }), json_type);
  const auto run = argument_of(client, "run");
  if (path == "/api/course") {
    const auto course = runs->course(run);
    return course ? answer_with(client, course, json_type) : say(client, MHD_HTTP_NOT_FOUND, "no such run is read");
  }
  if (path == "/api/state" || path == "/api/explain") {
    const auto of = runs->open(run);
    if (!of)
      return say(client, MHD_HTTP_NOT_FOUND, "no such run is read");
    return path == "/api/state" ? answer_state(client, run, *of) : explain(client, *of);
  }
  return say(client, MHD_HTTP_NOT_FOUND,
             "not here; see / , /api/runs, /api/course?run=NAME, /api/state?run=NAME, /healthz; metrics are of one run "
             "(dashboard --run)");
}

MHD_Result server::shared::explain(MHD_Connection* client, feed& of) {
  const auto at = argument_of(client, "at");
  explanation_question asked{.worker = argument_of(client, "worker")};
  const auto read = std::from_chars(at.data(), at.data() + at.size(), asked.elapsed_seconds);
  if (read.ec != std::errc() || read.ptr != at.data() + at.size() || !(asked.elapsed_seconds >= 0))
    return say(client, MHD_HTTP_BAD_REQUEST, "at must be seconds of training, as the charts have them");
  const auto told = of.explain(asked);
  if (told.empty()) // it is looked for
    return say(client, MHD_HTTP_ACCEPTED, "ask again", {"Retry-After", "1"});
  return answer_with(client, std::make_shared<const std::string>(told), json_type);
}

MHD_Result server::shared::answer_state(MHD_Connection* client, const std::string& run, const feed& of) {
  const bool whole = argument_of(client, "history") != "0";
  return answer_with(client,
                     (whole ? whole_state : present_state)
                         .get(run, steady_clock::now(), options.answer_bytes, [&] { return of.state(whole); }),
                     json_type);
}

MHD_Result server::shared::answer_with(MHD_Connection* client, const shared_text& text, const char* type) {
  if (!text)
    return say(client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many slow clients", {"Retry-After", "5"});
  auto* kept = new shared_text(text);
  auto* made = MHD_create_response_from_buffer_with_free_callback_cls(
      text->size(), const_cast<char*>(text->data()), [](void* held) { delete static_cast<shared_text*>(held); }, kept);
  return send(client, MHD_HTTP_OK, made, {{"Content-Type", type}, {"Cache-Control", "no-store"}});
}

/// Called with the whole body.
MHD_Result server::shared::log_in(MHD_Connection* client, std::string body) const {
  static const std::string field = "token=";
  const bool is_form = body.starts_with(field);
  body.erase(0, is_form ? field.size() : body.size());
  body.resize(MHD_http_unescape(body.data()));
  if (!same_text(body, options.token))
    return say(client, MHD_HTTP_SEE_OTHER, "wrong", {"Location", "/login.html?wrong"});
  return send(client, MHD_HTTP_SEE_OTHER, copied(""),
              {{"Location", "/"},
               {"Cache-Control", "no-store"},
               {"Set-Cookie", "dynamix_session=" + session_of(options.token) + "; Path=/; HttpOnly; SameSite=Strict" +
                                  (options.certificate_file.empty() ? "" : "; Secure")}});
}

MHD_Result server::shared::stream_events(MHD_Connection* client) {
  stream* one = nullptr;
  {
    const std::scoped_lock lock(mutex);
    if (streams.size() < options.streams) {
      auto position = std::numeric_limits<std::uint64_t>::max(); // nothing is known yet
      const auto last = header_of(client, "Last-Event-ID");
      std::from_chars(last.data(), last.data() + last.size(), position);
      auto& place = place_of(client);
      streams.push_back({.owner = *this, .client = client, .socket = place->socket, .position = position});
      one = &streams.back();
      one->place = std::prev(streams.end());
      open.enter(place, connection_phase::streaming, steady_clock::now());
    }
  }
  if (one == nullptr)
    return say(client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many pages are open", {"Retry-After", "5"});
  from->subscribe();
  auto* made = MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, stream_block_bytes,
      [](void* of, std::uint64_t, char* buffer, std::size_t room) {
        auto& reader = *static_cast<stream*>(of);
        return reader.owner.go_on(reader, buffer, room);
      },
      one,
      [](void* of) {
        auto& owner = static_cast<stream*>(of)->owner;
        owner.from->unsubscribe();
        const std::scoped_lock lock(owner.mutex);
        owner.streams.erase(static_cast<stream*>(of)->place);
        owner.changed.notify_all();
      });
  return send(client, MHD_HTTP_OK, made,
              {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}});
}

/// A piece of what is new. Without news the client's connection sleeps until `look_after_clients` wakes it.
ssize_t server::shared::go_on(stream& one, char* buffer, std::size_t room) {
  if (one.sent == one.text->size()) {
    const std::scoped_lock lock(mutex); // nothing that comes from now on is missed
    if (one.gone)
      return MHD_CONTENT_READER_END_WITH_ERROR;
    const auto news = from->read_behind(one.position, milliseconds(0), 1); // of a slow client no more is kept
    if (news.stopped || ending)
      return MHD_CONTENT_READER_END_OF_STREAM;
    one.position = news.position;
    const auto now = steady_clock::now();
    if (news.gap)
      one.text =
          std::make_shared<const std::string>(fmt::format("id: {}\nevent: reset\ndata: {{}}\n\n", news.position));
    else if (!news.frames.empty())
      one.text = news.frames.front();
    else if (now - one.written > sign_of_life_interval)
      one.text = std::make_shared<const std::string>(":\n\n");
    else {
      one.suspended = true;
      MHD_suspend_connection(one.client);
      return 0;
    }
    one.written = now;
    one.sent = 0;
  }
  const auto count = std::min(room, one.text->size() - one.sent);
  std::memcpy(buffer, one.text->data() + one.sent, count);
  one.sent += count;
  return static_cast<ssize_t>(count);
}

/// Wakes streams for which something is new, once a tick those whose client may be gone, and cuts connections that
/// take too long. With `mutex` held.
void server::shared::look_after_clients() {
  open.cut(steady_clock::now());
  for (auto& one : streams) {
    pollfd state{.fd = one.socket, .events = POLLRDHUP, .revents = 0};
    one.gone = one.gone || (::poll(&state, 1, 0) > 0 && state.revents != 0);
    if (std::exchange(one.suspended, false))
      MHD_resume_connection(one.client);
  }
}

daemon_handle server::shared::start_daemon(const links::credential& shown) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(options.listen.address.c_str(), std::to_string(options.listen.port).c_str(), &hints, &found) != 0)
    return {nullptr, MHD_stop_daemon};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> address(found, ::freeaddrinfo);
  // Not epoll: with half a record of a handshake libmicrohttpd 0.9.75 asks it again without end.
  unsigned int flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
  if (found->ai_family == AF_INET6)
    flags |= MHD_USE_IPv6;
  std::vector<MHD_OptionItem> tls;
  if (!shown.certificate.empty()) {
    flags |= MHD_USE_TLS;
    tls = {{MHD_OPTION_HTTPS_MEM_CERT, 0, const_cast<char*>(shown.certificate.c_str())},
           {MHD_OPTION_HTTPS_MEM_KEY, 0, const_cast<char*>(shown.key.c_str())},
           {MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>("NORMAL:-VERS-ALL:+VERS-TLS1.3")}};
  }
  tls.push_back({MHD_OPTION_END, 0, nullptr});
  return {MHD_start_daemon(
              flags, 0,
              [](void* of, const sockaddr*, socklen_t) {
                return static_cast<shared*>(of)->arrivals.take(steady_clock::now()) ? MHD_YES : MHD_NO;
              },
              this,
              [](void* of, MHD_Connection* client, const char* path, const char* method, const char*,
                 const char* upload, std::size_t* upload_size, void** request) {
                auto*& body = *reinterpret_cast<login**>(request);
                auto& self = *static_cast<shared*>(of);
                if (body == nullptr)
                  return self.handle(client, path, method, body);
                if (*upload_size == 0)
                  return self.log_in(client, std::move(body->body));
                if (body->body.size() + *upload_size > body_bytes_max)
                  return MHD_NO; // cuts the connection
                body->body.append(upload, std::exchange(*upload_size, 0));
                return MHD_YES;
              },
              this, MHD_OPTION_SOCK_ADDR, found->ai_addr, MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_memory,
              MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned int>(options.connections.most) + spare_connections,
              MHD_OPTION_CONNECTION_TIMEOUT, static_cast<unsigned int>(options.write_timeout.count()),
              MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
              static_cast<MHD_NotifyConnectionCallback>(
                  [](void* of, MHD_Connection* client, void** context, MHD_ConnectionNotificationCode code) {
                    auto& self = *static_cast<shared*>(of);
                    const std::scoped_lock lock(self.mutex);
                    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
                      self.open.remove(place_of(*context));
                      delete &place_of(*context);
                      return;
                    }
                    const int socket = MHD_get_connection_info(client, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
                    *context = new connections::place(self.open.add(socket, steady_clock::now()));
                    self.open.cut(steady_clock::now());
                  }),
              this, MHD_OPTION_NOTIFY_COMPLETED,
              static_cast<MHD_RequestCompletedCallback>(
                  [](void* of, MHD_Connection* client, void** request, MHD_RequestTerminationCode) {
                    auto& self = *static_cast<shared*>(of);
                    delete std::exchange(*reinterpret_cast<login**>(request), nullptr);
                    const std::scoped_lock lock(self.mutex);
                    self.open.enter(place_of(client), connection_phase::reading, steady_clock::now());
                  }),
              this, MHD_OPTION_ARRAY, tls.data(), MHD_OPTION_END),
          MHD_stop_daemon};
}

/// New keys are taken by listening anew: streams come back within a second.
bool server::shared::keys_changed(const links::credential& shown) {
  if (options.certificate_file.empty())
    return false;
  links::credential now;
  auto problem = links::read_server_keys(options.certificate_file, options.key_file, std::time(nullptr), now);
  if (!problem.empty() && problem != told_problem)
    spdlog::warn("dashboard_keys_refused reason={}", storage::quoted(problem));
  const bool usable = problem.empty();
  told_problem = std::move(problem);
  return usable && (now.certificate != shown.certificate || now.key != shown.key);
}

/// Until it is stopped or its keys have changed. False where it cannot listen.
bool server::shared::serve() {
  links::credential shown;
  if (!options.certificate_file.empty())
    if (auto problem = links::read_server_keys(options.certificate_file, options.key_file, std::time(nullptr), shown);
        !problem.empty())
      return false;
  {
    const std::scoped_lock lock(mutex);
    ending = stopping;
  }
  const auto daemon = start_daemon(shown);
  if (!daemon)
    return false;
  spdlog::info("dashboard_listening address={} port={} tls={}", options.listen.address, options.listen.port,
               !shown.certificate.empty());
  listening = true;
  auto known = std::numeric_limits<std::uint64_t>::max();
  for (bool stopped = false; !stopped;) {
    if (from)
      known = from->read_behind(known, tick).position; // until something is new
    const bool renewed = keys_changed(shown);
    std::unique_lock lock(mutex);
    if (runs)
      changed.wait_for(lock, tick, [this] { return stopping; });
    look_after_clients();
    stopped = stopping || renewed;
  }
  listening = false;
  std::unique_lock lock(mutex);
  ending = true;
  look_after_clients();
  changed.wait_for(lock, last_news_patience, [this] { return streams.empty(); });
  return true;
}

void server::shared::run() {
  yield_to_training("page-listen"); // and the daemon's thread, which it starts
  for (bool told = false;;) {
    const bool served = serve();
    if (!served && !std::exchange(told, true))
      spdlog::warn("dashboard_port_taken address={} port={} the run goes on without its page until the port is free",
                   options.listen.address, options.listen.port);
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, served ? milliseconds(0) : options.retry_interval, [this] { return stopping; }))
      return;
  }
}

server::server(std::shared_ptr<feed> from, server_options options)
    : shared_(std::make_unique<shared>(std::move(from), nullptr, std::move(options))) {
  shared_->thread = std::thread([kept = shared_.get()] { kept->run(); });
}

server::server(std::shared_ptr<run_library> runs, server_options options)
    : shared_(std::make_unique<shared>(nullptr, std::move(runs), std::move(options))) {
  shared_->thread = std::thread([kept = shared_.get()] { kept->run(); });
}

bool server::listening() const {
  return shared_->listening;
}

void server::stop() {
  std::unique_lock lock(shared_->mutex);
  if (shared_->stopping)
    return;
  if (!shared_->streams.empty()) // so that open pages see how the run ended
    shared_->changed.wait_for(lock, last_news_patience, [this] { return shared_->streams.empty(); });
  shared_->stopping = true;
  shared_->changed.notify_all();
  lock.unlock();
  if (shared_->from)
    shared_->from->stop();
  else
    shared_->runs->stop();
  shared_->thread.join();
}

server::~server() {
  stop();
}

} // namespace dynamix::dashboard
