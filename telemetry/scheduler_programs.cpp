#include "telemetry/kernel_programs.hpp"

#if DYNAMIX_HAS_BPF
#include "telemetry/libbpf.hpp"

#include <bpf/bpf.h>
#include <bpf_programs/scheduler.skel.h>
#endif

namespace dynamix::telemetry {

#if DYNAMIX_HAS_BPF
namespace {

class loaded_scheduler_programs final : public scheduler_programs {
public:
  loaded_scheduler_programs() : skeleton_(scheduler_skeleton__open()) {}
  loaded_scheduler_programs(const loaded_scheduler_programs&) = delete;
  loaded_scheduler_programs& operator=(const loaded_scheduler_programs&) = delete;
  ~loaded_scheduler_programs() override { scheduler_skeleton__destroy(skeleton_); }

  /// What went wrong; empty: they count.
  std::string start() {
    if (skeleton_ == nullptr || scheduler_skeleton__load(skeleton_) != 0)
      return libbpf_problem("loading the scheduler programs");
    bpf_test_run_opts nothing{};
    nothing.sz = sizeof(nothing);
    if (bpf_prog_test_run_opts(bpf_program__fd(skeleton_->progs.introduce), &nothing) != 0)
      return libbpf_problem("registering the process with the scheduler programs");
    auto& programs = skeleton_->progs;
    auto& links = skeleton_->links;
    for (const auto& [program, link] :
         {std::pair{programs.switched, &links.switched}, std::pair{programs.woken, &links.woken},
          std::pair{programs.born, &links.born}}) {
      *link = bpf_program__attach_trace(program);
      if (*link == nullptr)
        return libbpf_problem("attaching the scheduler programs");
    }
    return "";
  }

  std::span<const scheduler_slot> slots() const override { return slots_in_use(skeleton_->bss->slots); }

  training_clock training() const override {
    constexpr int tries = 100;
    const auto& shared = skeleton_->bss->training;
    training_clock copy{};
    for (int i = 0; i < tries; ++i) {
      const auto before = __atomic_load_n(&shared.changes, __ATOMIC_ACQUIRE);
      copy = shared;
      __atomic_thread_fence(__ATOMIC_ACQUIRE);
      if (before % 2 == 0 && before == __atomic_load_n(&shared.changes, __ATOMIC_RELAXED))
        break;
    }
    return copy;
  }

  void follow(int thread) override { __atomic_store_n(&skeleton_->bss->training_thread, thread, __ATOMIC_RELAXED); }
  void follow_process(int process) override { __atomic_store_n(&skeleton_->bss->wanted, process, __ATOMIC_RELAXED); }

private:
  scheduler_skeleton* skeleton_;
};

} // namespace

std::unique_ptr<scheduler_programs> load_scheduler_programs(std::string& problem) {
  libbpf_set_print(&log_libbpf);
  auto programs = std::make_unique<loaded_scheduler_programs>();
  problem = programs->start();
  return problem.empty() ? std::move(programs) : nullptr;
}

#else

std::unique_ptr<scheduler_programs> load_scheduler_programs(std::string& problem) {
  problem = "this build is without eBPF";
  return nullptr;
}

#endif

} // namespace dynamix::telemetry
