// Rows of one label in bins: sums by which thresholds and calibrations are found, and which rows some bins hold.
//
// The numbers of a label are its probabilities, and below zero, minus zero included, for rows that have the label. A
// label's map is sigmoid(a logit(p) + c). `label_bins.py` has the same constants.

constexpr int64_t GROUP = 256;  // numbers that are mapped at a time
constexpr double INSIDE = 1e-6, MOST_LOGIT = 13.815509557963774;
constexpr float LEAST_BIN = 0x1p-24f;
constexpr int BIN_SHIFT = 16;

enum BinnedBy { GIVEN, MAPPED, LOGIT };

// Write numbers p (m,), below zero where there is a label.
template <class T>
FAST inline void sign_row(const T* p, const uint8_t* labels, int64_t m, T* out) {
  typedef uint8_t bytes __attribute__((vector_size(8)));
  typedef typename Word<T>::type words __attribute__((vector_size(8 * sizeof(T))));
  typedef T eight __attribute__((vector_size(8 * sizeof(T))));
  for (int64_t k = 0; k < m; k += 8) {
    // the last eight overlap those before them, and are written twice, alike
    const int64_t j = k < m - 8 || m < 8 ? k : m - 8;
    if (m < 8) {
      for (int64_t i = 0; i < m; i++) out[i] = labels && labels[i] ? -(p[i] + T(0)) : p[i] + T(0);
    } else {
      // minus zero is zero
      const words bits = (words)(load<eight>(p + j) + eight{});
      const words has = labels ? __builtin_convertvector(load<bytes>(labels + j) != 0, words) : words{};
      store(out + j, bits ^ (has << (8 * sizeof(T) - 1)));
    }
  }
}

// (proba, labels, first, out): write the numbers of some labels from the first one on, (m, n), of a table (n, L).
template <class T>
FAST int64_t turn_labels(const Slot* s) {
  const int64_t n = s[0].shape[0], L = s[0].shape[1], first = s[2].i, m = s[3].shape[0], stride = block_stride<T>(HIGH);
  const uint8_t* labels = s[1].is_empty() ? nullptr : s[1].as<uint8_t>();
  if (first < 0 || m > L - first) return UNFIT;
  Scratch scratch;
  T *rows = scratch.make<T>(m * HIGH), *block = scratch.make<T>(m * stride);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = 0; low < n; low += HIGH) {
    const int64_t size = least_of(HIGH, n - low);
    for (int64_t r = 0; r < size; r++) {
      const int64_t from = (low + r) * L + first;
      sign_row(s[0].as<T>() + from, labels ? labels + from : nullptr, m, rows + r * m);
    }
    load_block(rows, size, m, block, stride);
    for (int64_t j = 0; j < m; j++) memcpy(s[3].as<T>() + j * n + low, block + j * stride, size * sizeof(T));
  }
  return 0;
}

// The numbers of a group of rows: what is summed of them, and their bins.
struct BinGroup {
  double p[GROUP], value[GROUP], a[GROUP], c[GROUP];
  int32_t bin[GROUP];

  // Replace the values by logits, and these by calibrated probabilities or not.
  FAST __attribute__((noinline)) void map(bool scaled) {
    for (int64_t r = 0; r < GROUP; r += DOUBLES) {
      Doubles x = load<Doubles>(p + r);
      x = x < INSIDE ? everywhere(INSIDE) : x;
      x = x > 1.0 - INSIDE ? everywhere(1.0 - INSIDE) : x;
      x = logarithm(x / (1.0 - x));
      if (scaled) {
        const Doubles t = load<Doubles>(a + r) * x + load<Doubles>(c + r), e = exponential(t < 0.0 ? t : -t);
        x = (t < 0.0 ? e : everywhere(1.0)) / (1.0 + e);
      }
      store(value + r, x);
    }
  }

  // Write the bins of logits, of which there are `bins`, or of probabilities.
  FAST __attribute__((noinline)) void place(BinnedBy by, int64_t bins) {
    const double* of = by == GIVEN ? p : value;
    const double scale = (double)bins / (2.0 * MOST_LOGIT);
    const int32_t last = (int32_t)bins - 1;
    if (by == LOGIT) {
      for (int64_t r = 0; r < GROUP; r++) {
        const int32_t at = (int32_t)((of[r] + MOST_LOGIT) * scale);
        bin[r] = at < 0 ? 0 : at < last ? at : last;
      }
      return;
    }
    for (int64_t r = 0; r < GROUP; r++) {
      // the bits of positive numbers have the order of these numbers
      float x = (float)of[r];
      x = x > LEAST_BIN ? x : LEAST_BIN;
      int32_t bits;
      __builtin_memcpy(&bits, &x, sizeof x);
      const int32_t at = last - ((bits >> BIN_SHIFT) - (((127 - 24) << 23) >> BIN_SHIFT));
      bin[r] = at > 0 ? at : 0;
    }
  }
};

// (numbers, weight, a, c, by, sums, wanted, rows, values): of rows i, whose map is a and c [i modulo their length] if
// there is one, write values: logits if binned by these, otherwise calibrated probabilities; add to sums (B, 4) of
// their bins 1, their weight, that of those with the label, and weighted values; write which rows lie in bins that are
// wanted, and return how many there are.
template <class T>
FAST int64_t bin_labels(const Slot* s) {
  typedef double four __attribute__((vector_size(32)));
  const int64_t n = s[0].shape[0], length = s[2].shape[0], most = s[7].shape[0];
  const T* x = s[0].as<T>();
  const double *weight = s[1].is_empty() ? nullptr : s[1].as<double>(), *a = s[2].as<double>(), *c = s[3].as<double>();
  const BinnedBy by = (BinnedBy)s[4].i;
  double *sums = s[5].is_empty() ? nullptr : s[5].as<double>(), *values = s[8].is_empty() ? nullptr : s[8].as<double>();
  const bool* wanted = s[6].is_empty() ? nullptr : s[6].as<bool>();
  const int64_t bins = sums ? s[5].shape[0] : s[6].shape[0];
  const bool scaled = length > 0 && by != LOGIT;
  if (s[3].shape[0] != length) return UNFIT;
  Scratch scratch;
  BinGroup* g = scratch.make<BinGroup>(1);
  if (!scratch.ok) return NO_MEMORY;
  int64_t count = 0, next = 0;
  for (int64_t low = 0; low < n; low += GROUP) {
    const int64_t size = least_of(GROUP, n - low);
    for (int64_t r = 0; r < size; r++) g->p[r] = x[low + r] < 0 ? -x[low + r] : x[low + r] + T(0);
    for (int64_t r = size; r < GROUP; r++) g->p[r] = 0.5;
    for (int64_t r = 0; r < GROUP && scaled && (length > 1 || low == 0); r++) {
      g->a[r] = a[next], g->c[r] = c[next];
      next = next + 1 < length ? next + 1 : 0;
    }
    if (scaled || by == LOGIT)
      g->map(scaled);
    else
      memcpy(g->value, g->p, sizeof g->p);
    if (values) memcpy(values + low, g->value, size * sizeof(double));
    if (!sums && !wanted) continue;
    g->place(by, bins);
    for (int64_t r = 0; r < size && sums; r++) {
      const double w = weight ? weight[low + r] : 1.0;
      double* to = sums + 4 * g->bin[r];
      store(to, load<four>(to) + four{1.0, w, __builtin_signbit(x[low + r]) ? w : 0.0, w * g->value[r]});
    }
    for (int64_t r = 0; r < size && wanted; r++) {
      if (count < most) s[7].as<int64_t>()[count] = low + r;
      count += wanted[g->bin[r]];
    }
  }
  return count > most ? UNFIT : count;
}
