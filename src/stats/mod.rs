//! What do the numbers mean? Statistics of predictability, pure: seeds come in as arguments.
