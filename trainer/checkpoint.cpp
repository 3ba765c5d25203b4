#include "trainer/checkpoint.hpp"

#include "storage/atomic_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

namespace dynamix::trainer {
namespace {

constexpr auto format = "dynamix-checkpoint-1";
const std::string model_prefix = "model/";
const std::string optimizer_prefix = "optimizer/";
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

struct number_writer {
  std::map<std::string, std::string>& metadata;

  /// The shortest text that reads back as the same bits.
  template <class Number>
  void field(const char* name, Number value) {
    char text[32];
    metadata[name] = std::string(text, std::to_chars(text, std::end(text), value).ptr);
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
};

bool is_weight(double weight) {
  return weight >= 0 && weight <= 1;
}

std::string check_numbers(const checkpoint& state) {
  if (state.epoch_samples == 0 || state.sampler.cursor >= state.epoch_samples)
    return "its sampler stands at sample " + std::to_string(state.sampler.cursor) + " of an epoch of " +
           std::to_string(state.epoch_samples);
  if (state.elapsed_seconds < 0 || state.learning_rate.progress < 0)
    return "its elapsed seconds or its progress are negative";
  if (state.best_accuracy < 0 || state.best_accuracy > 1)
    return "its best accuracy is " + std::to_string(state.best_accuracy) + ", expected 0 to 1";
  if (!is_weight(state.learning_rate.trace.weight) || !is_weight(state.learning_rate.gradient_square.weight) ||
      !is_weight(state.noise.trace.weight) || !is_weight(state.noise.gradient_square.weight) ||
      !is_weight(state.noise.global_square.weight))
    return "the weight of one of its averages is outside 0 to 1";
  return {};
}

storage::tensor_record batches_record(const std::vector<std::uint32_t>& batches) {
  const std::vector<std::int64_t> values(batches.begin(), batches.end());
  storage::tensor_record record{"batches", storage::element_type::i64, {static_cast<std::int64_t>(values.size())}, {}};
  record.data.resize(values.size() * sizeof(std::int64_t));
  std::memcpy(record.data.data(), values.data(), record.data.size());
  return record;
}

std::string read_batches(const storage::tensor_record& record, std::vector<std::uint32_t>& batches) {
  std::vector<std::int64_t> values(record.data.size() / sizeof(std::int64_t));
  if (record.type != storage::element_type::i64 || values.empty() || values.size() > messages::max_workers)
    return "its batch sizes are not 1 to " + std::to_string(messages::max_workers) + " whole numbers";
  std::memcpy(values.data(), record.data.data(), record.data.size());
  for (const auto value : values)
    if (value < 0 || value > messages::max_batch)
      return "it has a batch size of " + std::to_string(value) + ", expected 0 to " +
             std::to_string(messages::max_batch);
  batches.assign(values.begin(), values.end());
  return {};
}

std::string take_tensors(storage::tensor_file& file, checkpoint& state) {
  bool has_batches = false;
  for (auto& record : file.tensors) {
    if (record.name.starts_with(model_prefix)) {
      record.name.erase(0, model_prefix.size());
      state.model.push_back(std::move(record));
    } else if (record.name.starts_with(optimizer_prefix)) {
      record.name.erase(0, optimizer_prefix.size());
      state.optimizer.push_back(std::move(record));
    } else if (record.name == "policy" && record.type == storage::element_type::u8) {
      state.policy = std::move(record.data);
    } else if (record.name == "batches") {
      has_batches = true;
      if (auto problem = read_batches(record, state.batches); !problem.empty())
        return problem;
    } else {
      return "it has an unknown tensor \"" + record.name + "\"";
    }
  }
  return has_batches ? std::string{} : "it has no batch sizes";
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
  for (const auto& record : state.model)
    file.tensors.push_back({model_prefix + record.name, record.type, record.shape, record.data});
  for (const auto& record : state.optimizer)
    file.tensors.push_back({optimizer_prefix + record.name, record.type, record.shape, record.data});
  file.tensors.push_back(batches_record(state.batches));
  if (!state.policy.empty())
    file.tensors.push_back(
        {"policy", storage::element_type::u8, {static_cast<std::int64_t>(state.policy.size())}, state.policy});
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
  if (!reader.problem.empty())
    return reader.problem;
  if (auto problem = check_numbers(read); !problem.empty())
    return problem;
  if (auto problem = take_tensors(file, read); !problem.empty())
    return problem;
  state = std::move(read);
  return {};
}

std::string checkpoint_path(const std::string& directory, std::uint64_t step) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%012llu", static_cast<unsigned long long>(step));
  return directory + "/" + file_prefix + digits + file_suffix;
}

std::string write_checkpoint(const std::string& path, const checkpoint& state) {
  return storage::write_file_atomically(path, encode(state));
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
