#pragma once

#include <cstdlib>
#include <string>

namespace dynamix {

/// Whether that Python has torch, without the seconds that it takes to load it.
inline bool has_torch(const std::string& python) {
  return std::system(
             (python +
              R"( -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("torch"))' 2>/dev/null)")
                 .c_str()) == 0;
}

} // namespace dynamix
