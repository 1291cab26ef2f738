"""Master problems: the best mixture of the rules that a solver has met."""
