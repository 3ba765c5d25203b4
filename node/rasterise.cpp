#include "node/rasterise.hpp"

#include "node/child_process.hpp"
#include "storage/atomic_file.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

namespace dynamix::node {
namespace {

constexpr std::chrono::seconds patience{30};
constexpr const char* program = "rsvg-convert";

/// Empty where it is not installed.
std::string find_program() {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "/usr/bin" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::error_code error;
    const auto candidate = std::filesystem::path(directory) / program;
    if (!directory.empty() && std::filesystem::exists(candidate, error))
      return candidate.string();
  }
  return "";
}

std::string convert(const std::string& converter, const std::string& from, const std::string& to, int width) {
  const std::string words = to + ".log";
  child_process child;
  auto problem = child.start({.program = converter,
                              .arguments = {"--width", std::to_string(width), "--keep-aspect-ratio",
                                            "--background-color", "white", "--output", to, from},
                              .environment = {},
                              .output = words});
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (problem.empty() && child.running()) {
    if (std::chrono::steady_clock::now() > deadline)
      problem = "it takes too long"; // the destructor ends it
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string said;
  storage::read_file(words, 4096, said);
  std::error_code ignored;
  std::filesystem::remove(words, ignored);
  if (problem.empty() && !child.poll()->well())
    problem = to_string(*child.poll()) + (said.empty() ? "" : ": " + said);
  return problem.empty() ? "" : std::string("cannot make ") + to + " by " + program + ": " + problem;
}

} // namespace

std::string write_pngs(const std::vector<run_plot>& plots, const std::string& directory, int width) {
  const auto converter = find_program();
  if (converter.empty())
    return std::string("PNGs are drawn by ") + program + ", which is not installed: apt-get install librsvg2-bin";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return "cannot make " + directory + ": " + error.message();
  for (const auto& plot : plots) {
    const auto base = directory + "/" + plot.name;
    auto svg = plot.svg;
    svg.insert(svg.find("<svg ") + 5, "color=\"#1b1f24\" ");
    auto problem = storage::write_file_atomically(base + ".svg", svg);
    if (problem.empty())
      problem = convert(converter, base + ".svg", base + ".png", width);
    std::filesystem::remove(base + ".svg", error);
    if (!problem.empty())
      return problem;
  }
  return "";
}

} // namespace dynamix::node
