"""What a person types and reads: the commands `doctor`, `explain`, `inspect` and `cache`."""

from ..core.resources import MB as MB
from ..core.resources import find_resources as find_resources
