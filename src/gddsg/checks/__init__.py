"""The laws every learner obeys. Public, so that learners written elsewhere can be held to them too."""

from gddsg.checks.laws import Check, check_learner, yield_checks

__all__ = ["Check", "check_learner", "yield_checks"]
