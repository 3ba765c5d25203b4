#pragma once

/// Keys of small clusters in a directory of their own.

#include "links/identity.hpp"
#include "links/key_directory.hpp"
#include "links/private_file.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace dynamix::links::testing {

class temporary_keys {
public:
  temporary_keys() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dynamix-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  temporary_keys(const temporary_keys&) = delete;
  temporary_keys& operator=(const temporary_keys&) = delete;
  ~temporary_keys() { std::filesystem::remove_all(path_); }
  std::string path(const std::string& below = "keys") const { return path_ + "/" + below; }

private:
  std::string path_;
};

inline key_request request_of(std::vector<std::string> hosts, std::int64_t now_seconds = std::time(nullptr)) {
  return {.cluster = "pair", .hosts = std::move(hosts), .now_seconds = now_seconds};
}

/// Writes what `host` needs into `directory`, with a certificate for `name` that is valid for so long.
inline void write_identity(const std::string& directory, const credential& authority, const std::string& name,
                           const validity& valid) {
  credential issued;
  ASSERT_EQ(issue_certificate(authority, name, valid, issued), "");
  ASSERT_EQ(make_private_directory(directory), "");
  ASSERT_EQ(write_private_file(directory + "/" + key_file, issued.key), "");
  ASSERT_EQ(write_private_file(directory + "/" + certificate_file, issued.certificate), "");
  ASSERT_EQ(write_private_file(directory + "/" + authorities_file, authority.certificate), "");
}

} // namespace dynamix::links::testing
