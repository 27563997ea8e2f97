"""Building for Windows: zig as the compiler, what CMake is told, and reading libraries back."""
