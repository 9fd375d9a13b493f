"""Schemas from a schema registry that has Confluent's API: Confluent's own, Apicurio's, Karapace."""
