#include "exchange/row_bucket.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::exchange {
namespace {

constexpr std::size_t floats_per_number = 4; ///< a float32 holds whole numbers of 16 bits exactly

class row_bucket final : public bucket {
public:
  row_bucket(std::unique_ptr<bucket> sum, std::size_t gradients, std::size_t columns, std::size_t position,
             std::size_t members)
      : sum_(std::move(sum)), gradients_(gradients), own_(position * columns), columns_(columns),
        rows_(columns * members) {}

  std::variant<std::span<float>, std::span<double>> gradients() override {
    return std::visit(
        [this](auto all) -> std::variant<std::span<float>, std::span<double>> { return all.first(gradients_); },
        sum_->gradients());
  }
  std::span<double> sums() override { return sum_->sums(); }
  std::span<std::int64_t> rows() override { return rows_; }

  void start() override {
    std::visit(
        [this](auto all) {
          const auto behind = all.subspan(gradients_);
          std::ranges::fill(behind, 0);
          auto into = behind.begin() + static_cast<std::ptrdiff_t>(own_ * floats_per_number);
          for (const auto number : std::span(rows_).subspan(own_, columns_))
            for (std::size_t part = 0; part < floats_per_number; ++part)
              *into++ = static_cast<std::uint16_t>(static_cast<std::uint64_t>(number) >> (16 * part));
        },
        sum_->gradients());
    sum_->start();
  }

  void wait() override {
    sum_->wait();
    std::visit(
        [this](auto all) {
          auto from = all.begin() + static_cast<std::ptrdiff_t>(gradients_);
          for (auto& number : rows_) {
            std::uint64_t bits = 0;
            for (std::size_t part = 0; part < floats_per_number; ++part)
              bits |= static_cast<std::uint64_t>(static_cast<std::uint16_t>(*from++)) << (16 * part);
            number = static_cast<std::int64_t>(bits);
          }
        },
        sum_->gradients());
  }

private:
  std::unique_ptr<bucket> sum_;
  const std::size_t gradients_;
  const std::size_t own_; ///< first of this member's numbers
  const std::size_t columns_;
  std::vector<std::int64_t> rows_;
};

} // namespace

std::unique_ptr<bucket> make_row_bucket(group& of, element type, std::size_t gradients, std::size_t sums,
                                        std::size_t columns) {
  auto sum = of.make_bucket(type, gradients + columns * floats_per_number * of.size(), sums);
  return std::make_unique<row_bucket>(std::move(sum), gradients, columns, of.position(), of.size());
}

} // namespace dynamix::exchange
