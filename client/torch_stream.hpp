#pragma once

/// Streams for a LibTorch loop that joins Dynamix: shards that are read from their beginning on (lines of text, tar
/// files, a service). Every item is dealt exactly once an epoch; header-only, over torch.hpp.
///
///     auto data = dynamix::make_stream(paths, open);
///     data.count(group);
///     auto run = dynamix::join(model->parameters(), optimizer,
///                              {.batch = 64, .samples = data.items(), .shuffle = false}, group);
///     auto loader = torch::data::make_data_loader(data.map(torch::data::transforms::Stack<>()),
///                                                 data.sampler(run, {.readers = 2}),
///                                                 torch::data::DataLoaderOptions().workers(2));
///
/// open(path) gives a function that gives the shard's next item, std::optional<Item>; count() is left out where the
/// stream was given the lengths of its shards. Each reader of each member leases a shard and reads it to its end. All
/// members follow all leases by the same plan, so batch sizes change, loaders fetch ahead and runs resume as with
/// numbered samples. Where no shard is left, a reader takes over the second half of the longest lease, so that no
/// member runs dry before an epoch's last step.

#include <ATen/CPUGeneratorImpl.h>

#include <condition_variable>
#include <deque>
#include <dynamix/torch.hpp>
#include <mutex>
#include <string_view>
#include <type_traits>

namespace dynamix {

/// Items `first` to `last` - 1 of a shard.
struct shard_range {
  std::uint64_t shard = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t size() const { return last - first; }
};

/// What a stream's sampler asks its data set for.
struct stream_batch {
  std::size_t reader = 0; ///< of this member
  std::uint64_t turn = 0; ///< of the reader's batches of this epoch, from 0
  std::uint64_t epoch = 0;
  std::vector<shard_range> ranges; ///< in the order in which they are read
  /// Items.
  std::size_t size() const {
    std::size_t items = 0;
    for (const auto& range : ranges)
      items += range.size();
    return items;
  }
};

struct stream_options {
  std::uint32_t readers = 1; ///< shards that this member has open at once: the data loader's workers, as a rule
  bool shuffle = true;       ///< the shards, anew in each epoch; items keep their order within a shard
  std::uint64_t seed = 0;    ///< of that; member 0's counts
  std::vector<std::uint64_t> from = {}; ///< a state of the stream to go on from, beside the run's
};

namespace detail {

/// FNV-1a.
class digest {
public:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3U; }
  void add(std::uint64_t word) {
    for (int byte = 0; byte < 8; ++byte, word >>= 8U)
      add_byte(static_cast<unsigned char>(word & 0xffU));
  }
  std::uint64_t value() const { return value_; }

private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

/// Which ranges are dealt next: pure, the same on all members.
class leases {
public:
  leases() = default;
  /// `readers`: of each member.
  leases(const std::vector<shard_range>& waiting, const std::vector<std::uint64_t>& readers)
      : waiting_(waiting.begin(), waiting.end()) {
    for (const auto count : readers)
      held_.emplace_back(count);
  }

  /// Items that are not dealt yet.
  std::uint64_t left() const {
    std::uint64_t items = 0;
    for (const auto& range : ranges())
      items += range.size();
    return items;
  }

  /// Steps dealt.
  std::uint64_t turn() const { return turn_; }

  /// Deals the next step: `shares` of each member. Returns the ranges of `member`.
  std::vector<shard_range> take(const std::vector<std::uint32_t>& shares, std::size_t member) {
    std::vector<shard_range> own;
    for (std::size_t i = 0; i < held_.size(); ++i) {
      auto& held = held_[i][turn_ % held_[i].size()];
      for (std::uint64_t share = shares[i]; share > 0;) {
        if (held.size() == 0)
          held = lease(share);
        const auto taken = std::min(share, held.size());
        if (i == member)
          own.push_back({held.shard, held.first, held.first + taken});
        held.first += taken;
        share -= taken;
      }
    }
    ++turn_;
    return own;
  }

  /// What readers hold (empty where one holds nothing), and behind it what waits.
  std::vector<shard_range> ranges() const {
    std::vector<shard_range> all;
    for (const auto& member : held_)
      all.insert(all.end(), member.begin(), member.end());
    all.insert(all.end(), waiting_.begin(), waiting_.end());
    return all;
  }

  /// Of `ranges` as they were given by leases of `readers`.
  static leases restored(const std::vector<shard_range>& ranges, const std::vector<std::uint64_t>& readers,
                         std::uint64_t turn) {
    leases made({}, readers);
    auto next = ranges.begin();
    for (auto& member : made.held_)
      for (auto& held : member)
        held = *next++;
    made.waiting_.assign(next, ranges.end());
    made.turn_ = turn;
    return made;
  }

private:
  shard_range lease(std::uint64_t wanted) {
    if (!waiting_.empty()) {
      const auto next = waiting_.front();
      waiting_.pop_front();
      return next;
    }
    shard_range* longest = nullptr;
    for (auto& member : held_)
      for (auto& held : member)
        if (held.size() > 0 && (longest == nullptr || held.size() > longest->size()))
          longest = &held;
    if (longest == nullptr)
      throw error("a stream has fewer items left than are dealt");
    const auto size = longest->size();
    const auto middle = longest->last - std::max((size + 1) / 2, std::min(size, wanted));
    return {longest->shard, middle, std::exchange(longest->last, middle)};
  }

  std::deque<shard_range> waiting_;
  std::vector<std::vector<shard_range>> held_;
  std::uint64_t turn_ = 0;
};

/// What all members have to give alike.
struct stream_identity {
  std::vector<std::uint64_t> lengths; ///< of the shards, items
  std::uint64_t digest = 0;           ///< of them, and of the shards' names
};

/// A stream as one member deals it: how far it is dealt, and how far training has come.
class dealing {
public:
  /// All members make theirs at the same place. Throws on all of them where they do not deal alike.
  dealing(std::shared_ptr<session> of, stream_identity identity, const stream_options& options)
      : session_(std::move(of)), identity_(std::move(identity)), position_(static_cast<std::size_t>(group().rank)) {
    constexpr int columns = 5;
    auto row = torch::zeros({columns}, torch::kInt64);
    auto* own = row.data_ptr<std::int64_t>();
    own[0] = std::max(options.readers, 1U);
    own[1] = static_cast<std::int64_t>(options.seed);
    own[2] = options.shuffle ? 1 : 0;
    own[3] = static_cast<std::int64_t>(identity_.digest);
    digest state; // where it is the same on all members, all of them can go on from it or none
    for (const auto word : options.from)
      state.add(word);
    own[4] = static_cast<std::int64_t>(state.value());
    const auto rows = group().all_gather(row);
    const auto* said = rows.data_ptr<std::int64_t>();
    for (int member = 0; member < group().size; ++member, said += columns) {
      if (said[3] != own[3])
        throw error("the members' shards or their lengths differ: give all members the same list in the same order");
      if (said[2] != own[2])
        throw error("some members shuffle the shards and others do not: pass the same shuffle everywhere");
      if (said[4] != own[4])
        throw error("the members go on from different states of the stream, or some of them from none: give all "
                    "members the one of the same checkpoint (stream_options::from)");
      readers_.push_back(static_cast<std::uint64_t>(said[0]));
    }
    seed_ = static_cast<std::uint64_t>(rows.data_ptr<std::int64_t>()[1]);
    shuffle_ = options.shuffle;
    if (!options.from.empty())
      restore(options.from);
  }

  std::size_t readers() const { return readers_[position_]; }

  /// The session's epoch begins, or goes on.
  void start_epoch() {
    session_->start_epoch();
    const auto now = session_->status();
    completed(now.step);
    if (now.cursor == 0)
      done_ = of_epoch(now.epoch);
    const auto left = items() - now.cursor;
    if (done_.left() != left)
      throw error(std::to_string(done_.left()) + " items are leased or waiting, and " + std::to_string(left) +
                  " are to be dealt: restore the state of the stream beside the run's (stream_options::from)");
    head_ = done_;
    ahead_.clear();
    turns_.assign(readers(), 0);
  }

  std::optional<stream_batch> next() {
    const auto deal = session_->deal_next();
    if (!deal)
      return std::nullopt;
    const auto shares = session_->shares();
    completed(session_->status().step);
    stream_batch batch;
    batch.reader = head_.turn() % readers();
    batch.turn = turns_[batch.reader]++;
    batch.epoch = deal->epoch;
    batch.ranges = head_.take(shares, position_);
    ahead_.emplace_back(deal->step, shares);
    if (batch.ranges.empty()) // no batch can be; this one does not count
      batch.ranges.push_back({first_filled(), 0, 1});
    return batch;
  }

  /// Behind the last completed step; the same on all members.
  std::vector<std::uint64_t> state() {
    completed(session_->status().step);
    std::vector<std::uint64_t> words{identity_.digest, done_.turn(), readers_.size()};
    words.insert(words.end(), readers_.begin(), readers_.end());
    for (const auto& range : done_.ranges())
      words.insert(words.end(), {range.shard, range.first, range.last});
    return words;
  }

private:
  const process_group& group() const { return session_->group(); }

  std::uint64_t items() const {
    std::uint64_t sum = 0;
    for (const auto length : identity_.lengths)
      sum += length;
    return sum;
  }

  std::uint64_t first_filled() const {
    const auto filled = [](std::uint64_t length) { return length > 0; };
    return static_cast<std::uint64_t>(std::find_if(identity_.lengths.begin(), identity_.lengths.end(), filled) -
                                      identity_.lengths.begin());
  }

  leases of_epoch(std::uint64_t epoch) const {
    const auto count = static_cast<std::int64_t>(identity_.lengths.size());
    auto order = torch::arange(count, torch::kInt64);
    if (shuffle_)
      order = torch::randperm(count, at::detail::createCPUGenerator(seed_ + epoch), torch::kInt64);
    std::vector<shard_range> waiting;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto shard = static_cast<std::uint64_t>(order.data_ptr<std::int64_t>()[i]);
      if (identity_.lengths[shard] > 0)
        waiting.push_back({shard, 0, identity_.lengths[shard]});
    }
    return leases(waiting, readers_);
  }

  void completed(std::uint64_t step) {
    for (; !ahead_.empty() && ahead_.front().first < step; ahead_.pop_front())
      done_.take(ahead_.front().second, position_);
  }

  /// Other readers lease anew what those of the state held.
  void restore(const std::vector<std::uint64_t>& words) {
    constexpr std::size_t head = 3;
    const std::size_t members = words.size() >= head ? words[2] : words.size();
    if (words.size() < head || members > words.size() - head || (words.size() - head - members) % 3 != 0 ||
        words[0] != identity_.digest)
      throw error("this state is of other shards: give those that it was saved with, in the same order");
    const auto behind = words.begin() + static_cast<std::ptrdiff_t>(head + members);
    const std::vector<std::uint64_t> readers(words.begin() + head, behind);
    std::uint64_t held = 0;
    for (const auto count : readers)
      held += count;
    std::vector<shard_range> ranges;
    for (auto word = behind; word != words.end(); word += 3) {
      if (word[1] > word[2] || word[0] >= identity_.lengths.size() || word[2] > identity_.lengths[word[0]])
        throw error("this state of a stream is damaged");
      ranges.push_back({word[0], word[1], word[2]});
    }
    if (readers == readers_ && held <= ranges.size()) {
      done_ = leases::restored(ranges, readers_, words[1]);
      return;
    }
    const auto empty = [](const shard_range& range) { return range.size() == 0; };
    ranges.erase(std::remove_if(ranges.begin(), ranges.end(), empty), ranges.end());
    done_ = leases(ranges, readers_);
  }

  std::shared_ptr<session> session_;
  stream_identity identity_;
  std::size_t position_;
  std::vector<std::uint64_t> readers_; ///< of each member
  std::uint64_t seed_ = 0;
  bool shuffle_ = true;
  leases done_;                                                            ///< behind the last completed step
  leases head_;                                                            ///< behind the last deal
  std::deque<std::pair<std::uint64_t, std::vector<std::uint32_t>>> ahead_; ///< step and shares of the deals between
  std::vector<std::uint64_t> turns_;                                       ///< of each reader of this member
};

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
      throw error("shard " + std::to_string(shard_) + " ended behind " + std::to_string(position_) + " items, not " +
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
  stream_sampler(std::shared_ptr<detail::dealing> dealing, std::function<void()> restart_readers)
      : dealing_(std::move(dealing)), restart_readers_(std::move(restart_readers)) {}

  void reset(torch::optional<std::size_t> = torch::nullopt) override {
    restart_readers_(); // a loader begins an epoch when nothing is being read
    dealing_->start_epoch();
  }
  torch::optional<stream_batch> next(std::size_t) override {
    auto batch = dealing_->next();
    if (!batch)
      return torch::nullopt;
    return std::move(*batch);
  }
  /// `stream::state` has it.
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

private:
  std::shared_ptr<detail::dealing> dealing_;
  std::function<void()> restart_readers_;
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

  /// Of an epoch.
  std::uint64_t items() const {
    std::uint64_t sum = 0;
    for (const auto length : shared_->lengths)
      sum += length;
    return sum;
  }

  /// To be given to one data loader. On all members at the same place.
  stream_sampler sampler(const run& of, const stream_options& options = {}) {
    if (of.session()->options().shuffle)
      throw error("a stream shuffles its shards by itself: join with .shuffle = false, and let stream_options say it");
    if (of.session()->options().samples != items())
      throw error("the stream has " + std::to_string(items()) +
                  " items, and the run was joined with .samples = " + std::to_string(of.session()->options().samples));
    shared_->dealing =
        std::make_shared<detail::dealing>(of.session(), detail::stream_identity{shared_->lengths, digest()}, options);
    shared_->readers.clear();
    for (std::size_t i = 0; i < shared_->dealing->readers(); ++i)
      shared_->readers.push_back(std::make_unique<detail::shard_reader<Item>>());
    return stream_sampler(shared_->dealing, [all = shared_] {
      for (auto& reader : all->readers)
        reader->restart();
    });
  }

  /// The state behind the last completed step, for a checkpoint beside the run's; the same on all members.
  std::vector<std::uint64_t> state() const {
    if (!shared_->dealing)
      throw error("make the stream's sampler first");
    return shared_->dealing->state();
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
  torch::optional<std::size_t> size() const override { return items(); }

private:
  struct shared {
    std::vector<Shard> shards;
    open_shard open;
    std::vector<std::uint64_t> lengths;
    std::shared_ptr<detail::dealing> dealing;
    std::vector<std::unique_ptr<detail::shard_reader<Item>>> readers;
  };

  /// Directories may have other names on other hosts.
  std::uint64_t digest() const {
    detail::digest hash;
    for (const auto length : shared_->lengths)
      hash.add(length);
    if constexpr (std::is_convertible_v<const Shard&, std::string_view>)
      for (const auto& shard : shared_->shards) {
        const std::string_view path = shard;
        for (const char letter : path.substr(path.rfind('/') + 1))
          hash.add_byte(static_cast<unsigned char>(letter));
        hash.add_byte(0);
      }
    return hash.value();
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
