#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace dynamix {

inline std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// An empty directory that goes away with the test.
class temporary_directory {
public:
  temporary_directory() : path_((std::filesystem::temp_directory_path() / "dynamix-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw std::runtime_error("cannot make " + path_);
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  ~temporary_directory() {
    std::error_code problem; // a process that is ending may still write or remove files in it
    for (int attempts = 0; attempts < 100 && std::filesystem::exists(path_, problem); ++attempts)
      if (std::filesystem::remove_all(path_, problem); problem)
        ::usleep(20'000);
  }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file, in directories below this one that are made where they are missing, and returns its path.
  std::string write(const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary) << contents;
    return file(name);
  }

private:
  std::string path_;
};

} // namespace dynamix
