"""Compiled loops that know arrays only: blocks of rows on threads, vectors of the processor, exponentials.

The first call in an environment compiles for about half a minute. Counting scans and deciding scans share one kernel,
and no kernel is compiled twice because of a literal.
"""
