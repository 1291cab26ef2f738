// Products of matrices, and the factor of one, with sums in an order that depends on nothing but the shapes: not a
// library's, whose last digits depend on the number of threads.

constexpr int64_t ROWS = 4, PASS = 128;  // rows in registers, and rows whose products are summed before they are added

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

// (left, right, out): add the sums over rows of the products of left (n, m) and right (n, d) to out (m, d); four rows
// in turn.
template <class T>
FAST int64_t cross(const Slot* s) {
  const int64_t n = s[0].shape[0], m = s[0].shape[1], d = s[1].shape[1];
  const int64_t tall = rounded_up(m), wide = rounded_up(d);
  Scratch scratch;
  double* sums = padded(scratch, s[2].as<double>(), m, d, tall, wide);
  double *left = scratch.make<double>(PASS * tall), *right = scratch.make<double>(PASS * wide);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < PASS * tall; k++) left[k] = 0;
  for (int64_t k = 0; k < PASS * wide; k++) right[k] = 0;
  for (int64_t low = 0; low < n; low += PASS) {
    const int64_t here = least_of(PASS, n - low);
    for (int64_t r = 0; r < here; r++) {
      __builtin_memcpy(left + r * tall, s[0].as<double>() + (low + r) * m, m * sizeof(double));
      __builtin_memcpy(right + r * wide, s[1].as<double>() + (low + r) * d, d * sizeof(double));
    }
    // rows behind the last of four add zeros
    for (int64_t k = here * tall; k < (here + 3) / 4 * 4 * tall; k++) left[k] = 0;
    for (int64_t k = 0; k < tall; k += TILE)
      for (int64_t c = 0; c < wide; c += DOUBLES) {
        Doubles tile[TILE];
#pragma GCC unroll 4
        for (int t = 0; t < TILE; t++) tile[t] = load<Doubles>(sums + (k + t) * wide + c);
        for (int64_t r = 0; r < here; r += 4) {
          const double *w = left + r * tall + k, *u = right + r * wide + c;
          const Doubles u0 = load<Doubles>(u), u1 = load<Doubles>(u + wide);
          const Doubles u2 = load<Doubles>(u + 2 * wide), u3 = load<Doubles>(u + 3 * wide);
#pragma GCC unroll 4
          for (int t = 0; t < TILE; t++)
            tile[t] += (w[t] * u0 + w[tall + t] * u1) + (w[2 * tall + t] * u2 + w[3 * tall + t] * u3);
        }
#pragma GCC unroll 4
        for (int t = 0; t < TILE; t++) store(sums + (k + t) * wide + c, tile[t]);
      }
  }
  for (int64_t k = 0; k < m; k++) __builtin_memcpy(s[2].as<double>() + k * d, sums + k * wide, d * sizeof(double));
  return 0;
}

// (matrix): replace the upper triangle of a positive definite matrix (d, d) by its factor U, with U^T U the matrix;
// return 0 where it is not positive definite, else 1.
template <class T>
FAST int64_t factor(const Slot* s) {
  const int64_t d = s[0].shape[0];
  double* a = s[0].as<double>();
  for (int64_t k = 0; k < d; k++) {
    double* row = a + k * d;
    if (!(row[k] > 0)) return 0;
    const double root = __builtin_sqrt(row[k]);
    for (int64_t j = k; j < d; j++) row[j] = row[j] / root;
    for (int64_t i = k + 1; i < d; i++) {
      double* below = a + i * d;
      const double share = row[i];
      for (int64_t j = i; j < d; j++) below[j] -= share * row[j];
    }
  }
  return 1;
}

// (factor, sides): replace sides (d, m) by the solutions of U^T U x = sides, for the factor U (d, d) of `factor`.
template <class T>
FAST int64_t substitute(const Slot* s) {
  const int64_t d = s[1].shape[0], m = s[1].shape[1];
  const double* U = s[0].as<double>();
  double* x = s[1].as<double>();
  for (int64_t k = 0; k < d; k++) {
    double* solved = x + k * m;
    for (int64_t c = 0; c < m; c++) solved[c] = solved[c] / U[k * d + k];
    for (int64_t i = k + 1; i < d; i++) {
      const double share = U[k * d + i];
      for (int64_t c = 0; c < m; c++) x[i * m + c] -= share * solved[c];
    }
  }
  for (int64_t k = d - 1; k >= 0; k--) {
    double* solved = x + k * m;
    for (int64_t c = 0; c < m; c++) solved[c] = solved[c] / U[k * d + k];
    for (int64_t i = 0; i < k; i++) {
      const double share = U[i * d + k];
      for (int64_t c = 0; c < m; c++) x[i * m + c] -= share * solved[c];
    }
  }
  return 0;
}
