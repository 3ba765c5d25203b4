#include "trainer/script_model.hpp"

#include "storage/atomic_file.hpp"
#include "storage/fnv1a.hpp"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>
#include <torch/version.h>

#include <filesystem>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace dynamix::trainer {

namespace {

constexpr std::size_t script_bytes_max = std::size_t{4} << 30;

/// A part of a script: owns nothing, but makes the script's tensors known under their names. One that has several names
/// (tied weights) is known under the first.
class script_part : public torch::nn::Module {
public:
  script_part(const torch::jit::Module& part, std::set<const void*>& known) {
    const auto is_new = [&known](const torch::Tensor& tensor) {
      return known.insert(tensor.unsafeGetTensorImpl()).second;
    };
    for (const auto& parameter : part.named_parameters(false))
      if (is_new(parameter.value))
        register_parameter(parameter.name, parameter.value, parameter.value.requires_grad());
    for (const auto& buffer : part.named_buffers(false))
      if (is_new(buffer.value))
        register_buffer(buffer.name, buffer.value);
    for (const auto& child : part.named_children())
      register_module(child.name, std::make_shared<script_part>(child.value, known));
  }
};

class script_model final : public script_part {
public:
  explicit script_model(torch::jit::Module script, std::set<const void*> known = {})
      : script_part(script, known), script_(std::move(script)) {}

  torch::Tensor forward(const torch::Tensor& inputs) { return script_.forward({inputs}).toTensor(); }
  void train(bool on) override {
    script_part::train(on);
    script_.train(on);
  }

private:
  torch::jit::Module script_;
};

std::string shape_of_tensor(c10::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

/// Two samples, of which images are no constant, and the shape that the logits for them must have.
torch::Tensor two_samples(const dataset_shape& shape, std::vector<std::int64_t>& logits) {
  if (shape.context > 0) {
    logits = {2, shape.context, shape.classes};
    return torch::zeros({2, shape.context}, torch::kInt64);
  }
  logits = {2, shape.classes};
  if (shape.channels == 0)
    return torch::zeros({2, 1 + std::int64_t{candidates}}, torch::kInt64);
  return torch::linspace(-1, 1, 2 * std::int64_t{shape.channels} * shape.height * shape.width)
      .view({2, shape.channels, shape.height, shape.width});
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

constexpr std::string_view unknown_operator = "it uses the operator";

/// The operator that the file needs and this Torch has not; empty: that is not it.
std::string missing_operator(const std::string& text) {
  constexpr std::string_view said = "Unknown builtin op: ";
  const auto at = text.find(said);
  if (at == std::string::npos)
    return "";
  const auto begin = at + said.size();
  auto name = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  name.resize(name.find_last_not_of('.') + 1);
  return name;
}

/// TorchScript's errors are traces; what went wrong stands behind the last of its places in the code.
std::string cause_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  if (const auto name = missing_operator(text); !name.empty())
    return fmt::format("{} {}, which the Torch of this program, {}, does not have: it was saved by "
                       "another one. Save it with torch {}, or build dynamix-node on the torch that saved it",
                       unknown_operator, name, TORCH_VERSION, TORCH_VERSION);
  constexpr std::string_view raised = "RuntimeError: ";
  const auto at = text.rfind(raised);
  auto cause = at == std::string::npos ? text : text.substr(at + raised.size());
  cause.erase(0, cause.find_first_not_of(" \n"));
  return first_line(cause);
}

std::string check_tensors(const torch::jit::Module& script) {
  torch::ScalarType type = torch::kFloat32;
  std::size_t trained = 0;
  for (const auto& parameter : script.named_parameters()) {
    if (trained == 0)
      type = parameter.value.scalar_type();
    trained += parameter.value.requires_grad() ? 1 : 0;
    if (parameter.value.scalar_type() != type || (type != torch::kFloat32 && type != torch::kFloat64))
      return fmt::format("its parameter {} is {}; all must be float32, or all float64", parameter.name,
                         c10::toString(parameter.value.scalar_type()));
    if (!parameter.value.requires_grad())
      return fmt::format("its parameter {} requires no gradient; make what is not trained a buffer", parameter.name);
  }
  if (trained == 0)
    return "it has no parameters";
  for (const auto& buffer : script.named_buffers()) {
    const auto stored = buffer.value.scalar_type();
    if (stored != torch::kFloat32 && stored != torch::kFloat64 && stored != torch::kInt64 && stored != torch::kUInt8)
      return fmt::format("its buffer {} is {}; checkpoints hold float32, float64, int64 and uint8", buffer.name,
                         c10::toString(stored));
    if (buffer.name.ends_with("running_mean") || buffer.name.ends_with("running_var"))
      return fmt::format("its buffer {} is a running statistic, as batch norm has it, which would differ between "
                         "workers with unequal batches; use group norm",
                         buffer.name);
  }
  return {};
}

/// A buffer that training changes in forward would differ between workers, whose batches do. Returns an empty string,
/// or which one it is.
std::string check_buffers(torch::jit::Module script, const torch::Tensor& inputs) {
  std::map<std::string, torch::Tensor> before;
  for (const auto& buffer : script.named_buffers())
    before.emplace(buffer.name, buffer.value.detach().clone());
  script.train(true);
  for (int pass = 0; pass < 2; ++pass) // the first may only make what the second changes
    script.forward({inputs});
  for (const auto& buffer : script.named_buffers())
    if (const auto was = before.find(buffer.name); was != before.end() && !buffer.value.equal(was->second))
      return fmt::format("its forward changes its buffer {} in training, as a running statistic, which would differ "
                         "between workers with unequal batches; leave it as it is, or keep no such state",
                         buffer.name);
  return {};
}

} // namespace

torch::nn::Sequential build_script(const model_options& options) {
  // The profiling executor watches the first passes and then runs others, rounded otherwise: a run that resumes would
  // begin to watch anew and end with other bits than one that was not interrupted.
  torch::jit::getProfilingMode() = false;
  torch::nn::Sequential layers;
  layers->push_back(std::make_shared<script_model>(torch::jit::load(options.script, torch::kCPU)));
  return layers;
}

std::string check_script(const model_options& options) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(options.script, ignored))
    return fmt::format("there is no file {}", options.script);
  torch::jit::Module script;
  try {
    script = torch::jit::load(options.script, torch::kCPU);
    if (auto problem = check_tensors(script); !problem.empty())
      return fmt::format("{}: {}", options.script, problem);
  } catch (const std::exception& error) {
    const auto cause = cause_of(error);
    return cause.starts_with(unknown_operator)
               ? fmt::format("{}: {}", options.script, cause)
               : fmt::format("{} is no TorchScript module, as torch.jit.script(model).save(FILE) writes it: {}",
                             options.script, cause);
  }
  std::vector<std::int64_t> wanted;
  const auto inputs = two_samples(options.images, wanted);
  const auto shown =
      fmt::format("{} of shape {}", options.images.channels > 0 ? "float32" : "int64", shape_of_tensor(inputs.sizes()));
  try {
    const torch::NoGradGuard no_gradients;
    const auto logits = build_script(options)->forward(inputs);
    if (logits.sizes() != c10::IntArrayRef(wanted))
      return fmt::format("{}: for {} it gives {}, expected logits of shape {}", options.script, shown,
                         shape_of_tensor(logits.sizes()), shape_of_tensor(wanted));
    if (auto problem = check_buffers(script, inputs); !problem.empty())
      return fmt::format("{}: {}", options.script, problem);
  } catch (const std::exception& error) {
    return fmt::format("{}: it does not take {}: {}", options.script, shown, cause_of(error));
  }
  return {};
}

std::string digest_script(const std::string& path, std::uint64_t& digest) {
  std::string contents;
  if (auto problem = storage::read_file(path, script_bytes_max, contents); !problem.empty())
    return problem;
  digest = storage::fnv1a().add(contents).value();
  return {};
}

} // namespace dynamix::trainer
