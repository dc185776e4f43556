"""From samples to statements: observables, pooled errors, crossings, fits, comparison with theory."""
