#include "trainer/model_options.hpp"

#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

TEST(ModelFit, RefusesImagesThatVgg11WouldPoolAway) {
  cluster::training training;
  training.model = cluster::model_kind::vgg11;
  training.dataset = cluster::dataset_kind::fashion_mnist;
  EXPECT_EQ(check_model_fits(training),
            "vgg11 needs images of at least 32x32 pixels; fashion-mnist has 28x28; use lenet");
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

TEST(ModelFit, PairsNcfWithInteractionsOnly) {
  cluster::training training;
  training.model = cluster::model_kind::ncf;
  EXPECT_EQ(check_model_fits(training), "ncf needs the data set interactions; fashion-mnist has images");
  training.dataset = cluster::dataset_kind::interactions;
  EXPECT_EQ(check_model_fits(training), "");
  training.model = cluster::model_kind::lenet;
  EXPECT_EQ(check_model_fits(training), "lenet needs images; interactions take ncf");
}

} // namespace
} // namespace dynamix::trainer
