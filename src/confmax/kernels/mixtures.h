// Mixtures of few points: the one of least norm, and the one whose recalls have the largest mean.
//
// Sums run in the order of the loops, and their additions wait for each other. So nothing here is marked FAST: among
// wide vectors, single additions take a quarter longer.

constexpr double TOLERANCE = 1e-13;  // of shares and slopes; the NumPy forms have the same limits
constexpr double DEPENDENT = 1e-11;  // a column of length one that is nearer to the span of the others adds nothing
constexpr int NEWTON_STEPS = 60;
constexpr int HALVINGS = 40;
constexpr double FLAT = 1e-6;  // misses below it would have no curvature, or an infinite one
constexpr int IDLE = 2;        // steps whose promise does not fall

// Lawson and Hanson's active-set method on the columns (A, d) of length one that points (A, d - 1) and a row of ones
// make: x (A,) minimises the distance of x @ columns from (0, ..., 0, 1).
struct ActiveSet {
  int64_t A, d, most, s;  // s columns are in use, at most `most`
  double *columns, *turned, *lengths, *slope;
  double *basis,
      *triangle;  // (most, d), orthonormal rows; (most, most), column t has the coefficients of the t-th used
  double *best, *rest, *x;
  int64_t* used;
  bool* blocked;

  ActiveSet(Scratch& scratch, int64_t A, int64_t d) : A(A), d(d), most(least_of(A, d)), s(0) {
    columns = scratch.make<double>(2 * A * d + 3 * A + most * (d + most + 1) + d);
    turned = columns + A * d, lengths = turned + A * d, slope = lengths + A, x = slope + A;
    basis = x + A, triangle = basis + most * d, best = triangle + most * most, rest = best + most;
    used = scratch.make<int64_t>(most), blocked = scratch.make<bool>(A);
  }

  // Make column k orthogonal to the basis, twice, and append it; return whether it is independent.
  bool enter(int64_t k) {
    double* row = basis + s * d;
    double along = 0.0;
    for (int64_t i = 0; i < d; i++) row[i] = columns[k * d + i];
    for (int64_t t = 0; t < s; t++) triangle[t * most + s] = 0.0;
    for (int64_t i = 0; i < d; i++) along += basis[i] * row[i];
    for (int64_t step = 0; step < 2 * s; step++) {
      const int64_t t = step < s ? step : step - s;
      // each sum takes as long as its additions one after the other: the entries that it needs are computed meanwhile
      const double *other = basis + t * d, *next = step + 1 == s ? basis : other + d;
      double sum = 0.0;
      triangle[t * most + s] += along;
      for (int64_t i = 0; i < d; i++) {
        const double entry = row[i] - along * other[i];
        row[i] = entry;
        sum += next[i] * entry;
      }
      along = sum;
    }
    // the row behind the last of the basis is the column itself
    const double length = __builtin_sqrt(along);
    if (length < DEPENDENT) return false;
    triangle[s * most + s] = length;
    for (int64_t i = 0; i < d; i++) row[i] /= length;
    used[s] = k;
    return true;
  }

  static void rotate(double* __restrict__ one, double* __restrict__ other, int64_t n, double c, double w) {
    for (int64_t i = 0; i < n; i++) {
      const double upper = one[i], lower = other[i];
      one[i] = c * upper + w * lower;
      other[i] = c * lower - w * upper;
    }
  }

  // Take the column at a place out: those behind it move up, and rotations of neighbouring rows make the rest
  // triangular again.
  void leave(int64_t place) {
    for (int64_t t = place; t < s - 1; t++) {
      for (int64_t i = 0; i < t + 2; i++) triangle[i * most + t] = triangle[i * most + t + 1];
      double *upper = triangle + t * most, *lower = upper + most;
      const double c = upper[t], w = lower[t], length = __builtin_hypot(c, w);
      if (length > 0.0) {
        // the columns that have not moved yet still stand one place behind
        rotate(upper + t + 2, lower + t + 2, s - t - 2, c / length, w / length);
        rotate(basis + t * d, basis + (t + 1) * d, d, c / length, w / length);
      }
      upper[t] = length, lower[t] = 0.0;
    }
    for (int64_t k = place; k < s - 1; k++) used[k] = used[k + 1];
    s--;
  }

  // Write the shares (s,) of the columns in use that fit the target best.
  void solve() {
    for (int64_t t = s - 1; t >= 0; t--) {
      double value = basis[t * d + d - 1];
      for (int64_t k = t + 1; k < s; k++) value -= triangle[t * most + k] * best[k];
      best[t] = value / triangle[t * most + t];
    }
  }

  // Minimise over the columns in use; those whose share would turn negative leave on the way.
  void settle() {
    while (s > 0) {
      solve();
      double step = 1.0;
      int64_t leaving = -1;
      for (int64_t t = 0; t < s; t++) {
        if (!(best[t] <= 0.0)) continue;
        const double now = x[used[t]], ratio = now > 0.0 ? now / (now - best[t]) : 0.0;
        if (leaving < 0 || ratio < step) step = ratio, leaving = t;
      }
      for (int64_t t = 0; t < s; t++) x[used[t]] += step * (best[t] - x[used[t]]);
      if (leaving < 0) return;
      for (int64_t t = s - 1; t >= 0; t--) {
        if (t != leaving && !(best[t] <= 0.0 && x[used[t]] <= TOLERANCE)) continue;
        x[used[t]] = 0.0;
        leave(t);
      }
    }
  }

  // Write what each column would take off what is left of the target; nothing for those in use.
  void slopes() {
    double* __restrict__ left = rest, * __restrict__ sum = slope;
    for (int64_t i = 0; i < d; i++) left[i] = 0.0;
    left[d - 1] = 1.0;
    for (int64_t t = 0; t < s; t++) {
      const double share = x[used[t]], *__restrict__ column = columns + used[t] * d;
      for (int64_t i = 0; i < d; i++) left[i] -= share * column[i];
    }
    for (int64_t k = 0; k < A; k++) sum[k] = 0.0;
    for (int64_t i = 0; i < d; i++) {
      const double* __restrict__ entries = turned + i * A;
      for (int64_t k = 0; k < A; k++) sum[k] += entries[k] * left[i];
    }
    for (int64_t t = 0; t < s; t++) slope[used[t]] = 0.0;
  }

  // Write shares (A,), in the simplex, that minimise |shares @ points|, from others.
  void least_norm(const double* points, const double* start, double* shares) {
    s = 0;
    for (int64_t k = 0; k < A; k++) {
      x[k] = 0.0, blocked[k] = false;
      double length = 1.0;
      for (int64_t i = 0; i < d - 1; i++) length += points[k * (d - 1) + i] * points[k * (d - 1) + i];
      lengths[k] = __builtin_sqrt(length);
      double* column = columns + k * d;
      for (int64_t i = 0; i < d - 1; i++) column[i] = points[k * (d - 1) + i] / lengths[k];
      column[d - 1] = 1.0 / lengths[k];
      for (int64_t i = 0; i < d; i++) turned[i * A + k] = column[i];
      if (start[k] > 0.0 && s < most && enter(k)) x[k] = start[k] * lengths[k], s++;
    }
    settle();
    for (int64_t round = 0; round < 10 * A; round++) {
      slopes();
      int64_t entering = -1;
      for (int64_t k = 0; k < A; k++)
        if (!blocked[k] && slope[k] > TOLERANCE && (entering < 0 || slope[k] > slope[entering])) entering = k;
      if (entering < 0) break;
      if (s == most || !enter(entering)) {
        blocked[entering] = true;
        continue;
      }
      s++;
      settle();
      // a point that rounding throws out again would be chosen for ever
      if (x[entering] <= 0.0) blocked[entering] = true;
    }
    double total = 0.0;
    for (int64_t k = 0; k < A; k++) {
      const double share = x[k] / lengths[k];
      shares[k] = 0.0 > share ? 0.0 : share;
      total += shares[k];
    }
    for (int64_t k = 0; k < A; k++) shares[k] /= total;
  }
};

// (points, start, shares): points (A, S), shares (A,) in the simplex.
template <class T>
int64_t least_norm(const Slot* s) {
  Scratch scratch;
  ActiveSet set(scratch, s[0].shape[0], s[0].shape[1] + 1);
  if (!scratch.ok) return NO_MEMORY;
  set.least_norm(s[0].as<double>(), s[1].as<double>(), s[2].as<double>());
  return 0;
}

// A mean of recalls: the sum of phi, of which only the slope and the curvature matter.
struct RecallMean {
  double p;
  bool of_misses;

  // phi'; the exponents of the catalogue by products, as a power takes ten times as long
  double slope(double t) const {
    const double miss = 1.0 - t;
    if (of_misses) return p == 2.0 ? miss : __builtin_pow(0.0 > miss ? 0.0 : miss, p - 1.0);
    if (p == 0.0) return 1.0 / t;
    return p == -1.0 ? 1.0 / (t * t) : __builtin_pow(t, p - 1.0);
  }

  // minus phi''
  double bend(double t) const {
    const double miss = 1.0 - t;
    if (of_misses) return p == 2.0 ? 1.0 : (p - 1.0) * __builtin_pow(FLAT > miss ? FLAT : miss, p - 2.0);
    if (p == 0.0) return 1.0 / (t * t);
    return p == -1.0 ? 2.0 / (t * t * t) : (1.0 - p) * __builtin_pow(t, p - 2.0);
  }

  // Write the recalls (K,) of a mixture; return whether phi takes them.
  bool mixed(const double* recalls, int64_t A, int64_t K, const double* mix, double* __restrict__ at) const {
    for (int64_t k = 0; k < K; k++) at[k] = 0.0;
    for (int64_t a = 0; a < A; a++) {
      const double share = mix[a], *__restrict__ row = recalls + a * K;
      for (int64_t k = 0; share != 0.0 && k < K; k++) at[k] += share * row[k];
    }
    bool inside = true;
    for (int64_t k = 0; k < K; k++) inside &= at[k] > 0.0;
    return inside || of_misses;
  }

  // Return the best step along a line on which the sum is concave, by halving on the sign of its slope.
  double longest(const double* at, const double* change, int64_t K) const {
    double low = 0.0, high = 1.0, size = 1.0;
    for (int time = 0; time < HALVINGS && low < 1.0; time++) {
      double sum = 0.0;
      bool inside = true;
      for (int64_t k = 0; k < K && inside; k++) {
        const double moved = at[k] + size * change[k];
        inside = of_misses || moved > 0.0;
        if (inside) sum += slope(moved) * change[k];
      }
      (inside && sum >= 0.0 ? low : high) = size;
      size = 0.5 * (low + high);
    }
    return low;
  }
};

// (recalls, start, exponent, of_misses, mix): shares mix (A,) of points (A, K) that maximise the mean of the recalls,
// by Newton's method, whose model is a sum of squares.
template <class T>
int64_t best_mix_of_recalls(const Slot* s) {
  const int64_t A = s[0].shape[0], K = s[0].shape[1];
  const double *recalls = s[0].as<double>(), *start = s[1].as<double>();
  const RecallMean mean = {s[2].d, s[3].i != 0};
  double* mix = s[4].as<double>();
  Scratch scratch;
  ActiveSet set(scratch, A, K + 1);
  double *at = scratch.make<double>(K), *change = scratch.make<double>(K), *points = scratch.make<double>(A * K);
  double *found = scratch.make<double>(A), *root = scratch.make<double>(K), *shift = scratch.make<double>(K);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t a = 0; a < A; a++) mix[a] = start[a];
  if (!mean.mixed(recalls, A, K, mix, at))
    for (int64_t a = 0; a < A; a++) mix[a] = 0.5 * mix[a] + 0.5 / A;
  double least = __builtin_inf();
  int idle = 0;
  for (int step = 0; step < NEWTON_STEPS; step++) {
    if (!mean.mixed(recalls, A, K, mix, at)) return 0;
    for (int64_t k = 0; k < K; k++) {
      root[k] = __builtin_sqrt(mean.bend(at[k]));
      shift[k] = mean.slope(at[k]) / root[k];
    }
    for (int64_t a = 0; a < A; a++)
      for (int64_t k = 0; k < K; k++) points[a * K + k] = (recalls[a * K + k] - at[k]) * root[k] - shift[k];
    set.least_norm(points, mix, found);
    mean.mixed(recalls, A, K, found, change);
    // what the model promises, in the unit of the sum; near rounding it no longer falls
    double promised = 0.0;
    for (int64_t k = 0; k < K; k++) {
      change[k] -= at[k];
      promised += mean.slope(at[k]) * change[k];
    }
    idle = promised < least ? 0 : idle + 1;
    least = promised < least ? promised : least;
    if (promised <= 0.0 || idle == IDLE) return 0;
    const double size = mean.longest(at, change, K);
    for (int64_t a = 0; a < A; a++) mix[a] = (1.0 - size) * mix[a] + size * found[a];
    if (mean.of_misses && mean.p == 2.0) return 0;
  }
  return 0;
}
