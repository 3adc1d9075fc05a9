"""The mathematics of the method, one stage a file: tensors in, tensors out, no I/O, clock, print or global seed."""
