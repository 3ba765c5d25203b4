#pragma once

#include "tests/temporary_directory.hpp"
#include "tests/unit/tidy/source_tree.hpp"

#include <string>

namespace dynamix::tidy {

/// A tree of files in a directory of its own, gone at the end.
class temporary_tree {
public:
  temporary_tree& write(const std::string& path, const std::string& text) {
    root_.write(path, text);
    return *this;
  }
  source_tree read() const { return read_tree(root_.path()); }

private:
  temporary_directory root_;
};

} // namespace dynamix::tidy
