//! What runs? Probes (measurement kernels) and loads (neighbours with a measured dose).
