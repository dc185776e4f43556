"""The quadratic committee to ten digits: averages, bulk, outliers, threshold, alpha_0 and density."""
