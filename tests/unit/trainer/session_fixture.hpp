#pragma once

#include "tests/temporary_directory.hpp"
#include "tests/unit/seeds.hpp"
#include "tiny_images.hpp"
#include "trainer/session.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::trainer {

class quiet_observer : public observer {
public:
  void started() override {}
  void window_closed(const window_record& record) override { windows = record.window; }
  void step_completed(std::uint64_t step) override { steps = step; }
  void evaluated(const messages::evaluation_report&) override {}
  void checkpoint_written(const std::string&, std::uint64_t) override {}
  void checkpoint_failed(const std::string&, std::uint64_t) override {}
  step_request request() override { return step_request::none; }

  std::uint64_t windows = 0;
  std::uint64_t steps = 0;
};

/// A small data set, and a cluster file of a few workers that trains on it.
class session_fixture : public testing::Test {
protected:
  session_fixture() {
    write_images(data, "train", 400);
    write_images(data, "t10k", 50);
    file.training.data_path = data.path();
    file.training.epochs = 1;
    file.training.device = "cpu";
    file.seed = test_seed(file.seed);
    file.arbitrator.policy = cluster::policy_kind::static_batch; // nobody decides
    file.batch.initial = 5;
    file.batch.lowest = 1;
    file.arbitrator.window_steps = 3;
    set_workers(4);
  }

  void set_workers(std::uint32_t count) {
    file.hosts.clear();
    for (std::uint32_t rank = 0; rank < count; ++rank)
      file.hosts.push_back({.name = "host" + std::to_string(rank)});
  }

  session_options options_of(std::uint32_t rank, const std::string& resume_from = "") const {
    return {.file = &file,
            .host = &file.hosts[rank],
            .checkpoint_directory = checkpoints.path(),
            .resume_from = resume_from};
  }

  membership place_of(std::uint32_t rank, const std::vector<std::uint32_t>& members) const {
    membership place{{.rank = rank, .members = members}, generation, members[0]};
    place.store_prefix = "g" + std::to_string(generation);
    place.join_timeout_ms = 20000;
    return place;
  }

  temporary_directory data;
  temporary_directory checkpoints;
  cluster::cluster_file file;
  std::uint64_t generation = 1;
};

} // namespace dynamix::trainer
