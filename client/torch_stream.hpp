#pragma once

/// Streams for a LibTorch loop that joins Dynamix: shards that are read from their beginning on (lines of text, tar
/// files, a service). Every item is dealt exactly once an epoch; header-only, over torch.hpp.
///
///     auto data = dynamix::make_stream(paths, open);
///     data.count(group);
///     auto run = dynamix::join(model->parameters(), optimizer,
///                              {.batch = 64, .shards = data.shards(), .readers = 2}, group);
///     auto loader = torch::data::make_data_loader(data.map(torch::data::transforms::Stack<>()), data.sampler(run),
///                                                 torch::data::DataLoaderOptions().workers(2));
///
/// open(path) gives a function that gives the shard's next item, std::optional<Item>; count() is left out where the
/// stream was given the lengths of its shards. Each reader of each member leases a shard and reads it to its end. All
/// members follow all leases by the same plan (client/leases.hpp), so batch sizes change, loaders fetch ahead and runs
/// resume as with numbered samples. Where no shard is left, a reader takes over the second half of the longest lease,
/// so that no member runs dry before an epoch's last step.

#include <condition_variable>
#include <dynamix/torch.hpp>
#include <map>
#include <mutex>
#include <string_view>
#include <type_traits>

namespace dynamix {

/// What a stream's sampler asks its data set for.
struct stream_batch {
  std::size_t reader = 0; ///< of this member
  std::uint64_t turn = 0; ///< of the reader's batches of this epoch, from 0
  std::uint64_t epoch = 0;
  std::vector<dynamix_range> ranges; ///< in the order in which they are read
  /// Items.
  std::size_t size() const {
    std::size_t items = 0;
    for (const auto& range : ranges)
      items += range.last - range.first;
    return items;
  }
};

namespace detail {

/// One shard, which is read by whichever worker of a data loader has the next batch of it.
template <class Item>
class shard_reader {
public:
  using next_item = std::function<std::optional<Item>()>;

  /// Nothing is being read.
  void restart() { turn_ = 0; }

  /// Calls `read` with this reader, behind the batches that were dealt before.
  template <class Read>
  void take_turn(std::uint64_t turn, Read read) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == turn; });
    struct ending {
      shard_reader& of;
      ~ending() {
        ++of.turn_;
        of.changed_.notify_all();
      }
    };
    const ending at_end{*this};
    read(*this);
  }

  /// `open` is called where the item does not lie ahead in what is open.
  template <class Open>
  Item item(std::uint64_t epoch, std::uint64_t shard, std::uint64_t number, std::uint64_t length, Open open) {
    if (!next_ || epoch_ != epoch || shard_ != shard || number < position_) {
      next_ = open();
      epoch_ = epoch;
      shard_ = shard;
      position_ = 0;
    }
    while (position_ < number)
      advance(length);
    Item found = advance(length);
    if (position_ == length && std::exchange(next_, nullptr)())
      throw error("shard " + std::to_string(shard) + " has more items than the " + std::to_string(length) +
                  " that were counted or given: it has to give the same ones each time");
    return found;
  }

private:
  Item advance(std::uint64_t length) {
    auto found = next_();
    if (!found) {
      next_ = nullptr;
      throw error("shard " + std::to_string(shard_) + " ended after " + std::to_string(position_) + " items, not " +
                  std::to_string(length) + " as counted or given: it has to give the same ones each time");
    }
    ++position_;
    return std::move(*found);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t turn_ = 0;
  next_item next_; ///< null where nothing is open
  std::uint64_t epoch_ = 0;
  std::uint64_t shard_ = 0;
  std::uint64_t position_ = 0; ///< item that is read next
};

} // namespace detail

/// Deals each member its part of a stream: for torch::data::make_data_loader, whose batch size then does not count.
class stream_sampler : public torch::data::samplers::Sampler<stream_batch> {
public:
  stream_sampler(std::shared_ptr<detail::session> of, std::function<void()> restart_readers)
      : session_(std::move(of)), restart_readers_(std::move(restart_readers)) {}

  void reset(torch::optional<std::size_t> = torch::nullopt) override {
    restart_readers_(); // a loader begins an epoch when nothing is being read
    session_->start_epoch();
    turns_.clear();
  }
  torch::optional<stream_batch> next(std::size_t) override {
    const auto deal = session_->deal_next();
    if (!deal)
      return torch::nullopt;
    return stream_batch{deal->lane, turns_[deal->lane]++, deal->epoch, session_->ranges(deal->ranges)};
  }
  /// A run saves and restores itself.
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

private:
  std::shared_ptr<detail::session> session_;
  std::function<void()> restart_readers_;
  std::map<std::uint32_t, std::uint64_t> turns_; ///< of each reader
};

/// The data set. Copies of it, as each worker of a data loader has one, read together. `open` is called by the
/// loader's workers, several at a time, and what it gives by one at a time; each time it gives the same items of a
/// shard in the same order.
template <class Shard, class Item>
class stream : public torch::data::datasets::BatchDataset<stream<Shard, Item>, std::vector<Item>, stream_batch> {
public:
  using next_item = typename detail::shard_reader<Item>::next_item;
  using open_shard = std::function<next_item(const Shard&)>;

  /// `shards` (names, paths, numbers) in the same order on all members; `lengths`: how many items each has, for
  /// streams that are not counted.
  stream(std::vector<Shard> shards, open_shard open, std::vector<std::uint64_t> lengths = {})
      : shared_(std::make_shared<shared>()) {
    if (!lengths.empty() && lengths.size() != shards.size())
      throw error(std::to_string(lengths.size()) + " lengths for " + std::to_string(shards.size()) +
                  " shards: give how many items each has");
    shared_->shards = std::move(shards);
    shared_->open = std::move(open);
    shared_->lengths = std::move(lengths);
  }

  /// Reads through all shards once to count their items, each member its part. On all members at the same place; throws
  /// on all of them where one cannot read its part.
  void count(const process_group& group = {}) {
    const auto shards = shared_->shards.size();
    const auto each = group.all_gather(torch::full({1}, static_cast<std::int64_t>(shards), torch::kInt64));
    if (!each.eq(static_cast<std::int64_t>(shards)).all().template item<bool>())
      throw error("the members have different numbers of shards: give all members the same list in the same order");
    auto counts = torch::zeros({static_cast<std::int64_t>(shards) + 1}, torch::kInt64); // the last one: failures
    auto* numbers = counts.data_ptr<std::int64_t>();
    std::string problem = "another member could not read its shards to count their items";
    try {
      for (auto shard = static_cast<std::size_t>(group.rank); shard < shards;
           shard += static_cast<std::size_t>(group.size))
        for (auto next = shared_->open(shared_->shards[shard]); next();)
          ++numbers[shard];
    } catch (const std::exception& found) {
      problem = std::string("the shards could not be read to count their items: ") + found.what();
      numbers[shards] = 1;
    }
    group.all_reduce_sum(counts);
    numbers = counts.data_ptr<std::int64_t>();
    if (numbers[shards] != 0)
      throw error(problem);
    shared_->lengths.assign(numbers, numbers + shards);
  }

  /// To join with.
  stream_shards shards() const { return {shared_->lengths, identity()}; }

  /// To be given to one data loader.
  stream_sampler sampler(const run& of) {
    const auto& joined = of.session()->options();
    if (!(joined.shards == shards()))
      throw error("the run was joined with other shards: join with .shards = data.shards()");
    shared_->readers.clear();
    for (std::uint32_t i = 0; i < std::max(joined.readers, 1U); ++i)
      shared_->readers.push_back(std::make_unique<detail::shard_reader<Item>>());
    return stream_sampler(of.session(), [all = shared_] {
      for (auto& reader : all->readers)
        reader->restart();
    });
  }

  std::vector<Item> get_batch(stream_batch batch) override {
    std::vector<Item> items;
    items.reserve(batch.size());
    shared_->readers[batch.reader]->take_turn(batch.turn, [&](detail::shard_reader<Item>& reader) {
      for (const auto& range : batch.ranges)
        for (auto number = range.first; number < range.last; ++number)
          items.push_back(reader.item(batch.epoch, range.shard, number, shared_->lengths[range.shard],
                                      [&] { return shared_->open(shared_->shards[range.shard]); }));
    });
    return items;
  }
  /// Of an epoch.
  torch::optional<std::size_t> size() const override {
    return std::accumulate(shared_->lengths.begin(), shared_->lengths.end(), std::size_t{0});
  }

private:
  struct shared {
    std::vector<Shard> shards;
    open_shard open;
    std::vector<std::uint64_t> lengths;
    std::vector<std::unique_ptr<detail::shard_reader<Item>>> readers;
  };

  /// FNV-1a of the shards' names, where they have some. Directories may have other names on other hosts.
  std::uint64_t identity() const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    const auto add = [&hash](char letter) { hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U; };
    if constexpr (std::is_convertible_v<const Shard&, std::string_view>)
      for (const auto& shard : shared_->shards) {
        const std::string_view path = shard;
        for (const char letter : path.substr(path.rfind('/') + 1))
          add(letter);
        add(0);
      }
    return hash;
  }

  std::shared_ptr<shared> shared_;
};

/// A stream of `shards`; `open` takes one of them and returns a function without arguments that returns
/// std::optional<Item>, its next item.
template <class Shard, class Open>
auto make_stream(std::vector<Shard> shards, Open open, std::vector<std::uint64_t> lengths = {}) {
  using next_item = std::invoke_result_t<Open&, const Shard&>;
  using item = typename std::invoke_result_t<next_item&>::value_type;
  return stream<Shard, item>(std::move(shards), std::move(open), std::move(lengths));
}

} // namespace dynamix
