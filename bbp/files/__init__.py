"""Files: HDF5 layouts, durable writing, provenance."""
