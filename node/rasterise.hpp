#pragma once

/// SVG to PNG, by `rsvg-convert` of Debian's package librsvg2-bin: it is needed when a PNG is asked for, not to build.

#include "node/run_plots.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// Writes <directory>/<name>.png of every plot, black on white, `width` pixels across. Makes the directory. Returns an
/// empty string, or what went wrong with the first that could not be written.
std::string write_pngs(const std::vector<run_plot>& plots, const std::string& directory, int width = 1440);

} // namespace dynamix::node
