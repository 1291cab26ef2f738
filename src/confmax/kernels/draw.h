// Randomised decisions: each row is given its atom by a hash first, and is then decided by that atom alone.

constexpr int64_t ATOMS = 5;  // that decide all rows of a block: more are given their own rows only

// Write how many edges (A - 1,) each row's draw has passed; words (6,) are the coefficients of the hash.
FAST inline void draw_atoms(const uint64_t* keys, int64_t n_rows, const uint64_t* words, const double* edges,
                            int64_t n_edges, double* u, int32_t* atom) {
  for (int64_t r = 0; r < n_rows; r++) {
    const uint64_t word = mix(keys[r]), first = word & 0xFFFFFFFFu, second = word >> 32;
    const uint64_t high = (words[0] * first + words[1] * second + words[2]) >> 32;
    const uint64_t rest = (words[3] * first + words[4] * second + words[5]) >> 32;
    // below 2^53, so that as a signed number it is the same
    u[r] = (double)(int64_t)(((high << 32) | rest) >> 11) * 0x1p-53;
    atom[r] = 0;
  }
  // an edge at a time: comparisons of one number with many rows are vectors, a search for each row is not
  for (int64_t k = 0; k < n_edges; k++)
    for (int64_t r = 0; r < n_rows; r++) atom[r] += u[r] >= edges[k];
}

// Decide every row by its own atom: the rows of an atom are turned class-major together.
template <class T>
FAST void decide_by_atom(const T* rows, int64_t n_rows, const Decider<T>& decider, int64_t A, const int32_t* atom,
                         int64_t* count, int64_t* order, T* block, int64_t stride, int32_t* decision, int64_t* out) {
  // rows are sorted by their atoms by counting: first how many each has, then where they begin
  for (int64_t k = 0; k < A; k++) count[k] = 0;
  for (int64_t r = 0; r < n_rows; r++) count[atom[r]]++;
  int64_t end = 0;
  for (int64_t k = 0; k < A; k++) end += count[k], count[k] = end - count[k];
  for (int64_t r = 0; r < n_rows; r++) order[count[atom[r]]++] = r;
  const int64_t width = 2 * Vectors<T>::lanes, K = decider.K;  // of full scores at a time
  for (int64_t k = 0, begin = 0; k < A; begin = count[k], k++) {
    const int64_t mine = count[k] - begin;
    for (int64_t r = 0; r < mine; r++)
      for (int64_t j = 0; j < K; j++) block[j * stride + r] = rows[order[begin + r] * K + j];
    decider.block(block, stride, k, (mine + width - 1) / width * width, decision);
    for (int64_t r = 0; r < mine; r++) out[order[begin + r]] = decision[r];
  }
}

// (proba, start, stop, size, first, second, factors, words, edges, given, limits, broken, keys, out): rows draw by
// given keys (n,), or by their hashes, which are then written to keys (n,).
template <class T>
FAST int64_t draw(const Slot* s) {
  const int64_t K = s[0].shape[1], start = s[1].i, stop = s[2].i, size = s[3].i, stride = block_stride<T>(size);
  const Decider<T> decider(s[4], s[5], K);
  const int64_t A = s[4].shape[0];
  const bool checked = !s[11].is_empty(), hashed = s[9].is_empty();
  if (!Decider<T>::fits(s[4], s[5], K) || (hashed ? s[12] : s[9]).shape[0] != s[0].shape[0]) return UNFIT;
  Scratch scratch;
  T* block = scratch.make<T>(K * stride);
  int32_t *decision = scratch.make<int32_t>(size), *picked = scratch.make<int32_t>(size);
  int32_t* atom = scratch.make<int32_t>(size);
  double* u = scratch.make<double>(size);
  int64_t *order = scratch.make<int64_t>(size), *count = scratch.make<int64_t>(A);
  RowCheck<T> rows_of(scratch, size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t r = 0; r < size; r++) atom[r] = 0, picked[r] = 0;
  for (int64_t low = start; low < stop; low += size) {
    const int64_t n_rows = least_of(size, stop - low);
    const T* rows = s[0].as<T>() + low * K;
    int64_t* out = s[13].as<int64_t>() + low;
    // of more classes, rows are gathered by their atoms from the table itself
    if (K <= MANY) load_block(rows, n_rows, K, block, stride);
    if (checked) {
      rows_of.add(rows, n_rows, K, block, stride);
      rows_of.keep_worst(n_rows);
    }
    uint64_t* keys = (hashed ? s[12] : s[9]).as<uint64_t>() + low;
    if (hashed) hash_rows(rows, n_rows, K, block, stride, s[6].as<uint64_t>(), keys);
    draw_atoms(keys, n_rows, s[7].as<uint64_t>(), s[8].as<double>(), s[8].shape[0], u, atom);
    if (K > MANY || A > ATOMS) {
      decide_by_atom(rows, n_rows, decider, A, atom, count, order, block, stride, decision, out);
      continue;
    }
    // a few atoms decide all rows faster than each its own
    for (int64_t k = 0; k < A; k++) {
      decider.block(block, stride, k, size, decision);
      for (int64_t r = 0; r < size; r++) picked[r] = atom[r] == k ? decision[r] : picked[r];
    }
    for (int64_t r = 0; r < n_rows; r++) out[r] = picked[r];
  }
  if (checked) rows_of.judge(s[10].as<double>(), s[11].as<bool>());
  return 0;
}
