/// Sums seeded patterns of sparse gradients in each form, in a ring and through servers, on ranks of this process, and
/// compares every value on every rank with a sum of no code that is tested. Or counts how many sketches do not peel.
/// Bounded by time, prints progress on standard error and JSON at the end; 1 where a value is wrong.

#include "exchange/item_bucket.hpp"
#include "exchange/sketch.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tests/unit/exchange/reference_sums.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace dynamix::benchmarks {

namespace {

using exchange::form;
using storage::splitmix64;
using clock = std::chrono::steady_clock;

struct soak_plan {
  double values = 1e9;
  std::uint64_t patterns = 10'000;
  double seconds = 600;
  std::uint64_t seed = 1;
};

/// Who sums.
struct setup {
  const char* name;
  std::uint32_t ranks;
  std::vector<double> shares; ///< of servers; empty: a ring
};
const std::vector<setup>& setups() {
  static const std::vector<setup> all = {{"ring of 2", 2, {}},
                                         {"servers, 3 ranks", 3, {0.5, 0.3, 0.2}},
                                         {"ring of 4", 4, {}},
                                         {"servers, 5 ranks", 5, {0.1, 0, 0.7, 0, 0.2}}};
  return all;
}

constexpr std::array forms = {form::union_of_items, form::gather, form::lhc};
constexpr std::uint64_t steps = 3; ///< of a pattern: sketches begin with the second

/// What all ranks' gradients look like.
struct shape {
  shape(std::uint64_t seed, std::uint64_t pattern) : random(seed * 1'000'003 + pattern) {
    constexpr std::array<std::size_t, 6> widths = {1, 3, 16, 21, 32, 64};
    constexpr std::array<double, 7> densities = {0, 0.002, 0.02, 0.1, 0.3, 0.7, 1};
    item_floats = widths.at(random.below(widths.size()));
    const auto floats = random.below(8) == 0 ? 1 + random.below(200) : 1000 + random.below(60'000); // tiny now and then
    items = 1 + floats / item_floats;
    touched = densities.at(random.below(densities.size()));
    kind = random.below(kinds);
  }

  static constexpr std::uint32_t kinds = 9;
  splitmix64 random;
  std::size_t item_floats;
  std::size_t items;
  double touched;
  std::uint32_t kind;
};

/// `shared` is the same on all ranks, so that sums can cancel.
float draw_value(std::uint32_t kind, splitmix64& own, splitmix64& shared, std::uint32_t rank) {
  using namespace exchange::reference;
  constexpr std::array draws = {normal,        heavy_tailed,    subnormal, any_bits, signed_zeros_and_few,
                                with_specials, near_the_largest};
  if (kind < draws.size())
    return draws.at(kind)(own);
  const float base = kind == draws.size() ? normal(shared) : heavy_tailed(shared);
  return (rank % 2 == 0 ? base : -base) + std::ldexp(normal(own), -30);
}

/// Exact where 113 bits hold all of the values' bits, which are those of nearly all columns; rounded once.
float exact_sum(std::span<const float> column) {
  __extension__ using quad = __float128;
  unsigned low = 255;
  unsigned high = 0;
  for (const float value : column) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (bits << 1U == 0)
      continue;
    const auto exponent = std::max(1U, (bits >> 23U) & 0xffU);
    low = std::min(low, exponent);
    high = std::max(high, exponent);
  }
  if (high == 255 || (high > low && high - low > 113 - 24 - 4))
    return exchange::reference::slow_exact_sum(column);
  quad sum = 0;
  for (const float value : column)
    sum += value;
  return sum == 0 ? 0.0F : static_cast<float>(sum);
}

struct tally {
  std::uint64_t patterns = 0;
  std::uint64_t values = 0; ///< that some rank had brought, each form's for itself
  std::uint64_t wrong = 0;
  std::uint64_t failed_sketches = 0; ///< sums of which items did not peel
  exchange::compression_counts lhc;
};

/// What the ranks of a setup share.
struct stage {
  explicit stage(std::uint32_t ranks) : values(ranks), sums(ranks), counted(ranks), meeting(ranks) {}
  std::vector<std::vector<float>> values;
  std::vector<std::span<const float>> sums;
  std::vector<tally> counted;
  std::barrier<> meeting;
  bool over = false;
  tally total;
};

class soaking_rank {
public:
  soaking_rank(const soak_plan& plan, stage& with, std::uint32_t rank, exchange::group& peers)
      : plan_(plan), stage_(with), rank_(rank), peers_(peers) {}

  void run_pattern(std::uint64_t pattern) {
    const shape of(plan_.seed, pattern);
    std::vector<std::unique_ptr<exchange::bucket>> buckets;
    for (const auto how : forms) {
      const auto make = how == form::gather           ? exchange::make_gather_bucket
                        : how == form::union_of_items ? exchange::make_union_bucket
                                                      : exchange::make_sketch_bucket;
      auto& counts = how == form::lhc ? stage_.counted[rank_].lhc : others_;
      buckets.push_back(make(peers_, of.items, of.item_floats, 0, counts, {}));
    }
    for (std::uint64_t step = 0; step < steps; ++step) {
      draw(of, pattern * steps + step);
      for (std::size_t i = 0; i < forms.size(); ++i) {
        sum(*buckets[i], of);
        stage_.meeting.arrive_and_wait();
        compare(forms.at(i));
        stage_.meeting.arrive_and_wait();
      }
    }
  }

private:
  void draw(const shape& of, std::uint64_t step) {
    splitmix64 own(step * 64 + rank_ + plan_.seed * 7919);
    splitmix64 shared(step * 64 + 63 + plan_.seed * 7919);
    auto& values = stage_.values[rank_];
    values.assign(of.items * of.item_floats, 0);
    items_.clear();
    for (std::uint32_t item = 0; item < of.items; ++item) {
      if (own.below(1 << 20) >= static_cast<std::uint32_t>(of.touched * (1 << 20)))
        continue;
      items_.push_back(item);
      for (std::size_t i = 0; i < of.item_floats; ++i)
        values[item * of.item_floats + i] = draw_value(of.kind, own, shared, rank_);
    }
  }

  void sum(exchange::bucket& bucket, const shape& of) {
    const auto gradients = std::get<std::span<float>>(bucket.gradients());
    auto& touched = *bucket.touched();
    for (const auto item : touched)
      std::ranges::fill(gradients.subspan(item * of.item_floats, of.item_floats), 0.0F);
    for (const auto item : items_)
      std::ranges::copy(std::span(stage_.values[rank_]).subspan(item * of.item_floats, of.item_floats),
                        gradients.subspan(item * of.item_floats).begin());
    touched = items_;
    const auto unpeeled = stage_.counted[rank_].lhc.unpeeled;
    bucket.start();
    bucket.wait();
    stage_.counted[rank_].failed_sketches += stage_.counted[rank_].lhc.unpeeled > unpeeled ? 1 : 0;
    stage_.sums[rank_] = gradients;
  }

  /// This rank's part of the values, on all ranks.
  void compare(form how) {
    const auto ranks = stage_.sums.size();
    const auto count = stage_.sums[0].size();
    auto& counted = stage_.counted[rank_];
    std::vector<float> column(ranks);
    for (std::size_t i = count * rank_ / ranks; i < count * (rank_ + 1) / ranks; ++i) {
      bool brought = false;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        column[rank] = stage_.values[rank][i];
        brought = brought || std::bit_cast<std::uint32_t>(column[rank]) != 0;
      }
      float expected = column[0];
      if (brought && how == form::lhc)
        expected = exact_sum(column);
      else
        for (std::size_t rank = 1; rank < ranks; ++rank)
          expected += column[rank];
      counted.values += brought ? 1 : 0;
      for (const auto& sums : stage_.sums)
        if (exchange::reference::bits_of(sums[i]) != exchange::reference::bits_of(expected)) {
          ++counted.wrong;
          break;
        }
    }
  }

  const soak_plan& plan_;
  stage& stage_;
  const std::uint32_t rank_;
  exchange::group& peers_;
  exchange::compression_counts others_;
  std::vector<std::uint32_t> items_;
};

void add_up(stage& of, std::uint64_t patterns) {
  of.total = {.patterns = patterns, .failed_sketches = of.counted[0].failed_sketches, .lhc = of.counted[0].lhc};
  for (const auto& each : of.counted) {
    of.total.values += each.values;
    of.total.wrong += each.wrong;
  }
}

/// Each setup has an equal part of the patterns, values and time.
tally soak(const soak_plan& plan, const setup& with, std::uint64_t first_pattern) {
  const auto parts = static_cast<double>(setups().size());
  const auto began = clock::now();
  auto told = began;
  stage shared(with.ranks);
  const auto body = [&](std::uint32_t rank, exchange::group& peers) {
    soaking_rank own(plan, shared, rank, peers);
    for (std::uint64_t pattern = 0; !shared.over; ++pattern) {
      own.run_pattern(first_pattern + pattern);
      if (rank == 0) {
        add_up(shared, pattern + 1);
        const std::chrono::duration<double> taken = clock::now() - began;
        shared.over = taken.count() > plan.seconds / parts || shared.total.wrong > 0 ||
                      (static_cast<double>(shared.total.patterns) >= static_cast<double>(plan.patterns) / parts &&
                       static_cast<double>(shared.total.values) >= plan.values / parts);
        if (clock::now() - told > std::chrono::seconds(10)) {
          told = clock::now();
          std::fprintf(stderr, "%s: %.0f s, %lu patterns, %.3g values, %lu wrong\n", with.name, taken.count(),
                       shared.total.patterns, static_cast<double>(shared.total.values), shared.total.wrong);
        }
      }
      shared.meeting.arrive_and_wait();
    }
  };
  const auto guarded = [&](std::uint32_t rank, exchange::group& peers) {
    try {
      body(rank, peers);
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "exchange_lossless: rank %u of %s: %s\n", rank, with.name, problem.what());
      std::_Exit(1); // the others would wait for it
    }
  };
  if (with.shares.empty())
    exchange::run_ranks(with.ranks, guarded);
  else
    exchange::run_ranks(with.ranks, guarded, exchange::by_shares(with.shares));
  return shared.total;
}

int soak_all(const soak_plan& plan) {
  tally all;
  for (std::size_t i = 0; i < setups().size(); ++i) {
    const auto& with = setups()[i];
    const auto found = soak(plan, with, i * 1'000'000);
    all.patterns += found.patterns;
    all.values += found.values;
    all.wrong += found.wrong;
    std::printf("{\"setup\": \"%s\", \"patterns\": %lu, \"values\": %lu, \"wrong\": %lu, \"sketched_items\": %lu, "
                "\"unfit\": %lu, \"unpeeled\": %lu, \"sketches_with_unpeeled\": %lu}\n",
                with.name, found.patterns, found.values, found.wrong, found.lhc.sketched, found.lhc.unfit,
                found.lhc.unpeeled, found.failed_sketches);
    std::fflush(stdout);
  }
  std::printf("{\"seed\": %lu, \"patterns\": %lu, \"values\": %lu, \"wrong\": %lu}\n", plan.seed, all.patterns,
              all.values, all.wrong);
  return all.wrong == 0 ? 0 : 1;
}

/// Unions of so many items each, at the size that is agreed on for them.
void count_unpeeled(const soak_plan& plan, std::size_t items, std::uint64_t sketches) {
  const auto began = clock::now();
  auto told = began;
  splitmix64 random(plan.seed);
  std::vector<std::uint32_t> numbers(items);
  std::uint64_t failed = 0;
  std::uint64_t left = 0;
  std::uint64_t done = 0;
  for (; done < sketches && clock::now() - began < std::chrono::duration<double>(plan.seconds); ++done) {
    std::uint32_t next = 0;
    for (auto& number : numbers)
      number = next += 1 + random.below(40);
    const auto peeled = exchange::plan_peeling(numbers, done, exchange::sketch_cells(items));
    failed += peeled.left.empty() ? 0 : 1;
    left += peeled.left.size();
    if (clock::now() - told > std::chrono::seconds(10)) {
      told = clock::now();
      std::fprintf(stderr, "%lu sketches of %zu items, %lu with items left\n", done, items, failed);
    }
  }
  std::printf(
      "{\"items\": %zu, \"sketches\": %lu, \"failed\": %lu, \"items_left\": %lu, \"failed_of_a_million\": %.1f}\n",
      items, done, failed, left, 1e6 * static_cast<double>(failed) / static_cast<double>(std::max(1UL, done)));
}

} // namespace

} // namespace dynamix::benchmarks

int main(int argc, char** argv) {
  dynamix::benchmarks::soak_plan plan;
  std::vector<std::size_t> items;
  std::uint64_t sketches = 1'000'000;
  CLI::App app("Compressed sums of seeded patterns against slow ones");
  app.add_option("--values", plan.values, "to compare, where there is time")->check(CLI::Range(1.0, 1e12));
  app.add_option("--patterns", plan.patterns)->check(CLI::Range(1, 1'000'000));
  app.add_option("--seconds", plan.seconds, "at most; with --peel for each size")->check(CLI::Range(1.0, 86400.0));
  app.add_option("--seed", plan.seed);
  app.add_option("--peel", items, "only peel sketches of so many items")->check(CLI::Range(256, 10'000'000));
  app.add_option("--sketches", sketches, "of each size")->check(CLI::Range(1, 1'000'000'000));
  CLI11_PARSE(app, argc, argv);
  try {
    for (const auto size : items)
      dynamix::benchmarks::count_unpeeled(plan, size, sketches);
    return items.empty() ? dynamix::benchmarks::soak_all(plan) : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "exchange_lossless: %s\n", error.what());
    return 1;
  }
}
