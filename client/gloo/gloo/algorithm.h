#pragma once

#include "gloo/transport/unbound_buffer.h" // see gloo/context.h
