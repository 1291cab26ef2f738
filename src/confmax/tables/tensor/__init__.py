"""Tables in tensors, on any device of torch."""
