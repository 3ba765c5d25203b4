#include "cluster/cluster_file.hpp"
#include "policy/learner.hpp"
#include "policy/state_range.hpp"
#include "tests/fuzz/described_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace dynamix::fuzz {
namespace {

/// Whether all numbers of a tensor are finite and, where that is asked, not negative.
bool is_sound(const storage::tensor_record& record, bool positive) {
  const auto each_is = [&]<class Number>(Number) {
    for (std::size_t at = 0; at + sizeof(Number) <= record.data.size(); at += sizeof(Number)) {
      Number number{};
      std::memcpy(&number, record.data.data() + at, sizeof number);
      if (!std::isfinite(static_cast<double>(number)) || (positive && number < 0))
        return false;
    }
    return true;
  };
  return record.type == storage::element_type::f32   ? each_is(float{})
         : record.type == storage::element_type::f64 ? each_is(double{})
         : record.type == storage::element_type::i64 ? each_is(std::int64_t{})
                                                     : true;
}

/// A policy that fits a small cluster and what is described, as the arbitrator's host begins with.
void read_policy(byte_span bytes) {
  static const auto cluster = cluster::parse_cluster_text("[cluster]\nname = \"fuzz\"\n"
                                                          "[arbitrator]\npolicy = \"ppo\"\nmode = \"train\"\n"
                                                          "[ppo]\nhidden = 4\n"
                                                          "[[host]]\nname = \"w0\"\nport = 1\n"
                                                          "roles = [\"worker\", \"arbitrator\"]\n",
                                                          "fuzz.toml");
  require(cluster.errors.empty(), "the cluster of the policy");
  static const auto fitting = [] {
    storage::tensor_file file;
    require(storage::decode(policy::make_learner(cluster.file, {})->save(), file).empty(), "a learner's file");
    return file;
  }();
  if (!has_plain_names(bytes))
    return;
  const auto given = storage::encode(described_file(bytes, fitting));
  std::vector<std::uint8_t> taken;
  try {
    const auto learner = policy::make_learner(cluster.file, given);
    taken = learner->save();
    policy::trained_range(learner->current().parameters);
  } catch (const std::invalid_argument& misfit) {
    return require(*misfit.what() != 0, "a refused policy says why");
  }
  storage::tensor_file file;
  require(storage::decode(taken, file).empty(), "a policy that was read can be written");
  for (const auto& record : file.tensors)
    require(is_sound(record, record.name.ends_with(".square") || record.name.ends_with(".step")),
            "and holds numbers, of which no mean of squares and no count of steps is negative");
  require(policy::make_learner(cluster.file, taken)->save() == taken, "and is the same then");
}

} // namespace

target policy_target() {
  return {"policies", read_policy};
}

} // namespace dynamix::fuzz
