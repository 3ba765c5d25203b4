#pragma once

#include "messages/serialization.hpp"

#include <caf/all.hpp>

#include <vector>

/// The words of the protocol. At most 10 characters of [0-9A-Za-z _] (CAF 0.17).
CAF_BEGIN_TYPE_ID_BLOCK(dynamix_atoms, caf::id_block::dynamix_messages::end)

// On the wire.
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, hello, "hello")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, report, "report")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, evaluation, "evaluation")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, settle, "settle")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, farewell, "farewell")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, decide, "decide")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, closed, "closed")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, apply, "apply")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, place, "place")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, beat, "beat")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, attach, "attach")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, relay, "relay")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, absent, "absent")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, beats, "beats")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, window, "window")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, guide, "guide")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, policy, "policy")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, order, "order")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, stop, "stop")

// Inside one process.
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, connected, "connected")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, lost, "lost")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, greet, "greet")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, ready, "ready")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, left, "left")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, leave, "leave")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, look, "look")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, tick, "tick")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, upstream, "upstream")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, serve, "serve")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, deadline, "deadline")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, shard, "shard")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, term, "term")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, finish, "finish")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, learn, "learn")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, current, "current")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, attempt, "attempt")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, redirect, "redirect")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, kept, "kept")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, save, "save")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, restart, "restart")
CAF_ADD_ATOM(dynamix_atoms, dynamix::actors::atom, command, "command")

CAF_END_TYPE_ID_BLOCK(dynamix_atoms)
