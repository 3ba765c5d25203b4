#include "storage/splitmix64.hpp"
#include "tests/temporary_directory.hpp"
#include "trainer/dataset.hpp"
#include "trainer/gunzip.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace dynamix::trainer {
namespace {

using cluster::dataset_kind;
using testing::AllOf;
using testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24U), static_cast<char>(value >> 16U), static_cast<char>(value >> 8U),
          static_cast<char>(value)};
}

std::string bytes(std::size_t count, std::uint32_t bound, std::uint64_t seed = 5) {
  storage::splitmix64 random(seed);
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text.push_back(static_cast<char>(random.below(bound)));
  return text;
}

std::string idx_images(std::uint32_t count, std::uint32_t height = 28, std::uint32_t width = 28) {
  return big_endian(0x803) + big_endian(count) + big_endian(height) + big_endian(width) +
         bytes(std::size_t{count} * height * width, 256);
}

std::string idx_labels(std::uint32_t count) {
  return big_endian(0x801) + big_endian(count) + bytes(count, 10);
}

std::string gzip(const std::string& contents) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, contents.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// The folder of a data set that a test damages, with what loading it says.
class DatasetFiles : public testing::Test {
protected:
  void write_fashion_mnist(std::uint32_t count = 20) {
    folder.write("train-images-idx3-ubyte", idx_images(count));
    folder.write("train-labels-idx1-ubyte", idx_labels(count));
  }
  std::string load(dataset_kind kind, dataset_split split = dataset_split::train) {
    return load_dataset(kind, folder.path(), split, data);
  }
  std::uint64_t count(dataset_kind kind) const {
    cluster::training training;
    training.dataset = kind;
    training.data_path = folder.path();
    return count_training_samples(training);
  }
  std::string load_fashion_mnist() { return load(dataset_kind::fashion_mnist); }

  temporary_directory folder;
  dataset data;
};

TEST(FashionMnist, IsReadWholeFromTheDebianPackage) {
  const cluster::training defaults;
  dataset train;
  dataset test;
  ASSERT_EQ(load_dataset(dataset_kind::fashion_mnist, defaults.data_path, dataset_split::train, train), "");
  ASSERT_EQ(load_dataset(dataset_kind::fashion_mnist, defaults.data_path, dataset_split::test, test), "");
  EXPECT_EQ(train.size(), 60000U);
  EXPECT_EQ(test.size(), 10000U);
  EXPECT_EQ(train.images.size(), 60000U * 784);
  std::vector<int> counts(10, 0);
  for (const auto label : train.labels)
    ++counts.at(label);
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
  // The values that are quoted for this data set everywhere.
  const auto statistics = measure_channels(train);
  EXPECT_NEAR(statistics.mean.at(0), 0.2860, 5e-5);
  EXPECT_NEAR(statistics.deviation.at(0), 0.3530, 5e-5);
}

TEST_F(DatasetFiles, AreTheSamePlainAndPacked) {
  write_fashion_mnist();
  ASSERT_EQ(load_fashion_mnist(), "");
  const auto plain = data;
  ASSERT_EQ(plain.size(), 20U);
  EXPECT_EQ(std::string(plain.images.begin(), plain.images.end()), idx_images(20).substr(16));
  EXPECT_EQ(std::string(plain.labels.begin(), plain.labels.end()), idx_labels(20).substr(8));
  std::filesystem::remove(folder.file("train-images-idx3-ubyte"));
  folder.write("train-images-idx3-ubyte.gz", gzip(idx_images(20)));
  ASSERT_EQ(load_fashion_mnist(), "");
  EXPECT_EQ(data.images, plain.images);
}

TEST_F(DatasetFiles, ThatAreMissingAreNamed) {
  EXPECT_EQ(load_fashion_mnist(), "there is neither " + folder.file("train-images-idx3-ubyte") + " nor " +
                                      folder.file("train-images-idx3-ubyte") + ".gz");
  EXPECT_THAT(load(dataset_kind::cifar10), HasSubstr("data_batch_1.bin"));
}

TEST_F(DatasetFiles, WithAWrongMagicNumberAreRefused) {
  write_fashion_mnist();
  const auto path = folder.write("train-images-idx3-ubyte", idx_labels(20) + std::string(8, '\0'));
  EXPECT_EQ(load_fashion_mnist(), path + ": offset 0: found the magic number 0x00000801, expected 0x00000803 "
                                         "(IDX, unsigned bytes, 3 dimensions)");
}

TEST_F(DatasetFiles, WithOtherImagesAreRefused) {
  write_fashion_mnist();
  folder.write("train-images-idx3-ubyte", idx_images(20, 32, 30));
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("offset 8: found images of 32x30 pixels, expected 28x28"));
}

TEST_F(DatasetFiles, WithAnotherNumberOfLabelsAreRefused) {
  write_fashion_mnist();
  folder.write("train-labels-idx1-ubyte", idx_labels(19));
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("offset 4: found 19 labels, expected 20"));
}

TEST_F(DatasetFiles, WithALabelOutOfRangeAreRefused) {
  write_fashion_mnist();
  auto labels = idx_labels(20);
  labels[8 + 13] = 10;
  folder.write("train-labels-idx1-ubyte", labels);
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("label 13: found 10, expected 0 to 9"));
}

TEST_F(DatasetFiles, CutAnywhereOrWithBytesBehindThemAreRefused) {
  write_fashion_mnist(2);
  const auto images = idx_images(2);
  for (const std::size_t length : {0, 3, 15, 16, 700, 1583}) {
    folder.write("train-images-idx3-ubyte", images.substr(0, length));
    EXPECT_THAT(load_fashion_mnist(), HasSubstr(", expected ")) << length;
  }
  folder.write("train-images-idx3-ubyte", images + "x");
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("found 1585 bytes, expected 1584"));
}

TEST_F(DatasetFiles, WhoseDimensionsOverflowAreRefused) {
  write_fashion_mnist();
  const auto huge = big_endian(0xffffffff);
  folder.write("train-images-idx3-ubyte", big_endian(0x803) + huge + huge + huge);
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("found a dimension of length 4294967295"));
  folder.write("train-images-idx3-ubyte", big_endian(0x803) + big_endian(0) + big_endian(28) + big_endian(28));
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("found a dimension of length 0"));
}

TEST_F(DatasetFiles, PackedAndDamagedAreRefused) {
  folder.write("train-labels-idx1-ubyte", idx_labels(20));
  const auto packed = gzip(idx_images(20));
  const auto load_packed = [&](const std::string& contents) {
    folder.write("train-images-idx3-ubyte.gz", contents);
    return load_fashion_mnist();
  };
  ASSERT_EQ(load_packed(packed), "");
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, packed.size() / 2, packed.size() - 1})
    EXPECT_THAT(load_packed(packed.substr(0, length)),
                AllOf(HasSubstr("train-images-idx3-ubyte.gz: "), HasSubstr("cut short at offset ")))
        << length;
  EXPECT_THAT(load_packed(packed + "junk"), HasSubstr("but 4 bytes follow"));
  EXPECT_EQ(load_packed(idx_images(20)), "") << "a browser has unpacked it, and kept the name";
  auto flipped = packed;
  flipped[packed.size() / 2] = static_cast<char>(flipped[packed.size() / 2] ^ 0x10);
  EXPECT_THAT(load_packed(flipped), HasSubstr("gz: damaged gzip data at offset "));
}

/// As `cat` and bgzip make them, and tape archives fill them up.
TEST_F(DatasetFiles, PackedInSeveralMembersAreRead) {
  write_fashion_mnist();
  const auto images = idx_images(20);
  folder.write("train-images-idx3-ubyte",
               gzip(images.substr(0, 100)) + gzip(images.substr(100)) + std::string(512, '\0'));
  ASSERT_EQ(load_fashion_mnist(), "") << "and packed under the plain name";
  EXPECT_EQ(std::string(data.images.begin(), data.images.end()), images.substr(16));
  const auto cut = gzip(images.substr(0, 100)) + gzip(images.substr(100)).substr(0, 40);
  folder.write("train-images-idx3-ubyte", cut);
  EXPECT_THAT(load_fashion_mnist(), HasSubstr("cut short at offset " + std::to_string(cut.size()) + ","));
}

TEST_F(DatasetFiles, AreFoundWhereArchivesAndTorchvisionPutThem) {
  std::filesystem::create_directories(folder.file("FashionMNIST/raw"));
  folder.write("FashionMNIST/raw/train-images-idx3-ubyte", idx_images(20));
  folder.write("FashionMNIST/raw/train-labels-idx1-ubyte.gz", gzip(idx_labels(20)));
  EXPECT_EQ(load_fashion_mnist(), "");
  EXPECT_EQ(count(dataset_kind::fashion_mnist), 20U);
  std::filesystem::remove_all(folder.file("FashionMNIST"));
  folder.write("train-images.idx3-ubyte", idx_images(20));
  folder.write("train-labels.idx1-ubyte", idx_labels(20));
  EXPECT_EQ(load_fashion_mnist(), "") << "as 7-Zip names it";
  std::filesystem::create_directories(folder.file("cifar-100-binary"));
  folder.write("cifar-100-binary/train.bin.gz", gzip(std::string{19, 99} + bytes(3072, 256)));
  EXPECT_EQ(load(dataset_kind::cifar100), "");
  EXPECT_EQ(count(dataset_kind::cifar100), 1U);
}

TEST_F(DatasetFiles, OfAnotherKindAreNamed) {
  write_fashion_mnist();
  const auto said_of = [&](const std::string& contents) {
    folder.write("train-images-idx3-ubyte", contents);
    return load_fashion_mnist();
  };
  EXPECT_THAT(said_of("<!DOCTYPE html><title>404</title>"),
              HasSubstr("found the magic number 0x3c21444f (an HTML page), expected 0x00000803"));
  EXPECT_THAT(said_of("version https://git-lfs.github.com/spec/v1\noid sha256:1"), HasSubstr("`git lfs pull`"));
  EXPECT_THAT(said_of(std::string("PK\x03\x04\0\0\0\0\0\0\0\0\0\0\0\0", 16)), HasSubstr("(a zip archive)"));
  EXPECT_THAT(said_of(big_endian(0xd03) + std::string(12, '\0')),
              HasSubstr("found the magic number 0x00000d03 (IDX, 32-bit floats, 3 dimensions)"));
  EXPECT_THAT(said_of(big_endian(0x03080000) + std::string(12, '\0')), HasSubstr("in the other byte order"));
  folder.write("test_batch.bin", "\x80\x02}q\x01(U\x0b");
  EXPECT_THAT(load(dataset_kind::cifar10, dataset_split::test), HasSubstr("found 8 bytes, a Python pickle, expected"));
  folder.write("cifar-10-python.tar.gz", "");
  EXPECT_THAT(load(dataset_kind::cifar10),
              HasSubstr("cifar-10-python.tar.gz: unpack cifar-10-binary.tar.gz, the binary version"));
}

TEST_F(DatasetFiles, BehindALinkThatLeadsNowhereAreNamed) {
  write_fashion_mnist();
  std::filesystem::remove(folder.file("train-images-idx3-ubyte"));
  std::filesystem::create_symlink("/nowhere/images", folder.file("train-images-idx3-ubyte"));
  EXPECT_EQ(load_fashion_mnist(), "cannot read " + folder.file("train-images-idx3-ubyte") +
                                      ": it is a link to /nowhere/images, which is not there");
}

TEST_F(DatasetFiles, AreCountedOrNotThere) {
  EXPECT_EQ(count(dataset_kind::fashion_mnist), 0U);
  EXPECT_EQ(count(dataset_kind::cifar10), 0U);
  write_fashion_mnist(20);
  EXPECT_EQ(count(dataset_kind::fashion_mnist), 20U);
  for (int part = 1; part <= 5; ++part) {
    EXPECT_EQ(count(dataset_kind::cifar10), 0U) << "all five are needed";
    folder.write("data_batch_" + std::to_string(part) + ".bin", std::string(std::size_t{3} * (1 + 3072), '\0'));
  }
  EXPECT_EQ(count(dataset_kind::cifar10), 15U);
  folder.write("train.bin", std::string(std::size_t{2} * (2 + 3072), '\0'));
  EXPECT_EQ(count(dataset_kind::cifar100), 2U);
  folder.write("train.bin", std::string(100, '\0'));
  EXPECT_EQ(count(dataset_kind::cifar100), 0U);
}

TEST(Gunzip, StopsAtItsLimit) {
  std::string contents;
  EXPECT_THAT(gunzip(gzip(std::string(1U << 22, 'a')), 1U << 20, contents), HasSubstr("more than the 1048576 bytes"));
  EXPECT_EQ(gunzip(gzip("abc"), 4, contents), "");
  EXPECT_EQ(contents, "abc");
}

TEST_F(DatasetFiles, OfCifar10AreReadInOrder) {
  for (int part = 1; part <= 5; ++part)
    folder.write("data_batch_" + std::to_string(part) + ".bin",
                 std::string(1, static_cast<char>(part)) + bytes(3072, 256, part));
  folder.write("test_batch.bin", std::string(1, 9) + bytes(3072, 256));
  ASSERT_EQ(load(dataset_kind::cifar10), "");
  EXPECT_EQ(data.labels, (std::vector<std::uint8_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(std::string(data.images.begin() + 3072, data.images.begin() + 6144), bytes(3072, 256, 2));
  ASSERT_EQ(load(dataset_kind::cifar10, dataset_split::test), "");
  EXPECT_EQ(data.labels, std::vector<std::uint8_t>{9});
}

TEST_F(DatasetFiles, OfCifar100GiveTheFineLabel) {
  folder.write("train.bin", std::string{19, 99} + bytes(3072, 256) + std::string{3, 7} + bytes(3072, 256, 6));
  ASSERT_EQ(load(dataset_kind::cifar100), "");
  EXPECT_EQ(data.labels, (std::vector<std::uint8_t>{99, 7}));
  EXPECT_EQ(data.classes, 100U);
  EXPECT_EQ(std::string(data.images.begin() + 3072, data.images.end()), bytes(3072, 256, 6));
}

TEST_F(DatasetFiles, OfCifarThatAreCutOrMislabelledAreRefused) {
  const auto path = folder.write("test_batch.bin", std::string(1, 3) + bytes(3071, 256));
  EXPECT_EQ(load(dataset_kind::cifar10, dataset_split::test),
            path + ": found 3072 bytes, expected a positive multiple of the 3073 bytes of a record");
  folder.write("test_batch.bin", "");
  EXPECT_THAT(load(dataset_kind::cifar10, dataset_split::test), HasSubstr("found 0 bytes"));
  folder.write("test_batch.bin", std::string(1, 3) + bytes(3072, 256) + std::string(1, 10) + bytes(3072, 256));
  EXPECT_EQ(load(dataset_kind::cifar10, dataset_split::test),
            path + ": offset 3073: found the label 10, expected 0 to 9");
  folder.write("test.bin", std::string{1, 100} + bytes(3072, 256));
  EXPECT_THAT(load(dataset_kind::cifar100, dataset_split::test),
              HasSubstr("offset 1: found the label 100, expected 0 to 99"));
}

TEST(ChannelStatistics, AreThoseOfEachChannelOverAllImages) {
  dataset data{{.channels = 2, .height = 1, .width = 2, .classes = 2}, {0, 255, 9, 9, 255, 0, 9, 9}, {0, 1}};
  const auto statistics = measure_channels(data);
  EXPECT_FLOAT_EQ(statistics.mean[0], 0.5F);
  EXPECT_FLOAT_EQ(statistics.deviation[0], 0.5F);
  EXPECT_FLOAT_EQ(statistics.mean[1], 9 / 255.0F);
  EXPECT_FLOAT_EQ(statistics.deviation[1], 1.0F) << "a channel that is constant is not scaled";
}

} // namespace
} // namespace dynamix::trainer
