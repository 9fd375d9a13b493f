"""HTTP requests of services: metadata, schema registries, token endpoints. They end in time, and tell no secret."""
