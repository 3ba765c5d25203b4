#include "trainer/dataset.hpp"

#include "storage/fnv1a.hpp"
#include "trainer/data_file.hpp"
#include "trainer/idx_file.hpp"
#include "trainer/movielens.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/core.h>

namespace dynamix::trainer {
namespace {

std::string dimensions_text(std::uint32_t height, std::uint32_t width) {
  return fmt::format("{}x{}", height, width);
}

bool is_there(const std::string& file) {
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) || std::filesystem::exists(file + ".gz", ignored);
}

/// The archive's own name has a dot, `images.idx3-ubyte`, which some programs that unpack it give the file.
std::string under_either_name(const std::string& path) {
  auto dotted = path;
  if (const auto dash = path.rfind("-idx"); dash != std::string::npos)
    dotted[dash] = '.';
  return !is_there(path) && is_there(dotted) ? dotted : path;
}

/// Where the files are: in the folder itself, or in the one below it that the archive or torchvision makes.
std::string folder_of(const std::string& path, const std::string& below, const std::string& file) {
  const auto has_it = [&](const std::string& folder) { return is_there(under_either_name(folder + "/" + file)); };
  const auto inner = path + "/" + below;
  return !has_it(path) && has_it(inner) ? inner : path;
}

constexpr auto fashion_mnist_labels = "labels-idx1-ubyte";
constexpr std::size_t cifar10_label_bytes = 1;
constexpr std::size_t cifar100_label_bytes = 2;
constexpr auto fashion_mnist_below = "FashionMNIST/raw";
constexpr auto cifar10_below = "cifar-10-batches-bin";
constexpr auto cifar100_below = "cifar-100-binary";

/// Behind what is missing: the other form of the data is there.
std::string hint_at_python(const std::string& path, const std::string& name) {
  std::error_code ignored;
  for (const auto* form : {"-batches-py", "-python", "-python.tar.gz", "-binary.tar.gz"})
    if (const auto found = path + "/" + name + form; std::filesystem::exists(found, ignored))
      return fmt::format("; there is {}: unpack {}-binary.tar.gz, the binary version", found, name);
  return "";
}

std::string fashion_mnist_prefix(const std::string& path, dataset_split split) {
  const std::string part = split == dataset_split::train ? "train-" : "t10k-";
  return folder_of(path, fashion_mnist_below, part + fashion_mnist_labels) + "/" + part;
}

std::string load_fashion_mnist(const std::string& path, dataset_split split, dataset& data) {
  const auto prefix = fashion_mnist_prefix(path, split);
  const auto images_path = under_either_name(prefix + "images-idx3-ubyte");
  const auto labels_path = under_either_name(prefix + fashion_mnist_labels);
  idx_file images;
  idx_file labels;
  if (auto problem = read_idx_file(images_path, 3, images); !problem.empty())
    return problem;
  if (auto problem = read_idx_file(labels_path, 1, labels); !problem.empty())
    return problem;
  if (images.dimensions[1] != data.height || images.dimensions[2] != data.width)
    return images_path + ": offset 8: found images of " + dimensions_text(images.dimensions[1], images.dimensions[2]) +
           " pixels, expected " + dimensions_text(data.height, data.width);
  if (labels.dimensions[0] != images.dimensions[0])
    return fmt::format("{}: offset 4: found {} labels, expected {}, one for each image", labels_path,
                       labels.dimensions[0], images.dimensions[0]);
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    if (labels.values[i] >= data.classes)
      return fmt::format("{}: label {}: found {}, expected 0 to {}", labels_path, i, labels.values[i],
                         data.classes - 1);
  data.images = std::move(images.values);
  data.labels = std::move(labels.values);
  return {};
}

/// Fashion-MNIST with a border that makes its images as large as CIFAR's.
std::string load_bordered(const std::string& path, dataset_split split, dataset& data) {
  dataset plain{shape_of(cluster::dataset_kind::fashion_mnist), {}, {}};
  if (auto problem = load_fashion_mnist(path, split, plain); !problem.empty())
    return problem;
  const std::size_t border = (data.width - plain.width) / 2;
  data.labels = std::move(plain.labels);
  data.images.assign(data.labels.size() * data.image_bytes(), 0);
  for (std::size_t image = 0; image < data.labels.size(); ++image)
    for (std::size_t row = 0; row < plain.height; ++row)
      std::copy_n(plain.images.data() + (image * plain.height + row) * plain.width, plain.width,
                  data.images.data() + image * data.image_bytes() + (row + border) * data.width + border);
  return {};
}

/// Appends one file of records: `label_bytes` labels, of which the last one counts, then the image.
std::string append_cifar(const std::string& wanted, std::size_t label_bytes, dataset& data) {
  constexpr std::size_t limit_bytes = 1U << 30;
  auto path = wanted;
  std::string contents;
  if (auto problem = read_data_file(path, limit_bytes, contents); !problem.empty())
    return problem;
  const std::size_t record_bytes = label_bytes + data.image_bytes();
  if (contents.empty() || contents.size() % record_bytes != 0) {
    const auto kind = kind_of_file(contents);
    return fmt::format("{}: found {} bytes{}, expected a positive multiple of the {} bytes of a record", path,
                       contents.size(), kind.empty() ? "" : fmt::format(", {}", kind), record_bytes);
  }
  data.images.reserve(data.images.size() + contents.size() / record_bytes * data.image_bytes());
  for (std::size_t record = 0; record < contents.size(); record += record_bytes) {
    const auto label_offset = record + label_bytes - 1;
    const auto label = static_cast<std::uint8_t>(contents[label_offset]);
    if (label >= data.classes)
      return fmt::format("{}: offset {}: found the label {}, expected 0 to {}", path, label_offset, label,
                         data.classes - 1);
    data.labels.push_back(label);
    const auto image = contents.begin() + static_cast<std::ptrdiff_t>(record + label_bytes);
    data.images.insert(data.images.end(), image, image + static_cast<std::ptrdiff_t>(data.image_bytes()));
  }
  return {};
}

std::vector<std::string> cifar_files(cluster::dataset_kind kind, const std::string& path, dataset_split split) {
  const bool train = split == dataset_split::train;
  if (kind == cluster::dataset_kind::cifar100) {
    const std::string file = train ? "train.bin" : "test.bin";
    return {folder_of(path, cifar100_below, file) + "/" + file};
  }
  if (!train)
    return {folder_of(path, cifar10_below, "test_batch.bin") + "/test_batch.bin"};
  std::vector<std::string> paths;
  const auto folder = folder_of(path, cifar10_below, "data_batch_1.bin");
  for (int part = 1; part <= 5; ++part)
    paths.push_back(fmt::format("{}/data_batch_{}.bin", folder, part));
  return paths;
}

std::size_t cifar_label_bytes(cluster::dataset_kind kind) {
  return kind == cluster::dataset_kind::cifar100 ? cifar100_label_bytes : cifar10_label_bytes;
}

std::string load_cifar(cluster::dataset_kind kind, const std::string& path, dataset_split split, dataset& data) {
  for (const auto& file : cifar_files(kind, path, split))
    if (const auto problem = append_cifar(file, cifar_label_bytes(kind), data); !problem.empty())
      return is_there(file)
                 ? problem
                 : problem + hint_at_python(path, kind == cluster::dataset_kind::cifar100 ? "cifar-100" : "cifar-10");
  return {};
}

/// 0 when one of them cannot be read, or holds no whole number of records.
std::uint64_t count_cifar(cluster::dataset_kind kind, const std::string& path) {
  const auto record_bytes = cifar_label_bytes(kind) + shape_of(kind).image_bytes();
  std::uint64_t samples = 0;
  for (const auto& file : cifar_files(kind, path, dataset_split::train)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (!error && size > 0 && size % record_bytes == 0) {
      samples += size / record_bytes;
      continue;
    }
    dataset packed{shape_of(kind), {}, {}}; // or it is wrong
    if (!append_cifar(file, cifar_label_bytes(kind), packed).empty())
      return 0;
    samples += packed.size();
  }
  return samples;
}

std::string load_text(const cluster::training& training, dataset_split split, dataset& data) {
  data = {shape_of(training), {}, {}};
  std::string text;
  if (auto problem = read_text(training.data_path, text, data.left_out); !problem.empty())
    return problem;
  data.digest = storage::fnv1a().add(text).value();
  const auto problem = cut_text(
      text,
      {.vocabulary = training.vocabulary, .vocabulary_size = training.vocabulary_size, .context = training.context},
      split == dataset_split::test, data.text);
  return problem.empty() ? "" : fmt::format("{}: {}", training.data_path, problem);
}

std::string load_movielens(const std::string& path, dataset_split split, dataset& data) {
  const auto ratings = std::make_shared<movielens_ratings>();
  if (auto problem = read_movielens(path, *ratings); !problem.empty())
    return problem;
  data.users = ratings->users;
  data.items = ratings->items;
  data.digest = ratings->digest;
  if (ratings->repeated > 0)
    data.left_out.push_back(
        fmt::format("{} of the ratings in {}: the same user rates the same movie later", ratings->repeated, path));
  data.choices = std::make_shared<movielens_choices>(ratings, split == dataset_split::test);
  return {};
}

} // namespace

dataset_shape shape_of(cluster::dataset_kind kind) {
  switch (kind) {
  case cluster::dataset_kind::fashion_mnist:
    return {.channels = 1, .height = 28, .width = 28, .classes = 10};
  case cluster::dataset_kind::fashion_mnist_32:
    return {.channels = 3, .height = 32, .width = 32, .classes = 10, .grey = true};
  case cluster::dataset_kind::cifar10:
    return {.channels = 3, .height = 32, .width = 32, .classes = 10};
  case cluster::dataset_kind::cifar100:
    return {.channels = 3, .height = 32, .width = 32, .classes = 100};
  case cluster::dataset_kind::interactions:
  case cluster::dataset_kind::movielens:
    return {.classes = candidates};
  case cluster::dataset_kind::text:
    break; // depends on more
  }
  return {};
}

dataset_shape shape_of(const cluster::training& training) {
  if (training.dataset == cluster::dataset_kind::text) {
    const bool of_bytes = training.vocabulary == cluster::vocabulary_kind::bytes;
    return {.classes = of_bytes ? 256 : training.vocabulary_size, .context = training.context};
  }
  auto shape = shape_of(training.dataset);
  if (training.dataset == cluster::dataset_kind::interactions) {
    const auto scaled = interactions_shape_of(training.interactions_scale);
    shape.users = scaled.users;
    shape.items = scaled.items;
  }
  return shape;
}

std::string load_dataset(cluster::dataset_kind kind, const std::string& path, dataset_split split, dataset& data,
                         double interactions_scale) {
  data = {shape_of(kind), {}, {}};
  switch (kind) {
  case cluster::dataset_kind::fashion_mnist:
    return load_fashion_mnist(path, split, data);
  case cluster::dataset_kind::fashion_mnist_32:
    return load_bordered(path, split, data);
  case cluster::dataset_kind::cifar10:
  case cluster::dataset_kind::cifar100:
    return load_cifar(kind, path, split, data);
  case cluster::dataset_kind::interactions: {
    const auto shape = interactions_shape_of(interactions_scale);
    data.users = shape.users;
    data.items = shape.items;
    data.choices = split == dataset_split::train ? std::make_shared<interactions>(shape, 0, shape.train)
                                                 : std::make_shared<interactions>(shape, shape.train, shape.test);
    return {};
  }
  case cluster::dataset_kind::movielens:
    return load_movielens(path, split, data);
  case cluster::dataset_kind::text:
    break; // takes more than a path
  }
  return "unknown data set";
}

std::string load_dataset(const cluster::training& training, dataset_split split, dataset& data) {
  if (training.dataset == cluster::dataset_kind::text)
    return load_text(training, split, data);
  return load_dataset(training.dataset, training.data_path, split, data, training.interactions_scale);
}

std::uint64_t count_training_samples(const cluster::training& training) {
  const auto& path = training.data_path;
  idx_file labels;
  switch (training.dataset) {
  case cluster::dataset_kind::fashion_mnist:
  case cluster::dataset_kind::fashion_mnist_32:
    return read_idx_file(under_either_name(fashion_mnist_prefix(path, dataset_split::train) + fashion_mnist_labels), 1,
                         labels)
                   .empty()
               ? labels.dimensions[0]
               : 0;
  case cluster::dataset_kind::cifar10:
  case cluster::dataset_kind::cifar100:
    return count_cifar(training.dataset, path);
  case cluster::dataset_kind::interactions:
    return interactions_shape_of(training.interactions_scale).train;
  case cluster::dataset_kind::text:
  case cluster::dataset_kind::movielens: {
    dataset whole;
    return load_dataset(training, dataset_split::train, whole).empty() ? whole.size() : 0;
  }
  }
  return 0;
}

channel_statistics measure_channels(const dataset& data) {
  channel_statistics statistics;
  const std::size_t pixels = std::size_t{data.height} * data.width;
  for (std::size_t channel = 0; channel < data.stored_channels(); ++channel) {
    std::uint64_t sum = 0;
    std::uint64_t square_sum = 0;
    for (std::size_t image = 0; image < data.size(); ++image) {
      const auto* first = data.images.data() + image * data.image_bytes() + channel * pixels;
      std::for_each(first, first + pixels, [&](std::uint32_t value) {
        sum += value;
        square_sum += value * value;
      });
    }
    const double count = static_cast<double>(pixels * data.size());
    const double mean = static_cast<double>(sum) / count / 255;
    const double variance = static_cast<double>(square_sum) / count / (255.0 * 255) - mean * mean;
    statistics.mean.push_back(static_cast<float>(mean));
    statistics.deviation.push_back(variance > 1e-12 ? static_cast<float>(std::sqrt(variance)) : 1.0F);
  }
  if (data.grey) {
    statistics.mean.resize(data.channels, statistics.mean[0]);
    statistics.deviation.resize(data.channels, statistics.deviation[0]);
  }
  return statistics;
}

} // namespace dynamix::trainer
