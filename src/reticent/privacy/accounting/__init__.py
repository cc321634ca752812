# SPDX-License-Identifier: Apache-2.0
"""What noise is worth: accounts of Gaussian, binomial and Laplace mechanisms."""
