// Products of matrices, and the factor of one, with sums in an order that depends on nothing but the shapes: not a
// library's, whose last digits depend on the number of threads.

constexpr int64_t ROWS = 4;  // rows in registers

// A matrix with whole vectors in every row; zeros fill the rest.
FAST inline double* padded(Scratch& scratch, const double* from, int64_t rows, int64_t columns, int64_t more_rows,
                           int64_t stride) {
  double* to = scratch.make<double>(more_rows * stride);
  for (int64_t k = 0; to && k < more_rows * stride; k++) to[k] = 0;
  for (int64_t r = 0; to && from && r < rows; r++)
    __builtin_memcpy(to + r * stride, from + r * columns, columns * sizeof(double));
  return to;
}

// (vectors, start, stop, matrix, out): write the products of rows (n, d) and a matrix (d, m) to out (n, m). The terms
// of a sum are added in their order.
template <class T>
FAST int64_t times(const Slot* s) {
  const int64_t d = s[3].shape[0], m = s[3].shape[1], stop = s[2].i, stride = rounded_up(m);
  Scratch scratch;
  const double* matrix = padded(scratch, s[3].as<double>(), d, m, d, stride);
  double* made = scratch.make<double>(ROWS * stride);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = s[1].i; low < stop; low += ROWS) {
    const int64_t n = least_of(ROWS, stop - low);
    const double* x[ROWS];
    for (int64_t r = 0; r < ROWS; r++) x[r] = s[0].as<double>() + (low + least_of(r, n - 1)) * d;
    for (int64_t j = 0; j < stride; j += DOUBLES) {
      Doubles sum[ROWS] = {};
      for (int64_t i = 0; i < d; i++) {
        const Doubles line = load<Doubles>(matrix + i * stride + j);
#pragma GCC unroll 4
        for (int64_t r = 0; r < ROWS; r++) sum[r] += x[r][i] * line;
      }
#pragma GCC unroll 4
      for (int64_t r = 0; r < ROWS; r++) store(made + r * stride + j, sum[r]);
    }
    for (int64_t r = 0; r < n; r++)
      __builtin_memcpy(s[4].as<double>() + (low + r) * m, made + r * stride, m * sizeof(double));
  }
  return 0;
}

// Subtract the products of N rows of a factor (N, d) from row i of the rest of the matrix, in the order of the rows.
template <int N>
FAST inline void take_off(const double* rows, int64_t d, int64_t i, double* rest) {
  double share[N];
  for (int t = 0; t < N; t++) share[t] = rows[t * d + i];
  for (int64_t j = i; j < d; j++) {
    double sum = rest[j];
#pragma GCC unroll 8
    for (int t = 0; t < N; t++) sum -= share[t] * rows[t * d + j];
    rest[j] = sum;
  }
}

// (matrix): replace the upper triangle of a positive definite matrix (d, d) by its factor U, with U^T U the matrix;
// return 0 where it is not positive definite, else 1.
template <class T>
FAST int64_t factor(const Slot* s) {
  const int64_t d = s[0].shape[0];
  double* a = s[0].as<double>();
  // the rest of the matrix is read once for several rows of the factor
  for (int64_t first = 0; first < d; first += PANEL) {
    const int64_t behind = least_of(first + PANEL, d);
    for (int64_t k = first; k < behind; k++) {
      double* row = a + k * d;
      if (!(row[k] > 0)) return 0;
      const double root = __builtin_sqrt(row[k]);
      for (int64_t j = k; j < d; j++) row[j] = row[j] / root;
      for (int64_t i = k + 1; i < behind; i++) take_off<1>(row, d, i, a + i * d);
    }
    for (int64_t i = behind; i < d; i++) take_off<PANEL>(a + first * d, d, i, a + i * d);
  }
  return 1;
}

// Take a solved line k of x (d, m) off the lines from i to stop, times the entries of a row of coefficients.
FAST inline void take_line_off(const double* row, const double* solved, int64_t i, int64_t stop, int64_t m, double* x) {
  if (m == 1) {
    const double one = solved[0];
    for (; i < stop; i++) x[i] -= row[i] * one;
    return;
  }
  for (; i < stop; i++)
    for (int64_t c = 0; c < m; c++) x[i * m + c] -= row[i] * solved[c];
}

// (factor, turned, sides): replace sides (d, m) by the solutions of U^T U x = sides, for the factor U (d, d)
// of `factor` and its transpose.
template <class T>
FAST int64_t substitute(const Slot* s) {
  const int64_t d = s[2].shape[0], m = s[2].shape[1];
  const double *U = s[0].as<double>(), *turned = s[1].as<double>();
  double* x = s[2].as<double>();
  for (int64_t k = 0; k < d; k++) {
    for (int64_t c = 0; c < m; c++) x[k * m + c] = x[k * m + c] / U[k * d + k];
    take_line_off(U + k * d, x + k * m, k + 1, d, m, x);
  }
  for (int64_t k = d - 1; k >= 0; k--) {
    for (int64_t c = 0; c < m; c++) x[k * m + c] = x[k * m + c] / U[k * d + k];
    take_line_off(turned + k * d, x + k * m, 0, k, m, x);
  }
  return 0;
}
