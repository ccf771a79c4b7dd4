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

GrowingProgram::GrowingProgram() : simplex_(std::make_unique<ClpSimplex>()) { simplex_->setLogLevel(0); }
GrowingProgram::~GrowingProgram() = default;

GrowingProgram::Row GrowingProgram::add_row(double lower, double upper) {
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  return static_cast<Row>(row_lower_.size() - 1);
}

GrowingProgram::Column GrowingProgram::add_column(double upper, double price, Terms terms) {
  std::sort(terms.begin(), terms.end());
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i > 0 && terms[i].first == terms[i - 1].first) {
      factors_.back() += terms[i].second;
    } else {
      rows_.push_back(static_cast<int>(terms[i].first));
      factors_.push_back(terms[i].second);
    }
  }
  starts_.push_back(static_cast<int>(rows_.size()));
  upper_.push_back(upper);
  cost_.push_back(price);
  return columns_++;
}

bool GrowingProgram::solve() {
  if (simplex_->numberRows() == 0) {
    const auto rows = static_cast<int>(row_lower_.size());
    simplex_->resize(rows, 0);
    std::copy(row_lower_.begin(), row_lower_.end(), simplex_->rowLower());
    std::copy(row_upper_.begin(), row_upper_.end(), simplex_->rowUpper());
  }
  if (!upper_.empty()) {
    const std::vector<double> lower(upper_.size(), 0);
    simplex_->addColumns(static_cast<int>(upper_.size()), lower.data(), upper_.data(), cost_.data(), starts_.data(),
                         rows_.data(), factors_.data());
    upper_.clear();
    cost_.clear();
    factors_.clear();
    rows_.clear();
    starts_ = {0};
  }
  simplex_->primal();
  if (!simplex_->isProvenOptimal()) return false;
  objective_ = simplex_->objectiveValue();
  values_.assign(simplex_->primalColumnSolution(), simplex_->primalColumnSolution() + columns_);
  prices_.assign(simplex_->dualRowSolution(), simplex_->dualRowSolution() + row_lower_.size());
  return true;
}

}  // namespace ebb
