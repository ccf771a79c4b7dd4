// Program: a sparse linear program under construction, and its solution by Clp. Columns and rows are numbered in the
// order in which they are added, so equal inputs make equal programs and equal solutions.
//
// The bound that is handed out does not rest on the solver: by weak duality any prices of the rows give a lower bound
// on the optimum, and bound() computes that of the prices found. A solver that is wrong makes it worse, never invalid.
//
// Owned by lower_bound(), used once. The only place that knows the solver.
//
// GrowingProgram is one whose columns come while it is being solved, again and again from where it was.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

class ClpSimplex;

namespace ebb {

class Program {
 public:
  using Column = std::uint32_t;
  using Row = std::uint32_t;
  static constexpr double kInfinity = std::numeric_limits<double>::max();

  // A variable in [0, upper] with its price in the sum that is minimized.
  Column add_column(double upper, double price = 0);
  // A variable from 0 up that some optimum keeps within `reach`; the solver is not told, bound() relies on it.
  Column add_unlimited_column(double reach, double price = 0);
  // lower <= sum of terms <= upper.
  Row add_row(double lower, double upper);
  void add_term(Row row, Column column, double factor);

  std::size_t columns() const { return upper_.size(); }
  std::size_t rows() const { return row_lower_.size(); }

  // Interior point is several times as fast as simplex where the optimum is unique, and can be 10 times slower where
  // very many points are optimal. Either falls back to simplex.
  enum class Method : std::uint8_t { kInteriorPoint, kSimplex };
  // Whether an optimum was found; the rest is meaningful only then.
  bool solve(Method first);
  double bound() const;
  double value(Column column) const { return values_[column]; }
  double price(Row row) const { return prices_[row]; }  // by how much the optimum grows with the row's binding side

 private:
  std::vector<double> upper_, reach_, cost_;
  std::vector<double> row_lower_, row_upper_;
  std::vector<int> term_rows_, term_columns_;
  std::vector<double> term_factors_;
  std::vector<double> values_, prices_;
};

// Rows first, then columns: variables from 0 up, or fixed at 0.
class GrowingProgram {
 public:
  using Column = std::uint32_t;
  using Row = std::uint32_t;
  using Terms = std::vector<std::pair<Row, double>>;  // the same row may come twice

  GrowingProgram();
  ~GrowingProgram();

  // lower <= sum of terms <= upper.
  Row add_row(double lower, double upper);
  Column add_column(double upper, double price, Terms terms);
  // Whether an optimum was found; the rest is of the last one.
  bool solve();
  double objective() const { return objective_; }
  double value(Column column) const { return column < values_.size() ? values_[column] : 0; }
  double price(Row row) const { return prices_[row]; }

 private:
  std::unique_ptr<ClpSimplex> simplex_;
  std::uint32_t columns_ = 0;
  double objective_ = 0;
  std::vector<double> row_lower_, row_upper_;
  // Columns that the solver does not have yet.
  std::vector<double> upper_, cost_, factors_;
  std::vector<int> starts_{0}, rows_;
  std::vector<double> values_, prices_;
};

}  // namespace ebb
