"""What requests mean: each file translates some of them for :mod:`gddsg.serve.studio`, and its answers back."""
