// Blocks of rows in the cache, turned class-major: (K, stride), zeros behind the rows.

template <class T>
constexpr int64_t block_stride(int64_t size) {
  // one line of the cache more: without it a row of a power of two would put every class on the same few places
  return size + 64 / sizeof(T);
}

// Turn a square of side x side numbers in registers: by log2(side) exchanges, no entry is loaded or stored by itself.
template <class T>
FAST inline void turn_eight(const T* from, int64_t K, T* to, int64_t stride) {
  typedef T line __attribute__((vector_size(8 * sizeof(T))));
  line a[8], b[8], c[8];
#pragma GCC unroll 8
  for (int s = 0; s < 8; s++) a[s] = load<line>(from + s * K);
#pragma GCC unroll 8
  for (int s = 0; s < 8; s += 2) {
    b[s] = SHUFFLED(a[s], a[s + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[s + 1] = SHUFFLED(a[s], a[s + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 8
  for (int s = 0; s < 8; s++) {
    if (s & 2) continue;
    c[s] = SHUFFLED(b[s], b[s + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    c[s + 2] = SHUFFLED(b[s], b[s + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 8
  for (int s = 0; s < 4; s++) {
    store(to + s * stride, SHUFFLED(c[s], c[s + 4], 0, 1, 2, 3, 8, 9, 10, 11));
    store(to + (s + 4) * stride, SHUFFLED(c[s], c[s + 4], 4, 5, 6, 7, 12, 13, 14, 15));
  }
}

template <class T>
FAST inline void turn_four(const T* from, int64_t K, T* to, int64_t stride) {
  typedef T line __attribute__((vector_size(4 * sizeof(T))));
  line a[4], b[4];
#pragma GCC unroll 4
  for (int s = 0; s < 4; s++) a[s] = load<line>(from + s * K);
#pragma GCC unroll 2
  for (int s = 0; s < 4; s += 2) {
    b[s] = SHUFFLED(a[s], a[s + 1], 0, 4, 2, 6);
    b[s + 1] = SHUFFLED(a[s], a[s + 1], 1, 5, 3, 7);
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; s++) {
    store(to + s * stride, SHUFFLED(b[s], b[s + 2], 0, 1, 4, 5));
    store(to + (s + 2) * stride, SHUFFLED(b[s], b[s + 2], 2, 3, 6, 7));
  }
}

// Write rows (rows, K) to the block (K, stride), zeros behind them; rows begin K entries apart, or `apart`.
template <class T>
FAST void load_block(const T* proba, int64_t rows, int64_t K, T* block, int64_t stride, int64_t apart = 0) {
  if (!apart) apart = K;
  // squares overlap where K is no multiple of eight: an entry is then written twice, alike
  int64_t whole = 0;
  if (K >= 8) {
    whole = rows - rows % 8;
    const bool few = 0 < K % 8 && K % 8 <= 4;
    for (int64_t r = 0; r < whole; r += 8) {
      const T* from = proba + r * apart;
      for (int64_t j = 0; j < K - 7; j += 8) turn_eight(from + j, apart, block + j * stride + r, stride);
      // what is left over, and some classes again
      if (few) {
        turn_four(from + K - 4, apart, block + (K - 4) * stride + r, stride);
        turn_four(from + 4 * apart + K - 4, apart, block + (K - 4) * stride + r + 4, stride);
      } else if (K % 8 > 0) {
        turn_eight(from + K - 8, apart, block + (K - 8) * stride + r, stride);
      }
    }
  } else if (K >= 4) {
    whole = rows - rows % 4;
    for (int64_t r = 0; r < whole; r += 4) {
      turn_four(proba + r * apart, apart, block + r, stride);
      turn_four(proba + r * apart + K - 4, apart, block + (K - 4) * stride + r, stride);
    }
  }
  for (int64_t j = 0; j < K; j++) {
    for (int64_t r = whole; r < rows; r++) block[j * stride + r] = proba[r * apart + j];
    for (int64_t r = rows; r < stride; r++) block[j * stride + r] = 0;
  }
}

// Write sum_i |i - j|^power block[i, r] to out[j, r] for size rows, a multiple of a vector's, in the reference's order:
// decisions must agree bit for bit.
template <class T>
FAST void distances(const T* block, int64_t K, int64_t size, int64_t stride, int power, T* out) {
  typedef typename Vectors<T>::real Real;
  for (int64_t r = 0; r < size; r += Vectors<T>::lanes) {
    Real total = load<Real>(block + r), mean = Real{}, other = Real{};
    for (int64_t i = 1; i < K; i++) {
      const Real p = load<Real>(block + i * stride + r);
      total = total + p;
      mean = mean + p * splat<Real>((T)i);
      other = other + p * splat<Real>((T)(i * i));
    }
    // from class j to j + 1, the classes up to j come to lie one further away, and all others one nearer
    Real below = Real{};
    for (int64_t j = 0; j < K; j++) {
      T* to = out + j * stride + r;
      if (power == 2) {
        store(to, (other + total * splat<Real>((T)(j * j))) - mean * splat<Real>((T)(2 * j)));
      } else {
        store(to, mean);
        below = below + load<Real>(block + j * stride + r);
        mean = mean + (below + below - total);
      }
    }
  }
}

// (from, to): write the transpose of from (n, K) to (K, n or more); what is more is zero.
template <class T>
FAST int64_t turn(const Slot* s) {
  if (s[1].shape[1] < s[0].shape[0]) return UNFIT;
  load_block(s[0].as<T>(), s[0].shape[0], s[0].shape[1], s[1].as<T>(), s[1].shape[1]);
  return 0;
}
