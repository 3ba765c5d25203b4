#include "exchange/either_group.hpp"

#include "exchange/form_choice.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace dynamix::exchange {

namespace {

using clock = std::chrono::steady_clock;

/// Shorter buckets are bound by latency, and tell nothing about who sums faster.
constexpr std::size_t watched_bytes_min = 64 << 10;

/// How long plain buckets are waited for, all of a step together, and which way they go from then on. A step is from
/// one wait for the first bucket to the next.
class way_watch {
public:
  way_watch(const both_ways& ways, std::uint32_t members, choice_teller told)
      : ways_(ways), members_(members), told_(std::move(told)), choice_(ways.by_servers) {}

  bool by_servers() const { return choice_.by_servers(); }

  /// The first of the buckets that are there leads: at it, steps begin and end.
  void admit(const void* bucket, std::size_t floats) {
    floats_ += floats;
    buckets_.push_back(bucket);
  }
  void dismiss(const void* bucket, std::size_t floats) {
    floats_ -= floats;
    if (leads(bucket))
      begin_look();
    std::erase(buckets_, bucket);
  }

  void begin(const void* bucket) {
    if (!leads(bucket) || steps_ + 1 != look::sums)
      return;
    constexpr auto steps = static_cast<std::int64_t>(look::sums - 1 - look::warm);
    const std::int64_t row[] = {waited_.count() / steps, took_.count() / steps}; // nanoseconds
    looking_ = ways_.ring->all_gather(row);
  }
  void end(const void* bucket, clock::time_point began) {
    const auto now = clock::now();
    if (steps_ >= look::warm && steps_ + 1 < look::sums)
      waited_ += now - began;
    if (!leads(bucket))
      return;
    ++steps_;
    if (steps_ == look::warm)
      first_ = now;
    else if (steps_ + 1 == look::sums)
      took_ = now - first_;
    else if (steps_ == look::sums)
      finish_look();
  }

private:
  bool leads(const void* bucket) const { return buckets_.front() == bucket; }

  /// As long as by the member that came to its waits last, which waits for no other.
  void finish_look() {
    const auto rows = std::exchange(looking_, nullptr)->wait();
    std::size_t last = 0;
    for (std::size_t i = 0; i < rows.size(); i += 2)
      last = rows[i] < rows[last] ? i : last;
    const double waited = 1e-9 * static_cast<double>(std::max<std::int64_t>(1, rows[last]));
    const form_load load{.members = members_, .items = floats_, .servers_time = ways_.servers_time};
    const bool before = by_servers();
    if (choice_.take(waited, 1e-9 * static_cast<double>(rows[last + 1]), load) && told_)
      told_(fmt::format("gradients by {} from now on: predicted to take {:.3f} ms per step; {} took {:.3f} ms",
                        name(by_servers()), 1e3 * choice_.predict(load).value_or(0), name(before), 1e3 * waited));
    begin_look();
  }

  void begin_look() {
    waited_ = took_ = {};
    steps_ = 0;
    looking_ = nullptr;
  }

  static const char* name(bool servers) { return servers ? "servers" : "the ring"; }

  const both_ways ways_;
  const std::uint32_t members_;
  const choice_teller told_;
  way_choice choice_;
  std::vector<const void*> buckets_; ///< in the order in which they were made, which is the same on all members
  std::size_t floats_ = 0;
  std::uint64_t steps_ = 0; ///< of the look
  clock::time_point first_; ///< when its first measured step began
  std::chrono::nanoseconds waited_{0};
  std::chrono::nanoseconds took_{0}; ///< all measured steps
  std::unique_ptr<gathering> looking_;
};

/// A ring's bucket, whose memory servers sum where these are faster.
class either_bucket final : public bucket {
public:
  either_bucket(std::shared_ptr<flat_bucket> flat, group& servers, std::shared_ptr<way_watch> watch, std::size_t floats)
      : flat_(std::move(flat)), servers_(servers), watch_(std::move(watch)), floats_(floats) {
    watch_->admit(this, floats_);
  }
  ~either_bucket() override { watch_->dismiss(this, floats_); }

  std::variant<std::span<float>, std::span<double>> gradients() override { return flat_->gradients(); }
  std::span<double> sums() override { return flat_->sums(); }
  void start() override {
    watch_->begin(this);
    if (watch_->by_servers())
      summing_ = servers_.sum(flat_->pack(), flat_, float_sum::in_order);
    else
      flat_->start();
  }
  void wait() override {
    const auto began = clock::now();
    if (summing_) {
      std::exchange(summing_, nullptr)->wait();
      flat_->unpack();
    } else {
      flat_->wait();
    }
    watch_->end(this, began);
  }

private:
  const std::shared_ptr<flat_bucket> flat_;
  group& servers_;
  const std::shared_ptr<way_watch> watch_;
  const std::size_t floats_;
  std::unique_ptr<pending> summing_;
};

class either_group final : public group {
public:
  either_group(std::unique_ptr<group> served, ring_group& ring, const summing_plan& plan, choice_teller told)
      : served_(std::move(served)),
        ring_(ring), ways_{.ring = &ring,
                           .servers = served_.get(),
                           .servers_time = plan.servers.seconds_per_byte / plan.servers.ring_seconds_per_byte,
                           .by_servers = plan.by_servers},
        watch_(std::make_shared<way_watch>(ways_, served_->size(), std::move(told))) {}

  std::uint32_t position() const override { return served_->position(); }
  std::uint32_t size() const override { return served_->size(); }
  std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) override {
    if (type == element::float64 || gradients * sizeof(float) < watched_bytes_min)
      return planned().make_bucket(type, gradients, sums);
    return std::make_unique<either_bucket>(ring_.make_flat_bucket(gradients, sums), *served_, watch_, gradients);
  }
  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override { return served_->all_gather(row); }
  std::unique_ptr<pending> combine(shared_words words, combining how) override {
    return planned().combine(std::move(words), how);
  }
  std::unique_ptr<pending> sum(std::span<float> floats, std::shared_ptr<void> owner, float_sum how) override {
    return planned().sum(floats, std::move(owner), how);
  }
  std::optional<both_ways> ways() override { return ways_; }
  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    return served_->exchange_blocks(std::move(blocks), std::move(into));
  }
  std::vector<std::uint8_t> broadcast(std::uint32_t root, std::span<const std::uint8_t> bytes) override {
    return served_->broadcast(root, bytes);
  }
  void leave(std::uint64_t word) noexcept override { served_->leave(word); }

private:
  group& planned() const { return ways_.by_servers ? *ways_.servers : *ways_.ring; }

  const std::unique_ptr<group> served_;
  ring_group& ring_; ///< which it owns
  const both_ways ways_;
  const std::shared_ptr<way_watch> watch_;
};

} // namespace

std::unique_ptr<group> choose_ways(std::unique_ptr<group> served, ring_group& ring, const summing_plan& plan,
                                   choice_teller told) {
  return std::make_unique<either_group>(std::move(served), ring, plan, std::move(told));
}

} // namespace dynamix::exchange
