"""Tables in arrays: the compiled oracle and predictions, on the processor."""
