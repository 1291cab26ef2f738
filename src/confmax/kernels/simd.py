"""What the scans spend their time in, written in vectors of a fixed width for the compiler underneath.

LLVM does not vectorise a running argmax whose state stays in registers, nor sums in a fixed order. So these few loops
are given to it as they should be: 128 bytes of rows at a time, whatever the machine's registers hold. The widths, and
with them the order of every sum, are the same on all machines and for any number of threads. Products and sums are
never fused. Decisions are int32.

Statistics use masked sums for up to four decisions, and four interleaved sets of sums for more, because a row must not
wait for the previous one. Matrices of several gains are counted as differences to the first gain's matrix, because most
rows have the same decision for all gains. Full gains (K x M) are products of the same vectors, not calls of a library,
so their decisions equal the reference's bit for bit too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as untyped

intrinsic: Any = extending.intrinsic
cgutils: Any = untyped
BYTES = 128  # of scores at a time: 32 float32 or 16 float64; blocks hold a multiple of so many rows
TOGETHER = 4  # decisions whose full scores share the loads of a probability
LANES = 16  # of the sums
I32, DOUBLE = ir.IntType(32), ir.DoubleType()


def _arguments(context: Any, builder: Any, signature: Any, args: Any) -> Iterator[Any]:
    """Yield the arguments of an intrinsic: of a C-contiguous array its data pointer and its shape."""
    for kind, value in zip(signature.args, args, strict=True):
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            yield array.data, cgutils.unpack_tuple(builder, array.shape)
        else:
            yield value


def _lanes(array: Any, n_bytes: int = BYTES) -> int:
    """Return how many elements of an array fill a vector."""
    return n_bytes * 8 // array.dtype.bitwidth


def _splat(builder: Any, x: Any, width: int) -> Any:
    """Return a vector that holds x everywhere."""
    empty = ir.VectorType(x.type, width)(ir.Undefined)
    first = builder.insert_element(empty, x, I32(0))
    return builder.shuffle_vector(first, empty, ir.VectorType(I32, width)([0] * width))


def _place(builder: Any, pointer: Any, index: Any, width: int) -> Any:
    """Return where the vector lies that begins at an element."""
    kind = ir.VectorType(pointer.type.pointee, width)
    return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())


# rows of a table begin anywhere, so vectors are aligned as their smallest elements only: an aligned load would trap
def _load(builder: Any, pointer: Any, index: Any, width: int) -> Any:
    """Return the vector that begins at an element."""
    return builder.load(_place(builder, pointer, index, width), align=4)


def _store(builder: Any, vector: Any, pointer: Any, index: Any) -> None:
    """Write a vector from an element on."""
    builder.store(vector, _place(builder, pointer, index, vector.type.count), align=4)


def _decision(builder: Any, j: Any, width: int) -> Any:
    """Return a vector that decides j everywhere."""
    return _splat(builder, builder.trunc(j, I32), width)


class _Best:
    """The best score and its decision in every lane: a later decision replaces those that it equals or exceeds."""

    def __init__(self, builder: Any, kind: Any, width: int) -> None:
        self.builder = builder
        # places on the stack, which LLVM turns into registers: written with registers, loops would need phi nodes
        self.score = cgutils.alloca_once_value(builder, ir.VectorType(kind, width)([float("-inf")] * width))
        self.decision = cgutils.alloca_once_value(builder, ir.VectorType(I32, width)([0] * width))

    def offer(self, score: Any, decided: Any) -> None:
        """Emit the comparison with another score."""
        load, store, select = self.builder.load, self.builder.store, self.builder.select
        # ties go to the largest decision, as in the reference: decisions are offered in rising order
        wins = self.builder.fcmp_ordered(">=", score, load(self.score))
        store(select(wins, score, load(self.score)), self.score)
        store(select(wins, decided, load(self.decision)), self.decision)


def _from(builder: Any, first: Any, stop: Any, step: int, body: Callable[[Any], None]) -> None:
    """Emit ``for k in range(first, stop, step): body(k)``."""
    start = stop.type(first) if isinstance(first, int) else first
    with cgutils.for_range_slice(builder, start, stop, stop.type(step), stop.type) as (k, _):
        body(k)


def _add(builder: Any, total: Any, part: Any) -> None:
    """Add a vector to the sums of its lanes, in the type of the sums."""
    kind = total.type.pointee
    wide = part if part.type == kind else builder.fpext(part, kind)
    builder.store(builder.fadd(builder.load(total), wide), total)


def _zeros(builder: Any, kind: Any, width: int) -> Any:
    """Return where a vector of zeros is kept."""
    return cgutils.alloca_once_value(builder, ir.VectorType(kind, width)([0.0] * width))


# a square is turned in registers, by log2(width) shuffles per vector: no entry is loaded or stored by itself
def _turned(builder: Any, lines: list[Any]) -> list[Any]:
    """Return the transpose of a square of vectors: blocks off the diagonal change places, of one element, two, four."""
    width, b = len(lines), 1
    while b < width:
        low = [k - b + width if k & b else k for k in range(width)]
        high = [k + width if k & b else k + b for k in range(width)]
        for i in range(width):
            if i & b:
                continue
            pair = lines[i], lines[i + b]
            for at, mask in ((i, low), (i + b, high)):
                lines[at] = builder.shuffle_vector(*pair, ir.VectorType(I32, width)(mask))
        b *= 2
    return lines


def _square(width: int) -> Any:
    @intrinsic
    def turn(typingctx, proba, row, column, block):  # type: ignore[no-untyped-def]
        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            (x, (_, K)), r, j, (out, (_, stride)) = _arguments(context, builder, signature, args)

            def place(line: Any, t: int, pitch: Any, at: Any) -> Any:
                return builder.add(builder.mul(builder.add(line, line.type(t)), pitch), at)

            lines = [_load(builder, x, place(r, t, K, j), width) for t in range(width)]
            for t, line in enumerate(_turned(builder, lines)):
                _store(builder, line, out, place(j, t, stride, r))
            return context.get_dummy_value()

        return types.void(proba, types.intp, types.intp, block), emit

    return turn


turn_four, turn_eight = _square(4), _square(8)  # write proba[row + s, column + t] to block[column + t, row + s]


@intrinsic
def decide_reduced(typingctx, block, a, b, row, decision):  # type: ignore[no-untyped-def]
    """Write ``argmax_j a[j] block[j, r] + b[j]`` to ``decision[r]`` for the rows of one vector from ``row``.

    The decisions beyond the classes of the block have the score ``b[j]``.
    """
    width = _lanes(block)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (x, (K, stride)), (scale, _), (offset, (M,)), r, (out, _) = _arguments(context, builder, signature, args)
        best = _Best(builder, x.type.pointee, width)

        def number(of: Any, j: Any) -> Any:
            return _splat(builder, builder.load(builder.gep(of, [j])), width)

        def decide(j: Any) -> None:
            p = _load(builder, x, builder.add(builder.mul(j, stride), r), width)
            score = builder.fadd(builder.fmul(number(scale, j), p), number(offset, j))
            best.offer(score, _decision(builder, j, width))

        _from(builder, 0, K, 1, decide)
        _from(builder, K, M, 1, lambda j: best.offer(number(offset, j), _decision(builder, j, width)))
        _store(builder, builder.load(best.decision), out, r)
        return context.get_dummy_value()

    return types.void(block, a, b, types.intp, decision), emit


def _halves(builder: Any, x: Any) -> tuple[Any, Any]:
    """Return both halves of a vector."""
    width = x.type.count // 2
    masks = [ir.VectorType(I32, width)(list(range(at, at + width))) for at in (0, width)]
    return builder.shuffle_vector(x, x, masks[0]), builder.shuffle_vector(x, x, masks[1])


def _best_lane(builder: Any, best: _Best) -> Any:
    """Return the decision with the largest score, the largest of equal ones."""
    scores, decided = builder.load(best.score), builder.load(best.decision)
    while scores.type.count > 1:
        (a, b), (i, j) = _halves(builder, scores), _halves(builder, decided)
        # a lane's classes are not in order beside another lane's: equal scores compare the decisions themselves
        later = builder.and_(builder.fcmp_ordered("==", b, a), builder.icmp_signed(">", j, i))
        wins = builder.or_(builder.fcmp_ordered(">", b, a), later)
        scores, decided = builder.select(wins, b, a), builder.select(wins, j, i)
    return builder.extract_element(decided, I32(0))


@intrinsic
def decide_along(typingctx, proba, a, b, row):  # type: ignore[no-untyped-def]
    """Return ``argmax_j a[j] proba[row, j] + b[j]``; K is at least one vector."""
    width = _lanes(proba)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (x, (_, K)), (scale, _), (offset, _), r = _arguments(context, builder, signature, args)
        start = builder.mul(r, K)
        lanes = ir.VectorType(I32, width)(list(range(width)))
        best = _Best(builder, x.type.pointee, width)

        def compare(j: Any) -> None:
            product = builder.fmul(_load(builder, scale, j, width), _load(builder, x, builder.add(start, j), width))
            score = builder.fadd(product, _load(builder, offset, j, width))
            best.offer(score, builder.add(_decision(builder, j, width), lanes))

        # where K is no multiple of the width, the last vector begins earlier; comparing a class twice changes nothing
        last = builder.sub(K, K.type(width))
        _from(builder, 0, last, width, compare)
        compare(last)  # what is left over, and some classes again
        return _best_lane(builder, best)

    return types.int32(proba, a, b, types.intp), emit


@intrinsic
def decide_full(typingctx, block, gain, row, decision):  # type: ignore[no-untyped-def]
    """Write ``argmax_j sum_i block[i, r] gain[i, j]`` to ``decision[r]`` for the rows of half a vector from ``row``."""
    width = _lanes(block, BYTES // 2)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (x, (K, stride)), (G, (_, M)), r, (out, _) = _arguments(context, builder, signature, args)
        best = _Best(builder, x.type.pointee, width)
        # half a vector, because four sums are kept beside the best score, and registers are few
        sums = [_zeros(builder, x.type.pointee, width) for _ in range(TOGETHER)]

        def group(j: Any, count: int) -> None:
            for total in sums[:count]:
                builder.store(total.type.pointee([0.0] * width), total)

            def add(i: Any) -> None:
                p = _load(builder, x, builder.add(builder.mul(i, stride), r), width)
                start = builder.add(builder.mul(i, M), j)
                for t in range(count):
                    g = builder.load(builder.gep(G, [builder.add(start, j.type(t))]))
                    _add(builder, sums[t], builder.fmul(p, _splat(builder, g, width)))

            _from(builder, 0, K, 1, add)
            for t in range(count):
                best.offer(builder.load(sums[t]), _decision(builder, builder.add(j, j.type(t)), width))

        # decisions that fill no group of four are scored one by one
        whole = builder.sub(M, builder.urem(M, M.type(TOGETHER)))
        _from(builder, 0, whole, TOGETHER, lambda j: group(j, TOGETHER))
        _from(builder, whole, M, 1, lambda j: group(j, 1))
        _store(builder, builder.load(best.decision), out, r)
        return context.get_dummy_value()

    return types.void(block, gain, types.intp, decision), emit


@intrinsic
def sum_rows(typingctx, block, row, sums, least):  # type: ignore[no-untyped-def]
    """Write the sums over classes of one vector of rows, in float64, and lower ``least`` to their least entries."""
    width = _lanes(block)

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (x, (K, stride)), r, (out, _), (low, _) = _arguments(context, builder, signature, args)
        total = _zeros(builder, DOUBLE, width)
        lowest = cgutils.alloca_once_value(builder, _load(builder, low, r, width))

        def add(j: Any) -> None:
            p = _load(builder, x, builder.add(builder.mul(j, stride), r), width)
            # a comparison with NaN is false: NaN shows in the sum, not in the least entry
            below = builder.fcmp_ordered("<", p, builder.load(lowest))
            builder.store(builder.select(below, p, builder.load(lowest)), lowest)
            _add(builder, total, p)

        _from(builder, 0, K, 1, add)
        _store(builder, builder.load(total), out, r)
        _store(builder, builder.load(lowest), low, r)
        return context.get_dummy_value()

    return types.void(block, types.intp, sums, least), emit


def _sum(builder: Any, n: Any, part: Callable[[Any], Any]) -> Any:
    """Return the sum, in float64, of the n numbers that ``part`` loads as vectors, halves added to each other."""
    total = _zeros(builder, DOUBLE, LANES)
    _from(builder, 0, n, LANES, lambda r: _add(builder, total, part(r)))
    lanes = builder.load(total)
    # the order of this sum is fixed here, so that its last bit does not depend on the machine
    while lanes.type.count > 1:
        lanes = builder.fadd(*_halves(builder, lanes))
    return builder.extract_element(lanes, I32(0))


@intrinsic
def sum_of(typingctx, values):  # type: ignore[no-untyped-def]
    """Return the sum, in float64, of a float32 or float64 vector whose length is a multiple of 16."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        ((x, (n,)),) = _arguments(context, builder, signature, args)
        return _sum(builder, n, lambda r: _load(builder, x, r, LANES))

    return types.float64(values), emit


@intrinsic
def sum_where(typingctx, value, decision, j):  # type: ignore[no-untyped-def]
    """Return the sum, in float64, of ``value[r]`` over ``decision[r] == j``; the length is a multiple of 16."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (x, (n,)), (made, _), j = _arguments(context, builder, signature, args)
        wanted = _decision(builder, j, LANES)

        def part(r: Any) -> Any:
            values = _load(builder, x, r, LANES)
            mine = builder.icmp_signed("==", _load(builder, made, r, LANES), wanted)
            return builder.select(mine, values, values.type([0.0] * LANES))

        return _sum(builder, n, part)

    return types.float64(value, decision, types.intp), emit


@intrinsic
def count_where(typingctx, decision, j):  # type: ignore[no-untyped-def]
    """Return how often ``decision[r] == j``; the length is a multiple of 16."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        (made, (n,)), j = _arguments(context, builder, signature, args)
        wanted = _decision(builder, j, LANES)
        total = cgutils.alloca_once_value(builder, n.type(0))

        def add(r: Any) -> None:
            mine = builder.icmp_signed("==", _load(builder, made, r, LANES), wanted)
            # the comparison is a mask of 16 bits, of which the processor counts the ones
            found = builder.ctpop(builder.bitcast(mine, ir.IntType(LANES)))
            builder.store(builder.add(builder.load(total), builder.zext(found, n.type)), total)

        _from(builder, 0, n, LANES, add)
        return builder.load(total)

    return types.intp(decision, types.intp), emit
