#pragma once

#include "cluster/cluster_file.hpp"
#include "trainer/interactions.hpp"
#include "trainer/text_corpus.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::trainer {

enum class dataset_split : std::uint8_t { train, test };

/// What is known of a data set before it is read.
struct dataset_shape {
  std::uint32_t channels = 0;
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::uint32_t classes = 0; ///< logits of an answer: classes of images, candidates, words or bytes
  std::uint32_t context = 0; ///< tokens of a sample of text; 0: it is none
  bool grey = false;         ///< all channels show the same image, which is stored once
  std::uint32_t users = 0;   ///< of choices
  std::uint32_t items = 0;

  std::uint32_t stored_channels() const { return grey ? 1 : channels; }
  std::uint32_t image_bytes() const { return stored_channels() * height * width; }
};

/// Of images, whose shape depends on their kind alone.
dataset_shape shape_of(cluster::dataset_kind kind);
/// Of the data set that a cluster file asks for; how many users and items movielens has is known once it is read.
dataset_shape shape_of(const cluster::training& training);

/// Labelled images or text in memory, or choices, which may be computed.
struct dataset : dataset_shape {
  std::vector<std::uint8_t> images; ///< [size, stored channels, height, width], row-major, 0..255
  std::vector<std::uint8_t> labels; ///< [size], each in [0, classes)
  /// Then there are no images, and the label is the item that was chosen.
  std::shared_ptr<const choice_set> choices = {};
  text_samples text = {};                 ///< with a context; then there are neither images nor labels
  std::uint64_t digest = 0;               ///< of all text or ratings, FNV-1a; 0 of other data
  std::vector<std::string> left_out = {}; ///< of text: files and folders, with the reasons; of ratings: how many

  std::uint64_t size() const { return choices ? choices->size() : context > 0 ? text.starts.size() : labels.size(); }
};

/// Reads one split of a data set from the folder `path`, or from the folder in it that the archive or torchvision makes
/// (FashionMNIST/raw, cifar-10-batches-bin, cifar-100-binary). Files may be packed, with or without `.gz`. Returns an
/// empty string, or what is wrong: the file, the offset, what was found there and what was expected.
///
/// Fashion-MNIST: `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-...`, plain or with `.gz` (IDX:
/// big-endian magic 0x00000803 or 0x00000801, then one length a dimension, then the bytes). CIFAR-10:
/// `data_batch_1.bin` to `_5.bin` and `test_batch.bin`, records of one label and 3x32x32 bytes. CIFAR-100: `train.bin`,
/// `test.bin`, records of a coarse label, a fine label (the one used) and the image. Any number of samples from 1 on is
/// accepted, so that a subset works. `fashion_mnist_32` are the images of Fashion-MNIST in a black border of two
/// pixels, three times. MovieLens: see trainer/movielens.hpp. Interactions are not files: `interactions_scale` says how
/// many there are. Text needs more than that.
std::string load_dataset(cluster::dataset_kind kind, const std::string& path, dataset_split split, dataset& data,
                         double interactions_scale = 1);
/// The data set that a cluster file asks for.
std::string load_dataset(const cluster::training& training, dataset_split split, dataset& data);

/// Samples of the training split, found without its images where labels lie apart. 0 where the
/// folder has none that can be read: the data may be on other hosts only.
std::uint64_t count_training_samples(const cluster::training& training);

/// Mean and standard deviation of each channel over all pixels, of values scaled to [0, 1].
struct channel_statistics {
  std::vector<float> mean;
  std::vector<float> deviation; ///< > 0; 1 for a channel that is constant
};

/// Exact sums in integers, so every worker finds the same bits.
channel_statistics measure_channels(const dataset& data);

} // namespace dynamix::trainer
