// The pass that checks every row, adds up every column and hashes every row; rows gathered, divided, weighted.

// classes beyond which a row is read along itself: turning it would leave the inner cache
constexpr int64_t MANY = 128;
constexpr int FINITE = 0, POSITIVE = 1, CLOSE = 2, EXACT = 3;  // what is asked of rows

// The sums of the rows of a block, the least entries, and how far sums are from one: place by place, so that no row
// waits for another.
template <class T>
struct RowCheck {
  double *sums, *worst, *whole;
  T* least;
  int64_t size;

  FAST RowCheck(Scratch& scratch, int64_t size) : size(size) {
    sums = scratch.make<double>(size), worst = scratch.make<double>(size), whole = scratch.make<double>(size);
    least = scratch.make<T>(size);
    if (!scratch.ok) return;
    for (int64_t r = 0; r < size; r++) worst[r] = 0.0, whole[r] = 0.0, least[r] = 1;
  }

  // Write the sums of the rows, in order of the classes in a block, or by sixteen interleaved sums along a row.
  FAST void add(const T* rows, int64_t n_rows, int64_t K, const T* block, int64_t stride) {
    if (K <= MANY) {
      typedef Vectors<T> V;
      constexpr int U = 2, S = V::lanes / DOUBLES;  // vectors of rows in flight, and of the sums of one of them
      for (int64_t r = 0; r < size; r += U * V::lanes) {
        typename V::real low[U];
        Doubles total[U * S];
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) low[u] = load<typename V::real>(least + r + u * V::lanes);
#pragma GCC unroll 4
        for (int u = 0; u < U * S; u++) total[u] = Doubles{};
        for (int64_t j = 0; j < K; j++) {
          const T* p = block + j * stride + r;
#pragma GCC unroll 4
          for (int u = 0; u < U; u++) {
            const typename V::real entry = load<typename V::real>(p + u * V::lanes);
            // a comparison with NaN is false: NaN shows in the sum, not in the least entry
            low[u] = entry < low[u] ? entry : low[u];
          }
#pragma GCC unroll 4
          for (int u = 0; u < U * S; u++) total[u] += load_doubles(p + u * DOUBLES);
        }
#pragma GCC unroll 4
        for (int u = 0; u < U; u++) store(least + r + u * V::lanes, low[u]);
#pragma GCC unroll 4
        for (int u = 0; u < U * S; u++) store(sums + r + u * DOUBLES, total[u]);
      }
      return;
    }
    const int64_t whole_vectors = K - K % LANES;
    for (int64_t r = 0; r < n_rows; r++) {
      const T* row = rows + r * K;
      double total = sum_of(row, whole_vectors);
      for (int64_t j = whole_vectors; j < K; j++) total += row[j];
      T low = least[r];
      for (int64_t j = 0; j < K; j++) low = row[j] < low ? row[j] : low;
      sums[r] = total, least[r] = low;
    }
  }

  FAST void keep_worst(int64_t n_rows) {
    // the block ends in rows of zeros, which are no rows of the table
    for (int64_t r = n_rows; r < size; r++) sums[r] = 1.0;
    for (int64_t r = 0; r < size; r++) {
      const double off = __builtin_fabs(sums[r] - 1.0);
      worst[r] = off > worst[r] ? off : worst[r];
      whole[r] += off;  // NaN stays here
    }
  }

  // Write which demands some row does not meet; limits are what sums may be off by to be near one, and one.
  FAST void judge(const double* limits, bool* broken) const {
    for (int64_t r = 0; r < size; r++) {
      // no comparison with NaN is true, so the negation catches NaN and infinity together
      broken[FINITE] |= !(whole[r] < __builtin_inf());
      broken[POSITIVE] |= least[r] < 0;
      broken[CLOSE] |= worst[r] > limits[0];
      broken[EXACT] |= worst[r] > limits[1];
    }
  }
};

FAST inline uint64_t mix(uint64_t word) {
  uint64_t z = word * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

template <class T>
FAST inline uint64_t hashed_entry(T p) {
  const float narrow = p;
  uint32_t bits;
  __builtin_memcpy(&bits, &narrow, 4);
  bits <<= 1;
  return bits ^ (bits >> 16);
}

// Write the hashes of rows (n_rows, K); the block holds them class-major where K is small.
template <class T>
FAST void hash_rows(const T* rows, int64_t n_rows, int64_t K, const T* block, int64_t stride, const uint64_t* factors,
                    uint64_t* hashes) {
  if (K > MANY) {
    for (int64_t r = 0; r < n_rows; r++) {
      uint64_t total = 0;
      for (int64_t j = 0; j < K; j++) total += hashed_entry(rows[r * K + j]) * factors[j];
      hashes[r] = mix(total);
    }
    return;
  }
  for (int64_t r = 0; r < n_rows; r++) hashes[r] = 0;
  for (int64_t j = 0; j < K; j++) {
    const uint64_t factor = factors[j];
    const T* p = block + j * stride;
    for (int64_t r = 0; r < n_rows; r++) hashes[r] += hashed_entry(p[r]) * factor;
  }
  for (int64_t r = 0; r < n_rows; r++) hashes[r] = mix(hashes[r]);
}

// (proba, start, stop, size, limits, factors, totals, broken, hashes): totals (K,) and broken (4,) are added to.
template <class T>
FAST int64_t check(const Slot* s) {
  const int64_t K = s[0].shape[1], start = s[1].i, stop = s[2].i, size = s[3].i, stride = block_stride<T>(size);
  const T* proba = s[0].as<T>();
  double* totals = s[6].as<double>();
  uint64_t* hashes = !s[8].is_empty() ? s[8].as<uint64_t>() : nullptr;
  Scratch scratch;
  T* block = scratch.make<T>(K <= MANY ? K * stride : 0);
  RowCheck<T> rows_of(scratch, size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = start; low < stop; low += size) {
    const int64_t n_rows = least_of(size, stop - low);
    const T* rows = proba + low * K;
    if (K <= MANY) load_block(rows, n_rows, K, block, stride);
    rows_of.add(rows, n_rows, K, block, stride);
    if (K <= MANY) {
      for (int64_t j = 0; j < K; j++) totals[j] += sum_of(block + j * stride, size);
    } else {
      for (int64_t r = 0; r < n_rows; r++)
        for (int64_t j = 0; j < K; j++) totals[j] += rows[r * K + j];
    }
    if (hashes) hash_rows(rows, n_rows, K, block, stride, s[5].as<uint64_t>(), hashes + low);
    rows_of.keep_worst(n_rows);
  }
  rows_of.judge(s[4].as<double>(), s[7].as<bool>());
  return 0;
}

// (proba, start, stop, size, rounding, out): rows are divided by their sums.
template <class T>
FAST int64_t normalise(const Slot* s) {
  const int64_t K = s[0].shape[1], start = s[1].i, stop = s[2].i, size = s[3].i, stride = block_stride<T>(size);
  Scratch scratch;
  T* block = scratch.make<T>(K <= MANY ? K * stride : 0);
  RowCheck<T> rows_of(scratch, size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = start; low < stop; low += size) {
    const int64_t n_rows = least_of(size, stop - low);
    const T* rows = s[0].as<T>() + low * K;
    T* out = s[5].as<T>() + low * K;
    if (K <= MANY) load_block(rows, n_rows, K, block, stride);
    rows_of.add(rows, n_rows, K, block, stride);
    for (int64_t r = 0; r < n_rows; r++) {
      const double sum = rows_of.sums[r];
      // rows that sum to one within rounding stay as they are, so that a second check changes nothing
      const bool stays = !(__builtin_fabs(sum - 1.0) > s[4].d);
      for (int64_t j = 0; j < K; j++) out[r * K + j] = stays ? rows[r * K + j] : T(rows[r * K + j] / sum);
    }
  }
  return 0;
}

// (proba, start, stop, hashes): hashes of the entries whatever their order. They are products of 64 bits, which only
// the widest vectors multiply by one instruction: elsewhere, row by row is faster.
template <class T>
FAST int64_t hash_unordered(const Slot* s) {
  constexpr int64_t size = WIDTH == 64 ? 2 * LANES : 1;
  const int64_t K = s[0].shape[1], stop = s[2].i, stride = block_stride<T>(size);
  const T* proba = s[0].as<T>();
  uint64_t* hashes = s[3].as<uint64_t>();
  Scratch scratch;
  T* block = scratch.make<T>(size > 1 ? K * stride : 0);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = s[1].i; low < stop; low += size) {
    const int64_t n_rows = least_of(size, stop - low);
    uint64_t total[size] = {};
    if (size > 1) load_block(proba + low * K, n_rows, K, block, stride);
    for (int64_t j = 0; j < K; j++)
      for (int64_t r = 0; r < size; r++)
        total[r] += mix(hashed_entry(size > 1 ? block[j * stride + r] : proba[low * K + j]));
    for (int64_t r = 0; r < n_rows; r++) hashes[low + r] = mix(total[r]);
  }
  return 0;
}
