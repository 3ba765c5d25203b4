#include "trainer/model_options.hpp"

#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

TEST(ModelFit, RefusesImagesThatVgg11WouldPoolAway) {
  cluster::training training;
  training.model = cluster::model_kind::vgg11;
  training.dataset = cluster::dataset_kind::fashion_mnist;
  EXPECT_EQ(check_model_fits(training),
            "vgg11 needs images of at least 32x32 pixels; fashion-mnist has 28x28; use lenet or fashion-mnist-32");
}

TEST(ModelFit, AcceptsWhatWorks) {
  cluster::training training;
  for (const auto kind :
       {cluster::dataset_kind::fashion_mnist, cluster::dataset_kind::cifar10, cluster::dataset_kind::cifar100}) {
    training.dataset = kind;
    training.model = cluster::model_kind::lenet;
    EXPECT_EQ(check_model_fits(training), "");
    training.model = cluster::model_kind::vgg11;
    EXPECT_EQ(check_model_fits(training).empty(), kind != cluster::dataset_kind::fashion_mnist);
  }
}

TEST(ModelFit, PairsModelsWithDataOfTheirTask) {
  cluster::training training;
  training.model = cluster::model_kind::ncf;
  EXPECT_EQ(check_model_fits(training), "ncf needs the data set interactions or movielens; fashion-mnist has images");
  for (const auto kind : {cluster::dataset_kind::movielens, cluster::dataset_kind::interactions}) {
    training.dataset = kind;
    EXPECT_EQ(check_model_fits(training), "");
  }
  training.model = cluster::model_kind::lenet;
  EXPECT_EQ(check_model_fits(training),
            "lenet needs a data set of images; interactions has choices, for the model ncf");
  training.dataset = cluster::dataset_kind::text;
  for (const auto kind : {cluster::model_kind::transformer, cluster::model_kind::lstm}) {
    training.model = kind;
    EXPECT_EQ(check_model_fits(training), "");
  }
  training.model = cluster::model_kind::resnet18;
  EXPECT_EQ(check_model_fits(training),
            "resnet18 needs a data set of images; text has tokens, for the models transformer and lstm");
  training.dataset = cluster::dataset_kind::fashion_mnist;
  EXPECT_EQ(check_model_fits(training), "");
}

TEST(ModelFit, MakesTheTransformersUnitsAMultipleOfItsHeads) {
  EXPECT_EQ(units_of({.width = 1, .heads = 4}), 256);
  EXPECT_EQ(units_of({.width = 0.25, .heads = 6}), 66);
  EXPECT_EQ(units_of({.width = 0.0625, .heads = 64}), 64);
  EXPECT_EQ(units_of({.kind = cluster::model_kind::lstm, .width = 0.08, .heads = 7}), 24);
}

TEST(ModelFit, EvaluatesFewerSamplesAtOnceWhereTheyAreLarge) {
  cluster::training training;
  EXPECT_EQ(evaluation_batch_of(training), 500U);
  training.model = cluster::model_kind::vgg11;
  training.dataset = cluster::dataset_kind::cifar10;
  EXPECT_EQ(evaluation_batch_of(training), 500U);
  training.model = cluster::model_kind::resnet50;
  EXPECT_EQ(evaluation_batch_of(training), 128U);
  training.model = cluster::model_kind::transformer;
  training.dataset = cluster::dataset_kind::text;
  EXPECT_EQ(evaluation_batch_of(training), 256U);
  training.vocabulary = cluster::vocabulary_kind::words;
  training.vocabulary_size = 65536;
  EXPECT_EQ(evaluation_batch_of(training), 4U);
}

} // namespace
} // namespace dynamix::trainer
