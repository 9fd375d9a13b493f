"""Schemas from a schema registry that has Confluent's API: Confluent's own, Apicurio's, Karapace."""

from evensplit.registry.client import Registry
from evensplit.registry.schemas import KINDS, Kind, Reference, Registered, Schema
from evensplit.registry.settings import SETTING_NAMES, RegistrySettings, registry_problems

__all__ = [
    "KINDS",
    "SETTING_NAMES",
    "Kind",
    "Reference",
    "Registered",
    "Registry",
    "RegistrySettings",
    "Schema",
    "registry_problems",
]
