#pragma once

/// A Unix socket of a run: at which a host's agent takes its training process, or an arbitrator's host commands.

#include <memory>
#include <string>

namespace dynamix::actors {

/// A listening socket, mode 0600, and its name in the file system, which goes with it.
class client_listener {
public:
  /// Makes the last directory of the path, mode 0700, where it is not there. A socket that nobody listens at any more
  /// is replaced. Null with the reason in `problem`, for a person. A path may be longer than the 107 bytes that a
  /// socket's address holds.
  static std::shared_ptr<client_listener> open(const std::string& path, std::string& problem);
  ~client_listener();
  client_listener(const client_listener&) = delete;
  client_listener& operator=(const client_listener&) = delete;

  int descriptor() const { return descriptor_; } ///< does not block
  const std::string& path() const { return path_; }

private:
  client_listener(std::string path, std::string name, int directory, int descriptor)
      : path_(std::move(path)), name_(std::move(name)), directory_(directory), descriptor_(descriptor) {}

  std::string path_;
  std::string name_; ///< in the directory
  int directory_;
  int descriptor_;
};

/// A connection to whoever listens there, which blocks; -1, and errno says why: nobody does.
int connect_to_listener(const std::string& path);

} // namespace dynamix::actors
