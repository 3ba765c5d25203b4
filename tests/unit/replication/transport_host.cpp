#include "tests/unit/replication/transport_host.hpp"

#include "tests/wait_until.hpp"

#include <array>
#include <chrono>
#include <utility>

namespace dynamix::replication {
namespace {

constexpr auto patience = std::chrono::seconds(60);

} // namespace

struct transport_host::attempt {
  raft_uv_connect request{};
  transport_host* host = nullptr;
  std::promise<int> result;
};

transport_host::transport_host(std::uint64_t id, std::vector<voter> others, std::shared_ptr<links::pump> links,
                               std::uint32_t handshake_ms) {
  ::uv_loop_init(&loop_);
  ::uv_async_init(&loop_, &wake_, [](uv_async_t* wake) {
    auto& self = *static_cast<transport_host*>(wake->data);
    std::vector<std::function<void()>> taken;
    {
      const std::scoped_lock lock(self.mutex_);
      taken.swap(self.inbox_);
    }
    for (const auto& work : taken)
      work();
  });
  wake_.data = this;
  others.push_back({id, "127.0.0.1:0"});
  transport_options options{.id = id,
                            .voters = std::move(others),
                            .links = std::move(links),
                            .handshake_ms = handshake_ms,
                            .report =
                                [this](const std::string& text) {
                                  const std::scoped_lock lock(mutex_);
                                  reports_.push_back(text);
                                },
                            .hung_up =
                                [this](std::uint64_t peer) {
                                  const std::scoped_lock lock(mutex_);
                                  hung_up_.push_back(peer);
                                }};
  transport_ = std::make_unique<transport>(loop_, std::move(options));
  transport_->interface()->data = this;
  transport_->interface()->listen(transport_->interface(),
                                  [](raft_uv_transport* from, raft_id peer, const char*, uv_stream_t* stream) {
                                    static_cast<transport_host*>(from->data)->accept(peer, stream);
                                  });
  thread_ = std::thread([this] { ::uv_run(&loop_, UV_RUN_DEFAULT); });
}

transport_host::~transport_host() {
  close();
  on_loop([this] {
    for (auto* stream : streams_)
      ::uv_close(reinterpret_cast<uv_handle_t*>(stream), [](uv_handle_t* handle) { ::raft_free(handle); });
    ::uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
  });
  thread_.join();
  ::uv_loop_close(&loop_);
}

void transport_host::accept(std::uint64_t id, uv_stream_t* stream) {
  stream->data = this;
  streams_.push_back(stream);
  {
    const std::scoped_lock lock(mutex_);
    accepted_.push_back(id);
  }
  ::uv_read_start(
      stream,
      [](uv_handle_t*, std::size_t, uv_buf_t* target) {
        static std::array<char, 4096> buffer;
        *target = ::uv_buf_init(buffer.data(), buffer.size());
      },
      [](uv_stream_t* from, ssize_t got, const uv_buf_t* buffer) {
        auto& self = *static_cast<transport_host*>(from->data);
        if (got < 0) {
          ::uv_read_stop(from);
          return;
        }
        const std::scoped_lock lock(self.mutex_);
        self.received_.append(buffer->base, static_cast<std::size_t>(got));
      });
}

std::future<int> transport_host::begin(std::uint64_t id) {
  auto* one = new attempt;
  one->host = this;
  one->request.data = one;
  auto result = one->result.get_future();
  on_loop([this, one, id] {
    const auto code = transport_->interface()->connect(
        transport_->interface(), &one->request, id, "", [](raft_uv_connect* request, uv_stream_t* stream, int status) {
          const std::unique_ptr<attempt> done(static_cast<attempt*>(request->data));
          if (status == 0) {
            done->host->outgoing_ = stream;
            done->host->streams_.push_back(stream);
          }
          done->result.set_value(status);
        });
    if (code == 0)
      return;
    one->result.set_value(code);
    delete one;
  });
  return result;
}

int transport_host::connect(std::uint64_t id) {
  auto result = begin(id);
  return result.wait_for(patience) == std::future_status::ready ? result.get() : -1;
}

void transport_host::begin_connect(std::uint64_t id) {
  under_way_ = begin(id);
}

void transport_host::send_on_stream(const std::string& text) {
  on_loop([&] {
    sent_ = text;
    const auto buffer = ::uv_buf_init(sent_.data(), static_cast<unsigned>(sent_.size()));
    ::uv_write(&write_, outgoing_, &buffer, 1, [](uv_write_t*, int) {});
  });
}

int transport_host::close() {
  if (std::exchange(closed_, true))
    return 0;
  static thread_local std::promise<void>* done = nullptr;
  std::promise<void> closed;
  auto future = closed.get_future();
  on_loop([&] {
    done = &closed;
    transport_->interface()->close(transport_->interface(), [](raft_uv_transport*) { done->set_value(); });
  });
  future.wait();
  return under_way_.valid() ? under_way_.get() : 0;
}

void transport_host::on_loop(std::function<void()> work) {
  std::promise<void> done;
  {
    const std::scoped_lock lock(mutex_);
    inbox_.emplace_back([&] {
      work();
      done.set_value();
    });
  }
  ::uv_async_send(&wake_);
  done.get_future().wait();
}

std::vector<std::uint64_t> transport_host::accepted() {
  const std::scoped_lock lock(mutex_);
  return accepted_;
}

std::vector<std::uint64_t> transport_host::hung_up() {
  const std::scoped_lock lock(mutex_);
  return hung_up_;
}

std::string transport_host::received() {
  const std::scoped_lock lock(mutex_);
  return received_;
}

std::vector<std::string> transport_host::reports() {
  const std::scoped_lock lock(mutex_);
  return reports_;
}

transport_counts transport_host::counts() {
  transport_counts counts;
  on_loop([&] { counts = transport_->counts(); });
  return counts;
}

bool transport_host::wait(const std::function<bool()>& condition) {
  return wait_until(condition);
}

} // namespace dynamix::replication
