"""Pictures and pages that show people what a model has learnt."""
