#pragma once

#include "gloo/context.h" // says what this is for
