// Rows whose two best decisions nearly tie: their density is the second derivative of what the best decisions score.

// Write the best decision and the second one for size rows, a multiple of a vector's, by how much the best leads, and
// the most that it leads by where they nearly tie: the width times both scores and what offsets may make of them.
template <class T>
FAST void two_best(const T* block, int64_t stride, int64_t K, int64_t M, const T* a, const T* b, T width, int64_t size,
                   int32_t* first, int32_t* second, T* lead, T* most) {
  typedef Vectors<T> V;
  typedef typename V::real Real;
  typedef typename V::words Words;
  T offsets = 0;
  for (int64_t m = 0; m < M; m++) offsets = b[m] > offsets ? b[m] : (-b[m] > offsets ? -b[m] : offsets);
  // a rounding more, so that no row is left out
  const Real wide = splat<Real>(width * (T)1.01), beside = splat<Real>(4 * offsets);
  for (int64_t r = 0; r < size; r += V::lanes) {
    const Real none = splat<Real>(-(T)__builtin_inf());
    Real best = none, next = none;
    Words j = Words{}, k = Words{};
    for (int64_t m = 0; m < M; m++) {
      const Real offset = splat<Real>(b[m]);
      const Real score = m < K ? splat<Real>(a[m]) * load<Real>(block + m * stride + r) + offset : offset;
      const Words here = splat<Words>((typename V::word)m);
      k = score >= best ? j : (score > next ? here : k);
      next = score >= best ? best : (score > next ? score : next);
      j = score >= best ? here : j;
      best = score >= best ? score : best;
    }
    store(first + r, __builtin_convertvector(j, typename V::decisions));
    store(second + r, __builtin_convertvector(k, typename V::decisions));
    store(lead + r, best - next);
    store(most + r, wide * ((best < 0 ? -best : best) + (next < 0 ? -next : next) + beside));
  }
}

// (proba, start, stop, size, every, a, b, width, weight, sums): add to sums (M, M, 6), for the best decision j and the
// second k of every row that nearly ties, the density times 1, p_j, p_k, p_j^2, p_k^2 and p_j p_k. Decisions beyond the
// classes have p = 0. Of so many blocks of rows one is read.
template <class T>
FAST int64_t near_ties(const Slot* s) {
  const int64_t K = s[0].shape[1], start = s[1].i, stop = s[2].i, size = s[3].i, stride = block_stride<T>(size);
  const T *proba = s[0].as<T>(), *a = s[5].as<T>(), *b = s[6].as<T>();
  const int64_t every = s[4].i, M = s[6].shape[0];
  const double width = s[7].d, *weight = s[8].is_empty() ? nullptr : s[8].as<double>();
  double* sums = s[9].as<double>();
  if (every < 1) return UNFIT;
  Scratch scratch;
  T *block = scratch.make<T>(K * stride), *lead = scratch.make<T>(size), *most = scratch.make<T>(size);
  int32_t *first = scratch.make<int32_t>(size), *second = scratch.make<int32_t>(size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = start; low < stop; low += every * size) {
    const int64_t n_rows = least_of(size, stop - low);
    const T* rows = proba + low * K;
    load_block(rows, n_rows, K, block, stride);
    two_best(block, stride, K, M, a, b, (T)width, size, first, second, lead, most);
    for (int64_t r = 0; r < n_rows; r++) {
      if (!(lead[r] < most[r])) continue;
      const int64_t j = first[r], k = second[r];
      const double p = j < K ? rows[r * K + j] : 0, q = k < K ? rows[r * K + k] : 0, by = lead[r];
      const double one = j < K ? a[j] * p : 0, other = k < K ? a[k] * q : 0, apart = (double)b[j] - b[k];
      const double near = width * (__builtin_fabs(one) + __builtin_fabs(other) + __builtin_fabs(apart));
      if (!(by < near)) continue;
      const double c = (weight ? weight[low + r] : 1.0) * (near - by) / (near * near);
      double* sum = sums + (j * M + k) * 6;
      sum[0] += c, sum[1] += c * p, sum[2] += c * q, sum[3] += c * p * p, sum[4] += c * q * q, sum[5] += c * p * q;
    }
  }
  return 0;
}

// (scores, start, stop, size, a, b, j, best, rival): the best of a[m] scores[r, m] + b[m] without m = j, and its m.
template <class T>
FAST int64_t rivals(const Slot* s) {
  typedef Vectors<T> V;
  const int64_t M = s[0].shape[1], stop = s[2].i, size = s[3].i, stride = block_stride<T>(size), j = s[6].i;
  const T *a = s[4].as<T>(), *b = s[5].as<T>();
  Scratch scratch;
  T *block = scratch.make<T>(M * stride), *top = scratch.make<T>(size);
  int32_t* winner = scratch.make<int32_t>(size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = s[1].i; low < stop; low += size) {
    const int64_t n_rows = least_of(size, stop - low);
    load_block(s[0].as<T>() + low * M, n_rows, M, block, stride);
    for (int64_t r = 0; r < size; r += V::lanes) {
      Best<T, 1> made;
      for (int64_t m = 0; m < M; m++)
        if (m != j)
          made.offer(0, load<typename V::real>(block + m * stride + r) * a[m] + b[m],
                     typename V::words{} + (typename V::word)m);
      store(top + r, made.score[0]);
      made.write(winner + r);
    }
    __builtin_memcpy(s[7].as<T>() + low, top, n_rows * sizeof(T));
    __builtin_memcpy(s[8].as<int32_t>() + low, winner, n_rows * 4);
  }
  return 0;
}
