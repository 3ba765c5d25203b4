/// One rank of a comparison of the forms of exchange: sums the gradients of an NCF's embeddings, by turns in each form,
/// and trains it, or an LSTM on a text, by turns in each form. Or what a host that sums all of them for the others
/// computes. Or, alone: how fast a sketch is filled, added and peeled; or what each form moves, by the formula. Prints
/// JSON.

#include "client/random.hpp"
#include "exchange/compression.hpp"
#include "exchange/form_choice.hpp"
#include "exchange/server_group.hpp"
#include "exchange/sketch.hpp"
#include "storage/splitmix64.hpp"
#include "tests/unit/exchange/stores.hpp"
#include "trainer/clock.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/training_step.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>

namespace dynamix::benchmarks {

namespace {

struct forms_plan {
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::string address = "127.0.0.1";
  std::string meeting;
  double scale = 1;
  std::uint32_t batch = 256;
  std::uint32_t rounds = 5;
  std::uint32_t steps = 4; ///< of each form in a round
  bool trains = false;
  std::string text;             ///< that an LSTM learns instead; empty: an NCF is trained
  bool through_servers = false; ///< the forms through servers, too, and "auto" among all
  bool one_serves = false;      ///< the last rank, which brings nothing, sums everything
};

constexpr std::size_t row_floats = 32;

struct rival {
  const char* name;
  exchange::form form;
  exchange::summing summing = exchange::summing::ring;
};

std::vector<rival> rivals_of(const forms_plan& plan) {
  using enum cluster::compression_kind;
  std::vector<rival> all = {
      {"dense", none},
      {"union", union_of_items},
      {"gather", gather},
      {"lhc", lhc},
      {"auto", automatic, plan.through_servers ? exchange::summing::automatic : exchange::summing::ring}};
  if (plan.through_servers)
    for (const auto& [name, how] :
         {std::pair("dense-servers", none), std::pair("union-servers", union_of_items), std::pair("lhc-servers", lhc)})
      all.push_back({name, how, exchange::summing::parameter_server});
  return all;
}

cluster::training training_of(const forms_plan& plan) {
  cluster::training training;
  training.momentum = 0;
  if (plan.text.empty()) {
    training.model = cluster::model_kind::ncf;
    training.dataset = cluster::dataset_kind::interactions;
    training.interactions_scale = plan.scale;
    return training;
  }
  // As the experiment `compression` has it.
  training.model = cluster::model_kind::lstm;
  training.dataset = cluster::dataset_kind::text;
  training.data_path = plan.text;
  training.vocabulary = cluster::vocabulary_kind::words;
  training.vocabulary_size = 13'000;
  training.width = 0.25;
  training.layers = 1;
  training.context = 16;
  training.sampled_softmax = 256;
  return training;
}

/// Among the first `members` ranks.
exchange::place place_of(const forms_plan& plan, const std::string& prefix, std::uint32_t members) {
  exchange::place own{.rank = plan.rank,
                      .members = std::vector<std::uint32_t>(members),
                      .store_prefix = prefix,
                      .address = plan.address};
  std::iota(own.members.begin(), own.members.end(), 0U);
  return own;
}

/// A form's own group, and the seconds of its steps.
struct contender {
  contender(const forms_plan& plan, const rival& of, exchange::store& meeting)
      : name(of.name),
        peers(exchange::compress(exchange::join(place_of(plan, of.name, plan.world), meeting, never, of.summing),
                                 of.form, counts)) {}

  std::string name;
  exchange::interruption never;
  exchange::compression_counts counts;
  std::unique_ptr<exchange::group> peers;
  std::vector<double> seconds;
};

/// Everybody has come here.
void meet(exchange::group& peers) {
  const std::int64_t here = 0;
  peers.all_gather({&here, 1})->wait();
}

/// The rows of the two pairs of tables that a batch touches, in the order of the reducer's bucket.
std::vector<std::uint32_t> rows_of(const trainer::interactions& data, const trainer::interactions_shape& shape,
                                   const forms_plan& plan, std::uint64_t step) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < plan.batch; ++i) {
    const auto sample = data.at(((step * plan.world + plan.rank) * plan.batch + i) % data.size());
    for (const auto table : {0U, shape.users + shape.items}) {
      rows.push_back(table + sample.user);
      for (const auto item : sample.items)
        rows.push_back(table + shape.users + item);
    }
  }
  std::ranges::sort(rows);
  rows.erase(std::ranges::unique(rows).begin(), rows.end());
  return rows;
}

/// Gradients with the sparsity of NCF's batches, and nothing else.
class embedding_sums {
public:
  explicit embedding_sums(const forms_plan& plan)
      : plan_(plan), shape_(trainer::interactions_shape_of(plan.scale)), data_(shape_, 0, shape_.train),
        random_(plan.rank) {}

  std::unique_ptr<exchange::bucket> make_bucket(exchange::group& peers) const {
    return peers.make_sparse_bucket(std::size_t{2} * (shape_.users + shape_.items), row_floats, 2);
  }

  /// Seconds from the start of a sum to the end of its wait.
  double sum(exchange::bucket& summed, exchange::group& peers, std::uint64_t step) {
    const auto values = std::get<std::span<float>>(summed.gradients());
    auto* touched = summed.touched();
    if (touched == nullptr)
      std::ranges::fill(values, 0.0F);
    else
      for (const auto row : *touched)
        std::ranges::fill(values.subspan(row * row_floats, row_floats), 0.0F);
    const auto rows = rows_of(data_, shape_, plan_, step);
    for (const auto row : rows)
      for (auto& value : values.subspan(row * row_floats, row_floats))
        value = static_cast<float>(random_.next() >> 40U) * 0x1p-24F - 0.5F;
    if (touched != nullptr)
      *touched = rows;
    meet(peers);
    const trainer::steady_clock time;
    const double start = time.now_seconds();
    summed.start();
    summed.wait();
    return time.now_seconds() - start;
  }

private:
  const forms_plan& plan_;
  const trainer::interactions_shape shape_;
  const trainer::interactions data_;
  storage::splitmix64 random_;
};

void sum_by_turns(const forms_plan& plan, std::vector<std::unique_ptr<contender>>& all) {
  embedding_sums sums(plan);
  std::vector<std::unique_ptr<exchange::bucket>> buckets;
  for (const auto& each : all)
    buckets.push_back(sums.make_bucket(*each->peers));
  for (std::uint32_t round = 0; round <= plan.rounds; ++round) // the first one is a warm-up
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      const auto form = round % 2 == 0 ? turn : all.size() - 1 - turn;
      for (std::uint32_t step = 0; step < plan.steps; ++step) {
        const double seconds = sums.sum(*buckets[form], *all[form]->peers, round * plan.steps + step);
        if (round > 0)
          all[form]->seconds.push_back(seconds);
      }
    }
}

/// The same with a model: whole steps, and their waiting for the exchange.
void train_by_turns(const forms_plan& plan, std::vector<std::unique_ptr<contender>>& all) {
  const auto training = training_of(plan);
  trainer::dataset data;
  if (const auto problem = trainer::load_dataset(training, trainer::dataset_split::train, data); !problem.empty())
    throw std::runtime_error(problem);
  trainer::batch_loader loader(data, trainer::measure_channels(data));
  trainer::steady_clock time;
  struct learner {
    std::unique_ptr<trainer::training_step> step;
    std::unique_ptr<trainer::optimizer> descent;
  };
  std::vector<learner> learners;
  for (const auto& each : all) {
    auto model = trainer::build_model(trainer::options_of(training, 1));
    auto step = std::make_unique<trainer::training_step>(model, loader, *each->peers, time, each->never,
                                                         trainer::step_settings{});
    auto descent = std::make_unique<trainer::optimizer>(training, step->parameters());
    learners.push_back({std::move(step), std::move(descent)});
  }
  std::vector<std::uint32_t> samples(plan.batch);
  for (std::uint32_t round = 0; round <= plan.rounds; ++round)
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      const auto form = round % 2 == 0 ? turn : all.size() - 1 - turn;
      for (std::uint32_t step = 0; step < plan.steps; ++step) {
        const auto first = ((round * plan.steps + step) * plan.world + plan.rank) * plan.batch;
        for (std::uint32_t i = 0; i < plan.batch; ++i)
          samples[i] = static_cast<std::uint32_t>((first + i) % data.size());
        meet(*all[form]->peers);
        const double start = time.now_seconds();
        learners[form].step->begin(client::step_seed(1, round * plan.steps + step, plan.rank));
        learners[form].step->run(samples, 1);
        learners[form].descent->step();
        if (round > 0)
          all[form]->seconds.push_back(time.now_seconds() - start);
      }
    }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Of this process, so that others on the machine matter less.
double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// A host's CPU time for a sum where it alone adds up what the others bring, in each form, once a round.
void measure_server(const forms_plan& plan) {
  exchange::file_store meeting(plan.meeting);
  const exchange::interruption never;
  const auto workers = plan.world - 1;
  std::vector<double> shares(plan.world);
  shares.back() = 1;
  constexpr std::array<std::pair<const char*, exchange::form>, 3> forms = {
      {{"dense", exchange::form::none}, {"union", exchange::form::union_of_items}, {"lhc", exchange::form::lhc}}};
  embedding_sums sums(plan);
  std::array<std::vector<double>, forms.size()> taken;
  for (std::uint32_t round = 0; round < plan.rounds; ++round)
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const auto& [name, how] = forms[i];
      const auto prefix = name + std::to_string(round);
      auto all = exchange::join_ring(place_of(plan, prefix, plan.world), meeting, never);
      if (plan.rank == workers) {
        const double begin = cpu_seconds();
        exchange::serve_members(*all, workers, shares, never);
        taken[i].push_back((cpu_seconds() - begin) / plan.steps);
        all->leave();
        continue;
      }
      exchange::compression_counts counts;
      auto peers = exchange::compress(
          exchange::sum_by_servers(std::move(all), shares, never,
                                   exchange::join_ring(place_of(plan, prefix + "/workers", workers), meeting, never)),
          how, counts);
      auto bucket = sums.make_bucket(*peers);
      for (std::uint32_t step = 0; step < plan.steps; ++step)
        sums.sum(*bucket, *peers, round * plan.steps + step);
      bucket.reset();
      peers->leave();
    }
  if (plan.rank != workers)
    return;
  std::string line;
  for (std::size_t i = 0; i < forms.size(); ++i)
    line += (i == 0 ? "{\"" : ", \"") + std::string(forms[i].first) + "\": " + std::to_string(median(taken[i]));
  std::printf("%s}\n", line.c_str());
}

void compare(const forms_plan& plan) {
  torch::set_num_threads(1);
  exchange::file_store meeting(plan.meeting);
  std::vector<std::unique_ptr<contender>> all;
  for (const auto& each : rivals_of(plan))
    all.push_back(std::make_unique<contender>(plan, each, meeting));
  if (plan.trains)
    train_by_turns(plan, all);
  else
    sum_by_turns(plan, all);
  std::string line;
  for (const auto& each : all) {
    const auto& counts = each->counts;
    line += (line.empty() ? "{" : ", ") + std::string("\"") + each->name +
            "\": {\"median_seconds\": " + std::to_string(median(each->seconds)) +
            ", \"sums\": " + std::to_string(counts.sums) + ", \"own_items\": " + std::to_string(counts.own_items) +
            ", \"union_items\": " + std::to_string(counts.items) + ", \"unfit\": " + std::to_string(counts.unfit) +
            ", \"unpeeled\": " + std::to_string(counts.unpeeled) +
            ", \"through_servers\": " + std::to_string(counts.server_sums) + "}";
    each->peers->leave();
  }
  if (plan.rank == 0)
    std::printf("%s}\n", line.c_str());
}

/// GB a second that one core reads and writes where it adds large arrays of words.
double measure_memory() {
  constexpr std::size_t words = (std::size_t{256} << 20) / sizeof(std::uint64_t);
  std::vector<std::uint64_t> from(words, 1);
  std::vector<std::uint64_t> to(words, 2);
  std::vector<double> seconds;
  for (int round = 0; round < 5; ++round) {
    const double start = cpu_seconds();
    for (std::size_t i = 0; i < words; ++i)
      to[i] += from[i];
    seconds.push_back(cpu_seconds() - start);
  }
  return 3 * words * sizeof(std::uint64_t) / 1e9 / median(seconds);
}

/// GB of dense gradient a second of one core's time, at a share of non-zero lines of 16 floats; and the share of the
/// memory's speed at which their numbers and cells are read and written: a float that is compressed has 52 bytes of
/// both, an added word of a cell 24, a float that is peeled 44. A share above 1 says that the sketch lies in a cache.
void measure_codec(double density) {
  constexpr std::size_t line_floats = 16;
  constexpr std::size_t items = (std::size_t{64} << 20) / sizeof(float) / line_floats;
  constexpr double bytes = items * line_floats * sizeof(float);
  storage::splitmix64 random(1);
  std::vector<float> gradients(items * line_floats);
  std::vector<std::uint32_t> present;
  for (std::uint32_t item = 0; item < items; ++item) {
    if (random.below(1 << 20) >= static_cast<std::uint32_t>(density * (1 << 20)))
      continue;
    present.push_back(item);
    for (std::size_t i = 0; i < line_floats; ++i)
      gradients[item * line_floats + i] = static_cast<float>(random.next() >> 40U) * 0x1p-24F - 0.5F;
  }
  const auto cells = exchange::sketch_cells(present.size());
  const auto scale = exchange::scale_for(126, 4);
  std::vector<double> filling;
  std::vector<double> adding;
  std::vector<double> peeling;
  std::vector<std::uint64_t> sum(cells * line_floats);
  for (int round = 0; round < 9; ++round) {
    std::vector<std::uint64_t> table(cells * line_floats);
    const double start = cpu_seconds();
    for (const auto item : present)
      exchange::add_to_sketch(table, exchange::cells_of(item, 1, cells),
                              std::span(gradients).subspan(item * line_floats, line_floats), scale);
    const double filled = cpu_seconds();
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += table[i];
    const double added = cpu_seconds();
    const auto plan = exchange::plan_peeling(present, 1, cells);
    exchange::peel(table, line_floats, present, 1, plan, [&](std::uint32_t item, std::span<const std::uint64_t> words) {
      exchange::round_sums(words, scale, std::span(gradients).subspan(item * line_floats, line_floats));
    });
    filling.push_back(filled - start);
    adding.push_back(added - filled);
    peeling.push_back(cpu_seconds() - added);
  }
  const double memory = measure_memory();
  const auto share = [&](double moved, const std::vector<double>& seconds) {
    return moved / 1e9 / median(seconds) / memory;
  };
  const auto floats = static_cast<double>(present.size() * line_floats);
  std::printf("{\"density\": %g, \"compress_gb_s\": %.2f, \"add_gb_s\": %.2f, \"peel_gb_s\": %.2f, "
              "\"memory_gb_s\": %.2f, \"compress_share\": %.2f, \"add_share\": %.2f, \"peel_share\": %.2f}\n",
              density, bytes / 1e9 / median(filling), bytes / 1e9 / median(adding), bytes / 1e9 / median(peeling),
              memory, share(52 * floats, filling), share(24 * static_cast<double>(sum.size()), adding),
              share(44 * floats, peeling));
}

/// What each form moves over a link of `mbit`, by the formula (exchange/form_choice.hpp) and without any computing: a
/// gradient of 64 MiB in lines of 16 floats, of which each rank has a share, chosen independently of the others.
void tell_model(double density, double mbit) {
  using enum cluster::compression_kind;
  constexpr std::size_t line_floats = 16;
  constexpr std::size_t items = (std::size_t{64} << 20) / sizeof(float) / line_floats;
  for (const std::uint32_t ranks : {2U, 4U, 8U, 16U, 32U}) {
    const double together = 1 - std::pow(1 - density, ranks);
    const exchange::form_load load{.members = ranks,
                                   .items = items,
                                   .item_floats = line_floats,
                                   .longest = static_cast<std::size_t>(density * items),
                                   .together = static_cast<std::size_t>(together * items)};
    const auto milliseconds = [&](exchange::form how) { return 8e3 * exchange::bytes_of({how}, load) / (mbit * 1e6); };
    std::printf(
        "{\"ranks\": %u, \"density\": %g, \"together\": %.3f, \"mbit\": %g, \"dense_ms\": %.2f, \"union_ms\": %.2f, "
        "\"gather_ms\": %.2f, \"lhc_ms\": %.2f}\n",
        ranks, density, together, mbit, milliseconds(none), milliseconds(union_of_items), milliseconds(gather),
        milliseconds(lhc));
  }
}

} // namespace

} // namespace dynamix::benchmarks

int main(int argc, char** argv) {
  dynamix::benchmarks::forms_plan plan;
  double density = 0;
  double model_mbit = 0;
  CLI::App app("One rank of a comparison of the forms of exchange");
  app.add_option("--codec", density, "measure the codec alone, at this share of non-zero lines")
      ->check(CLI::Range(0.0001, 1.0));
  app.add_option("--model", model_mbit, "tell what forms move over a link of so many Mbit/s where 5 % are not zero")
      ->check(CLI::PositiveNumber);
  app.add_flag("--through-servers", plan.through_servers, "the forms through servers, too");
  app.add_flag("--one-serves", plan.one_serves, "tell the CPU time of the last rank, which sums for all others");
  app.add_option("--rank", plan.rank);
  app.add_option("--world", plan.world)->check(CLI::Range(1, 64));
  app.add_option("--address", plan.address, "that this rank listens on");
  app.add_option("--meeting", plan.meeting, "directory in which the ranks meet");
  app.add_option("--scale", plan.scale, "of the data set, as interactions_scale")->check(CLI::Range(0.001, 1.0));
  app.add_option("--batch", plan.batch, "samples per rank per step")->check(CLI::Range(1, 65536));
  app.add_option("--rounds", plan.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--steps", plan.steps, "of each form in a round")->check(CLI::Range(1, 1000));
  app.add_flag("--train", plan.trains, "whole training steps");
  app.add_option("--text", plan.text, "with --train: file or directory of a text that an LSTM learns");
  CLI11_PARSE(app, argc, argv);
  try {
    if (model_mbit > 0)
      dynamix::benchmarks::tell_model(0.05, model_mbit);
    else if (density > 0)
      dynamix::benchmarks::measure_codec(density);
    else if (plan.one_serves)
      dynamix::benchmarks::measure_server(plan);
    else
      dynamix::benchmarks::compare(plan);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_forms: %s\n", error.what());
    return 1;
  }
  return 0;
}
