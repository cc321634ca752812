# SPDX-License-Identifier: Apache-2.0
"""What people look at: pictures, pages, progress."""
