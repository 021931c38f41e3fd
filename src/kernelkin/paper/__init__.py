"""MK-MTRL, its solvers, and the models that the paper compares it with."""
