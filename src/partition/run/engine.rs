//! Whether KVM works, remembered for as long as the host is up.
