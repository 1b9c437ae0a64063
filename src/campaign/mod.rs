//! Which measurements, in which order? Matrix, journal, resume, stop rule, results.
