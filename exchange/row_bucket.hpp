#pragma once

#include "exchange/group.hpp"

#include <cstddef>
#include <memory>

namespace dynamix::exchange {

/// A bucket with `columns` whole numbers of each member beside its gradients (bucket::rows), in the same collective:
/// they follow the gradients, 16 bits in a float, where each member fills its own row and leaves the others' at 0, so
/// that their sum is what was filled in.
std::unique_ptr<bucket> make_row_bucket(group& of, element type, std::size_t gradients, std::size_t sums,
                                        std::size_t columns);

} // namespace dynamix::exchange
