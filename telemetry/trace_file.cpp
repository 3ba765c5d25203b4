#include "telemetry/trace_file.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace dynamix::telemetry {

std::string clock_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::error_code error;
  const auto name_space = std::filesystem::read_symlink("/proc/self/ns/time", error);
  if (!std::getline(file, boot))
    return {};
  return error ? boot : boot + " " + name_space.string();
}

std::shared_ptr<trace_file> trace_file::open(const std::string& path, const std::string& host, std::string& problem,
                                             std::uint64_t bytes_max) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) {
    problem = "cannot write the trace " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  const auto bytes = std::filesystem::file_size(path, ignored);
  std::shared_ptr<trace_file> made(new trace_file(file, bytes, bytes_max));
  // The empty line ends one that a killed process has left torn.
  made->write(fmt::format("\n{{\"kind\":\"host\",\"host\":\"{}\",\"clock\":\"{}\"}}\n", host, clock_identity()));
  return made;
}

trace_file::~trace_file() {
  std::fclose(file_);
}

void trace_file::span(const char* lane, const std::string& name, double begin_seconds, double end_seconds,
                      const std::string& arguments) {
  write(fmt::format("{{\"kind\":\"{}\",\"name\":\"{}\",\"begin\":{:.9f},\"end\":{:.9f},\"args\":{{{}}}}}\n", lane, name,
                    begin_seconds, end_seconds, arguments));
}

void trace_file::moment(const char* kind, std::uint64_t term, std::uint64_t window) {
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  write(fmt::format("{{\"kind\":\"{}\",\"at\":{:.9f},\"term\":{},\"window\":{}}}\n", kind, now, term, window));
}

void trace_file::flush() {
  const std::scoped_lock lock(mutex_);
  std::fflush(file_);
}

void trace_file::write(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  if (full_)
    return;
  full_ = bytes_ + line.size() > bytes_max_;
  if (full_) {
    spdlog::warn("trace_full bytes={} the rest of the run is not traced", bytes_);
    std::fputs("{\"kind\":\"full\"}\n", file_);
    return;
  }
  bytes_ += line.size();
  if (std::fputs(line.c_str(), file_) < 0) {
    spdlog::warn("trace_write_failed error=\"{}\" the rest of the run is not traced", std::strerror(errno));
    full_ = true;
  }
}

} // namespace dynamix::telemetry
