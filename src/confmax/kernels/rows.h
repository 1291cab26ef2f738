// What is taken from a row by itself: its entries, its decision's probability, its part of a weighted sum.

// (proba, chosen, start, stop, out)
template <class T>
FAST int64_t gather(const Slot* s) {
  const int64_t K = s[0].shape[1];
  for (int64_t r = s[2].i; r < s[3].i; r++)
    __builtin_memcpy(s[4].as<T>() + r * K, s[0].as<T>() + s[1].as<int64_t>()[r] * K, K * sizeof(T));
  return 0;
}

// (proba, decision, start, stop, out): write the probability of each row's decision, zero for one that is no class.
template <class T>
FAST int64_t pick(const Slot* s) {
  const int64_t K = s[0].shape[1], *decision = s[1].as<int64_t>();
  const T* proba = s[0].as<T>();
  T* out = s[4].as<T>();
  for (int64_t r = s[2].i; r < s[3].i; r++) out[r] = decision[r] < K ? proba[r * K + decision[r]] : 0;
  return 0;
}

// (proba, start, stop, weight, totals)
template <class T>
FAST int64_t weigh(const Slot* s) {
  const int64_t K = s[0].shape[1];
  double* totals = s[4].as<double>();
  for (int64_t r = s[1].i; r < s[2].i; r++) {
    const double w = s[3].as<double>()[r];
    const T* row = s[0].as<T>() + r * K;
    for (int64_t j = 0; j < K; j++) totals[j] += w * row[j];
  }
  return 0;
}
