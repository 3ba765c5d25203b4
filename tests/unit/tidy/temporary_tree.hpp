#pragma once

#include "tests/unit/tidy/source_tree.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace dynamix::tidy {

/// A tree of files in a directory of its own, gone at the end.
class temporary_tree {
public:
  temporary_tree() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dynamix-tidy-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no temporary directory");
    root_ = pattern;
  }
  temporary_tree(const temporary_tree&) = delete;
  ~temporary_tree() { std::filesystem::remove_all(root_); }

  temporary_tree& write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
    return *this;
  }
  source_tree read() const { return read_tree(root_); }

private:
  std::filesystem::path root_;
};

} // namespace dynamix::tidy
