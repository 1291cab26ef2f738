// The interior-point method of the master within limits (`optimize/masters/interior.py` derives and defines it).

constexpr int64_t STEPS = 60;
constexpr double LEAST_CENTRED = 0.15, BACK = 0.95, CLOSED = 1e-13, MET = 1e-10, NEARLY_MET = 1e-7;
constexpr double MOST_EXPONENT = 700;
// of functions of the tops: none, a mean of recalls, one of what they miss, minus half their squares
enum Sum { NO_SUM = 0, OF_RECALLS = 1, OF_MISSES = 2, OF_SQUARES = 3 };

FAST inline double dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

FAST inline double log_of(double x) { return logarithm(everywhere(x))[0]; }

// Return x^power for a positive x.
FAST inline double power_of(double x, double power) {
  const double t = power * log_of(x);
  return exponential(everywhere(t < MOST_EXPONENT ? t : MOST_EXPONENT))[0];
}

FAST inline double largest(const double* x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = __builtin_fabs(x[i]) > most ? __builtin_fabs(x[i]) : most;
  return most;
}

// Return the shorter of a step and the longest one that keeps values positive.
FAST inline double shortest(double step, const double* values, const double* changes, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (changes[i] < 0 && BACK * (-values[i] / changes[i]) < step) step = BACK * (-values[i] / changes[i]);
  return step;
}

FAST inline bool all_finite(const double* x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (!(__builtin_fabs(x[i]) <= __DBL_MAX__)) return false;
  return true;
}

// Replace a matrix (d, d) by its factors, with row pivoting; false where it is singular.
FAST inline bool factor_lu(double* a, int64_t d, int64_t* pivots) {
  for (int64_t k = 0; k < d; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < d; i++)
      if (__builtin_fabs(a[i * d + k]) > __builtin_fabs(a[best * d + k])) best = i;
    pivots[k] = best;
    if (!(__builtin_fabs(a[best * d + k]) > 0)) return false;
    for (int64_t j = 0; best != k && j < d; j++) {
      const double kept = a[k * d + j];
      a[k * d + j] = a[best * d + j], a[best * d + j] = kept;
    }
    for (int64_t i = k + 1; i < d; i++) {
      const double share = a[i * d + k] = a[i * d + k] / a[k * d + k];
      if (share == 0) continue;
      for (int64_t j = k + 1; j < d; j++) a[i * d + j] -= share * a[k * d + j];
    }
  }
  return true;
}

FAST inline void solve_lu(const double* a, int64_t d, const int64_t* pivots, double* x) {
  for (int64_t k = 0; k < d; k++) {
    const double kept = x[pivots[k]];
    x[pivots[k]] = x[k], x[k] = kept;
  }
  for (int64_t k = 0; k < d; k++) x[k] -= dot(a + k * d, x, k);
  for (int64_t k = d - 1; k >= 0; k--) x[k] = (x[k] - dot(a + k * d + k + 1, x + k + 1, d - k - 1)) / a[k * d + k];
}

// An iterate and its system: A rules in rows (A, q + 1), S tops, and n multipliers from `free` on. The rows are held
// turned too, (wide, size) with zeros behind, and in panels.
struct Interior {
  int64_t A, q, S, free, n, d, size, wide;
  int sum, signed_tops;  // squares and their prices may be negative
  double power, theta = 0;
  const double* rows;
  double *y, *u, *w, *s, *v;
  double *away, *tilt, *system, *fixed, *off, *first, *second, *move, *du, *dw, *ds, *dv;
  double *turned, *panels, *weighted, *sums;
  int64_t* pivots;

  FAST Interior(Scratch& scratch, const Slot* slots)
      : A(slots[0].shape[0]), q(slots[0].shape[1] - 1), S(slots[6].i), sum(slots[7].i), power(slots[8].d) {
    free = sum ? S : 0, signed_tops = sum == OF_SQUARES ? S : 0, n = q - free, d = q + 2;
    rows = slots[0].as<double>(), y = slots[1].as<double>(), u = slots[2].as<double>();
    w = slots[3].as<double>(), s = slots[4].as<double>(), v = slots[5].as<double>();
    away = scratch.make<double>(A), tilt = scratch.make<double>(q + 1), system = scratch.make<double>(d * d);
    fixed = scratch.make<double>(d), off = scratch.make<double>(S), first = scratch.make<double>(A);
    second = scratch.make<double>(n), move = scratch.make<double>(d), du = scratch.make<double>(A);
    dw = scratch.make<double>(A), ds = scratch.make<double>(n), dv = scratch.make<double>(S);
    pivots = scratch.make<int64_t>(d);
    size = rounded_up(A), wide = rounded_up(q + 1);
    turned = padded(scratch, nullptr, 0, 0, wide, size), panels = scratch.make<double>(wide * size);
    weighted = padded(scratch, nullptr, 0, 0, wide, size), sums = scratch.make<double>(wide * wide);
    if (!scratch.ok) return;
    for (int64_t a = 0; a < A; a++)
      for (int64_t i = 0; i <= q; i++) turned[i * size + a] = rows[a * (q + 1) + i];
    to_panels(turned, wide, size, panels);
  }

  // Write the products of the rows and x (q + 1,).
  FAST void multiply_rows(const double* x, double* out) const {
    for (int64_t a = 0; a < A; a++) out[a] = 0;
    for (int64_t i = 0; i <= q; i++) {
      const double one = x[i], *line = turned + i * size;
      for (int64_t a = 0; a < A; a++) out[a] += line[a] * one;
    }
  }

  FAST double summed(int64_t i) const { return !sum && i < S ? 1 : 0; }

  // By how much v falls as its price grows, and the sign of this: what misses grow with the price.
  FAST double falls(int64_t k) const { return sum == OF_SQUARES ? 1 : __builtin_fabs(power) * v[k] / y[k]; }
  FAST double sign() const { return sum == OF_MISSES ? -1 : 1; }

  FAST double gap() const { return dot(w, u, A) + dot(s, y + free, n); }

  // Add rows^T x, x (A,), times a sign to out (q + 1,).
  FAST void add_turned(const double* x, double sign, double* out) const {
    for (int64_t a = 0; a < A; a++) {
      const double one = sign * x[a];
      for (int64_t i = 0; i <= q; i++) out[i] += one * rows[a * (q + 1) + i];
    }
  }

  // Write the residuals, and return how far prices are from where they belong.
  FAST double residuals() {
    multiply_rows(y, away);
    for (int64_t a = 0; a < A; a++) away[a] -= u[a];
    for (int64_t i = 0; i <= q; i++) tilt[i] = 0;
    add_turned(w, -1, tilt);
    for (int64_t i = 0; i <= q; i++) tilt[i] -= theta * summed(i);
    tilt[q] += 1;
    for (int64_t i = 0; i < n; i++) tilt[free + i] -= s[i];
    double apart = 1;
    for (int64_t k = 0; !sum && k < S; k++) apart -= y[k];
    if (!sum) return __builtin_fabs(apart);
    apart = 0;
    for (int64_t k = 0; k < S; k++) {
      tilt[k] -= sum == OF_MISSES ? 1 - v[k] : v[k];
      off[k] = sum == OF_SQUARES ? -y[k] - v[k] : log_of(power_of(y[k], power) / v[k]);
      apart = __builtin_fabs(off[k]) > apart ? __builtin_fabs(off[k]) : apart;
    }
    return apart;
  }

  FAST bool assemble() {
    for (int64_t k = 0; k < d * d; k++) system[k] = 0;
    for (int64_t k = 0; k < wide * wide; k++) sums[k] = 0;
    for (int64_t a = 0; a < A; a++) first[a] = w[a] / u[a];
    for (int64_t i = 0; i <= q; i++)
      for (int64_t a = 0; a < A; a++) weighted[i * size + a] = first[a] * turned[i * size + a];
    add_products<true>(weighted, panels, A, wide, wide, size, sums);
    for (int64_t i = 0; i <= q; i++)
      for (int64_t j = i; j <= q; j++) system[i * d + j] = system[j * d + i] = sums[i * wide + j];
    for (int64_t i = 0; i < n; i++) system[(free + i) * (d + 1)] += s[i] / y[free + i];
    for (int64_t i = 0; i <= q; i++) fixed[i] = -tilt[i];
    for (int64_t a = 0; a < A; a++) first[a] = w[a] * away[a] / u[a];
    add_turned(first, -1, fixed);
    fixed[q + 1] = sum ? 0 : 1;
    for (int64_t k = 0; k < S; k++) {
      if (sum) {
        // the price of a recall is a power of v: the equation of their logarithms holds far from the solution too
        off[k] = sum == OF_SQUARES ? off[k] : v[k] * off[k];
        system[k * (d + 1)] += falls(k);
        fixed[k] += sign() * off[k];
      } else {
        system[k * d + q + 1] = -1, system[(q + 1) * d + k] = 1, fixed[q + 1] -= y[k];
      }
    }
    // no price of a sum sums to one, and the last unknown has no part
    if (sum) system[d * d - 1] = 1;
    return factor_lu(system, d, pivots);
  }

  // Write the direction that `first` (A,) and `second` (n,) of the complementarities ask for.
  FAST void direct() {
    for (int64_t i = 0; i < d; i++) move[i] = fixed[i];
    for (int64_t a = 0; a < A; a++) du[a] = first[a] / u[a];
    add_turned(du, 1, move);
    for (int64_t i = 0; i < n; i++) move[free + i] += second[i] / y[free + i];
    solve_lu(system, d, pivots, move);
    multiply_rows(move, du);
    for (int64_t a = 0; a < A; a++) {
      du[a] += away[a];
      dw[a] = (first[a] - w[a] * du[a]) / u[a];
    }
    for (int64_t i = 0; i < n; i++) ds[i] = (second[i] - s[i] * move[free + i]) / y[free + i];
    for (int64_t k = 0; sum && k < S; k++) dv[k] = off[k] - sign() * falls(k) * move[k];
  }

  FAST void lengths(double& primal, double& dual) const {
    primal = shortest(shortest(1, w, dw, A), s, ds, n);
    dual = shortest(shortest(1, u, du, A), y + signed_tops, move + signed_tops, q - signed_tops);
    if (!sum) return;
    primal = shortest(primal, v + signed_tops, dv + signed_tops, S - signed_tops);
    primal = dual = primal < dual ? primal : dual;
  }

  // Take a step; false where there is none.
  FAST bool advance(double gap) {
    if (!assemble()) return false;
    for (int64_t a = 0; a < A; a++) first[a] = -w[a] * u[a];
    for (int64_t i = 0; i < n; i++) second[i] = -s[i] * y[free + i];
    direct();
    double primal, dual, left = 0, rest = 0;
    lengths(primal, dual);
    for (int64_t a = 0; a < A; a++) left += (w[a] + primal * dw[a]) * (u[a] + dual * du[a]);
    for (int64_t i = 0; i < n; i++) rest += (s[i] + primal * ds[i]) * (y[free + i] + dual * move[free + i]);
    const double part = (left + rest) / gap < 1 ? (left + rest) / gap : 1;
    const double centred = part * part * part > LEAST_CENTRED ? part * part * part : LEAST_CENTRED;
    const double aim = centred * gap / (A + n);
    for (int64_t a = 0; a < A; a++) first[a] = aim - w[a] * u[a] - dw[a] * du[a];
    for (int64_t i = 0; i < n; i++) second[i] = aim - s[i] * y[free + i] - ds[i] * move[free + i];
    direct();
    if (!all_finite(move, d) || !all_finite(du, A) || !all_finite(dw, A) || !all_finite(ds, n)) return false;
    if (sum && !all_finite(dv, S)) return false;
    lengths(primal, dual);
    for (int64_t a = 0; a < A; a++) w[a] += primal * dw[a], u[a] += dual * du[a];
    for (int64_t i = 0; i < n; i++) s[i] += primal * ds[i];
    for (int64_t k = 0; sum && k < S; k++) v[k] += primal * dv[k];
    for (int64_t i = 0; i <= q; i++) y[i] += dual * move[i];
    theta += primal * move[q + 1];
    return true;
  }
};

// (rows, y, u, w, s, v, S, sum, power, duals, gaps): follow the central path from an iterate, which becomes the
// solution; write the points of the path and their gaps, and return their number.
template <class T>
FAST int64_t central_path(const Slot* s) {
  Scratch scratch;
  const int64_t q = s[0].shape[1] - 1, S = s[6].i, free = s[7].i ? S : 0;
  if (S < 0 || S > q || s[4].shape[0] != q - free || s[5].shape[0] != free) return UNFIT;
  Interior at(scratch, s);
  if (!scratch.ok) return NO_MEMORY;
  double least = __builtin_inf();
  int64_t count = 0;
  for (int64_t step = 0; step < STEPS; step++) {
    const double gap = at.gap(), apart = at.residuals(), away = largest(at.away, at.A);
    if (away < NEARLY_MET && (at.sum || apart < NEARLY_MET)) {
      __builtin_memcpy(s[9].as<double>() + count * (at.q + 1), at.y, (at.q + 1) * sizeof(double));
      s[10].as<double>()[count++] = gap;
    }
    const double tilt = largest(at.tilt, at.q + 1), both = away > tilt ? away : tilt;
    const double unmet = both > apart ? both : apart;
    if (gap <= CLOSED && (unmet < MET || unmet >= least)) break;
    least = unmet < least ? unmet : least;
    if (!at.advance(gap)) break;
  }
  return count;
}
