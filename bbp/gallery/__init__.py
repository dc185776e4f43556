"""The figures of the paper and what it lacks, each from theory and samples: one module a subject, listed in `entries`."""
