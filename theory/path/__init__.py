"""The Hessian along a method of first order: what the data still are after they have been used."""
