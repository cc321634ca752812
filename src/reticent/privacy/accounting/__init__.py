"""What noise is worth: accounts of Gaussian, binomial and Laplace mechanisms."""
