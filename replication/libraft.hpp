#pragma once

/// libraft's headers, which do not say that they are C. What they include comes first, in its own language.

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <uv.h>

extern "C" {
#include <raft.h>
#include <raft/uv.h>
}
