// See program.h.
#include "bound/program.h"

#include <algorithm>
#include <coin/ClpSimplex.hpp>
#include <coin/ClpSolve.hpp>
#include <coin/CoinPackedMatrix.hpp>

namespace ebb {
Program::Column Program::add_column(double upper, double price) {
  upper_.push_back(upper);
  reach_.push_back(upper);
  cost_.push_back(price);
  return static_cast<Column>(upper_.size() - 1);
}

Program::Column Program::add_unlimited_column(double reach, double price) {
  const Column column = add_column(kInfinity, price);
  reach_[column] = reach;
  return column;
}

Program::Row Program::add_row(double lower, double upper) {
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  return static_cast<Row>(row_lower_.size() - 1);
}

void Program::add_term(Row row, Column column, double factor) {
  term_rows_.push_back(static_cast<int>(row));
  term_columns_.push_back(static_cast<int>(column));
  term_factors_.push_back(factor);
}

bool Program::solve(Method first) {
  CoinPackedMatrix matrix(true, term_rows_.data(), term_columns_.data(), term_factors_.data(),
                          static_cast<CoinBigIndex>(term_factors_.size()));
  matrix.setDimensions(static_cast<int>(rows()), static_cast<int>(columns()));
  const std::vector<double> lower(columns(), 0);
  const auto interior = first == Method::kInteriorPoint ? ClpSolve::useBarrier : ClpSolve::useDual;
  for (const auto method : {interior, ClpSolve::useDual}) {
    ClpSimplex simplex;
    simplex.setLogLevel(0);
    simplex.loadProblem(matrix, lower.data(), upper_.data(), cost_.data(), row_lower_.data(), row_upper_.data());
    ClpSolve how;
    how.setSolveType(method);
    how.setPresolveType(ClpSolve::presolveOn);
    simplex.initialSolve(how);
    if (!simplex.isProvenOptimal()) continue;
    values_.assign(simplex.primalColumnSolution(), simplex.primalColumnSolution() + columns());
    prices_.assign(simplex.dualRowSolution(), simplex.dualRowSolution() + rows());
    return true;
  }
  return false;
}

double Program::bound() const {
  // min cost·x >= sum of price·limit over rows + min over 0 <= x <= reach of (cost - prices·matrix)·x, for any prices
  // whose sign fits a limit that exists.
  std::vector<double> prices = prices_;
  std::vector<double> reduced = cost_;
  double total = 0;
  for (std::size_t row = 0; row < rows(); ++row) {
    const double limit = prices[row] > 0 ? row_lower_[row] : row_upper_[row];
    if (limit == kInfinity || limit == -kInfinity) prices[row] = 0;
    if (prices[row] != 0) total += prices[row] * limit;
  }
  for (std::size_t i = 0; i < term_factors_.size(); ++i) {
    reduced[static_cast<std::size_t>(term_columns_[i])] -=
        prices[static_cast<std::size_t>(term_rows_[i])] * term_factors_[i];
  }
  for (std::size_t column = 0; column < columns(); ++column) total += std::min(reduced[column], 0.0) * reach_[column];
  return std::max(total, 0.0);
}

}  // namespace ebb
