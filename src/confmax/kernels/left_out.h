// The log loss of rows under the fit without them (`calibration.scaling.left_out_losses` derives and defines it).

// (z, y, w, alone, start, stop, a, b, inverse, least, most, out): write the losses of the rows alone in their groups,
// one Newton step away from the fit (a, b) on all rows. inverse (d, d) is that of the Hessian; d is 1 for a power that
// is the same for all classes, otherwise 2K.
template <class T>
FAST int64_t leave_out(const Slot* s) {
  const int64_t K = s[0].shape[1], size = rows_together(K), d = s[8].shape[0];
  const bool common = d == 1;
  const double *a = s[6].as<double>(), *b = s[7].as<double>();
  Scratch scratch;
  Softmax<T> block(scratch, K, size, nullptr);
  double *u = scratch.make<double>(d * size), *step = scratch.make<double>(d * size);
  double *change = scratch.make<double>(K * size), *score = scratch.make<double>(K * size);
  double *ones = scratch.make<double>(K), *zeros = scratch.make<double>(K), *weight = scratch.make<double>(size);
  double* off = scratch.make<double>(K * size);
  if (!scratch.ok) return NO_MEMORY;
  for (int64_t k = 0; k < K; k++) ones[k] = 1.0, zeros[k] = 0.0;
  int64_t low = s[4].i;
  while (const int64_t n = block.next(s[0].as<T>(), s[3].as<uint8_t>(), low, s[5].i)) {
    block.apply(block.z, a, b, true);
    // probabilities less labels: the derivative of the loss by the scores
    for (int64_t k = 0; k < K * size; k++) off[k] = block.q[k];
    for (int64_t r = 0; r < size; r++) weight[r] = r < n ? s[2].as<double>()[block.rows[r]] : 0.0;
    for (int64_t r = 0; r < n; r++) off[s[1].as<int64_t>()[block.rows[r]] * size + r] -= 1.0;
    for (int64_t k = 0; common && k < size; k++) u[k] = 0.0;
    for (int64_t k = 0; k < K; k++) {
      for (int64_t r = 0; r < size; r++) {
        const double p = off[k * size + r], by_power = weight[r] * (p * block.z[k * size + r]);
        if (common) {
          u[r] += by_power;
        } else {
          u[k * size + r] = by_power, u[(K + k) * size + r] = weight[r] * p;
        }
      }
    }
    multiply(u, s[8].as<double>(), d, size, step);
    for (int64_t r = 0; r < size; r += DOUBLES) {
      Doubles mean = Doubles{}, bend = Doubles{}, promised = Doubles{};
      for (int64_t k = 0; k < K; k++) {
        const Doubles x = load_doubles(block.z + k * size + r);
        const Doubles moved = common
                                  ? x * load<Doubles>(step + r)
                                  : x * load<Doubles>(step + k * size + r) + load<Doubles>(step + (K + k) * size + r);
        store(change + k * size + r, moved);
        mean += load<Doubles>(block.q + k * size + r) * moved;
      }
      for (int64_t k = 0; k < K; k++) {
        const Doubles away = load<Doubles>(change + k * size + r) - mean;
        bend += load<Doubles>(block.q + k * size + r) * (away * away);
      }
      for (int64_t i = 0; i < d; i++) promised += load<Doubles>(u + i * size + r) * load<Doubles>(step + i * size + r);
      bend *= load<Doubles>(weight + r);
      // of all curvature along the step, the share of the row itself is gone with it
      Doubles share = bend / (promised > s[9].d ? promised : everywhere(s[9].d));
      share = share < s[10].d ? share : everywhere(s[10].d);
      const Doubles longer = 1.0 / (1.0 - share);
      for (int64_t k = 0; k < K; k++)
        store(score + k * size + r,
              (load_doubles(block.z + k * size + r) * a[k] + b[k]) + load<Doubles>(change + k * size + r) * longer);
    }
    block.apply(score, ones, zeros, false);
    for (int64_t r = 0; r < n; r++) {
      const int64_t i = block.rows[r];
      s[11].as<double>()[i] = block.log_total[r] - score[s[1].as<int64_t>()[i] * size + r];
    }
  }
  return 0;
}
