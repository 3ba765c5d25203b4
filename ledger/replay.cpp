#include "ledger/replay.hpp"

#include "cluster/places.hpp"
#include "cluster/tree_plan.hpp"
#include "ledger/text.hpp"
#include "policy/deliberation.hpp"
#include "policy/state.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

namespace dynamix::ledger {
namespace {

constexpr double deviation_max = 1e-4;

std::string text_of(double number) {
  return fmt::format("{:.9g}", number);
}

/// The reports that the window was decided on, as the aggregator handed them over.
messages::shard_report shard_of(const ledger::window& window) {
  messages::shard_report shard{.window = window.key.window,
                               .generation = window.generation,
                               .reports = {},
                               .expected = static_cast<std::uint32_t>(window.workers.size()),
                               .gather_seconds = window.gather_seconds};
  for (const auto& worker : window.workers)
    shard.reports.push_back(worker.report);
  return shard;
}

/// What the shards of a tree told its root of the window.
messages::shard_window joined_of(const ledger::window& window, const ledger::tree& by) {
  auto shard = shard_of(window);
  messages::shard_window joined{.window = shard.window,
                                .generation = shard.generation,
                                .expected = shard.expected,
                                .gather_seconds = shard.gather_seconds,
                                .decide_seconds = window.decide_seconds,
                                .untrained = by.untrained,
                                .reports = std::move(shard.reports),
                                .choices = {},
                                .accounts = by.accounts};
  for (std::size_t i = 0; i < window.workers.size(); ++i) {
    const auto& worker = window.workers[i];
    joined.choices.push_back({.rank = worker.report.rank,
                              .key = {},
                              .assigned = worker.assigned_batch,
                              .batch = worker.decided_batch,
                              .proposed = worker.proposed_batch,
                              .vote = by.votes[i],
                              .acted = worker.action >= 0,
                              .log_probability = worker.log_probability,
                              .value = worker.value,
                              .state = worker.state,
                              .probabilities = worker.probabilities,
                              .reason = worker.reason});
  }
  return joined;
}

class replayer {
public:
  replayer(const cluster::cluster_file& file, const read_parameters& read)
      : file_(cluster::with_places(file)), tree_(!cluster::plan_tree(file_).central()),
        digest_(fmt::format("{:016x}", file.digest())), read_(read) {}

  replay_result run(const std::vector<ledger::row>& rows) {
    for (const auto& row : rows) {
      if (const auto* start = std::get_if<ledger::start>(&row.entry)) {
        state_fields_ = start->state_fields;
        if (judge_ && !file_.arbitrator.replicas.empty())
          continue; // of a replica that was restarted, while another decides
        begin_life("the ledger does not say with which parameters its arbitrator began: an older version wrote "
                   "it, or run.keep_ledger_mb has dropped its beginning");
      } else if (const auto* deciding = std::get_if<ledger::deciding>(&row.entry))
        begin_deciding(*deciding);
      else if (const auto* published = std::get_if<ledger::policy_version>(&row.entry))
        published_[published->version] = published->parameters;
      else if (const auto* window = std::get_if<ledger::window>(&row.entry))
        tree_ ? await_tree(window) : decide(*window);
      else if (const auto* by = std::get_if<ledger::tree>(&row.entry); by != nullptr && awaited_ != nullptr)
        decide(*std::exchange(awaited_, nullptr), *by);
      if (result_.first)
        break;
    }
    if (!result_.first)
      await_tree(nullptr);
    return std::move(result_);
  }

private:
  void begin_life(std::string impossible) {
    judge_.reset();
    published_.clear();
    impossible_ = std::move(impossible);
  }

  void begin_deciding(const ledger::deciding& deciding) {
    begin_life("");
    ++result_.lives;
    if (deciding.cluster_digest != digest_)
      return begin_life("these windows were decided under another cluster file than the run's cluster.toml");
    if (cluster::has_parameters(file_.arbitrator.policy) &&
        !std::ranges::equal(state_fields_, policy::state_fields(), {}, {}, &policy::state_field::name))
      return begin_life("another program decided them, in which policies see other fields of a worker");
    parameters_.clear();
    if (!deciding.parameters.empty())
      if (auto problem = read_(deciding.parameters, parameters_); !problem.empty())
        return begin_life(std::move(problem));
    try {
      judge_ = std::make_unique<policy::deliberation>(file_, policy::make_controller(file_, parameters_));
    } catch (const std::invalid_argument& misfit) {
      begin_life(misfit.what());
    }
  }

  /// The version that decided is adopted where it is newer than what is there.
  std::string adopt(policy::deliberation& judge, std::uint64_t version) const {
    if (version == judge.controller().version())
      return {};
    const auto published = published_.find(version);
    messages::policy_version wanted{.version = version, .parameters = {}};
    std::string problem = published == published_.end() || published->second.empty()
                              ? fmt::format("the ledger does not tell the parameters of policy version {}", version)
                              : read_(published->second, wanted.parameters);
    return problem.empty() ? judge.adopt(wanted) : problem;
  }

  void skip(const std::string& why) {
    if (result_.skipped++ == 0)
      result_.skipped_why = why;
  }

  /// What was known when the window was decided, the window aside. False: it cannot be decided again.
  bool prepare(const ledger::window& window) {
    if (!judge_)
      return false;
    if (auto problem = adopt(*judge_, window.policy_version); !problem.empty()) {
      begin_life(std::move(problem));
      return false;
    }
    judge_->raise_term(window.key.term);
    for (const auto rank : window.forgotten)
      judge_->forget(rank);
    return true;
  }

  void decide(const ledger::window& window) {
    if (!prepare(window))
      return skip(impossible_);
    const auto again = judge_->consider(shard_of(window));
    compare(window, again.window);
    ++result_.windows;
    result_.decisions += again.decisions.size();
  }

  // In a tree each shard decides by its reports and the guidance that it had then, and the root judges what came of it.

  void await_tree(const ledger::window* next) {
    if (std::exchange(awaited_, next) != nullptr)
      skip("an older version wrote the ledger, which does not say by what the shards of a tree decided");
  }

  static bool has_account(const ledger::tree& by, const ledger::worker& worker) {
    return std::ranges::any_of(by.accounts, [&](const messages::shard_account& account) {
      return std::ranges::binary_search(account.ranks, worker.report.rank);
    });
  }

  /// Where a worker went from shard to shard, its row tells what the last one decided.
  static const messages::shard_account* last_on(const ledger::tree& by, std::uint32_t rank) {
    const auto found = std::find_if(by.accounts.rbegin(), by.accounts.rend(), [rank](const auto& account) {
      return std::ranges::binary_search(account.ranks, rank);
    });
    return found == by.accounts.rend() ? nullptr : &*found;
  }

  void decide(const ledger::window& window, const ledger::tree& by) {
    if (by.votes.size() != window.workers.size())
      return skip("the ledger's row on what shards decided by is not of the window before it");
    key_ = window.key;
    guided_[{window.generation, window.key.window}] = &by.known;
    decided_by_[window.key] = &by;
    // Where an old report stands in, no shard need have decided; what one has decided too late shows once it is
    // applied.
    const bool accounted = std::ranges::all_of(window.workers, [&](const ledger::worker& worker) {
      const auto applied = decided_by_.find(worker.report.decision);
      return (worker.stale || has_account(by, worker)) &&
             (applied == decided_by_.end() || has_account(*applied->second, worker));
    });
    std::string unknown =
        accounted ? "" : "a shard's window reached the root too late, or its program is an older version";
    if (prepare(window)) {
      const auto again = judge_->join(joined_of(window, by));
      compare(window, again.window);
      compare(by.known, again.known);
    } else if (unknown.empty()) {
      unknown = impossible_;
    }
    for (const auto& account : by.accounts)
      if (auto problem = decide(window, by, account); unknown.empty())
        unknown = std::move(problem);
    if (!unknown.empty())
      return skip(unknown);
    ++result_.windows;
  }

  /// One shard's part. Why it cannot be decided again; empty: it was.
  std::string decide(const ledger::window& window, const ledger::tree& by, const messages::shard_account& account) {
    auto& shard = shards_[account.arbitrator];
    auto judge = std::exchange(shard.judge, nullptr); // gone, unless this window comes to its end
    if (account.decided == 1) {
      if (!judge_)
        return impossible_;
      judge = std::make_unique<policy::deliberation>(file_, policy::make_controller(file_, parameters_));
    } else if (!judge || account.decided != shard.decided + 1) {
      return "not every window of a shard reached the root in time, and what it decided later follows from all";
    }
    shard.decided = account.decided;
    messages::shard_report own{.window = window.key.window,
                               .generation = window.generation,
                               .reports = {},
                               .expected = static_cast<std::uint32_t>(account.ranks.size())};
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < window.workers.size(); ++i)
      if (std::ranges::binary_search(account.ranks, window.workers[i].report.rank)) {
        own.reports.push_back(window.workers[i].report);
        places.push_back(i);
      }
    if (places.size() != account.ranks.size())
      return "the ledger lacks a report that a shard decided on, since its worker was lost";
    if (auto problem = adopt(*judge, account.policy_version); !problem.empty())
      return problem;
    for (const auto rank : account.forgotten)
      judge->forget(rank);
    if (account.guided > 0) {
      const auto found = guided_.find({window.generation, account.guided});
      if (found == guided_.end())
        return "the ledger lacks the guidance by which a shard decided";
      auto known = *found->second;
      std::erase_if(known.workers,
                    [&](const auto& one) { return std::ranges::binary_search(account.unguided, one.rank); });
      judge->follow(std::move(known));
    }
    judge->enter(window.generation, account.ranks);
    const auto again = judge->decide(own);
    for (std::size_t i = 0; i < places.size(); ++i)
      if (&account == last_on(by, own.reports[i].rank))
        compare(window.workers[places[i]], by.votes[places[i]], again.window.choices[i]);
    result_.decisions += again.decisions.size();
    shard.judge = std::move(judge);
    return {};
  }

  template <class Value>
  void equal(const char* field, const std::string& host, const Value& ledger, const Value& made) {
    if (result_.first || ledger == made)
      return;
    if constexpr (std::is_same_v<Value, std::string>)
      result_.first = replay_difference{key_.term, key_.window, host, field, ledger, made};
    else
      result_.first =
          replay_difference{key_.term, key_.window, host, field, fmt::to_string(ledger), fmt::to_string(made)};
  }

  void close(const char* field, const std::string& host, double ledger, double made) {
    const double deviation = std::abs(ledger - made) / (1 + std::abs(ledger));
    if (deviation <= deviation_max)
      result_.deviation = std::max(result_.deviation, deviation);
    else if (!result_.first) // also where one is not a number
      result_.first = replay_difference{key_.term, key_.window, host, field, text_of(ledger), text_of(made)};
  }

  void close(const char* field, const std::string& host, const std::vector<float>& ledger,
             const std::vector<float>& made) {
    equal(fmt::format("length of {}", field).c_str(), host, ledger.size(), made.size());
    for (std::size_t i = 0; i < std::min(ledger.size(), made.size()); ++i)
      close(field, host, static_cast<double>(ledger[i]), static_cast<double>(made[i]));
  }

  void compare(const ledger::window& ledger, const ledger::window& made) {
    key_ = ledger.key;
    equal("term", "", ledger.key.term, made.key.term);
    equal("decided", "", ledger.decided, made.decided);
    equal("policy_version", "", ledger.policy_version, made.policy_version);
    for (std::size_t i = 0; i < ledger.workers.size(); ++i) {
      const auto& was = ledger.workers[i];
      const auto& is = made.workers[i];
      const auto& host = was.report.host;
      equal("assigned_batch", host, was.assigned_batch, is.assigned_batch);
      equal("action", host, was.action, is.action);
      equal("proposed_batch", host, was.proposed_batch, is.proposed_batch);
      equal("intervention", host, was.intervention, is.intervention);
      equal("decided_batch", host, was.decided_batch, is.decided_batch);
      close("state", host, was.state, is.state);
      close("probability", host, was.probabilities, is.probabilities);
      close("value", host, was.value, is.value);
      close("reward", host, was.reward.total, is.reward.total);
    }
  }

  void compare(const ledger::worker& was, std::int32_t vote, const messages::worker_choice& is) {
    const auto& host = was.report.host;
    equal("assigned_batch", host, was.assigned_batch, is.assigned);
    equal("vote", host, vote, is.vote);
    equal("action", host, was.action, is.acted ? is.vote : -1);
    equal("proposed_batch", host, was.proposed_batch, is.proposed);
    equal("decided_batch", host, was.decided_batch, is.batch);
    close("value", host, was.value, is.value);
    if (!was.state.empty()) // few travel in a large tree
      close("state", host, was.state, is.state);
    if (!was.probabilities.empty())
      close("probability", host, was.probabilities, is.probabilities);
  }

  void compare(const messages::guidance& was, const messages::guidance& is) {
    equal("intervention of the guidance", "", was.intervention, is.intervention);
    equal("ruled_total of the guidance", "", was.ruled_total, is.ruled_total);
    equal("target_seconds of the guidance", "", was.target_seconds, is.target_seconds);
    equal("equality of the guidance", "", true, was == is);
  }

  const cluster::cluster_file file_;
  const bool tree_;
  const std::string digest_;
  const read_parameters& read_;
  std::vector<std::string> state_fields_;          ///< of the life
  std::vector<std::uint8_t> parameters_;           ///< with which arbitrators begin
  std::unique_ptr<policy::deliberation> judge_;    ///< null: these windows cannot be decided again
  std::string impossible_;                         ///< why
  std::map<std::uint64_t, std::string> published_; ///< digests of this life, by version
  // Of a tree.
  struct shard {
    std::unique_ptr<policy::deliberation> judge; ///< null: what it decides from now on cannot be decided again
    std::uint64_t decided = 0;                   ///< windows
  };
  std::map<std::uint64_t, shard> shards_; ///< by what their arbitrators drew
  std::map<std::pair<std::uint64_t, std::uint64_t>, const messages::guidance*> guided_; ///< by generation and window
  std::map<messages::decision_key, const ledger::tree*> decided_by_;
  const ledger::window* awaited_ = nullptr; ///< the newest, whose row on the tree comes next
  messages::decision_key key_;
  replay_result result_;
};

} // namespace

replay_result replay(const std::vector<ledger::row>& rows, const cluster::cluster_file& file,
                     const read_parameters& read) {
  if (cluster::knows_truth(file.arbitrator.policy))
    return {.skipped = 1, .skipped_why = "an oracle looks into the simulation, which the ledger does not hold"};
  auto result = replayer(file, read).run(rows);
  result.by_workers = file.arbitrator.policy == cluster::policy_kind::stigmergic;
  return result;
}

std::string to_text(const replay_result& result) {
  std::string text;
  if (const auto& first = result.first)
    text += fmt::format("DIFFERENT in window {} (term {}){}: {} is {} in the ledger and {} when it is decided again.\n",
                        first->window, first->term, first->host.empty() ? "" : ", worker " + printable(first->host),
                        first->field, printable(first->ledger), printable(first->replay));
  else if (result.windows > 0 && result.by_workers)
    text +=
        fmt::format("Nobody decided: the workers chose their batch sizes by their paces, which the ledger "
                    "does not keep. What {} windows record of them and of their rewards was judged again, and is the "
                    "same.\n",
                    grouped(result.windows));
  else if (result.windows > 0)
    text +=
        fmt::format("The same: {} decisions of {} windows were made again, each with the batch size, the action and "
                    "the guard's answer of the ledger; {}.\n",
                    grouped(result.decisions), grouped(result.windows),
                    result.deviation == 0 ? "all numbers are equal to the bit"
                                          : "numbers deviate by at most " + text_of(result.deviation));
  if (result.lives > 1)
    text += fmt::format("Arbitrators began {} times, each with nothing measured.\n", grouped(result.lives));
  if (result.skipped > 0)
    text += fmt::format("NOT PROVEN: {} windows could not be decided again: {}.\n", grouped(result.skipped),
                        printable(result.skipped_why));
  return text.empty() ? "The ledger holds no window that could be decided again.\n" : text;
}

std::string to_json(const replay_result& result) {
  nlohmann::ordered_json object = {{"same", result.proven()},       {"lives", result.lives},
                                   {"windows", result.windows},     {"decisions", result.decisions},
                                   {"skipped", result.skipped},     {"skipped_why", result.skipped_why},
                                   {"deviation", result.deviation}, {"first_difference", nullptr}};
  if (const auto& first = result.first)
    object["first_difference"] = {{"term", first->term},   {"window", first->window}, {"host", first->host},
                                  {"field", first->field}, {"ledger", first->ledger}, {"replay", first->replay}};
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dynamix::ledger
