"""Master problems: the best mixture of the rules that column generation has met, and its prices."""
