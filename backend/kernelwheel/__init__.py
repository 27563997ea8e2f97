"""A build backend and runtime that compile torch kernels into wheels and check them before loading.

The build half (`hooks`) and the runtime half (`runtime`) share one Plan, one manifest and one check.
"""

from .version import VERSION as VERSION
