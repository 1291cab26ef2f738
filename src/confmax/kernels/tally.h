// Rows whose columns lie apart: checked, hashed and decided by several gains in one pass, which counts how many agree.

// (columns, labels, size, limits, factors, totals, broken, hashes, first, second, counts): counts (K^(B + 1),) of the
// label and the decisions of reduced gains, the label first, are added to, as totals (K,) and broken (4,) are. A column
// holds zeros behind its rows, up to whole blocks.
template <class T>
FAST int64_t tally(const Slot* s) {
  const int64_t K = s[0].shape[0], apart = s[0].shape[1], n = s[1].shape[0], size = s[2].i, B = s[8].shape[0];
  const int64_t *labels = s[1].as<int64_t>(), most = s[10].shape[0];
  double* totals = s[5].as<double>();
  int64_t* counts = s[10].as<int64_t>();
  const Decider<T> decider(s[8], s[9], K);
  int64_t cells = K;
  for (int64_t g = 0; g < B && cells <= most; g++) cells *= K;
  if (K > MANY || cells != most || cells > INT32_MAX || apart < (n + size - 1) / size * size) return UNFIT;
  Scratch scratch;
  int32_t *decision = scratch.make<int32_t>(size), *code = scratch.make<int32_t>(size);
  RowCheck<T> rows_of(scratch, size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t low = 0; low < n; low += size) {
    const int64_t n_rows = least_of(size, n - low);
    const T* block = s[0].as<T>() + low;
    // so few classes are read in the block alone
    rows_of.add(nullptr, n_rows, K, block, apart);
    rows_of.keep_worst(n_rows);
    for (int64_t j = 0; j < K; j++) totals[j] += sum_of(block + j * apart, size);
    hash_rows<T>(nullptr, n_rows, K, block, apart, s[4].as<uint64_t>(), s[7].as<uint64_t>() + low);
    for (int64_t r = 0; r < n_rows; r++) code[r] = labels[low + r];
    for (int64_t g = 0; g < B; g++) {
      decider.block(block, apart, g, size, decision);
      for (int64_t r = 0; r < n_rows; r++) code[r] = code[r] * (int32_t)K + decision[r];
    }
    for (int64_t r = 0; r < n_rows; r++) counts[code[r]]++;
  }
  rows_of.judge(s[3].as<double>(), s[6].as<bool>());
  return 0;
}
