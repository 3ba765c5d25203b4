# Every library that Dynamix builds on, in one place. All of them are Debian 12 packages (tools/packages-debian.txt);
# an upstream LibTorch is used when CMAKE_PREFIX_PATH points to it.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CAF REQUIRED COMPONENTS core io)
find_package(CapnProto REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Torch REQUIRED)

find_library(GLOO_LIBRARY gloo REQUIRED)

# TLS and certificates of the links between hosts. Raft for the replicated arbitrator; HMAC-SHA256 for the challenge before its streams.
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(PkgConfig REQUIRED)
pkg_check_modules(raft REQUIRED IMPORTED_TARGET raft=0.15.0)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)

# The live page: an HTTP server, a client for `top` and tests, and the text that Prometheus reads.
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)

# Torch as one target: its libraries as system includes (their headers warn), and the Gloo back end of c10d.
add_library(dynamix_torch INTERFACE)
add_library(dynamix::torch ALIAS dynamix_torch)
target_include_directories(dynamix_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_compile_definitions(dynamix_torch INTERFACE USE_C10D_GLOO)
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(dynamix_torch INTERFACE ${torch_flags})
target_link_libraries(dynamix_torch INTERFACE ${TORCH_LIBRARIES} ${GLOO_LIBRARY})

if(DYNAMIX_TESTS)
  find_package(GTest REQUIRED)
endif()
