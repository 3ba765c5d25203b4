# Every library that Dynamix builds on, in one place. All of them are packages of Debian 12 and 13
# (tools/packages-debian.txt) but for PyTorch (Torch.cmake).
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CAF REQUIRED COMPONENTS core io)
find_package(CapnProto REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
if(DYNAMIX_TRAINER)
  include(Torch)
endif()

# TLS and certificates of the links between hosts. Raft for the replicated arbitrator.
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(PkgConfig REQUIRED)
# 0.15 in Debian 12, 0.22 in Debian 13: replication/libraft.hpp knows both.
pkg_check_modules(raft REQUIRED IMPORTED_TARGET raft>=0.15.0)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)

# The live page: an HTTP server, a client for `top` and tests, and the text that Prometheus reads.
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)

if(DYNAMIX_TESTS)
  find_package(GTest REQUIRED)
endif()
