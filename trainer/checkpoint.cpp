#include "trainer/checkpoint.hpp"

#include "storage/atomic_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <iterator>
#include <map>
#include <numeric>
#include <type_traits>
#include <utility>

namespace dynamix::trainer {
namespace {

constexpr auto format = "dynamix-checkpoint-1";
const std::string model_prefix = "model/";
const std::string optimizer_prefix = "optimizer/";
const std::string average_prefix = "average/";
const std::string file_prefix = "checkpoint-";
const std::string file_suffix = ".safetensors";

/// Every number of a checkpoint under its name in the file, for writing and for reading.
template <class Archive, class Checkpoint>
void visit_numbers(Archive& archive, Checkpoint& state) {
  archive.field("seed", state.seed);
  archive.field("step", state.step);
  archive.field("samples", state.samples);
  archive.field("sampler.epoch", state.sampler.epoch);
  archive.field("sampler.cursor", state.sampler.cursor);
  archive.field("epoch_samples", state.epoch_samples);
  archive.field("learning_rate.progress", state.learning_rate.progress);
  archive.field("learning_rate.trace.sum", state.learning_rate.trace.sum);
  archive.field("learning_rate.trace.weight", state.learning_rate.trace.weight);
  archive.field("learning_rate.gradient_square.sum", state.learning_rate.gradient_square.sum);
  archive.field("learning_rate.gradient_square.weight", state.learning_rate.gradient_square.weight);
  archive.field("noise.steps", state.noise.steps);
  archive.field("noise.trace.sum", state.noise.trace.sum);
  archive.field("noise.trace.weight", state.noise.trace.weight);
  archive.field("noise.gradient_square.sum", state.noise.gradient_square.sum);
  archive.field("noise.gradient_square.weight", state.noise.gradient_square.weight);
  archive.field("noise.global_square.sum", state.noise.global_square.sum);
  archive.field("noise.global_square.weight", state.noise.global_square.weight);
  archive.field("decision.term", state.decision.term);
  archive.field("decision.window", state.decision.window);
  archive.field("window", state.window);
  archive.field("elapsed_seconds", state.elapsed_seconds);
  archive.field("best_accuracy", state.best_accuracy);
  archive.field("seconds_to_target", state.seconds_to_target);
}

/// Those that earlier versions did not write; what `state` holds then stands.
template <class Archive, class Checkpoint>
void visit_later_numbers(Archive& archive, Checkpoint& state) {
  archive.optional_field("evaluated_samples", state.evaluated_samples);
  archive.optional_field("checkpointed_samples", state.checkpointed_samples);
  archive.optional_field("accuracy", state.accuracy);
  archive.optional_field("stale_evaluations", state.stale_evaluations);
  archive.optional_field("learning_rate.last", state.rate.learning_rate);
  archive.optional_field("learning_rate.gain", state.rate.gain);
  archive.optional_field("noise.share.sum", state.noise.share.sum);
  archive.optional_field("noise.share.weight", state.noise.share.weight);
  archive.optional_field("noise.batch", state.noise.batch);
}

struct number_writer {
  std::map<std::string, std::string>& metadata;

  /// The shortest text that reads back as the same bits.
  template <class Number>
  void field(const char* name, Number value) {
    char text[32];
    metadata[name] = std::string(text, std::to_chars(text, std::end(text), value).ptr);
  }
  template <class Number>
  void optional_field(const char* name, Number value) {
    field(name, value);
  }
};

struct number_reader {
  const std::map<std::string, std::string>& metadata;
  std::string problem;

  template <class Number>
  void field(const std::string& name, Number& value) {
    if (!problem.empty())
      return;
    const auto entry = metadata.find(name);
    if (entry == metadata.end()) {
      problem = "it has no entry \"" + name + "\"";
      return;
    }
    const auto& text = entry->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = error == std::errc{} && end == text.data() + text.size();
    if constexpr (std::is_floating_point_v<Number>)
      good = good && std::isfinite(value);
    if (!good)
      problem = "its entry \"" + name + "\" is \"" + text + "\", expected " +
                (std::is_floating_point_v<Number> ? "a finite number" : "a whole number");
  }
  template <class Number>
  void optional_field(const std::string& name, Number& value) {
    if (metadata.contains(name))
      field(name, value);
  }
};

bool is_weight(double weight) {
  return weight >= 0 && weight <= 1;
}

std::string check_numbers(const checkpoint& state) {
  if (state.epoch_samples == 0 || state.sampler.cursor >= state.epoch_samples)
    return fmt::format("its sampler stands at sample {} of an epoch of {}", state.sampler.cursor, state.epoch_samples);
  if (state.elapsed_seconds < 0 || state.learning_rate.progress < 0)
    return "its elapsed seconds or its progress are negative";
  if (state.best_accuracy < 0 || state.best_accuracy > 1)
    return fmt::format("its best accuracy is {}, expected 0 to 1", state.best_accuracy);
  if (state.evaluated_samples > state.samples || state.checkpointed_samples > state.samples)
    return "it was evaluated or written beyond its last sample";
  if (!is_weight(state.learning_rate.trace.weight) || !is_weight(state.learning_rate.gradient_square.weight) ||
      !is_weight(state.noise.trace.weight) || !is_weight(state.noise.gradient_square.weight) ||
      !is_weight(state.noise.global_square.weight) || !is_weight(state.noise.share.weight))
    return "the weight of one of its averages is outside 0 to 1";
  if (!(state.noise.share.sum >= 0) || state.noise.share.sum > state.noise.share.weight || !(state.noise.batch >= 0))
    return "its share of noise is outside 0 to 1";
  return {};
}

storage::tensor_record whole_numbers(const std::string& name, const std::vector<std::uint32_t>& numbers) {
  const std::vector<std::int64_t> values(numbers.begin(), numbers.end());
  storage::tensor_record record{name, storage::element_type::i64, {static_cast<std::int64_t>(values.size())}, {}};
  record.data.resize(values.size() * sizeof(std::int64_t));
  std::memcpy(record.data.data(), values.data(), record.data.size());
  return record;
}

/// `what` says what the numbers are: "batch size".
std::string read_whole_numbers(const storage::tensor_record& record, const std::string& what, std::uint32_t highest,
                               std::vector<std::uint32_t>& numbers) {
  std::vector<std::int64_t> values(record.data.size() / sizeof(std::int64_t));
  if (record.type != storage::element_type::i64 || values.empty() || values.size() > messages::max_workers)
    return fmt::format("its {}s are not 1 to {} whole numbers", what, messages::max_workers);
  std::memcpy(values.data(), record.data.data(), record.data.size());
  for (const auto value : values)
    if (value < 0 || value > highest)
      return fmt::format("it has a {} of {}, expected 0 to {}", what, value, highest);
  numbers.assign(values.begin(), values.end());
  return {};
}

/// The ranks that the batch sizes belong to, those of an earlier version filled in.
std::string check_members(checkpoint& state) {
  if (state.members.empty()) {
    state.members.resize(state.batches.size());
    std::iota(state.members.begin(), state.members.end(), 0U);
  }
  if (state.members.size() != state.batches.size())
    return fmt::format("it has {} batch sizes for {} members", state.batches.size(), state.members.size());
  if (std::ranges::adjacent_find(state.members, std::ranges::greater_equal{}) != state.members.end())
    return "its members are not in ascending order";
  return {};
}

std::string take_tensors(storage::tensor_file& file, checkpoint& state) {
  for (auto& record : file.tensors) {
    if (record.name.starts_with(model_prefix)) {
      record.name.erase(0, model_prefix.size());
      state.model.push_back(std::move(record));
    } else if (record.name.starts_with(optimizer_prefix)) {
      record.name.erase(0, optimizer_prefix.size());
      state.optimizer.push_back(std::move(record));
    } else if (record.name.starts_with(average_prefix)) {
      record.name.erase(0, average_prefix.size());
      state.average.push_back(std::move(record));
    } else if (record.name == "batches") {
      if (auto problem = read_whole_numbers(record, "batch size", messages::max_batch, state.batches); !problem.empty())
        return problem;
    } else if (record.name == "members") {
      if (auto problem = read_whole_numbers(record, "rank", messages::max_workers - 1, state.members); !problem.empty())
        return problem;
    } else {
      return "it has an unknown tensor \"" + record.name + "\"";
    }
  }
  return state.batches.empty() ? "it has no batch sizes" : check_members(state);
}

std::string without(const std::string& name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

/// The step in a checkpoint's file name: checkpoint-<step>.safetensors, or with -<more> behind the step.
bool step_of(const std::string& name, std::uint64_t& step) {
  if (!name.starts_with(file_prefix) || !name.ends_with(file_suffix))
    return false;
  const char* first = name.data() + file_prefix.size();
  const char* last = name.data() + name.size() - file_suffix.size();
  const auto [end, error] = std::from_chars(first, last, step);
  return error == std::errc{} && (end == last || *end == '-');
}

} // namespace

std::vector<std::uint8_t> encode(const checkpoint& state) {
  storage::tensor_file file;
  file.metadata["format"] = format;
  number_writer writer{file.metadata};
  visit_numbers(writer, state);
  visit_later_numbers(writer, state);
  for (const auto& record : state.model)
    file.tensors.push_back({model_prefix + record.name, record.type, record.shape, record.data});
  for (const auto& record : state.optimizer)
    file.tensors.push_back({optimizer_prefix + record.name, record.type, record.shape, record.data});
  for (const auto& record : state.average)
    file.tensors.push_back({average_prefix + record.name, record.type, record.shape, record.data});
  file.tensors.push_back(whole_numbers("batches", state.batches));
  if (!state.members.empty())
    file.tensors.push_back(whole_numbers("members", state.members));
  return storage::encode(file);
}

std::string decode(std::span<const std::uint8_t> bytes, checkpoint& state) {
  storage::tensor_file file;
  if (auto problem = storage::decode(bytes, file); !problem.empty())
    return problem;
  if (const auto found = file.metadata.find("format"); found == file.metadata.end() || found->second != format)
    return "it is a tensor file, but no checkpoint of this version (expected the format \"" + std::string(format) +
           "\")";
  checkpoint read;
  number_reader reader{file.metadata, {}};
  visit_numbers(reader, read);
  read.evaluated_samples = read.checkpointed_samples = read.samples;
  read.accuracy = read.best_accuracy;
  visit_later_numbers(reader, read);
  if (!reader.problem.empty())
    return reader.problem;
  if (auto problem = check_numbers(read); !problem.empty())
    return problem;
  if (auto problem = take_tensors(file, read); !problem.empty())
    return problem;
  state = std::move(read);
  return {};
}

std::string checkpoint_path(const std::string& directory, std::uint64_t step, const std::string& host) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%012llu", static_cast<unsigned long long>(step));
  return directory + "/" + file_prefix + digits + (host.empty() ? "" : "-" + host) + file_suffix;
}

std::string write_checkpoint(const std::string& path, const checkpoint& state, const storage::file_writer& write) {
  return write(path, encode(state));
}

std::string read_checkpoint(const std::string& path, checkpoint& state) {
  std::string contents;
  if (auto problem = storage::read_file(path, checkpoint_bytes_max, contents); !problem.empty())
    return problem;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(contents.data());
  if (auto problem = decode({bytes, contents.size()}, state); !problem.empty())
    return path + " cannot be used as a checkpoint: " + problem;
  return {};
}

std::vector<std::string> checkpoints_up_to(const std::string& directory, std::uint64_t step, const std::string& host) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    if (std::uint64_t of = 0; step_of(entry->path().filename().string(), of) && of <= step)
      if (auto path = entry->path().string(); path == checkpoint_path(directory, of, host))
        found.emplace_back(of, std::move(path));
  std::ranges::sort(found);
  std::vector<std::string> paths;
  for (auto& [of, path] : found)
    paths.push_back(std::move(path));
  return paths;
}

std::vector<unfinished_checkpoint> unfinished_checkpoints(const std::string& directory) {
  std::vector<unfinished_checkpoint> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto own = entry->path().filename().string();
    auto name = without(own, storage::former_signature_suffix);
    if (name == own)
      name = without(std::string(storage::name_of_unfinished(own)), storage::signature_suffix);
    if (unfinished_checkpoint torn{.path = entry->path().string(), .of = directory + "/" + name};
        step_of(name, torn.step))
      found.push_back(std::move(torn));
  }
  return found;
}

newest_result newest_checkpoint(const std::string& directory) {
  newest_result newest;
  std::vector<std::pair<std::uint64_t, std::string>> candidates;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    if (std::uint64_t step = 0; step_of(entry->path().filename().string(), step))
      candidates.emplace_back(step, entry->path().string());
  if (error)
    newest.refused.push_back("cannot list " + directory + ": " + error.message());
  std::sort(candidates.rbegin(), candidates.rend());
  for (const auto& [step, path] : candidates) {
    auto problem = read_checkpoint(path, newest.state);
    if (problem.empty()) {
      newest.path = path;
      return newest;
    }
    newest.refused.push_back(std::move(problem));
  }
  return newest;
}

} // namespace dynamix::trainer
