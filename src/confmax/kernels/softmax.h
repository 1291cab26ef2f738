// Exponentials, logarithms and softmax of rows, and the sums over rows that calibrations are fitted by.
//
// The library's exponential takes one number at a time, and a calibrated table needs one per entry and pass. Written
// as plain arithmetic, both functions become vector instructions, and their results are the same bits on every machine.
// Blocks are class-major: a vector holds one class of several rows, so that rows of any number of classes fill it.

typedef uint64_t Bits __attribute__((vector_size(WIDTH)));

constexpr int64_t PANEL = 8;           // columns that are turned together, and the rows of a square
constexpr int64_t BLOCK = 32;          // rows of a block: products are subtracted after so many, which is in the result
constexpr int64_t WIDE_BLOCK = 16;     // with many classes, so that a block stays in the inner caches
constexpr int64_t TILE = 4;            // rows of second derivatives that are kept in registers
constexpr int BY_CLASS = 1, FULL = 2;  // orders of second derivatives

constexpr double LOG2E = 1.4426950408889634;
// the logarithm of 2 in two parts, the first with so few digits that its products with whole numbers are exact
constexpr double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;
constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves a whole number in the last bits
constexpr double TINIEST = -708.0;            // below it the exponential is taken as zero
constexpr double WHOLE = 4503599627370496.0;  // 2^52
constexpr uint64_t WHOLE_BITS = 0x4330000000000000u, BIAS = 1023, ROOT_HALF = 0x3FE6A09E667F3BCDu;
constexpr int SHIFT = 52;

FAST inline Doubles everywhere(double x) { return splat<Doubles>(x); }

// Return the exponentials of numbers that are not positive; 0 below -708.
FAST INLINE Doubles exponential(Doubles x) {
  // exp(x) = 2^n exp(r) with r at most half a log 2; the bits of n are the last ones of shifted
  const Doubles y = x < TINIEST ? everywhere(TINIEST) : x;
  const Doubles shifted = y * LOG2E + ROUND, n = shifted - ROUND;
  const Doubles r = (y - n * LN2_HIGH) - n * LN2_LOW, r2 = r * r, r4 = r2 * r2;
  // pairs of terms, then pairs of pairs: fewer products wait for each other than in Horner's scheme
  const Doubles low = (1.0 / 2 + 1.0 / 6 * r) + r2 * (1.0 / 24 + 1.0 / 120 * r);
  const Doubles middle = (1.0 / 720 + 1.0 / 5040 * r) + r2 * (1.0 / 40320 + 1.0 / 362880 * r);
  const Doubles high = (1.0 / 3628800 + 1.0 / 39916800 * r) + r2 * (1.0 / 479001600 + 1.0 / 6227020800 * r);
  const Doubles power = 1.0 + (r + r2 * (low + r4 * (middle + r4 * high)));
  const Doubles scaled = power * (Doubles)(((Bits)shifted + BIAS) << SHIFT);
  return x < TINIEST ? Doubles{} : scaled;
}

// Return the logarithms of numbers that are positive and not denormal.
FAST INLINE Doubles logarithm(Doubles x) {
  // x = m 2^k with m between the roots of 1/2 and 2
  const Bits exponent = ((Bits)x - ROOT_HALF + (BIAS << SHIFT)) >> SHIFT;
  const Doubles k = (Doubles)(exponent | WHOLE_BITS) - (WHOLE + 1023.0);
  const Doubles f = (Doubles)((Bits)x - (exponent << SHIFT) + (BIAS << SHIFT)) - 1.0;
  const Doubles s = f / (2.0 + f), t = s * s, t2 = t * t, t4 = t2 * t2;
  const Doubles low = (2.0 / 3 + 2.0 / 5 * t) + t2 * (2.0 / 7 + 2.0 / 9 * t);
  const Doubles middle = (2.0 / 11 + 2.0 / 13 * t) + t2 * (2.0 / 15 + 2.0 / 17 * t);
  const Doubles high = (2.0 / 19 + 2.0 / 21 * t) + t2 * (2.0 / 23);
  const Doubles rest = t * (low + t4 * (middle + t4 * high));
  // log m = f - s (f - rest): the first term is exact
  return k * LN2_HIGH + (f - (s * (f - rest) - k * LN2_LOW));
}

template <class T>
FAST inline void store_doubles(T* place, Doubles v) {
  typedef T narrow __attribute__((vector_size(DOUBLES * sizeof(T))));
  store(place, __builtin_convertvector(v, narrow));
}

// (p, floor, out): write log(p + floor) to out, for p that are not negative and a floor of at least 1e-300.
template <class T>
FAST int64_t logs(const Slot* s) {
  const int64_t n = s[0].shape[0], whole = n - n % DOUBLES;
  const T* p = s[0].as<T>();
  T* out = s[2].as<T>();
  for (int64_t i = 0; i < whole; i += DOUBLES) store_doubles(out + i, logarithm(load_doubles(p + i) + s[1].d));
  T rest[DOUBLES] = {};
  for (int64_t i = whole; i < n; i++) rest[i - whole] = p[i];
  store_doubles(rest, logarithm(load_doubles(rest) + s[1].d));
  for (int64_t i = whole; i < n; i++) out[i] = rest[i - whole];
  return 0;
}

// Four sums of a row's numbers in turn, added in a fixed order: what is left over goes to the first.
struct Four {
  Doubles sum[4];

  FAST inline Four() : sum{} {}
  FAST inline Doubles total() const { return (sum[0] + sum[1]) + (sum[2] + sum[3]); }
};

// The scores of a block of rows, class-major, which become its softmax. Nothing here knows the type of the table: the
// exponentials, which are long, are compiled once for both.
struct Scores {
  int64_t K, size, whole;
  double *q, *log_total;  // scores, then probabilities (K, size); largest scores, then logarithms of the normalisers

  // Write the exponentials and the logarithms of their normalisers, and divide the former or not.
  FAST __attribute__((noinline)) void exponentiate(bool normalised) {
    Doubles total = Doubles{};
    for (int64_t r = 0; r < size; r += DOUBLES) {
      const Doubles top = load<Doubles>(log_total + r);
      // the rows before are divided meanwhile, because quotients take as long as exponentials, in another unit
      total = normalised && r > 0 ? raise<true>(r, top, total) : raise<false>(r, top, total);
      store(log_total + r, top + logarithm(total));
    }
    for (int64_t k = 0; normalised && k < K; k++) divide(k, size - DOUBLES, total);
  }

  // Write exponentials of the scores of one vector of rows, and return their sums. The largest score is taken off
  // first: no exponential exceeds one, and their sum is at least one.
  template <bool behind>
  FAST inline Doubles raise(int64_t r, Doubles top, Doubles before) {
    Four sums;
    for (int64_t k = 0; k < whole; k += 4) {
#pragma GCC unroll 4
      for (int64_t u = 0; u < 4; u++) {
        if (behind) divide(k + u, r - DOUBLES, before);
        sums.sum[u] += raised(k + u, r, top);
      }
    }
    for (int64_t k = whole; k < K; k++) {
      if (behind) divide(k, r - DOUBLES, before);
      sums.sum[0] += raised(k, r, top);
    }
    return sums.total();
  }

  FAST INLINE Doubles raised(int64_t k, int64_t r, Doubles top) {
    const Doubles e = exponential(load<Doubles>(q + k * size + r) - top);
    store(q + k * size + r, e);
    return e;
  }

  FAST inline void divide(int64_t k, int64_t r, Doubles total) {
    store(q + k * size + r, load<Doubles>(q + k * size + r) / total);
  }
};

// A block of rows, turned class-major, and its softmax.
template <class T>
struct Softmax : Scores {
  T *z, *gathered;  // (K, size); rows that lie apart
  int64_t* rows;    // that the block holds

  // q may lie in an array of the caller.
  FAST Softmax(Scratch& scratch, int64_t K, int64_t size, double* place) : Scores{K, size, K - K % 4} {
    z = scratch.make<T>(K * size), gathered = scratch.make<T>(K * size);
    q = place ? place : scratch.make<double>(K * size);
    log_total = scratch.make<double>(size), rows = scratch.make<int64_t>(size);
  }

  // Load the next rows from low that are used, as many as a block holds; return their number, and move low behind them.
  template <class U>
  FAST int64_t next(const T* table, const U* use, int64_t& low, int64_t stop) {
    int64_t n = 0;
    for (; low < stop && n < size; low++) {
      rows[n] = low;
      n += use[low] != 0;
    }
    if (n == 0) return 0;
    const bool together = rows[n - 1] - rows[0] == n - 1;
    if (!together)
      for (int64_t r = 0; r < n; r++) __builtin_memcpy(gathered + r * K, table + rows[r] * K, K * sizeof(T));
    load_block(together ? table + rows[0] * K : gathered, n, K, z, size);
    return n;
  }

  // Write softmax(a x + b), or the exponentials and the logarithms of the normalisers alone.
  template <class X>
  FAST void apply(const X* x, const double* a, const double* b, bool normalised) {
    score(x, a, b);
    exponentiate(normalised);
  }

  // Write the scores, and the largest of every row to log_total.
  template <class X>
  FAST inline void score(const X* x, const double* a, const double* b) {
    constexpr int64_t U = DOUBLES > 4 ? 2 : 4;  // largest scores in the making: each waits for its last comparison
    for (int64_t r = 0; r < size; r += U * DOUBLES) {
      Doubles top[U];
#pragma GCC unroll 4
      for (int64_t u = 0; u < U; u++) top[u] = everywhere(-__builtin_inf());
      for (int64_t k = 0; k < K; k++) {
#pragma GCC unroll 4
        for (int64_t u = 0; u < U; u++) {
          const int64_t at = k * size + r + u * DOUBLES;
          const Doubles made = a[k] * load_doubles(x + at) + b[k];
          top[u] = made > top[u] ? made : top[u];
          store(q + at, made);
        }
      }
#pragma GCC unroll 4
      for (int64_t u = 0; u < U; u++) store(log_total + r + u * DOUBLES, top[u]);
    }
  }

  // Return the sums of q (z - centre) and of its square, or of q z, for the rows of one vector.
  template <bool squared>
  FAST inline Doubles weighted(int64_t r, Doubles centre) const {
    Four sums;
    for (int64_t k = 0; k < whole; k += 4) {
#pragma GCC unroll 4
      for (int64_t u = 0; u < 4; u++) sums.sum[u] += term<squared>(k + u, r, centre);
    }
    for (int64_t k = whole; k < K; k++) sums.sum[0] += term<squared>(k, r, centre);
    return sums.total();
  }

  template <bool squared>
  FAST INLINE Doubles term(int64_t k, int64_t r, Doubles centre) const {
    const Doubles x = load_doubles(z + k * size + r) - centre;
    return load<Doubles>(q + k * size + r) * (squared ? x * x : x);
  }
};

inline int64_t rows_together(int64_t K) { return K <= MANY ? BLOCK : WIDE_BLOCK; }

inline int64_t rounded_up(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

// Write the products (d, size) of a block of rows (d, size) and a matrix (d, d); the terms of a sum are added in their
// order.
FAST inline void multiply(const double* x, const double* matrix, int64_t d, int64_t size, double* out) {
  for (int64_t r = 0; r < size; r += DOUBLES) {
    int64_t j = 0;
    for (; j + TILE <= d; j += TILE) {
      Doubles sum[TILE] = {};
      for (int64_t i = 0; i < d; i++) {
        const Doubles term = load<Doubles>(x + i * size + r);
#pragma GCC unroll 4
        for (int t = 0; t < TILE; t++) sum[t] += term * matrix[i * d + j + t];
      }
#pragma GCC unroll 4
      for (int t = 0; t < TILE; t++) store(out + (j + t) * size + r, sum[t]);
    }
    for (; j < d; j++) {
      Doubles sum = Doubles{};
      for (int64_t i = 0; i < d; i++) sum += load<Doubles>(x + i * size + r) * matrix[i * d + j];
      store(out + j * size + r, sum);
    }
  }
}

// Writes the softmax of blocks as rows of a table.
template <class T>
struct Rows {
  int64_t K, size, wide;
  T *turned, *rows;

  FAST Rows(Scratch& scratch, int64_t K, int64_t size) : K(K), size(size), wide(rounded_up(K)) {
    turned = scratch.make<T>(wide * size), rows = scratch.make<T>(wide * size);
    for (int64_t k = K * size; scratch.ok && k < wide * size; k++) turned[k] = 0;
  }

  FAST void write(const double* q, int64_t n, T* out) {
    for (int64_t k = 0; k < K * size; k += DOUBLES) store_doubles(turned + k, load<Doubles>(q + k));
    for (int64_t k = 0; k < wide; k += PANEL)
      for (int64_t r = 0; r < size; r += PANEL) turn_eight(turned + k * size + r, size, rows + r * wide + k, wide);
    for (int64_t r = 0; r < n; r++) __builtin_memcpy(out + r * K, rows + r * wide, K * sizeof(T));
  }
};

// (proba, start, stop, W, b, floor, out): write softmax(W log(p + floor) + b); W (K,) is a diagonal, or (K, K).
template <class T>
FAST int64_t scale(const Slot* s) {
  const int64_t K = s[0].shape[1], stop = s[2].i, size = rows_together(K);
  const bool full = s[3].shape[1] == K;
  const T* proba = s[0].as<T>();
  const double *W = s[3].as<double>(), *b = s[4].as<double>();
  Scratch scratch;
  Softmax<T> block(scratch, K, size, nullptr);
  Rows<T> rows(scratch, K, size);
  double *logs_of = scratch.make<double>(K * size), *scores = scratch.make<double>(full ? K * size : 0);
  double *ones = scratch.make<double>(K), *turned = scratch.make<double>(full ? K * K : 0);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < K; k++) ones[k] = 1;
  for (int64_t k = 0; full && k < K * K; k++) turned[k % K * K + k / K] = W[k];
  for (int64_t low = s[1].i; low < stop; low += size) {
    const int64_t n = least_of(size, stop - low);
    load_block(proba + low * K, n, K, block.z, size);
    for (int64_t k = 0; k < K * size; k += DOUBLES) store(logs_of + k, logarithm(load_doubles(block.z + k) + s[5].d));
    if (full) {
      multiply(logs_of, turned, K, size, scores);
      block.apply(scores, ones, b, true);
    } else {
      block.apply(logs_of, W, b, true);
    }
    rows.write(block.q, n, s[6].as<T>() + low * K);
  }
  return 0;
}

// (z, y, use, start, stop, a, b, out): write the log losses of the rows to use.
template <class T>
FAST int64_t row_losses(const Slot* s) {
  const int64_t K = s[0].shape[1];
  const T* z = s[0].as<T>();
  const double *a = s[5].as<double>(), *b = s[6].as<double>();
  Scratch scratch;
  Softmax<T> block(scratch, K, rows_together(K), nullptr);
  if (!scratch.ok) return NO_MEMORY;
  int64_t low = s[3].i;
  while (const int64_t n = block.next(z, s[2].as<uint8_t>(), low, s[4].i)) {
    block.apply(block.z, a, b, false);
    for (int64_t r = 0; r < n; r++) {
      const int64_t i = block.rows[r], y = s[1].as<int64_t>()[i];
      s[7].as<double>()[i] = block.log_total[r] - (a[y] * z[i * K + y] + b[y]);
    }
  }
  return 0;
}

// (z, y, w, start, stop, power, out): add loss, first and second derivative by the common power (3,).
template <class T>
FAST int64_t power_sums(const Slot* s) {
  const int64_t K = s[0].shape[1], size = rows_together(K);
  const T* z = s[0].as<T>();
  const double power = s[5].d;
  double* out = s[6].as<double>();
  Scratch scratch;
  Softmax<T> block(scratch, K, size, nullptr);
  double *a = scratch.make<double>(K), *b = scratch.make<double>(K);
  double *mean = scratch.make<double>(size), *spread = scratch.make<double>(size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < K; k++) a[k] = power, b[k] = 0;
  int64_t low = s[3].i;
  while (const int64_t n = block.next(z, s[2].as<double>(), low, s[4].i)) {
    block.apply(block.z, a, b, true);
    for (int64_t r = 0; r < size; r += DOUBLES) {
      const Doubles centre = block.template weighted<false>(r, Doubles{});
      store(mean + r, centre);
      store(spread + r, block.template weighted<true>(r, centre));
    }
    for (int64_t r = 0; r < n; r++) {
      const int64_t i = block.rows[r];
      const double w = s[2].as<double>()[i], truth = z[i * K + s[1].as<int64_t>()[i]];
      out[0] += w * (block.log_total[r] - power * truth);
      out[1] += w * (mean[r] - truth);
      out[2] += w * spread[r];
    }
  }
  return 0;
}

// Panels of eight columns: (n / 8, size, 8). A vector holds columns of one row, and those of a panel lie together.
FAST __attribute__((noinline)) void to_panels(const double* x, int64_t n, int64_t size, double* panels) {
  for (int64_t k = 0; k < n; k += PANEL)
    for (int64_t r = 0; r < size; r += PANEL) turn_eight(x + k * size + r, size, panels + k * size + r * PANEL, PANEL);
}

FAST inline int64_t in_panel(int64_t k, int64_t r, int64_t size) {
  return k / PANEL * PANEL * size + r * PANEL + k % PANEL;
}

// Add the first n rows of panels of m columns, weighted, less other rows: one row after the other.
FAST inline void add_rows(const double* panels, const double* weight, const double* less, int64_t n, int64_t m,
                          int64_t size, double* sums) {
  for (int64_t k = 0; k < m; k += DOUBLES) {
    const int64_t first = in_panel(k, 0, size);
    Doubles sum = load<Doubles>(sums + k);
    for (int64_t r = 0; r < n; r++) {
      sum += weight[r] * load<Doubles>(panels + first + r * PANEL);
      if (less) sum -= load<Doubles>(less + first + r * PANEL);
    }
    store(sums + k, sum);
  }
}

// Add left^T right of n rows to sums (tall, wide), or to its upper triangle at least; four rows in turn. left is
// (tall, size), with zeros behind row n, and right in panels; tall is a multiple of four, and wide of eight.
template <bool upper>
FAST inline void add_products(const double* left, const double* right, int64_t n, int64_t tall, int64_t wide,
                              int64_t size, double* sums) {
  for (int64_t k = 0; k < tall; k += TILE) {
    for (int64_t c = upper ? k / DOUBLES * DOUBLES : 0; c < wide; c += DOUBLES) {
      const double *u = right + in_panel(c, 0, size), *w = left + k * size;
      Doubles tile[TILE];
#pragma GCC unroll 4
      for (int t = 0; t < TILE; t++) tile[t] = load<Doubles>(sums + (k + t) * wide + c);
      for (int64_t r = 0; r < n; r += 4) {
        const Doubles u0 = load<Doubles>(u + r * PANEL), u1 = load<Doubles>(u + (r + 1) * PANEL);
        const Doubles u2 = load<Doubles>(u + (r + 2) * PANEL), u3 = load<Doubles>(u + (r + 3) * PANEL);
#pragma GCC unroll 4
        for (int t = 0; t < TILE; t++) {
          const double* v = w + t * size + r;
          tile[t] += (v[0] * u0 + v[1] * u1) + (v[2] * u2 + v[3] * u3);
        }
      }
#pragma GCC unroll 4
      for (int t = 0; t < TILE; t++) store(sums + (k + t) * wide + c, tile[t]);
    }
  }
}

// Add second derivatives of each class by itself (3, K): by a twice, by a and b, by b twice.
template <class T>
FAST void add_by_class(const T* z, const double* q, const double* weight, int64_t n, int64_t K, int64_t size,
                       double* second) {
  for (int64_t k = 0; k < K; k++) {
    double aa = second[k], ab = second[K + k], bb = second[2 * K + k];
    for (int64_t r = 0; r < n; r++) {
      const double x = z[k * size + r], p = q[k * size + r], spread = weight[r] * p * (1.0 - p);
      aa += spread * x * x, ab += spread * x, bb += spread;
    }
    second[k] = aa, second[K + k] = ab, second[2 * K + k] = bb;
  }
}

// Second derivatives (d, d) above the diagonal, while blocks of rows are added to them.
struct Curvature {
  int64_t K, d, size;
  double *sums, *v, *bend, *panels;  // v is minus the weighted u; bend the curvature by a of each class by itself
  double *ones, *diagonal, *beside;  // entries (k, k) by a twice; entries (k, K + k), then (k, k) by b twice

  FAST Curvature(Scratch& scratch, int64_t K, int64_t size, const double* before)
      : K(K), d(rounded_up(2 * K)), size(size) {
    const int64_t wide = rounded_up(K);
    sums = scratch.make<double>(d * d), v = scratch.make<double>(d * size);
    bend = scratch.make<double>(wide * size), panels = scratch.make<double>(wide * size);
    ones = scratch.make<double>(size), diagonal = scratch.make<double>(wide), beside = scratch.make<double>(d);
    if (!scratch.ok) return;
    for (int64_t k = 0; k < d * d; k++) sums[k] = 0;
    for (int64_t k = 0; k < 2 * K; k++) __builtin_memcpy(sums + k * d, before + k * 2 * K, 2 * K * sizeof(double));
    for (int64_t k = 0; k < wide * size; k++) bend[k] = 0;
    for (int64_t k = 0; k < wide; k++) diagonal[k] = 0;
    for (int64_t k = 0; k < d; k++) beside[k] = 0;
    for (int64_t r = 0; r < size; r++) ones[r] = 1;
  }

  // Add n rows; weights behind them are zero.
  template <class T>
  FAST void add(const T* z, const double* u, const double* u_panels, const double* weight, int64_t n) {
    for (int64_t k = 0; k < d * size; k += size)
      for (int64_t r = 0; r < size; r++) v[k + r] = -(weight[r] * u[k + r]);
    for (int64_t k = 0; k < K * size; k++) bend[k] = -v[k] * z[k];
    to_panels(bend, rounded_up(K), size, panels);
    for (int64_t k = 0; k < K; k++) {
      diagonal[k] = sums[k * d + k], beside[k] = sums[k * d + K + k];
      beside[K + k] = sums[(K + k) * d + K + k];
    }
    add_rows(panels, ones, nullptr, n, rounded_up(K), size, diagonal);
    add_rows(u_panels, weight, nullptr, n, d, size, beside);
    for (int64_t k = 0; k < K; k++) {
      sums[k * d + k] = diagonal[k], sums[k * d + K + k] = beside[k];
      sums[(K + k) * d + K + k] = beside[K + k];
    }
    add_products<true>(v, u_panels, n, d, d, size, sums);
  }

  FAST void write(double* second) const {
    for (int64_t k = 0; k < 2 * K; k++)
      for (int64_t c = k; c < 2 * K; c++) second[k * 2 * K + c] = sums[k * d + c];
  }
};

// (z, y, w, start, stop, a, b, order, loss, gradient, second): add loss (1,), gradient (2K,) and second derivatives:
// none, blocks (3, K), or (2K, 2K) above the diagonal.
template <class T>
FAST int64_t vector_sums(const Slot* s) {
  const int64_t K = s[0].shape[1], stop = s[4].i, order = s[7].i;
  const int64_t size = order == FULL ? BLOCK : rows_together(K), d = rounded_up(2 * K);
  const T* z = s[0].as<T>();
  const double *a = s[5].as<double>(), *b = s[6].as<double>();
  double *loss = s[8].as<double>(), *gradient = s[9].as<double>(), *second = s[10].as<double>();
  if ((order == FULL || order == BY_CLASS) && s[10].shape[0] != (order == FULL ? 2 * K : 3)) return UNFIT;
  Scratch scratch;
  // the derivatives of the scores by a and b, times the probabilities: (d, size) and in panels
  double *u = scratch.make<double>(d * size), *panels = scratch.make<double>(d * size);
  // what the labels take off the gradient, in panels
  double *truth = scratch.make<double>(d * size), *sums = scratch.make<double>(d);
  double* weight = scratch.make<double>(size);
  Softmax<T> block(scratch, K, size, scratch.ok ? u + K * size : nullptr);
  Curvature curvature(scratch, order == FULL ? K : 0, size, second);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < d * size; k++) u[k] = 0, truth[k] = 0;
  for (int64_t k = 0; k < d; k++) sums[k] = k < 2 * K ? gradient[k] : 0;
  int64_t low = s[3].i;
  while (const int64_t n = block.next(z, s[2].as<double>(), low, stop)) {
    block.apply(block.z, a, b, true);
    for (int64_t k = 0; k < K * size; k++) u[k] = block.q[k] * block.z[k];
    to_panels(u, d, size, panels);
    for (int64_t r = 0; r < size; r++) weight[r] = r < n ? s[2].as<double>()[block.rows[r]] : 0;
    for (int64_t r = 0; r < n; r++) {
      const int64_t i = block.rows[r], y = s[1].as<int64_t>()[i];
      const double x = z[i * K + y];
      loss[0] += weight[r] * (block.log_total[r] - a[y] * x - b[y]);
      truth[in_panel(y, r, size)] = weight[r] * x, truth[in_panel(K + y, r, size)] = weight[r];
    }
    add_rows(panels, weight, truth, n, d, size, sums);
    for (int64_t r = 0; r < n; r++) {
      const int64_t y = s[1].as<int64_t>()[block.rows[r]];
      truth[in_panel(y, r, size)] = 0, truth[in_panel(K + y, r, size)] = 0;
    }
    if (order == FULL) curvature.add(block.z, u, panels, weight, n);
    if (order == BY_CLASS) add_by_class(block.z, block.q, weight, n, K, size, second);
  }
  for (int64_t k = 0; k < 2 * K; k++) gradient[k] = sums[k];
  if (order == FULL) curvature.write(second);
  return 0;
}
