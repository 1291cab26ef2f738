"""Tables in compressed sparse rows."""
