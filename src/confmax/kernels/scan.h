// Decisions of gains on rows, and the statistics that they add up to.

constexpr int64_t SOME = 48;      // classes from which one or two gains are not worth turning a block for
constexpr int64_t SINGLE = 12;    // classes from which a gain of one class alone is decided without vectors of all
constexpr int64_t FEW = 4;        // decisions up to which a sum for each is faster than adding every row to its own
constexpr int64_t COMPARED = 32;  // decisions up to which labels are counted by comparing vectors
constexpr int64_t TOGETHER = 4;   // decisions whose full scores share the loads of a probability

// The best scores of some rows and their decisions: a later decision replaces those that it equals or exceeds.
template <class T, int U>
struct Best {
  typename Vectors<T>::real score[U];
  typename Vectors<T>::words decision[U];

  FAST inline Best() {
#pragma GCC unroll 8
    for (int u = 0; u < U; u++) {
      score[u] = splat<typename Vectors<T>::real>(-(T)__builtin_inf());
      decision[u] = typename Vectors<T>::words{};
    }
  }

  FAST inline void offer(int u, typename Vectors<T>::real other, typename Vectors<T>::words decided) {
    decision[u] = other >= score[u] ? decided : decision[u];
    // the maximum of two numbers is one instruction, which waits for no comparison
    score[u] = other > score[u] ? other : score[u];
  }

  FAST inline void write(int32_t* out) const {
#pragma GCC unroll 8
    for (int u = 0; u < U; u++)
      store(out + u * Vectors<T>::lanes, __builtin_convertvector(decision[u], typename Vectors<T>::decisions));
  }
};

// Write argmax_j a[j] block[j, r] + b[j] for the rows of U vectors; decisions beyond the K classes have the score b[j].
template <int U, class T>
FAST inline void decide_vectors(const T* block, int64_t stride, int64_t K, int64_t M, const T* a, const T* b,
                                int32_t* decision) {
  typedef Vectors<T> V;
  Best<T, U> best;
  for (int64_t j = 0; j < K; j++) {
    const typename V::real scale = splat<typename V::real>(a[j]), offset = splat<typename V::real>(b[j]);
    const typename V::words decided = splat<typename V::words>((typename V::word)j);
#pragma GCC unroll 8
    for (int u = 0; u < U; u++)
      best.offer(u, scale * load<typename V::real>(block + j * stride + u * V::lanes) + offset, decided);
  }
  for (int64_t j = K; j < M; j++) {
#pragma GCC unroll 8
    for (int u = 0; u < U; u++)
      best.offer(u, splat<typename V::real>(b[j]), splat<typename V::words>((typename V::word)j));
  }
  best.write(decision);
}

// The same for size rows, a multiple of a vector's: four chains of comparisons at a time keep the processor busy.
template <class T>
FAST void decide_reduced(const T* block, int64_t stride, int64_t K, int64_t M, const T* a, const T* b, int64_t size,
                         int32_t* decision) {
  constexpr int64_t lanes = Vectors<T>::lanes;
  int64_t r = 0;
  for (; r + 4 * lanes <= size; r += 4 * lanes) decide_vectors<4>(block + r, stride, K, M, a, b, decision + r);
  for (; r < size; r += lanes) decide_vectors<1>(block + r, stride, K, M, a, b, decision + r);
}

// Write argmax_j sum_i block[i, r] gain[i, j].
template <class T>
FAST void decide_full(const T* block, int64_t stride, int64_t K, int64_t M, const T* gain, int64_t size,
                      int32_t* decision) {
  typedef Vectors<T> V;
  constexpr int U = 2;  // four sums are kept beside the best score
  const int64_t whole = M - M % TOGETHER;
  for (int64_t r = 0; r < size; r += U * V::lanes) {
    Best<T, U> best;
    for (int64_t j = 0; j < whole; j += TOGETHER) {
      typename V::real sum[TOGETHER][U];
#pragma GCC unroll 8
      for (int t = 0; t < TOGETHER; t++)
#pragma GCC unroll 8
        for (int u = 0; u < U; u++) sum[t][u] = typename V::real{};
      for (int64_t i = 0; i < K; i++) {
#pragma GCC unroll 8
        for (int u = 0; u < U; u++) {
          const typename V::real p = load<typename V::real>(block + i * stride + r + u * V::lanes);
#pragma GCC unroll 8
          for (int t = 0; t < TOGETHER; t++) sum[t][u] += p * splat<typename V::real>(gain[i * M + j + t]);
        }
      }
#pragma GCC unroll 8
      for (int t = 0; t < TOGETHER; t++)
#pragma GCC unroll 8
        for (int u = 0; u < U; u++) best.offer(u, sum[t][u], splat<typename V::words>((typename V::word)(j + t)));
    }
    for (int64_t j = whole; j < M; j++) {
#pragma GCC unroll 8
      for (int u = 0; u < U; u++) {
        typename V::real sum = typename V::real{};
        for (int64_t i = 0; i < K; i++)
          sum +=
              load<typename V::real>(block + i * stride + r + u * V::lanes) * splat<typename V::real>(gain[i * M + j]);
        best.offer(u, sum, splat<typename V::words>((typename V::word)j));
      }
    }
    best.write(decision + r);
  }
}

// Return argmax_j a[j] row[j] + b[j] of a row of at least one group of classes.
template <class T>
FAST int32_t decide_along(const T* row, int64_t K, const T* a, const T* b) {
  typedef Vectors<T> V;
  constexpr int U = 2, wide = U * V::lanes;
  Best<T, U> best;
  typename V::words lane;
  for (int k = 0; k < V::lanes; k++) lane[k] = k;
  for (int64_t j = 0; j < K; j += wide) {
    // where K is no multiple of a group, the last one begins earlier; comparing a class twice changes nothing
    const int64_t begin = least_of(j, K - wide);
#pragma GCC unroll 8
    for (int u = 0; u < U; u++) {
      const int64_t at = begin + u * V::lanes;
      const typename V::real score =
          load<typename V::real>(a + at) * load<typename V::real>(row + at) + load<typename V::real>(b + at);
      best.offer(u, score, lane + (typename V::word)at);
    }
  }
  // a lane's classes are not in order beside another lane's: of equal scores the largest decision is taken
  typename V::real top = best.score[0];
#pragma GCC unroll 8
  for (int u = 1; u < U; u++) top = best.score[u] > top ? best.score[u] : top;
  const T highest = largest<V::lanes, T>(&top);
  typename V::words last = typename V::words{};
#pragma GCC unroll 8
  for (int u = 0; u < U; u++) {
    const typename V::words mine = best.score[u] == highest ? best.decision[u] : typename V::words{};
    last = mine > last ? mine : last;
  }
  return largest<V::lanes, typename V::word>(&last);
}

// One table's rows and the gains that decide them: reduced, if offsets (B, M) are given, or full (B, K, M).
template <class T>
struct Decider {
  const T *first, *second;
  int64_t K, M;
  bool reduced;

  FAST Decider(const Slot& a, const Slot& b, int64_t K)
      : first(a.as<T>()), second(b.as<T>()), K(K), M(!b.is_empty() ? b.shape[1] : a.shape[2]), reduced(!b.is_empty()) {}

  // Whether the first array has a line of K weights for each gain, or for full gains K lines.
  static bool fits(const Slot& a, const Slot& b, int64_t K) { return a.shape[1] == (b.is_empty() ? K : 1); }

  FAST void block(const T* x, int64_t stride, int64_t g, int64_t size, int32_t* decision) const {
    if (reduced)
      decide_reduced(x, stride, K, M, first + g * K, second + g * M, size, decision);
    else
      decide_full(x, stride, K, M, first + g * K * M, size, decision);
  }

  // Only class k has coefficients; all others score zero, and the largest index of them is rest.
  FAST void one(const T* rows, int64_t n_rows, int64_t g, int64_t k, int32_t* decision) const {
    const T a = first[g * K + k], b = second[g * M + k];
    const int64_t rest = k < K - 1 ? K - 1 : K - 2;
    // products in place of a choice: whether a row's class wins is hard for the processor to foresee
    for (int64_t r = 0; r < n_rows; r++) {
      const T score = a * rows[r * K + k] + b;
      decision[r] = rest + (k - rest) * ((score > 0) | ((score == 0) & (k > rest)));
    }
  }

  FAST void along(const T* rows, int64_t n_rows, int64_t g, int32_t* decision) const {
    const T *a = first + g * K, *b = second + g * M;
    for (int64_t r = 0; r < n_rows; r++) decision[r] = decide_along(rows + r * K, K, a, b);
    // of the decisions beyond the classes, which score the same for all rows, only the best counts
    int64_t further = -1;
    for (int64_t j = K; j < M; j++)
      if (further < 0 || b[j] >= b[further]) further = j;
    for (int64_t r = 0; further >= 0 && r < n_rows; r++) {
      const int32_t k = decision[r];
      const T score = a[k] * rows[r * K + k];
      if (b[further] >= score + b[k]) decision[r] = further;
    }
  }
};

// What decisions on the rows of a table are worth: by the model, by labels, or by both; weighted or not.
struct Truth {
  double share;
  const int64_t* labels;
  const double* weight;

  FAST Truth(const Slot& share, const Slot& labels, const Slot& weight)
      : share(share.d),
        labels(!labels.is_empty() ? labels.as<int64_t>() : nullptr),
        weight(!weight.is_empty() ? weight.as<double>() : nullptr) {}

  bool fits() const { return share >= 1.0 || labels; }
};

// The sums below take four rows in turn, each to sums of its own (4, M, 2): a row must not wait for the sum of the row
// before. Rows that are left over go to the first: which sum a row goes to decides the last bit of the statistics.

// Add each row's probability of its decision, and one.
template <class T>
FAST void add_plain(const T* rows, int64_t n_rows, int64_t K, const T* block, int64_t stride, int64_t size,
                    int32_t* decision, double* sums) {
  if (K <= FEW) {
    for (int64_t r = n_rows; r < size; r++) decision[r] = -1;
    for (int64_t k = 0; k < K; k++) {
      sums[k * 2] += sum_where(block + k * stride, decision, size, k);
      sums[k * 2 + 1] += count_where(decision, size, k);
    }
    return;
  }
  const int64_t whole = n_rows - n_rows % 4;
  for (int64_t r = 0; r < n_rows; r++) {
    const uint32_t j = decision[r];
    double* sum = sums + ((r < whole ? r % 4 : 0) * K + j) * 2;
    sum[0] += rows[r * K + j];
    sum[1] += 1.0;
  }
}

// Count rows whose label is another, and whose label it is: by comparing all rows with each of a few decisions, four of
// which share the loads, otherwise row by row.
FAST inline void add_labels(int64_t n_rows, int64_t M, int64_t size, int32_t* decision, const int64_t* labels,
                            const int32_t* narrow, double* sums) {
  if (M <= COMPARED) {
    typedef int32_t Ints __attribute__((vector_size(WIDTH)));
    constexpr int wide = WIDTH / 4;
    for (int64_t r = n_rows; r < size; r++) decision[r] = -1;
    for (int64_t j = 0; j < M; j += TOGETHER) {
      Ints made[TOGETHER] = {}, met[TOGETHER] = {};
      for (int64_t r = 0; r < size; r += wide) {
        const Ints d = load<Ints>(decision + r), right = d == load<Ints>(narrow + r);
#pragma GCC unroll 4
        for (int t = 0; t < TOGETHER; t++) {
          const Ints mine = d == (int32_t)(j + t);
          made[t] -= mine, met[t] -= mine & right;
        }
      }
      for (int64_t t = 0; t < least_of(TOGETHER, M - j); t++) {
        int64_t all = 0, hits = 0;
        for (int k = 0; k < wide; k++) all += made[t][k], hits += met[t][k];
        sums[(j + t) * 2] += all - hits;
        sums[(j + t) * 2 + 1] += hits;
      }
    }
    return;
  }
  const int64_t whole = n_rows - n_rows % 4;
  for (int64_t r = 0; r < n_rows; r++) {
    const uint32_t j = decision[r];
    sums[((r < whole ? r % 4 : 0) * M + j) * 2 + (labels[r] == (int64_t)j)] += 1.0;
  }
}

// Add values and weights (size,), both zero beyond the rows.
FAST inline void add_values(int64_t n_rows, int64_t M, int64_t size, const int32_t* decision, const double* value,
                            const double* each, double* sums) {
  if (M <= FEW) {
    for (int64_t k = 0; k < M; k++) {
      sums[k * 2] += sum_where(value, decision, size, k);
      sums[k * 2 + 1] += sum_where(each, decision, size, k);
    }
    return;
  }
  const int64_t whole = n_rows - n_rows % 4;
  for (int64_t r = 0; r < n_rows; r++) {
    double* sum = sums + ((r < whole ? r % 4 : 0) * M + (uint32_t)decision[r]) * 2;
    sum[0] += value[r];
    sum[1] += each[r];
  }
}

// Write what each row adds to the diagonal: one loop per term is vectorised, one of all terms is not.
template <class T>
FAST void values_of(const T* rows, int64_t n_rows, int64_t K, const int32_t* decision, double share,
                    const int64_t* labels, const double* each, double* value) {
  for (int64_t r = 0; r < n_rows; r++) {
    const int64_t j = (uint32_t)decision[r];
    value[r] = share > 0.0 && j < K ? share * rows[r * K + j] : 0.0;
  }
  if (share < 1.0)
    for (int64_t r = 0; r < n_rows; r++) value[r] += labels[r] == decision[r] ? 1.0 - share : 0.0;
  for (int64_t r = 0; r < n_rows; r++) value[r] *= each[r];
}

// Add rows (n_rows, K) to the matrix (M, K); beside the decisions of another gain, only what differs from its matrix.
template <class T>
FAST void add_rows(const T* rows, int64_t n_rows, int64_t K, const int32_t* decision, const int32_t* before,
                   double share, const int64_t* labels, const double* each, double* matrix) {
  // most rows are decided alike: eight of them are compared at once
  constexpr int64_t together = 8;
  for (int64_t low = 0; low < n_rows; low += together) {
    const int64_t high = least_of(low + together, n_rows);
    if (high - low == together) {
      int32_t differ = 0;
#pragma GCC unroll 8
      for (int64_t k = 0; k < together; k++) differ |= decision[low + k] ^ before[low + k];
      if (!differ) continue;
    }
    for (int64_t r = low; r < high; r++) {
      const int32_t j = decision[r], i = before[r];
      if (i == j) continue;
      double *to = matrix + j * K, *from = i >= 0 ? matrix + i * K : nullptr;
      if (share < 1.0) {
        const double u = each[r] * (1.0 - share);
        to[labels[r]] += u;
        if (from) from[labels[r]] -= u;
      }
      if (share > 0.0) {
        const double v = each[r] * share;
        const T* row = rows + r * K;
        for (int64_t k = 0; k < K; k++) to[k] += v * row[k];
        for (int64_t k = 0; from && k < K; k++) from[k] -= v * row[k];
      }
    }
  }
}

// (proba, start, stop, size, first, second, power, alone, share, labels, weight, sums, matrices, limits, broken, out):
// sums (B, 4, M, 2), matrices (B, M, K), broken (4,) and out (B, n) are written where they are not empty.
template <class T>
FAST int64_t scan(const Slot* s) {
  const int64_t K = s[0].shape[1], start = s[1].i, stop = s[2].i, size = s[3].i, stride = block_stride<T>(size);
  const T* proba = s[0].as<T>();
  const Decider<T> decider(s[4], s[5], K);
  const int64_t B = s[4].shape[0], M = decider.M, *alone = s[7].as<int64_t>();
  const int power = s[6].i;
  const Truth truth(s[8], s[9], s[10]);
  const bool counted = !s[11].is_empty(), full = !s[12].is_empty(), checked = !s[14].is_empty(),
             written = !s[15].is_empty();
  if (!Decider<T>::fits(s[4], s[5], K) || !truth.fits() || (checked && s[13].is_empty())) return UNFIT;
  // one or two gains are not worth turning a block for, unless a check needs it
  const bool along = decider.reduced && power == 0 && (K > MANY || (K >= SOME && B <= 2 && !checked));
  Scratch scratch;
  T* block = scratch.make<T>(along ? 0 : K * stride);
  T* x = power ? scratch.make<T>(K * stride) : block;
  int32_t *decision = scratch.make<int32_t>(size), *before = scratch.make<int32_t>(size);
  int32_t* narrow = scratch.make<int32_t>(size);
  double *value = scratch.make<double>(size), *each = scratch.make<double>(size);
  RowCheck<T> rows_of(scratch, size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t r = 0; r < size; r++) each[r] = 1.0, value[r] = 0.0, decision[r] = 0, narrow[r] = 0;
  for (int64_t low = start; low < stop; low += size) {
    const int64_t n_rows = least_of(size, stop - low);
    const T* rows = proba + low * K;
    if (!along) load_block(rows, n_rows, K, block, stride);
    if (checked) {
      rows_of.add(rows, n_rows, K, block, stride);
      rows_of.keep_worst(n_rows);
    }
    // the block itself stays: a row counts with the probability of its decision, whatever decides
    if (power) distances(block, K, size, stride, power, x);
    const int64_t* labels = truth.labels ? truth.labels + low : nullptr;
    for (int64_t r = 0; truth.weight && r < n_rows; r++) each[r] = truth.weight[low + r];
    for (int64_t r = 0; labels && r < n_rows; r++) narrow[r] = labels[r];
    // the last block's rows may be fewer, and masked sums run over whole vectors
    for (int64_t r = n_rows; r < size; r++) each[r] = 0.0, value[r] = 0.0;
    for (int64_t g = 0; g < B; g++) {
      if (alone[g] >= 0 && K >= SINGLE)
        decider.one(rows, n_rows, g, alone[g], decision);
      else if (along)
        decider.along(rows, n_rows, g, decision);
      else
        decider.block(x, stride, g, size, decision);
      if (written)
        for (int64_t r = 0; r < n_rows; r++) s[15].as<int64_t>()[g * s[15].shape[1] + low + r] = decision[r];
      if (!counted) continue;
      double* sums = s[11].as<double>() + g * 4 * M * 2;
      if (truth.share == 0.0 && !truth.weight) {
        add_labels(n_rows, M, size, decision, labels, narrow, sums);
      } else if (truth.share == 1.0 && !truth.weight && M == K) {
        add_plain(rows, n_rows, K, block, stride, size, decision, sums);
      } else {
        values_of(rows, n_rows, K, decision, truth.share, labels, each, value);
        add_values(n_rows, M, size, decision, value, each, sums);
      }
      if (!full) continue;
      if (g == 0)
        for (int64_t r = 0; r < size; r++) before[r] = -1;
      add_rows(rows, n_rows, K, decision, before, truth.share, labels, each, s[12].as<double>() + g * M * K);
      if (g == 0)
        for (int64_t r = 0; r < size; r++) before[r] = decision[r];
    }
  }
  if (checked) rows_of.judge(s[13].as<double>(), s[14].as<bool>());
  return 0;
}
