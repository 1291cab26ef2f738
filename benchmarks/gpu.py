"""Scans of a table on a CUDA device against the bandwidth of its memory.

    python -m benchmarks gpu [ROWS]

10M x 100 probabilities by default, float16 and float32; one and eight diagonal-plus-offset gains per scan, model
confusion. Every figure is the median of at least five repeats between CUDA events and includes sending gains and
fetching statistics. The figures are written to the section "gpu" of benchmarks/RESULTS.md. Without a CUDA device it
says so and ends.
"""

from __future__ import annotations

import numpy as np

from benchmarks.harness import benchmark
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

ROWS, CLASSES, REPEATS, WARM_UP = 10_000_000, 100, 7, 2
PART = 1_000_000  # rows generated at a time


@benchmark("gpu", "[ROWS]")
def main(rows=ROWS):
    """Measure scans on the first CUDA device."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here: nothing was measured")
    return [report(torch, rows)]


def report(torch, rows):
    device = torch.cuda.get_device_properties(0)
    lines, kernels = ["table | what | ms | GB/s | of torch.sum", "---|---|---:|---:|---:|"], []
    for dtype in (torch.float16, torch.float32):
        name = f"{rows:,} x {CLASSES} {str(dtype).removeprefix('torch.')}"
        kernels.append(measure(torch, probabilities(torch, rows, dtype), name, lines))
        torch.cuda.empty_cache()
    used = "was used" if all(kernels) else "was used for one type only" if any(kernels) else "was not used"
    head = (
        f"on one {device.name} ({device.total_memory / 2**30:.0f} GiB), torch "
        f"{torch.__version__}, CUDA {torch.version.cuda}, triton {triton_version()}: median of {REPEATS} repeats "
        f"between CUDA events, gains sent and statistics fetched included. The kernel {used}; statistics equal those "
        f"of the plain operations bit for bit. GB/s are bytes of the table per second, read and, by a copy, "
        f"written.\n\n"
    )
    return head + "\n".join(lines)


def measure(torch, P, name, lines):
    """Add the lines of one table; return whether its scans take the kernel."""
    size = P.numel() * P.element_size()
    summed = seconds(torch, lambda: P.sum(dtype=torch.float32))
    copied = seconds(torch, lambda: P.clone())
    measured = [("torch.sum", summed, size), ("copy on the device", copied, 2 * size)]
    oracle = make_oracle(make_table(P))
    kernel = oracle._fused
    for n_gains in (1, 8):
        gains, what = random_gains(n_gains), f"{n_gains} gain{'s' * (n_gains > 1)} per scan"
        answers = []
        for way, fused in (("as chosen", kernel), ("plain operations", None)):
            oracle._fused = fused
            answers.append(oracle.maximize(gains).diagonal)
            measured.append((f"{what}, {way}", seconds(torch, lambda: oracle.maximize(gains)), size))  # noqa: B023
        oracle._fused = kernel
        assert np.array_equal(*answers), "the kernel and the plain operations disagree"
    for what, took, moved in measured:
        lines.append(f"{name} | {what} | {took * 1e3:.3f} | {moved / took / 1e9:.0f} | {summed / took:.2f}")
    return kernel is not None


def probabilities(torch, rows, dtype):
    """Return a table on the device: softmax of normal scores, some classes rare."""
    source = torch.Generator(device="cuda").manual_seed(0)
    bias = torch.linspace(0.0, -3.0, CLASSES, device="cuda")
    P = torch.empty((rows, CLASSES), dtype=dtype, device="cuda")
    for low in range(0, rows, PART):
        part = P[low : low + PART]
        part.copy_(torch.softmax(2.0 * torch.randn(part.shape, generator=source, device="cuda") + bias, dim=1))
    return P


def random_gains(n_gains):
    rng = np.random.default_rng(1)
    return Gains.reduced(rng.uniform(0.5, 2.0, (n_gains, CLASSES)), rng.uniform(0.0, 0.1, (n_gains, CLASSES)))


def seconds(torch, work):
    """Return the median time of a call on the device."""
    times = []
    for repeat in range(WARM_UP + REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if repeat >= WARM_UP:
            times.append(start.elapsed_time(end) / 1e3)
    return float(np.median(times))


def triton_version():
    try:
        import triton
    except ImportError:
        return "not installed"
    return triton.__version__
