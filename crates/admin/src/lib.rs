//! Administration: API types, server, client, array.toml.
