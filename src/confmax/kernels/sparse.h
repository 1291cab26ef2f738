// Scans of tables in compressed sparse rows (CSR): the cost of a row is that of its stored entries.
//
// A class that a row does not store has probability zero and the score b_j. The best of these is the first class in
// falling order of (offset, index) that the row does not store, and it matters only while its offset reaches the best
// stored score: nearly always one comparison. Entries are sorted by class within a row, so that a running >= gives
// ties to the largest index. Multiply, then add, in the table's type, never fused: decisions equal those on the dense
// table bit for bit.

constexpr int64_t SPARSE_ROWS = 512;          // rows that all gains of a batch decide before the next rows are read
constexpr int64_t UNSORTED = 1, OUTSIDE = 2;  // what sparse_structure finds

// The entries of a table, whose classes are numbers of type I: the first three arguments of every kernel.
template <class T, class I>
struct Entries {
  const T* data;
  const I* indices;
  const void* indptr;
  bool wide;

  FAST Entries(const Slot* s)
      : data(s[0].as<T>()), indices(s[1].as<I>()), indptr(s[2].as<void>()), wide(s[2].view.itemsize == 8) {}

  // Return where row r begins.
  FAST inline int64_t begin(int64_t r) const {
    return wide ? static_cast<const int64_t*>(indptr)[r] : static_cast<const int32_t*>(indptr)[r];
  }

  // Return which of the entries of a row is of class j, -1 if none is.
  FAST inline int64_t place(int64_t first, int64_t last, int64_t j) const {
    int64_t low = first, high = last;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (indices[middle] < j)
        low = middle + 1;
      else
        high = middle;
    }
    return low < last && indices[low] == j ? low : -1;
  }
};

// A kernel for both types of indices, from its form for a given one.
#define FOR_INDICES(kernel)                                                                   \
  template <class T>                                                                          \
  FAST int64_t kernel(const Slot* s) {                                                        \
    return s[1].view.itemsize == 8 ? kernel##_of<T, int64_t>(s) : kernel##_of<T, int32_t>(s); \
  }

// (data, indices, indptr, start, stop, n_classes): returns OUTSIDE where an index is no class, else UNSORTED where
// those of a row do not rise strictly, else 0.
template <class T, class I>
FAST int64_t sparse_structure_of(const Slot* s) {
  const Entries<T, I> of(s);
  const int64_t n_classes = s[5].i;
  bool unsorted = false, outside = false;
  for (int64_t r = s[3].i; r < s[4].i; r++) {
    int64_t before = -1;
    for (int64_t t = of.begin(r), last = of.begin(r + 1); t < last; t++) {
      const int64_t j = of.indices[t];
      unsorted |= j <= before;
      outside |= (j < 0) | (j >= n_classes);
      before = j;
    }
  }
  return outside ? OUTSIDE : unsorted ? UNSORTED : 0;
}
FOR_INDICES(sparse_structure)

// (data, indices, indptr, start, stop, sums): writes the sums of the rows; returns whether an entry is negative.
template <class T>
FAST int64_t sparse_sums(const Slot* s) {
  const Entries<T, int32_t> of(s);  // it reads no index
  bool negative = false;
  for (int64_t r = s[3].i; r < s[4].i; r++) {
    double total = 0.0;
    for (int64_t t = of.begin(r), last = of.begin(r + 1); t < last; t++) {
      total += of.data[t];
      negative |= of.data[t] < 0;
    }
    s[5].as<double>()[r] = total;
  }
  return negative;
}

// Write the probabilities of decisions, of type D: decision and hit begin at row start.
template <class T, class I, class D>
FAST void look_up(const Entries<T, I>& of, int64_t start, int64_t stop, const D* decision, T* hit) {
  for (int64_t r = start; r < stop; r++) {
    const int64_t t = of.place(of.begin(r), of.begin(r + 1), decision[r - start]);
    hit[r - start] = t >= 0 ? of.data[t] : 0;
  }
}

// (data, indices, indptr, start, stop, decision, hit): decision and hit (n,) are those of all rows.
template <class T, class I>
FAST int64_t sparse_look_up_of(const Slot* s) {
  const int64_t start = s[3].i;
  if (s[5].view.itemsize == 8)
    look_up(Entries<T, I>(s), start, s[4].i, s[5].as<int64_t>() + start, s[6].as<T>() + start);
  else
    look_up(Entries<T, I>(s), start, s[4].i, s[5].as<int32_t>() + start, s[6].as<T>() + start);
  return 0;
}
FOR_INDICES(sparse_look_up)

// Decide by weights and offsets, pairs (M, 2): writes decisions, and their probabilities to hit.
template <class T, class I>
FAST void decide_stored(const Entries<T, I>& of, int64_t start, int64_t stop, const T* pairs, const int64_t* order,
                        int64_t n_order, int32_t* decision, T* hit) {
  for (int64_t r = start; r < stop; r++) {
    const int64_t first = of.begin(r), last = of.begin(r + 1);
    const T* pair = pairs + 2 * (int64_t)of.indices[first];
    T best = pair[0] * of.data[first] + pair[1];
    int64_t place = first;
    for (int64_t t = first + 1; t < last; t++) {
      pair = pairs + 2 * (int64_t)of.indices[t];
      const T score = pair[0] * of.data[t] + pair[1];
      // choices without a branch: whether an entry is better is hard for the processor to foresee
      place = score >= best ? t : place;
      best = best > score ? best : score;
    }
    int64_t winner = of.indices[place];
    T p = of.data[place];
    // of the classes that the row does not store, only the one with the best offset can win
    for (int64_t k = 0; k < n_order; k++) {
      const int64_t j = order[k];
      const T b = pairs[2 * j + 1];
      if (b < best || (b == best && j < winner)) break;
      if (of.place(first, last, j) < 0) {
        winner = j, p = 0;
        break;
      }
    }
    decision[r - start] = winner, hit[r - start] = p;
  }
}

// Write a row's scores of U vectors of decisions from j on, by a full gain (K, M).
template <class T, class I, int U>
FAST inline void score_part(const Entries<T, I>& of, int64_t first, int64_t last, const T* gain, int64_t M, int64_t j,
                            T* score) {
  typedef Vectors<T> V;
  typename V::real sum[U];
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) sum[u] = typename V::real{};
  for (int64_t t = first; t < last; t++) {
    const T* row = gain + (int64_t)of.indices[t] * M + j;
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) sum[u] = sum[u] + of.data[t] * load<typename V::real>(row + u * V::lanes);
  }
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) store(score + j + u * V::lanes, sum[u]);
}

// Decide a row by a full gain (K, M); score is scratch of whole vectors, M numbers and -inf behind them.
template <class T, class I>
FAST inline int32_t decide_matrix(const Entries<T, I>& of, int64_t first, int64_t last, const T* gain, int64_t M,
                                  T* score) {
  typedef Vectors<T> V;
  if (M < V::lanes) {
    int64_t winner = 0;
    T best = -(T)__builtin_inf();
    for (int64_t j = 0; j < M; j++) {
      T sum = 0;
      for (int64_t t = first; t < last; t++) sum = sum + of.data[t] * gain[(int64_t)of.indices[t] * M + j];
      // a product in place of a choice: whether a decision is better is hard for the processor to foresee
      winner += (j - winner) * (sum >= best);
      best = best > sum ? best : sum;
    }
    return winner;
  }
  int64_t j = 0;
  for (; j + 4 * V::lanes <= M; j += 4 * V::lanes) score_part<T, I, 4>(of, first, last, gain, M, j, score);
  for (; j + 2 * V::lanes <= M; j += 2 * V::lanes) score_part<T, I, 2>(of, first, last, gain, M, j, score);
  // where M is no multiple, the last vector begins earlier: some scores are computed twice, alike
  for (; j < M; j += V::lanes) score_part<T, I, 1>(of, first, last, gain, M, least_of(j, M - V::lanes), score);
  // vectors find the best score, a look from the end its largest decision
  typename V::real top = load<typename V::real>(score);
  for (j = V::lanes; j < M; j += V::lanes) {
    const typename V::real other = load<typename V::real>(score + j);
    top = other > top ? other : top;
  }
  T best = top[0];
  for (int k = 1; k < V::lanes; k++) best = top[k] > best ? top[k] : best;
  int64_t winner = M - 1;
  while (winner > 0 && score[winner] != best) winner--;
  return winner;
}

// Add the rows' weights to columns (M,), their truth to diagonal (K,), and to matrix (K, M) unless it is null.
template <class T, class I>
FAST void count_stored(const Entries<T, I>& of, int64_t start, int64_t stop, const int32_t* decision, const T* hit,
                       const Truth& truth, int64_t K, int64_t M, double* diagonal, double* columns, double* matrix) {
  for (int64_t r = 0; r < stop - start; r++) {
    const int64_t j = (uint32_t)decision[r];
    const double w = truth.weight ? truth.weight[start + r] : 1.0;
    columns[j] += w;
    if (truth.share < 1.0 && truth.labels[start + r] == j) diagonal[j] += w * (1.0 - truth.share);
    if (truth.share > 0.0 && j < K) diagonal[j] += w * truth.share * hit[r];
  }
  // a second walk: without the matrix, only one entry of a row is read
  for (int64_t r = start; matrix && r < stop; r++) {
    const int64_t j = (uint32_t)decision[r - start];
    const double w = truth.weight ? truth.weight[r] : 1.0;
    if (truth.share < 1.0) matrix[truth.labels[r] * M + j] += w * (1.0 - truth.share);
    if (!(truth.share > 0.0)) continue;
    for (int64_t t = of.begin(r), last = of.begin(r + 1); t < last; t++)
      matrix[(int64_t)of.indices[t] * M + j] += w * truth.share * of.data[t];
  }
}

// (data, indices, indptr, start, stop, coefficients, orders, out, share, labels, weight, diagonal, columns, matrix):
// decides rows by every gain and adds up its statistics. Coefficients are pairs (B, M, 2) of weight and offset, with
// orders of the offsets (B, L), or full gains (B, K, M) without. Decisions are written to out (B, n) unless it is
// empty, or read from it if there are no coefficients (B, 0, 0). Diagonal (B, K), columns (B, M) and matrix (B, K, M)
// are added to where they are not empty.
template <class T, class I>
FAST int64_t sparse_scan_of(const Slot* s) {
  const Entries<T, I> of(s);
  const int64_t B = s[5].shape[0], size = s[5].shape[1] * s[5].shape[2], n_order = s[6].shape[1], n = s[7].shape[1];
  const bool reduced = s[6].shape[0] > 0, kept = s[7].shape[0] > 0, counted = s[11].shape[0] > 0;
  const bool full = s[13].shape[0] > 0 && s[13].shape[1] > 0;
  const Truth truth(s[8], s[9], s[10]);
  const int64_t K = s[11].shape[1], M = s[12].shape[1];
  if ((reduced && s[6].shape[0] != B) || (!reduced && !size && !kept) || (kept && s[7].is_empty())) return UNFIT;
  if (counted && (s[11].is_empty() || s[12].is_empty() || !truth.fits())) return UNFIT;
  Scratch scratch;
  const int64_t n_scores = reduced ? 0 : s[5].shape[2] + Vectors<T>::lanes;
  T *hit = scratch.make<T>(SPARSE_ROWS), *score = scratch.make<T>(n_scores);
  int32_t* block = scratch.make<int32_t>(SPARSE_ROWS);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t j = 0; j < n_scores; j++) score[j] = -(T)__builtin_inf();
  for (int64_t low = s[3].i; low < s[4].i; low += SPARSE_ROWS) {
    const int64_t high = least_of(low + SPARSE_ROWS, s[4].i);
    for (int64_t g = 0; g < B; g++) {
      int32_t* decision = kept ? s[7].as<int32_t>() + g * n + low : block;
      const T* gain = s[5].as<T>() + g * size;
      if (reduced)
        decide_stored(of, low, high, gain, s[6].as<int64_t>() + g * n_order, n_order, decision, hit);
      else if (size > 0)
        for (int64_t r = low; r < high; r++)
          decision[r - low] = decide_matrix(of, of.begin(r), of.begin(r + 1), gain, s[5].shape[2], score);
      if (!counted) continue;
      if (!reduced) look_up(of, low, high, decision, hit);
      count_stored(of, low, high, decision, hit, truth, K, M, s[11].as<double>() + g * K, s[12].as<double>() + g * M,
                   full ? s[13].as<double>() + g * K * M : nullptr);
    }
  }
  return 0;
}
FOR_INDICES(sparse_scan)

// (data, indices, indptr, start, stop, begin, listed, a, b, always, rest, share, labels, weight, out): adds up what
// entries change in gains of which each has coefficients for one class only. Without the class stored, gain g decides
// the class everywhere (always[g]) or rest[g] everywhere. Rows whose entry decides otherwise add to out[g]: their
// weight, and their truth at the class and at the rest. The gains of class j are listed[begin[j]:begin[j + 1]].
template <class T, class I>
FAST int64_t sparse_alone_of(const Slot* s) {
  const Entries<T, I> of(s);
  const int64_t K = s[5].shape[0] - 1, *begin = s[5].as<int64_t>(), *listed = s[6].as<int64_t>();
  const T *a = s[7].as<T>(), *b = s[8].as<T>();
  const bool* always = s[9].as<bool>();
  const int64_t* rest = s[10].as<int64_t>();
  const Truth truth(s[11], s[12], s[13]);
  double* out = s[14].as<double>();
  if (!truth.fits()) return UNFIT;
  for (int64_t r = s[3].i; r < s[4].i; r++) {
    // what the row adds if a gain's class does not win: its truth at the last class, or at the one before
    const int64_t first = of.begin(r), last = of.begin(r + 1);
    const double w = truth.weight ? truth.weight[r] : 1.0;
    const double u = w * (1.0 - truth.share), v = w * truth.share;
    const int64_t y = truth.share < 1.0 ? truth.labels[r] : -1;
    const double highest = of.indices[last - 1] == K - 1 ? v * of.data[last - 1] : 0.0;
    const int64_t before = of.place(first, last, K - 2);
    const double second = before >= 0 ? v * of.data[before] : 0.0;
    for (int64_t t = first; t < last; t++) {
      const int64_t j = of.indices[t];
      const T p = of.data[t];
      for (int64_t k = begin[j]; k < begin[j + 1]; k++) {
        const int64_t g = listed[k];
        const T score = a[g] * p + b[g];
        const bool wins = j < rest[g] ? score > 0 : score >= 0;
        if (wins == always[g]) continue;
        out[3 * g] += w;
        out[3 * g + 1] += v * p + (y == j ? u : 0.0);
        out[3 * g + 2] += (rest[g] == K - 1 ? highest : second) + (y == rest[g] ? u : 0.0);
      }
    }
  }
  return 0;
}
FOR_INDICES(sparse_alone)

// The best labels of a row, by falling (score, label).
template <class T>
struct Ranked {
  int64_t most, count;
  T* score;
  int64_t *label, *place;

  // Whether a label would be among the best.
  FAST inline bool takes(T s, int64_t j) const {
    return count < most || s > score[most - 1] || (s == score[most - 1] && j > label[most - 1]);
  }

  FAST inline void add(T s, int64_t j, int64_t t) {
    int64_t k = count < most ? count++ : most - 1;
    for (; k > 0 && (s > score[k - 1] || (s == score[k - 1] && j > label[k - 1])); k--)
      score[k] = score[k - 1], label[k] = label[k - 1], place[k] = place[k - 1];
    score[k] = s, label[k] = j, place[k] = t;
  }
};

// (data, indices, indptr, start, stop, pairs, order, positive, label, place): writes the k best labels of every row,
// by falling (score, label), and which entry each is, -1 for none. Weights and offsets are pairs (L, 2); the order
// lists the first k + m labels by falling (offset, label), m entries being the most of a row. If positive, only labels
// with a score above zero are taken.
template <class T, class I>
FAST int64_t sparse_best_of(const Slot* s) {
  const Entries<T, I> of(s);
  const T* pairs = s[5].as<T>();
  const int64_t *order = s[6].as<int64_t>(), n_order = s[6].shape[0], most = s[8].shape[1];
  const bool positive = s[7].i != 0;
  Scratch scratch;
  Ranked<T> best;
  best.most = most, best.score = scratch.make<T>(most);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t r = s[3].i; r < s[4].i; r++) {
    const int64_t first = of.begin(r), last = of.begin(r + 1);
    best.label = s[8].as<int64_t>() + r * most, best.place = s[9].as<int64_t>() + r * most, best.count = 0;
    for (int64_t t = first; t < last; t++) {
      const int64_t j = of.indices[t];
      const T score = pairs[2 * j] * of.data[t] + pairs[2 * j + 1];
      if ((!positive || score > 0) && best.takes(score, j)) best.add(score, j, t);
    }
    // of the labels that the row does not store, those with the largest offsets
    for (int64_t k = 0; k < n_order; k++) {
      const int64_t j = order[k];
      const T b = pairs[2 * j + 1];
      if ((positive && !(b > 0)) || !best.takes(b, j)) break;
      if (of.place(first, last, j) < 0) best.add(b, j, -1);
    }
    for (int64_t k = best.count; k < most; k++) best.label[k] = best.place[k] = -1;
  }
  return 0;
}
FOR_INDICES(sparse_best)
