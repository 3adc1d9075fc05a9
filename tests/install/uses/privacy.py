"""How much noise an epsilon takes, and what two releases spend."""

from gddsg.core.privacy_spending import noise_multiplier, spent_epsilon

noise = noise_multiplier(1.0, 1e-5)
assert 1.0 < spent_epsilon([noise, noise], 1e-5) < 2.0
