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

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as untyped

intrinsic: Any = extending.intrinsic
cgutils: Any = untyped
BYTES = 128  # of scores at a time: 32 float32 or 16 float64; blocks hold a multiple of so many rows
TOGETHER = 4  # decisions whose full scores share the loads of a probability
LANES = 16  # of the sums
I32 = ir.IntType(32)


def _argument(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, list[Any]]:
    """Return the data pointer and the shape of a C-contiguous array."""
    array = context.make_array(kind)(context, builder, value)
    return array.data, cgutils.unpack_tuple(builder, array.shape)


def _splat(builder: Any, x: Any, width: int) -> Any:
    """Return a vector that holds x everywhere."""
    empty = ir.Constant(ir.VectorType(x.type, width), ir.Undefined)
    first = builder.insert_element(empty, x, I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(I32, width), [0] * width))


def _load(builder: Any, pointer: Any, index: Any, kind: Any) -> Any:
    """Return the vector that begins at an element."""
    size = {"float": 4, "double": 8}.get(str(kind.element)) or kind.element.width // 8
    place = builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())
    return builder.load(place, align=size)


def _decision(builder: Any, j: Any, width: int) -> Any:
    """Return a vector that decides j everywhere."""
    return _splat(builder, builder.trunc(j, I32), width)


def _keep_best(builder: Any, score: Any, decided: Any, best: Any, chosen: Any) -> None:
    """Let decisions replace those that they equal or exceed."""
    highest = builder.load(best)
    wins = builder.fcmp_ordered(">=", score, highest)
    builder.store(builder.select(wins, score, highest), best)
    builder.store(builder.select(wins, decided, builder.load(chosen)), chosen)


def _from(builder: Any, first: Any, stop: Any, step: int, body: Callable[[Any], None]) -> None:
    """Emit ``for k in range(first, stop, step): body(k)``."""
    with cgutils.for_range_slice(builder, first, stop, ir.Constant(stop.type, step), stop.type) as (k, _):
        body(k)


def _floating(size: int) -> Any:
    return ir.FloatType() if size == 4 else ir.DoubleType()


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
                lines[at] = builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(I32, width), mask))
        b *= 2
    return lines


def _square(width: int) -> Any:
    @intrinsic
    def turn(typingctx, proba, row, column, block):  # type: ignore[no-untyped-def]
        size = proba.dtype.bitwidth // 8

        def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
            x, (_, K) = _argument(context, builder, proba, args[0])
            out, (_, stride) = _argument(context, builder, block, args[3])
            kind = ir.VectorType(_floating(size), width)

            def place(line: Any, t: int, pitch: Any, at: Any) -> Any:
                return builder.add(builder.mul(builder.add(line, ir.Constant(line.type, t)), pitch), at)

            lines = [_load(builder, x, place(args[1], t, K, args[2]), kind) for t in range(width)]
            for t, line in enumerate(_turned(builder, lines)):
                start = builder.gep(out, [place(args[2], t, stride, args[1])])
                builder.store(line, builder.bitcast(start, kind.as_pointer()), align=size)
            return context.get_dummy_value()

        return types.void(proba, types.intp, types.intp, block), emit

    return turn


turn_four, turn_eight = _square(4), _square(8)  # write proba[row + s, column + t] to block[column + t, row + s]


@intrinsic
def decide_reduced(typingctx, block, a, b, row, decision):  # type: ignore[no-untyped-def]
    """Write ``argmax_j a[j] block[j, r] + b[j]`` to ``decision[r]`` for the rows of one vector from ``row``.

    The decisions beyond the classes of the block have the score ``b[j]``.
    """
    size = block.dtype.bitwidth // 8
    width = BYTES // size

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, (K, stride) = _argument(context, builder, block, args[0])
        scale, _ = _argument(context, builder, a, args[1])
        offset, (M,) = _argument(context, builder, b, args[2])
        out, _ = _argument(context, builder, decision, args[4])
        scores = ir.VectorType(_floating(size), width)
        indices = ir.VectorType(I32, width)

        def score(j: Any) -> Any:
            p = _load(builder, x, builder.add(builder.mul(j, stride), args[3]), scores)
            aj = _splat(builder, builder.load(builder.gep(scale, [j])), width)
            return builder.fadd(builder.fmul(aj, p), constant(j))

        def constant(j: Any) -> Any:
            return _splat(builder, builder.load(builder.gep(offset, [j])), width)

        zero, one = ir.Constant(K.type, 0), ir.Constant(K.type, 1)
        best = cgutils.alloca_once_value(builder, score(zero))
        chosen = cgutils.alloca_once_value(builder, ir.Constant(indices, [0] * width))

        def compare(value: Any, j: Any) -> None:
            _keep_best(builder, value, _decision(builder, j, width), best, chosen)

        _from(builder, one, K, 1, lambda j: compare(score(j), j))
        _from(builder, K, M, 1, lambda j: compare(constant(j), j))
        place = builder.bitcast(builder.gep(out, [args[3]]), indices.as_pointer())
        builder.store(builder.load(chosen), place, align=4)
        return context.get_dummy_value()

    return types.void(block, a, b, types.intp, decision), emit


def _halves(builder: Any, x: Any) -> tuple[Any, Any]:
    """Return both halves of a vector."""
    width = x.type.count // 2
    masks = [ir.Constant(ir.VectorType(I32, width), list(range(at, at + width))) for at in (0, width)]
    return builder.shuffle_vector(x, x, masks[0]), builder.shuffle_vector(x, x, masks[1])


def _best_lane(builder: Any, scores: Any, decided: Any) -> Any:
    """Return the decision with the largest score, the largest of equal ones."""
    while scores.type.count > 1:
        (a, b), (i, j) = _halves(builder, scores), _halves(builder, decided)
        later = builder.and_(builder.fcmp_ordered("==", b, a), builder.icmp_signed(">", j, i))
        wins = builder.or_(builder.fcmp_ordered(">", b, a), later)
        scores, decided = builder.select(wins, b, a), builder.select(wins, j, i)
    return builder.extract_element(decided, I32(0))


@intrinsic
def decide_along(typingctx, proba, a, b, row):  # type: ignore[no-untyped-def]
    """Return ``argmax_j a[j] proba[row, j] + b[j]``; K is at least one vector."""
    size = proba.dtype.bitwidth // 8
    width = BYTES // size

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, (_, K) = _argument(context, builder, proba, args[0])
        scale, _ = _argument(context, builder, a, args[1])
        offset, _ = _argument(context, builder, b, args[2])
        start = builder.mul(args[3], K)
        vector, places = ir.VectorType(_floating(size), width), ir.VectorType(I32, width)
        lanes = ir.Constant(places, list(range(width)))
        best = cgutils.alloca_once_value(builder, ir.Constant(vector, [float("-inf")] * width))
        chosen = cgutils.alloca_once_value(builder, lanes)

        def compare(j: Any) -> None:
            p = _load(builder, x, builder.add(start, j), vector)
            score = builder.fadd(builder.fmul(_load(builder, scale, j, vector), p), _load(builder, offset, j, vector))
            _keep_best(builder, score, builder.add(_decision(builder, j, width), lanes), best, chosen)

        last = builder.sub(K, ir.Constant(K.type, width))
        _from(builder, ir.Constant(K.type, 0), last, width, compare)
        compare(last)  # what is left over, and some classes again
        return _best_lane(builder, builder.load(best), builder.load(chosen))

    return types.int32(proba, a, b, types.intp), emit


@intrinsic
def decide_full(typingctx, block, gain, row, decision):  # type: ignore[no-untyped-def]
    """Write ``argmax_j sum_i block[i, r] gain[i, j]`` to ``decision[r]`` for the rows of half a vector from ``row``."""
    size = block.dtype.bitwidth // 8
    width = BYTES // size // 2

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, (K, stride) = _argument(context, builder, block, args[0])
        G, (_, M) = _argument(context, builder, gain, args[1])
        out, _ = _argument(context, builder, decision, args[3])
        scores = ir.VectorType(_floating(size), width)
        indices = ir.VectorType(I32, width)
        zero, one = ir.Constant(K.type, 0), ir.Constant(K.type, 1)
        best = cgutils.alloca_once_value(builder, ir.Constant(scores, [float("-inf")] * width))
        chosen = cgutils.alloca_once_value(builder, ir.Constant(indices, [0] * width))
        sums = [cgutils.alloca_once(builder, scores) for _ in range(TOGETHER)]

        def products(i: Any, j: Any, count: int) -> list[Any]:
            p = _load(builder, x, builder.add(builder.mul(i, stride), args[2]), scores)
            start = builder.add(builder.mul(i, M), j)
            gains = [builder.load(builder.gep(G, [builder.add(start, ir.Constant(j.type, t))])) for t in range(count)]
            return [builder.fmul(p, _splat(builder, g, width)) for g in gains]

        def group(j: Any, count: int) -> None:
            for total, part in zip(sums, products(zero, j, count), strict=False):
                builder.store(part, total)

            def add(i: Any) -> None:
                for total, part in zip(sums, products(i, j, count), strict=False):
                    builder.store(builder.fadd(builder.load(total), part), total)

            _from(builder, one, K, 1, add)
            for t in range(count):
                decided = _decision(builder, builder.add(j, ir.Constant(j.type, t)), width)
                _keep_best(builder, builder.load(sums[t]), decided, best, chosen)

        whole = builder.mul(builder.udiv(M, ir.Constant(M.type, TOGETHER)), ir.Constant(M.type, TOGETHER))
        _from(builder, zero, whole, TOGETHER, lambda j: group(j, TOGETHER))
        _from(builder, whole, M, 1, lambda j: group(j, 1))
        place = builder.bitcast(builder.gep(out, [args[2]]), indices.as_pointer())
        builder.store(builder.load(chosen), place, align=4)
        return context.get_dummy_value()

    return types.void(block, gain, types.intp, decision), emit


def _summed(builder: Any, lanes: Any) -> Any:
    """Return the sum of a vector's lanes, halves added to each other."""
    while lanes.type.count > 1:
        lanes = builder.fadd(*_halves(builder, lanes))
    return builder.extract_element(lanes, I32(0))


@intrinsic
def sum_rows(typingctx, block, row, sums, least):  # type: ignore[no-untyped-def]
    """Write the sums over classes of one vector of rows, in float64, and lower ``least`` to their least entries."""
    size = block.dtype.bitwidth // 8
    width = BYTES // size

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, (K, stride) = _argument(context, builder, block, args[0])
        out, _ = _argument(context, builder, sums, args[2])
        low, _ = _argument(context, builder, least, args[3])
        given, doubles = ir.VectorType(_floating(size), width), ir.VectorType(ir.DoubleType(), width)
        total = cgutils.alloca_once_value(builder, ir.Constant(doubles, [0.0] * width))
        lowest = cgutils.alloca_once_value(builder, _load(builder, low, args[1], given))

        def add(j: Any) -> None:
            p = _load(builder, x, builder.add(builder.mul(j, stride), args[1]), given)
            below = builder.fcmp_ordered("<", p, builder.load(lowest))
            builder.store(builder.select(below, p, builder.load(lowest)), lowest)
            part = p if size == 8 else builder.fpext(p, doubles)
            builder.store(builder.fadd(builder.load(total), part), total)

        _from(builder, ir.Constant(K.type, 0), K, 1, add)
        for pointer, kind, found, align in ((out, doubles, total, 8), (low, given, lowest, size)):
            place = builder.bitcast(builder.gep(pointer, [args[1]]), kind.as_pointer())
            builder.store(builder.load(found), place, align=align)
        return context.get_dummy_value()

    return types.void(block, types.intp, sums, least), emit


@intrinsic
def sum_where(typingctx, value, decision, j):  # type: ignore[no-untyped-def]
    """Return the sum, in float64, of ``value[r]`` over ``decision[r] == j``; the length is a multiple of 16."""
    size = value.dtype.bitwidth // 8

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, (n,) = _argument(context, builder, value, args[0])
        made, _ = _argument(context, builder, decision, args[1])
        wanted = _decision(builder, args[2], LANES)
        given, doubles = ir.VectorType(_floating(size), LANES), ir.VectorType(ir.DoubleType(), LANES)
        nothing = ir.Constant(given, [0.0] * LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(doubles, [0.0] * LANES))

        def add(r: Any) -> None:
            mine = builder.icmp_signed("==", _load(builder, made, r, ir.VectorType(I32, LANES)), wanted)
            part = builder.select(mine, _load(builder, x, r, given), nothing)
            part = part if size == 8 else builder.fpext(part, doubles)
            builder.store(builder.fadd(builder.load(total), part), total)

        _from(builder, ir.Constant(n.type, 0), n, LANES, add)
        return _summed(builder, builder.load(total))

    return types.float64(value, decision, types.intp), emit


@intrinsic
def count_where(typingctx, decision, j):  # type: ignore[no-untyped-def]
    """Return how often ``decision[r] == j``; the length is a multiple of 16."""

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        made, (n,) = _argument(context, builder, decision, args[0])
        wanted = _decision(builder, args[1], LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(n.type, 0))

        def add(r: Any) -> None:
            mine = builder.icmp_signed("==", _load(builder, made, r, ir.VectorType(I32, LANES)), wanted)
            found = builder.ctpop(builder.bitcast(mine, ir.IntType(LANES)))
            builder.store(builder.add(builder.load(total), builder.zext(found, n.type)), total)

        _from(builder, ir.Constant(n.type, 0), n, LANES, add)
        return builder.load(total)

    return types.intp(decision, types.intp), emit


@intrinsic
def sum_of(typingctx, values):  # type: ignore[no-untyped-def]
    """Return the sum, in float64, of a float32 or float64 vector whose length is a multiple of 16."""
    size = values.dtype.bitwidth // 8

    def emit(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, (n,) = _argument(context, builder, values, args[0])
        doubles = ir.VectorType(ir.DoubleType(), LANES)
        total = cgutils.alloca_once_value(builder, ir.Constant(doubles, [0.0] * LANES))

        def add(r: Any) -> None:
            part = _load(builder, x, r, ir.VectorType(_floating(size), LANES))
            part = part if size == 8 else builder.fpext(part, doubles)
            builder.store(builder.fadd(builder.load(total), part), total)

        _from(builder, ir.Constant(n.type, 0), n, LANES, add)
        return _summed(builder, builder.load(total))

    return types.float64(values), emit
