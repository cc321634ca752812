"""The zoo: one small file per named world; importing this package registers them all."""

from reticent.worlds.zoo import mobile_health, random_blend, riverswim

__all__ = ["mobile_health", "random_blend", "riverswim"]
