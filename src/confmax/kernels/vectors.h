// Vectors as wide as the processor's registers, and sums in an order that does not depend on that width.
//
// Products and sums are never fused, nor is any sum reordered: with -ffp-contract=off, every result is the same bits
// with every instruction set, and decisions equal those of the NumPy forms.

template <class T>
struct Vectors {
  static constexpr int lanes = WIDTH / sizeof(T);
  typedef T real __attribute__((vector_size(WIDTH)));
  typedef typename Word<T>::type word;
  typedef word words __attribute__((vector_size(WIDTH)));
  typedef int32_t decisions __attribute__((vector_size(lanes * 4)));
};

// Return a vector that holds x everywhere.
template <class V, class T>
FAST inline V splat(T x) {
  // the difference to zero is exact, and compiled to one broadcast; writing the elements is not
  return x - V{};
}

template <class V>
FAST inline V load(const void* place) {
  V v;
  __builtin_memcpy(&v, place, sizeof v);  // rows of a table begin anywhere: an aligned load would trap
  return v;
}

template <class V>
FAST inline void store(void* place, V v) {
  __builtin_memcpy(place, &v, sizeof v);
}

// Return the largest of N numbers: halves are compared, so that few comparisons wait for each other.
template <int N, class T>
FAST inline T largest(const void* numbers) {
  if constexpr (N == 1) {
    return *static_cast<const T*>(numbers);
  } else {
    typedef T half __attribute__((vector_size(N / 2 * sizeof(T))));
    const half low = load<half>(numbers), high = load<half>(static_cast<const T*>(numbers) + N / 2);
    const half larger = low > high ? low : high;
    return largest<N / 2, T>(&larger);
  }
}

constexpr int LANES = 16;  // of the sums
constexpr int DOUBLES = WIDTH / 8, SUMS = LANES / DOUBLES;
typedef double Doubles __attribute__((vector_size(WIDTH)));

// Sixteen sums, whose halves are added to each other at the end.
struct Lanes {
  Doubles part[SUMS];

  FAST inline Lanes() {
#pragma GCC unroll 8
    for (int u = 0; u < SUMS; u++) part[u] = Doubles{};
  }

  FAST inline double total() const {
    double lane[LANES];
    __builtin_memcpy(lane, part, sizeof lane);
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int k = 0; k < half; k++) lane[k] = lane[k] + lane[k + half];
    return lane[0];
  }
};

// Load the doubles of a lane group from numbers of either type.
template <class T>
FAST inline Doubles load_doubles(const T* place) {
  typedef T narrow __attribute__((vector_size(DOUBLES * sizeof(T))));
  return __builtin_convertvector(load<narrow>(place), Doubles);
}

// Return the sum of n numbers, n a multiple of 16.
template <class T>
FAST inline double sum_of(const T* x, int64_t n) {
  Lanes sum;
  for (int64_t r = 0; r < n; r += LANES) {
#pragma GCC unroll 8
    for (int u = 0; u < SUMS; u++) sum.part[u] += load_doubles(x + r + u * DOUBLES);
  }
  return sum.total();
}

// Return the sum of x[r] over decision[r] == j; n is a multiple of 16.
template <class T>
FAST inline double sum_where(const T* x, const int32_t* decision, int64_t n, int32_t j) {
  typedef int32_t narrow __attribute__((vector_size(DOUBLES * 4)));
  typedef int64_t wide __attribute__((vector_size(WIDTH)));
  Lanes sum;
  for (int64_t r = 0; r < n; r += LANES) {
#pragma GCC unroll 8
    for (int u = 0; u < SUMS; u++) {
      const narrow made = load<narrow>(decision + r + u * DOUBLES);
      const wide mine = __builtin_convertvector(made == j, wide);
      const Doubles x_r = load_doubles(x + r + u * DOUBLES);
      sum.part[u] += (Doubles)((wide)x_r & mine);
    }
  }
  return sum.total();
}

FAST inline int64_t count_where(const int32_t* decision, int64_t n, int32_t j) {
  int32_t count = 0;
  for (int64_t r = 0; r < n; r++) count += decision[r] == j;
  return count;
}
