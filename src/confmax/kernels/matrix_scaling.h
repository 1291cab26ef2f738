// Sums over rows that matrix scaling is fitted by. The entries x of a row are its logarithms and a one.

constexpr int LOSSES = -1, NO_SECOND = 0;  // beside the orders BY_CLASS and FULL

FAST inline int64_t pairs_of(int64_t d) { return d * (d + 1) / 2; }

// Write the products (pairs, size) of entries j and k >= j of a block (d, size).
FAST inline void multiply_pairs(const double* x, int64_t d, int64_t size, double* out) {
  for (int64_t j = 0; j < d; j++)
    for (int64_t k = j; k < d; k++, out += size)
      for (int64_t r = 0; r < size; r += DOUBLES)
        store(out + r, load<Doubles>(x + j * size + r) * load<Doubles>(x + k * size + r));
}

// Sums (m, d) of products, and what is added to them: the rows of one block, in lines (m, size), and in panels.
struct Products {
  int64_t m, d, size, tall, wide;
  double *left, *right, *panels, *sums;

  FAST Products(Scratch& scratch, int64_t m, int64_t d, int64_t size)
      : m(m), d(d), size(size), tall((m + TILE - 1) / TILE * TILE), wide(rounded_up(d)) {
    left = padded(scratch, nullptr, 0, 0, tall, size), right = padded(scratch, nullptr, 0, 0, wide, size);
    panels = scratch.make<double>(wide * size), sums = padded(scratch, nullptr, 0, 0, tall, wide);
  }

  FAST void add(int64_t n) {
    to_panels(right, wide, size, panels);
    add_products<false>(left, panels, n, tall, wide, size, sums);
  }

  FAST void write(double* out) const {
    for (int64_t k = 0; k < m; k++) __builtin_memcpy(out + k * d, sums + k * wide, d * sizeof(double));
  }
};

// (z, y, w, start, stop, W, b, order, loss, gradient, second): write loss (1,), gradient (K, K + 1) and second
// derivatives by pairs of entries: none, of each score, or by pairs of scores too. Of the order LOSSES: write the loss
// (n,) of every row whose w is not zero.
template <class T>
FAST int64_t matrix_sums(const Slot* s) {
  const int64_t K = s[0].shape[1], stop = s[4].i, order = s[7].i, size = BLOCK;
  const T* z = s[0].as<T>();
  const double *w = s[2].as<double>(), *W = s[5].as<double>(), *b = s[6].as<double>();
  const int64_t* y = s[1].as<int64_t>();
  double* loss = s[8].as<double>();
  const int64_t n_left = order == FULL ? pairs_of(K) : (order == BY_CLASS ? K : 0);
  if (s[8].shape[0] != (order == LOSSES ? s[0].shape[0] : 1)) return UNFIT;
  if (order != LOSSES && s[9].is_empty()) return UNFIT;
  if (n_left && (s[10].shape[0] != n_left || s[10].shape[1] != pairs_of(K + 1))) return UNFIT;
  Scratch scratch;
  Softmax<T> block(scratch, K, size, nullptr);
  double *scores = scratch.make<double>(K * size), *turned = scratch.make<double>(K * K);
  double *ones = scratch.make<double>(K), *weighted = scratch.make<double>(K * size);
  Products slopes(scratch, K, K + 1, size), bends(scratch, n_left, n_left ? pairs_of(K + 1) : 0, size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < K; k++) ones[k] = 1;
  for (int64_t k = 0; k < K * K; k++) turned[k % K * K + k / K] = W[k];
  double *x = slopes.right, total = 0;
  for (int64_t r = 0; r < size; r++) x[K * size + r] = 1;
  int64_t low = s[3].i;
  while (const int64_t n = block.next(z, w, low, stop)) {
    for (int64_t k = 0; k < K * size; k += DOUBLES) store(x + k, load_doubles(block.z + k));
    multiply(x, turned, K, size, scores);
    block.apply(scores, ones, b, order != LOSSES);
    double weight[BLOCK] = {};
    for (int64_t r = 0; r < n; r++) {
      const int64_t i = block.rows[r];
      const double one = block.log_total[r] - (scores[y[i] * size + r] + b[y[i]]);
      if (order == LOSSES) loss[i] = one;
      weight[r] = w[i], total += w[i] * one;
    }
    if (order == LOSSES) continue;
    for (int64_t k = 0; k < K * size; k++) weighted[k] = weight[k % size] * block.q[k];
    if (order == BY_CLASS) {
      for (int64_t k = 0; k < K * size; k++) bends.left[k] = weighted[k] * (1.0 - block.q[k]);
    } else if (order == FULL) {
      int64_t at = 0;
      for (int64_t j = 0; j < K; j++)
        for (int64_t k = j; k < K; k++, at += size)
          for (int64_t r = 0; r < size; r += DOUBLES) {
            const Doubles both = load<Doubles>(weighted + j * size + r) * load<Doubles>(block.q + k * size + r);
            store(bends.left + at + r, j == k ? load<Doubles>(weighted + j * size + r) - both : -both);
          }
    }
    if (order != NO_SECOND) {
      multiply_pairs(x, K + 1, size, bends.right);
      bends.add(n);
    }
    // probabilities less labels: the derivative of the loss by the scores
    __builtin_memcpy(slopes.left, weighted, K * size * sizeof(double));
    for (int64_t r = 0; r < n; r++) slopes.left[y[block.rows[r]] * size + r] -= weight[r];
    slopes.add(n);
  }
  if (order == LOSSES) return 0;
  loss[0] = total;
  slopes.write(s[9].as<double>());
  if (order != NO_SECOND) bends.write(s[10].as<double>());
  return 0;
}
