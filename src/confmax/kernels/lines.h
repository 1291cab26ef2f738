// Sums of the rows that lie above a price on lines of their probabilities (`optimize.row_prices` says what they bound).

constexpr int64_t LINE_ROWS = 512;  // whose numbers stay in the inner cache for all lines

// (p, v, w, k, a, b, start, stop, out): of the rows from start to stop, add to out (3, L) the sums of w p, w and w v
// over those with a p + b > v, on every line of a class k. p (B, n) are probabilities, v (1, n) or (B, n) prices.
template <class T>
FAST int64_t above_lines(const Slot* s) {
  typedef int64_t wide __attribute__((vector_size(WIDTH)));
  const int64_t n = s[0].shape[1], L = s[3].shape[0], stop = s[7].i, *classes = s[3].as<int64_t>();
  const double *weight = s[2].as<double>(), *slopes = s[4].as<double>(), *offsets = s[5].as<double>();
  const int64_t prices = s[1].shape[0] == 1 ? 0 : n;
  double* out = s[8].as<double>();
  if (prices && s[1].shape[0] != s[0].shape[0]) return UNFIT;
  for (int64_t l = 0; l < L; l++)
    if (classes[l] < 0 || classes[l] >= s[0].shape[0]) return UNFIT;
  for (int64_t low = s[6].i; low < stop; low += LINE_ROWS) {
    const int64_t high = least_of(low + LINE_ROWS, stop), whole = low + (high - low) / LANES * LANES;
    for (int64_t l = 0; l < L; l++) {
      const double *p = s[0].as<double>() + classes[l] * n, *v = s[1].as<double>() + classes[l] * prices;
      const double a = slopes[l], b = offsets[l];
      Lanes hits, share, paid;
      for (int64_t r = low; r < whole; r += LANES) {
#pragma GCC unroll 8
        for (int u = 0; u < SUMS; u++) {
          const int64_t at = r + u * DOUBLES;
          const Doubles x = load<Doubles>(p + at), price = load<Doubles>(v + at);
          const wide above = (wide)(a * x + b > price);
          const Doubles mine = (Doubles)((wide)load<Doubles>(weight + at) & above);
          hits.part[u] += mine * x;
          share.part[u] += mine;
          paid.part[u] += mine * price;
        }
      }
      double sums[3] = {hits.total(), share.total(), paid.total()};
      for (int64_t r = whole; r < high; r++) {
        const double mine = a * p[r] + b > v[r] ? weight[r] : 0.0;
        sums[0] += mine * p[r], sums[1] += mine, sums[2] += mine * v[r];
      }
      for (int64_t i = 0; i < 3; i++) out[i * L + l] += sums[i];
    }
  }
  return 0;
}
