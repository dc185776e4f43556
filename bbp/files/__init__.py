"""Files: results in HDF5, what travels with them, bytes on disk, inputs of one's own."""
