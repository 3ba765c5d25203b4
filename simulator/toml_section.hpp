#pragma once

/// One section of a TOML file, the only one that the file may have. Errors carry the file, line and column. Internal to
/// the room; only its .cpp files include this, and with it toml++.

#include "cluster/fields.hpp"

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::simulator {

class toml_section {
public:
  /// Reads the file. A file that cannot be read or lacks the section gives one error and then no others.
  toml_section(const std::string& path, std::string_view section, std::vector<cluster::file_error>& errors);

  // Take a value over if it is there and right, and complain otherwise. All are required but for `optional` ones.
  void text(std::string_view name, std::string& into);
  void number(std::string_view name, double& into, const cluster::range& allowed);
  void optional_number(std::string_view name, double& into, const cluster::range& allowed);
  void optional_count(std::string_view name, std::uint32_t& into, const cluster::range& allowed);
  void numbers(std::string_view name, std::vector<double>& into, const cluster::range& allowed);
  /// An error at the value of `name`, where the section has it.
  void complain(std::string_view name, const std::string& message);
  /// Complains about what was never asked for, and sorts all errors by place. To be called last.
  void finish();

private:
  const toml::node* find(std::string_view name, bool required);
  void take_number(std::string_view name, const toml::node* node, double& into, const cluster::range& allowed);
  void complain_at(const toml::source_position& place, const std::string& message);
  void wrong_type(std::string_view name, const toml::node& node, const std::string& wanted);

  std::string path_;
  std::string section_;
  std::vector<cluster::file_error>& errors_;
  toml::table document_;
  const toml::table* table_ = nullptr; ///< null: nothing can be read
  std::vector<std::string_view> known_;
};

} // namespace dynamix::simulator
