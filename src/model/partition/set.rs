//! A set of partitions with their networks: what `up`, `down` and `ps` work on, as a TOML file.
