// Cuts along one number: the order of numbers, the hull of points, and confusions from row to row.

constexpr int DIGIT = 11;  // bits that a pass of the sort reads: its counts stay in the inner cache

struct Keyed {
  uint64_t key;
  int64_t place;
};

// (keys, order): write the places (n,) of keys in rising order, equal keys in their own order and NaN last: numbers are
// brought to integers that rise alike, and sorted digit by digit.
template <class T>
FAST int64_t stable_order(const Slot* s) {
  typedef typename Word<T>::type word;
  constexpr int passes = (8 * sizeof(T) + DIGIT - 1) / DIGIT, digits = 1 << DIGIT;
  const int64_t n = s[0].shape[0];
  const T* keys = s[0].as<T>();
  Scratch scratch;
  Keyed *from = scratch.make<Keyed>(n), *to = scratch.make<Keyed>(n);
  int64_t* counts = scratch.make<int64_t>(passes * digits);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < passes * digits; k++) counts[k] = 0;
  for (int64_t r = 0; r < n; r++) {
    const T x = keys[r] + T(0);  // minus zero is zero
    const word first = word(1) << (8 * sizeof(T) - 1);
    word bits;
    __builtin_memcpy(&bits, &x, sizeof x);
    bits = x != x ? ~word(0) : bits < 0 ? ~bits : bits | first;
    const uint64_t key = sizeof(T) == 4 ? uint64_t(uint32_t(bits)) : uint64_t(bits);
    from[r] = {key, r};
    for (int pass = 0; pass < passes; pass++) counts[pass * digits + (key >> (pass * DIGIT)) % digits]++;
  }
  for (int pass = 0; pass < passes; pass++) {
    int64_t *begin = counts + pass * digits, end = 0;
    // often all keys have one sign and few exponents
    if (n > 0 && begin[(from[0].key >> (pass * DIGIT)) % digits] == n) continue;
    for (int k = 0; k < digits; k++) end += begin[k], begin[k] = end - begin[k];
    for (int64_t r = 0; r < n; r++) to[begin[(from[r].key >> (pass * DIGIT)) % digits]++] = from[r];
    Keyed* sorted = to;
    to = from, from = sorted;
  }
  for (int64_t r = 0; r < n; r++) s[1].as<int64_t>()[r] = from[r].place;
  return 0;
}

// (x, y, kept): write the corners of the upper hull of points (T,) whose x does not fall; return how many there are.
template <class T>
FAST int64_t upper_chain(const Slot* s) {
  const double *x = s[0].as<double>(), *y = s[1].as<double>();
  int64_t *kept = s[2].as<int64_t>(), size = 0;
  for (int64_t t = 0; t < s[0].shape[0]; t++) {
    // drop corners that lie on or below the line from the one before them to the new point
    while (size >= 2) {
      const int64_t a = kept[size - 2], b = kept[size - 1];
      if ((x[b] - x[a]) * (y[t] - y[a]) < (y[b] - y[a]) * (x[t] - x[a])) break;
      size--;
    }
    kept[size++] = t;
  }
  return size;
}

// The confusion of decisions while rows go from one decision to another.
template <class T>
struct Walk {
  const T* proba;
  int64_t K, M;
  Truth truth;
  double *diagonal, *columns, *matrix;  // (K,), (M,) and (K, M); the matrix may be missing

  // Add weight w of row r to decision k.
  FAST INLINE void give(int64_t r, double w, int64_t k) const {
    columns[k] += w;
    if (truth.share < 1.0) {
      const int64_t y = truth.labels[r];
      const double v = w * (1.0 - truth.share);
      if (y == k) diagonal[k] += v;
      if (matrix) matrix[y * M + k] += v;
    }
    if (truth.share > 0.0) {
      const double v = w * truth.share;
      const T* row = proba + r * K;
      if (k < K) diagonal[k] += v * row[k];
      for (int64_t i = 0; matrix && i < K; i++) matrix[i * M + k] += v * row[i];
    }
  }
};

constexpr int64_t AHEAD = 16;  // rows whose entries are fetched early: they lie anywhere

// (proba, share, labels, weight, rival, j, total, order, done, stops, diagonal, columns, matrix, diagonals,
// every_column, matrices): write the shares at each of the stops, and carry on from done; below zero nothing is decided
// yet, and every row goes to its rival.
template <class T>
FAST int64_t walk(const Slot* s) {
  const int64_t n = s[0].shape[0], K = s[0].shape[1], M = s[11].shape[0], j = s[5].i;
  const Truth truth(s[1], s[2], s[3]);
  if (!truth.fits() || s[12].is_empty() != s[15].is_empty()) return UNFIT;
  double* matrix = !s[12].is_empty() ? s[12].as<double>() : nullptr;
  const Walk<T> walk = {s[0].as<T>(), K, M, truth, s[10].as<double>(), s[11].as<double>(), matrix};
  const int32_t* rival = s[4].as<int32_t>();
  const int64_t *order = s[7].as<int64_t>(), *stops = s[9].as<int64_t>(), cells = matrix ? K * M : 0;
  const double total = s[6].d;
  int64_t done = s[8].i;
  if (done < 0) {
    done = 0;
    for (int64_t r = 0; r < n; r++) walk.give(r, truth.weight ? truth.weight[r] : 1.0, rival[r]);
  }
  for (int64_t t = 0; t < s[9].shape[0]; t++) {
    for (; done < stops[t]; done++) {
      const int64_t r = order[done], later = order[least_of(done + AHEAD, n - 1)];
      __builtin_prefetch(rival + later);
      if (truth.share > 0.0) __builtin_prefetch(walk.proba + later * K + j);
      if (truth.labels) __builtin_prefetch(truth.labels + later);
      if (truth.weight) __builtin_prefetch(truth.weight + later);
      const double w = truth.weight ? truth.weight[r] : 1.0;
      walk.give(r, -w, rival[r]);
      walk.give(r, w, j);
    }
    // differences of sums may end a rounding below zero
    const struct {
      const double* sums;
      double* out;
      int64_t n;
    } parts[] = {{walk.diagonal, s[13].as<double>() + t * K, K},
                 {walk.columns, s[14].as<double>() + t * M, M},
                 {matrix, s[15].as<double>() + t * cells, cells}};
    for (const auto& part : parts) {
      for (int64_t k = 0; k < part.n; k++) {
        const double share = part.sums[k] / total;
        part.out[k] = 0.0 > share ? 0.0 : share;
      }
    }
  }
  return 0;
}
