"""Do two states of confmax give the same answers? For changes that must not change what is computed.

    python -m benchmarks.same_answers record FILE.json [FOLDER_OF_NPZ] [--only FAMILY,FAMILY]
    python -m benchmarks.same_answers compare FILE.json [FOLDER_OF_NPZ] [--only FAMILY,FAMILY] [--loss 1e-5]

``record`` writes the answers of the calls of all families to a file, in the environment of the old state; ``compare``
runs them in that of the new state, and exits with 1 if answers differ. A family is a function that yields calls on a
table: those of one class for every row stand in `classes`, those of several labels in `labels`, and those of the
command line in `commands`. Tables are drawn at random (`tables`); those of classes in FOLDER_OF_NPZ are added to them.

Numbers may differ by 1e-12 of their size, and decision probabilities by 1e-9. A text must be the same: what is printed
of a solution and its rule, warnings, and sentences of errors. Passes are listed where they differ. With ``--loss`` a
change may take another way to the optimum: a value may be lower by so much, those of a family on average by a tenth of
it, bounds may be wider by so much, and decisions and texts may differ. A bound below the other state's value, a bound
that is lost, a limit that is kept no longer and another kind of error always count.
"""
