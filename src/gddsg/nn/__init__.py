"""Trainable parts: networks with taps, what is injected there, heads that grow, and one training loop.

A network stays as it is; prompts, prefixes, adapters, scales and shifts are :class:`gddsg.nn.injection.Injection`, and
without one the network gives, bit for bit, what it gave before.
"""
