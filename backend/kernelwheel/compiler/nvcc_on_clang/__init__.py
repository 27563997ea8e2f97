"""nvcc's command line, served by clang: the program that stands in nvcc's place in a toolkit that has no nvcc.

clang compiles for the device (to PTX) and for the host, ptxas assembles SASS, and fatbinary packs both (clang's
manual, "Compiling CUDA with clang"; nvcc's manual, "CUDA Compilation Trajectory"). CMake, a CMakeLists.txt and flags
say the same to either compiler, and here, nowhere else, an option of nvcc becomes one of clang, or is refused by name.

It runs in a process for each source, from a folder of links (toolchain/clang_toolkit.py), so it imports nothing of the
rest of the package.
"""
