#pragma once

/// Our store as c10d's, for the time in which a process group is formed. Names c10d, as gloo_exchange.cpp does.

#include "trainer/exchange.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

namespace dynamix::trainer {

class gloo_rendezvous {
public:
  gloo_rendezvous(const membership& place, store& backing);
  /// From here on the store is not used any more, whoever still has `c10d_store()`: its calls throw. Waits for the one
  /// that is under way.
  ~gloo_rendezvous();
  gloo_rendezvous(const gloo_rendezvous&) = delete;
  gloo_rendezvous& operator=(const gloo_rendezvous&) = delete;

  /// Announces this worker and waits for the others, so that a time-out can name who is missing. Gloo's own text
  /// cannot. Throws exchange_error.
  void await_members(clock& time, const interruption& stop);
  c10::intrusive_ptr<c10d::Store> c10d_store() const;

private:
  class gate;
  class prefixed_store;

  const membership& place_;
  std::shared_ptr<gate> gate_;
  c10::intrusive_ptr<prefixed_store> store_;
};

} // namespace dynamix::trainer
