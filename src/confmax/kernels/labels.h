// Several labels for a row: those whose score a_j p_j + b_j is above zero, the k best, or of the k best those above
// zero.
//
// Each row has a threshold: scores above it are chosen, and of those at it the labels from a first one on. For any
// labels it is zero. For the k best, it is found on rows that are turned class-major. Everything else goes through the
// table as it lies: a byte for each entry says whether it is chosen, and counts and sums read these bytes.

constexpr int64_t HIGH = 128;     // rows of a block: a byte counts them
constexpr int64_t BROAD = 256;    // labels whose bytes stay in the cache
constexpr int64_t TURNED = 64;    // labels that are turned at a time
constexpr int64_t PAST = 64;      // entries that a vector may read behind its row
constexpr int64_t MOST_TOP = 16;  // labels of a row up to which the best scores are kept in order

#define APART __attribute__((noinline))  // code that is there once, for a smaller module

inline int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The scores of one gain, and which of them are chosen. Coefficients of labels that do not exist score -inf.
template <class T>
struct Thresholds {
  const T *a, *b;
  int64_t L, most;
  bool positive;
  T level[HIGH];        // scores above it are chosen
  int64_t first[HIGH];  // and those at it from this label on; L for none

  FAST T score(const T* row, int64_t j) const { return a[j] * row[j] + b[j]; }

  // The k-th best score of row r is kth, and scores above next are chosen if these are the k best.
  FAST void set(int64_t r, const T* row, T kth, T next) {
    const bool none = positive && kth <= 0;
    level[r] = none || (positive && next < 0) ? 0 : next;
    first[r] = none || kth > next ? L : first_of_tied(row, kth);
  }

  // Return from which label on scores of kth are chosen: of equal scores those of the largest indices are.
  FAST APART int64_t first_of_tied(const T* row, T kth) const {
    int32_t above = 0;
    for (int64_t i = 0; i < L; i++) above += score(row, i) > kth;
    int64_t left = most - above, j = L;
    while (left > 0 && j > 0) left -= score(row, --j) == kth;
    return j;
  }
};

// Write x to n places: one loop for all arrays keeps the module small.
template <class T>
FAST APART void fill_with(T x, T* to, int64_t n) {
  for (int64_t k = 0; k < n; k++) to[k] = x;
}

// Exchange the best scores (levels, HIGH) of rows with those of labels (n_labels, stride), four labels at a time.
template <class T>
FAST void keep_best(const T* block, int64_t stride, int64_t n_labels, const T* a, const T* b, int64_t n_rows,
                    int64_t levels, T* top) {
  typedef typename Vectors<T>::real Real;
  constexpr int U = 2, V = 4, lanes = Vectors<T>::lanes;
  for (int64_t r = 0; r < n_rows; r += U * lanes) {
    for (int64_t j = 0; j < n_labels; j += V) {
      Real x[V][U];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++)
#pragma GCC unroll 2
        for (int u = 0; u < U; u++)
          x[v][u] =
              splat<Real>(a[j + v]) * load<Real>(block + (j + v) * stride + r + u * lanes) + splat<Real>(b[j + v]);
      for (int64_t i = 0; i < levels; i++) {
        T* at = top + i * HIGH + r;
        Real best[U];
#pragma GCC unroll 2
        for (int u = 0; u < U; u++) best[u] = load<Real>(at + u * lanes);
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
#pragma GCC unroll 2
          for (int u = 0; u < U; u++) {
            const Real other = x[v][u];
            x[v][u] = other < best[u] ? other : best[u];
            best[u] = other > best[u] ? other : best[u];
          }
#pragma GCC unroll 2
        for (int u = 0; u < U; u++) store(at + u * lanes, best[u]);
      }
    }
  }
}

// Set the threshold of row r by halving: keys are numbers whose order is that of the scores.
template <class T>
FAST void halve(const T* row, int64_t r, typename Vectors<T>::word* key, Thresholds<T>& to) {
  typedef Vectors<T> V;
  typedef typename V::word word;
  constexpr int shift = 8 * sizeof(T) - 1;
  const word rest = (word)(~(uint64_t)0 >> (64 - shift));  // all bits but the sign
  const auto number = [rest](word k) {
    k ^= (k >> shift) & rest;
    T x;
    __builtin_memcpy(&x, &k, sizeof x);
    return x;
  };
  word high;
  const T infinite = (T)__builtin_inf();
  __builtin_memcpy(&high, &infinite, sizeof high);
  word low = ~high;  // that of -inf, and of labels that do not exist
  for (int64_t j = 0; j < to.L; j += V::lanes) {
    // a zero has one key: 0 is added to the negative one
    const typename V::real score = load<typename V::real>(to.a + j) * load<typename V::real>(row + j) +
                                   load<typename V::real>(to.b + j) + splat<typename V::real>((T)0);
    const typename V::words bits = (typename V::words)score;
    store(key + j, bits ^ ((bits >> shift) & rest));
  }
  for (;;) {
    const word middle = (low & high) + ((low ^ high) >> 1);
    if (middle == low) break;
    typename V::words sum = typename V::words{};
    for (int64_t j = 0; j < to.L; j += V::lanes) sum -= load<typename V::words>(key + j) >= middle;
    int64_t count = 0;
    for (int k = 0; k < V::lanes; k++) count += sum[k];
    if (count == to.most) {
      const T least = number(middle);
      const bool none = to.positive && least <= 0;
      to.level[r] = none ? 0 : least, to.first[r] = none ? to.L : 0;
      return;
    }
    (count > to.most ? low : high) = middle;
  }
  to.set(r, row, number(low), number(low));
}

// Twice as many numbers of half the length.
template <class Word>
struct Halved;
template <>
struct Halved<int64_t> {
  typedef int32_t type;
};
template <>
struct Halved<int32_t> {
  typedef int16_t type;
};
template <>
struct Halved<int16_t> {
  typedef int8_t type;
};

// Write as bytes 0 or 1 what WIDTH words 0 or -1 are: by halving them, for which compilers have an instruction; what is
// more than half shorter they take number by number.
template <class Word>
FAST inline void write_bytes(const Word* words, uint8_t* to) {
  typedef uint8_t bytes __attribute__((vector_size(WIDTH)));
  if constexpr (sizeof(Word) == 1) {
    store<bytes>(to, load<bytes>(words) & splat<bytes>((uint8_t)1));
  } else {
    typedef typename Halved<Word>::type half;
    typedef Word pair __attribute__((vector_size(2 * WIDTH)));
    typedef half whole __attribute__((vector_size(WIDTH)));
    half shorter[WIDTH];
#pragma GCC unroll 4
    for (int k = 0; k < WIDTH; k += WIDTH / (int)sizeof(half))
      store<whole>(shorter + k, __builtin_convertvector(load<pair>(words + k), whole));
    write_bytes(shorter, to);
  }
}

// Write which entries are chosen, 0 or 1, of labels from `from` on: out (n_rows, width), and a vector more.
template <class T>
FAST void choose(const T* rows, int64_t n_rows, int64_t from, int64_t width, const Thresholds<T>& by, uint8_t* out) {
  typedef Vectors<T> V;
  typedef typename V::real Real;
  typedef typename V::word word;
  const T *a = by.a + from, *b = by.b + from;
  for (int64_t r = 0; r < n_rows; r++) {
    const T *row = rows + r * by.L + from, level = by.level[r];
    uint8_t* to = out + r * width;
    // what is written behind a row, the next one writes again
    for (int64_t j = 0; j < width; j += WIDTH) {
      word above[WIDTH];
#pragma GCC unroll 8
      for (int k = 0; k < WIDTH; k += V::lanes) {
        const Real score = load<Real>(a + j + k) * load<Real>(row + j + k) + load<Real>(b + j + k);
        store(above + k, (typename V::words)(score > splat<Real>(level)));
      }
      write_bytes(above, to + j);
    }
  }
  for (int64_t r = 0; r < n_rows; r++) {
    const T *row = rows + r * by.L + from, level = by.level[r];
    uint8_t* to = out + r * width;
    for (int64_t j = by.first[r] > from ? by.first[r] - from : 0; j < width; j++)
      to[j] |= a[j] * row[j] + b[j] == level;
  }
}

// Of what is chosen, keep what has its label: y begins with the first label, its rows are L bytes apart.
FAST APART inline void keep_labelled(uint8_t* chosen, int64_t n_rows, int64_t width, const uint8_t* y, int64_t L) {
  // whole rows are one line
  const int64_t lines = width == L ? 1 : n_rows, length = n_rows * width / lines;
  for (int64_t r = 0; r < lines; r++)
    for (int64_t k = 0; k < length; k++) chosen[r * width + k] &= y[r * L + k];
}

// Add to sum (width,) how many rows are chosen.
FAST APART inline void add_chosen(const uint8_t* chosen, int64_t n_rows, int64_t width, double* sum) {
  typedef uint8_t bytes __attribute__((vector_size(WIDTH)));
  for (int64_t j = 0; j < width; j += WIDTH) {
    bytes counted = bytes{};
    for (int64_t r = 0; r < n_rows; r++) counted += load<bytes>(chosen + r * width + j);
    uint8_t each[WIDTH];
    store(each, counted);
    for (int k = 0; k < WIDTH && j + k < width; k++) sum[j + k] += each[k];
  }
}

// Add weight[r] x[r, j] to sum (width,) where that is chosen, row after row: U vectors of labels at a time.
template <int U, class T>
FAST inline void add_column(const uint8_t* chosen, int64_t n_rows, int64_t width, const T* x, int64_t stride,
                            const double* weight, double* sum) {
  typedef int64_t wide __attribute__((vector_size(WIDTH)));
  Doubles total[U];
  wide bit;  // that of a lane's byte, of the bytes of all lanes side by side
  for (int k = 0; k < DOUBLES; k++) bit[k] = (int64_t)1 << (8 * k);
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) total[u] = load<Doubles>(sum + u * DOUBLES);
  for (int64_t r = 0; r < n_rows; r++) {
    const Doubles w = splat<Doubles>(weight[r]);
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) {
      int64_t bytes = 0;
      __builtin_memcpy(&bytes, chosen + r * width + u * DOUBLES, DOUBLES);
      const wide mine = (splat<wide>(bytes) & bit) != 0;
      total[u] += (Doubles)((wide)(w * load_doubles(x + r * stride + u * DOUBLES)) & mine);
    }
  }
#pragma GCC unroll 4
  for (int u = 0; u < U; u++) store(sum + u * DOUBLES, total[u]);
}

template <class T>
FAST void add_weighted(const uint8_t* chosen, int64_t n_rows, int64_t width, const T* x, int64_t stride,
                       const double* weight, double* sum) {
  constexpr int U = 4;
  int64_t j = 0;
  for (; width - j > DOUBLES; j += U * DOUBLES)
    add_column<U>(chosen + j, n_rows, width, x + j, stride, weight, sum + j);
  if (j < width) add_column<1>(chosen + j, n_rows, width, x + j, stride, weight, sum + j);
}

// (proba, start, stop, first, second, most, positive, labels, weight, summed, sums, out): add to sums (B, 3, L) the
// weighted sums, over the rows for which a label is chosen, of its probability if summed is not 0, of labels where
// these are given, and of 1; out (n, L) takes what the only gain chooses. most is 0 for any number of labels.
template <class T>
FAST int64_t scan_labels(const Slot* s) {
  const int64_t n = s[0].shape[0], L = s[0].shape[1], start = s[1].i, stop = s[2].i, B = s[3].shape[0];
  const T* proba = s[0].as<T>();
  const bool labelled = !s[7].is_empty(), weighted = !s[8].is_empty(), counted = !s[10].is_empty();
  uint8_t* out = s[11].is_empty() ? nullptr : s[11].as<uint8_t>();
  if (out && B != 1) return UNFIT;
  const int64_t most = s[5].i, padded = rounded_up(L, PAST) + PAST, stride = block_stride<T>(HIGH);
  const bool best = 0 < most && most < L, few = best && most <= MOST_TOP;
  const int64_t levels = few ? most + 1 : 0;
  Scratch scratch;
  T *a = scratch.make<T>(B * padded), *b = scratch.make<T>(B * padded), *ones = scratch.make<T>(padded);
  T *block = scratch.make<T>(few ? TURNED * stride : 0), *top = scratch.make<T>(B * levels * HIGH);
  // the last rows of the table, behind which a vector must not read
  const int64_t last = least_of(n, rounded_up(PAST, L) / L);
  T* end = scratch.make<T>(last * L + PAST);
  auto* key = scratch.make<typename Vectors<T>::word>(padded);
  uint8_t* chosen = scratch.make<uint8_t>(HIGH * least_of(L, BROAD) + 2 * 64);
  double *each = scratch.make<double>(HIGH), *sum = scratch.make<double>(B * 3 * padded);
  auto* to = scratch.make<Thresholds<T>>(1);
  if (!scratch.ok) return NO_MEMORY;
  const T infinite = (T)__builtin_inf();
  fill_with(0.0, sum, B * 3 * padded);
  for (int64_t k = 0; counted && k < B * 3; k++)
    memcpy(sum + k * padded, s[10].as<double>() + k * L, L * sizeof(double));
  fill_with(1.0, each, HIGH);
  fill_with((T)1, ones, padded);
  fill_with((T)0, block, few ? TURNED * stride : 0);
  fill_with((T)0, end, last * L + PAST);
  memcpy(end, proba + (n - last) * L, last * L * sizeof(T));
  fill_with((T)0, a, B * padded);
  fill_with(-infinite, b, B * padded);
  for (int64_t g = 0; g < B; g++) {
    memcpy(a + g * padded, s[3].as<T>() + g * L, L * sizeof(T));
    memcpy(b + g * padded, s[4].as<T>() + g * L, L * sizeof(T));
  }
  to->L = L, to->most = most, to->positive = s[6].i != 0;
  fill_with(to->positive ? (T)0 : -infinite, to->level, HIGH);
  fill_with(L, to->first, HIGH);
  for (int64_t low = start, n_rows; low < stop; low += n_rows) {
    const bool ends = low >= n - last;
    n_rows = least_of(HIGH, (ends ? stop : least_of(stop, n - last)) - low);
    const T* rows = ends ? end + (low - (n - last)) * L : proba + low * L;
    if (weighted) memcpy(each, s[8].as<double>() + low, n_rows * sizeof(double));
    fill_with(-infinite, top, B * levels * HIGH);
    for (int64_t j = 0; few && j < L; j += TURNED) {
      const int64_t n_labels = least_of(TURNED, L - j);
      load_block(rows + j, n_rows, n_labels, block, stride, L);
      for (int64_t g = 0; g < B; g++)
        keep_best(block, stride, n_labels, a + g * padded + j, b + g * padded + j, n_rows, levels,
                  top + g * levels * HIGH);
    }
    for (int64_t g = 0; g < B; g++) {
      to->a = a + g * padded, to->b = b + g * padded;
      const T* kth = top + (g * levels + most - 1) * HIGH;
      for (int64_t r = 0; few && r < n_rows; r++) to->set(r, rows + r * L, kth[r], kth[HIGH + r]);
      for (int64_t r = 0; best && !few && r < n_rows; r++) halve(rows + r * L, r, key, *to);
      for (int64_t j = 0; j < L; j += BROAD) {
        const int64_t width = least_of(BROAD, L - j);
        double* sums = sum + g * 3 * padded + j;
        choose(rows, n_rows, j, width, *to, chosen);
        for (int64_t r = 0; out && r < n_rows; r++) memcpy(out + (low + r) * L + j, chosen + r * width, width);
        if (!counted) continue;
        if (s[9].i) add_weighted(chosen, n_rows, width, rows + j, L, each, sums);
        for (int term = 2; term > 0; term--) {
          if (weighted)
            add_weighted(chosen, n_rows, width, ones, 0, each, sums + term * padded);
          else
            add_chosen(chosen, n_rows, width, sums + term * padded);
          if (!labelled) break;
          if (term == 2) keep_labelled(chosen, n_rows, width, s[7].as<uint8_t>() + low * L + j, L);
        }
      }
    }
  }
  for (int64_t k = 0; counted && k < B * 3; k++)
    memcpy(s[10].as<double>() + k * L, sum + k * padded, L * sizeof(double));
  return 0;
}

#undef APART
