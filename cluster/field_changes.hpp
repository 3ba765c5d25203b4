#pragma once

/// Changes of single fields, as a command line makes them.

#include "cluster/cluster_file.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dynamix::cluster {

/// "training.epochs", or "hosts.NAME.compute_slowdown" for one host, is to be `value`: a string without quotes, a list
/// with or without brackets.
struct field_change {
  std::string option; ///< for messages: "--set training.epochs=2", "--epochs"
  std::string field;
  std::optional<std::string> value; ///< none: the option lacks it
};

/// Of "--set SECTION.FIELD=VALUE".
field_change parse_change(const std::string& text);

/// Makes all changes, then checks the whole file again, and notes them in `set_by`. Errors name the option; then `file`
/// is as it was.
std::vector<file_error> change_fields(cluster_file& file, const std::vector<field_change>& changes);

/// The same of one field, without a note. Returns an empty string, or what is wrong.
std::string set_field(cluster_file& file, const std::string& field, const std::string& value);

} // namespace dynamix::cluster
