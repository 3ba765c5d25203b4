#include "actors/client/client_listener.hpp"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace dynamix::actors {

namespace {

constexpr int backlog = 16;

/// A descriptor that is closed unless it is taken.
class held_descriptor {
public:
  explicit held_descriptor(int descriptor) : descriptor_(descriptor) {}
  held_descriptor(const held_descriptor&) = delete;
  held_descriptor& operator=(const held_descriptor&) = delete;
  ~held_descriptor() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  int take() { return std::exchange(descriptor_, -1); }

private:
  int descriptor_;
};

int make_socket(int flags = SOCK_NONBLOCK) {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/// Of `name` in an open directory, whose own path may be of any length. False: even that does not fit.
bool address_of(int directory, const std::string& name, sockaddr_un& address) {
  const auto path = fmt::format("/proc/self/fd/{}/{}", directory, name);
  address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return true;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

/// Whether somebody listens there.
bool is_served(const sockaddr_un& address) {
  const held_descriptor caller(make_socket());
  return caller.get() >= 0 && (::connect(caller.get(), generic(address), sizeof(address)) == 0 || errno == EAGAIN);
}

} // namespace

std::shared_ptr<client_listener> client_listener::open(const std::string& path, std::string& problem) {
  const auto failed = [&](const std::string& what) {
    problem = fmt::format("cannot listen at {}: {}: {}", path, what, std::strerror(errno));
    return nullptr;
  };
  const std::filesystem::path full(path);
  const auto parent = full.has_parent_path() ? full.parent_path().string() : std::string{"."};
  const auto name = full.filename().string();
  if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST)
    return failed("cannot make its directory");
  held_descriptor directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0)
    return failed("cannot open its directory");
  sockaddr_un address{};
  errno = name.empty() ? EISDIR : ENAMETOOLONG;
  if (name.empty() || !address_of(directory.get(), name, address))
    return failed("its name");
  if (is_served(address)) {
    errno = EADDRINUSE;
    return failed("another process serves it");
  }
  struct stat status {};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    if (!S_ISSOCK(status.st_mode))
      return failed("it is not a socket");
    if (::unlinkat(directory.get(), name.c_str(), 0) != 0)
      return failed("cannot remove the one before");
  }
  held_descriptor listener(make_socket());
  // The mode that the name gets, from its first moment on.
  if (listener.get() < 0 || ::fchmod(listener.get(), 0600) != 0 ||
      ::bind(listener.get(), generic(address), sizeof(address)) != 0 || ::listen(listener.get(), backlog) != 0)
    return failed("bind");
  return std::shared_ptr<client_listener>(new client_listener(path, name, directory.take(), listener.take()));
}

client_listener::~client_listener() {
  ::unlinkat(directory_, name_.c_str(), 0);
  ::close(descriptor_);
  ::close(directory_);
}

int connect_to_listener(const std::string& path) {
  const std::filesystem::path full(path);
  const held_descriptor directory(::open(full.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  sockaddr_un address{};
  errno = directory.get() < 0 ? errno : ENAMETOOLONG;
  if (directory.get() < 0 || !address_of(directory.get(), full.filename().string(), address))
    return -1;
  held_descriptor caller(make_socket(0));
  const bool connected = caller.get() >= 0 && ::connect(caller.get(), generic(address), sizeof(address)) == 0;
  return connected ? caller.take() : -1;
}

} // namespace dynamix::actors
