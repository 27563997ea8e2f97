"""What programs import as `fused_ssim`: splat's function in place of that package's."""

from splat import fused_ssim

__all__ = ["fused_ssim"]
