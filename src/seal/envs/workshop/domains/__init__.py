"""The workshop's domains. Training never sees those of `NEW`."""

from __future__ import annotations

from seal.envs.workshop.domain import Domain
from seal.envs.workshop.domains.calendar import CALENDAR
from seal.envs.workshop.domains.devices import DEVICES
from seal.envs.workshop.domains.files import FILES
from seal.envs.workshop.domains.library import LIBRARY
from seal.envs.workshop.domains.messages import MESSAGES
from seal.envs.workshop.domains.money import MONEY
from seal.envs.workshop.domains.shop import SHOP
from seal.envs.workshop.domains.trips import TRIPS

TRAINED: tuple[Domain, ...] = (CALENDAR, FILES, MESSAGES, SHOP, DEVICES, MONEY)
"""Domains of every split but `new-tools`."""

NEW: tuple[Domain, ...] = (TRIPS, LIBRARY)
"""Domains of the split `new-tools` alone."""

__all__ = ["NEW", "TRAINED"]
