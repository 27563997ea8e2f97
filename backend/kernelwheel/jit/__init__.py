"""What programs call, for kernels that are in no package: `load`, `load_inline` and `prepare`."""
