"""Compiled loops that know arrays only: blocks of rows on threads, vectors of the processor, exponentials."""
