#pragma once

/// Keys of small clusters in a directory of their own.

#include "links/identity.hpp"
#include "links/key_directory.hpp"
#include "links/private_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <string>

namespace dynamix::links::testing {

class temporary_keys {
public:
  std::string path(const std::string& below = "keys") const { return directory_.file(below); }

private:
  temporary_directory directory_;
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
