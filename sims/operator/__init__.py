"""The Hessian as an operator, on one device or several."""
