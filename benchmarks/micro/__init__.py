"""The small operations that everything is made of: `pytest benchmarks/micro`."""
