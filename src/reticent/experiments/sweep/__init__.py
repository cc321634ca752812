# SPDX-License-Identifier: Apache-2.0
"""Many settings, many seeds, one machine or many: a grid becomes cells, and each finished cell is a file.

``grid`` reads the YAML, ``cells`` turns it into work, ``storage`` keeps what is finished, ``local`` and ``ray_engine``
do the work, ``sweep`` drives, ``summary``, ``picture`` and ``report`` say what came out.
"""
