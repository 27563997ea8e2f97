# How a native target is compiled against torch. Included by a package's CMakeLists.txt after project():
#
#   include(KernelWheel)
#   kernelwheel_add_op_library(<name> [CUDA] SOURCES <file>...)         operators on torch's stable ABI, no Python symbol
#   kernelwheel_add_pybind11_module(<name> [CUDA] SOURCES <file>...)    a module of Python, by pybind11 or torch/extension.h
#
# Everything below comes from the Plan, through compile(); nothing is looked for here:
#
#   KERNELWHEEL_CUDA           ON where the Plan asks for CUDA
#   KERNELWHEEL_TORCH          torch's package folder (include/, lib/)
#   KERNELWHEEL_TORCH_TARGET   TORCH_TARGET_VERSION: the oldest torch that the operators run on
#   KERNELWHEEL_GENCODE        nvcc's -gencode options
#   KERNELWHEEL_CXX_FLAGS, KERNELWHEEL_CUDA_FLAGS, KERNELWHEEL_LINK_FLAGS    from the settings, as SHELL:...
#   KERNELWHEEL_MODULE_HEADERS    folders of headers that modules need beside torch's: Python, the CUDA libraries
#   KERNELWHEEL_OUTPUT         the folder that receives the libraries
#   KERNELWHEEL_RECIPE         compile()'s own files for compilers and sed, seen from the build folder; not set for editors'
#                              compile_commands.json

include_guard(GLOBAL)

foreach(required KERNELWHEEL_TORCH KERNELWHEEL_TORCH_TARGET KERNELWHEEL_OUTPUT)
  if(NOT DEFINED ${required})
    message(FATAL_ERROR "${required} is not set: this project is configured by its build backend (pip wheel .)")
  endif()
endforeach()

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# libtorch is in the process before our library is and is found by its soname: no path of the builder is needed.
set(CMAKE_SKIP_RPATH ON)

if(KERNELWHEEL_CUDA)
  # The architectures are in KERNELWHEEL_GENCODE: CMake's own list knows fewer spellings than nvcc does.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
endif()

# torch's and the toolkit's headers are newer in another isolated environment, and yet the same: compile(), which keeps
# this folder for its next call, sees to that. So Ninja is not told of them, by a second command of the rules.
if(DEFINED KERNELWHEEL_RECIPE)
  foreach(language IN ITEMS CXX CUDA)
    string(APPEND CMAKE_${language}_COMPILE_OBJECT ";sed -i -E -f ${KERNELWHEEL_RECIPE}/depfile.sed <DEP_FILE>")
  endforeach()
endif()

# Equal sources must give equal bytes in any folder. nvcc names internal symbols after the absolute path of the source,
# which it passes to cudafe++ and cicc (given again, the last one counts), and after its process id, unless it is given a
# seed; it writes the names of its temporary files into the object, unless they are kept.
function(_kernelwheel_make_reproducible target sources)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cu$")
      string(SHA256 name "${target}/${source}")
      string(SUBSTRING "${name}" 0 16 name)
      file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/keep/${name}")
      # A file may be compiled for several targets, at once and not in the same way.
      set(here "$<STREQUAL:$<TARGET_PROPERTY:NAME>,${target}>")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
        "$<${here}:--keep;--keep-dir=keep/${name};--frandom-seed=${name}>"
        "$<${here}:-Xcudafe=--orig_src_path_name=${name}.cu;-Xcicc=--orig_src_path_name=${name}.cu>")
    endif()
  endforeach()
endfunction()

# What both kinds have in common; `function` is the caller's name, for its messages.
function(_kernelwheel_add_library function target)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "CUDA" "" "SOURCES")
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES)
    message(FATAL_ERROR "${function}(${target}): expected [CUDA] SOURCES <file>..., found ${ARGN}")
  endif()
  if(ARG_CUDA AND NOT KERNELWHEEL_CUDA)
    message(FATAL_ERROR "${function}(${target} CUDA): guard it with if(KERNELWHEEL_CUDA)")
  endif()
  add_library(${target} SHARED ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${KERNELWHEEL_OUTPUT}"
    CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_include_directories(${target} SYSTEM PRIVATE "${KERNELWHEEL_TORCH}/include")
  string(REPLACE ">" "$<ANGLE-R>" cxx_flags "${KERNELWHEEL_CXX_FLAGS}")
  string(REPLACE ">" "$<ANGLE-R>" cuda_flags "${KERNELWHEEL_CUDA_FLAGS}")
  if(DEFINED KERNELWHEEL_RECIPE)  # __FILE__ without the folder
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:C,CXX>:@${KERNELWHEEL_RECIPE}/paths.rsp>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=@${KERNELWHEEL_RECIPE}/paths.rsp>")
  endif()
  # gcc names a system header by its real path where that is shorter: the builder's, in the text of torch's checks.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-canonical-system-headers>"
    "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CXX_COMPILER_ID:GNU>>:-Xcompiler=-fno-canonical-system-headers>"
    "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:${KERNELWHEEL_GENCODE};${cuda_flags}>")
  # torch loads its libraries with local scope, so each that we use must be a DT_NEEDED of ours (--no-as-needed).
  target_link_directories(${target} PRIVATE "${KERNELWHEEL_TORCH}/lib")
  target_link_options(${target} PRIVATE LINKER:--no-as-needed LINKER:-s ${KERNELWHEEL_LINK_FLAGS})
  target_link_libraries(${target} PRIVATE torch_cpu)
  if(ARG_CUDA)
    target_link_libraries(${target} PRIVATE torch_cuda)
    _kernelwheel_make_reproducible(${target} "${ARG_SOURCES}")
  endif()
endfunction()

function(kernelwheel_add_op_library target)
  _kernelwheel_add_library(kernelwheel_add_op_library ${target} ${ARGN})
  target_compile_definitions(${target} PRIVATE TORCH_TARGET_VERSION=${KERNELWHEEL_TORCH_TARGET})
  # A symbol that is nowhere must fail here, not on the user's machine.
  target_link_options(${target} PRIVATE LINKER:--no-undefined)
  if("CUDA" IN_LIST ARGN)
    target_compile_definitions(${target} PRIVATE USE_CUDA)  # the CUDA half of torch's C shim
  endif()
endfunction()

# Compiled as torch.utils.cpp_extension does, so that sources written for that need no change. pybind11 is the one in
# torch's headers, so that types of torch and of the module know each other.
function(kernelwheel_add_pybind11_module target)
  if(NOT DEFINED KERNELWHEEL_MODULE_HEADERS)
    message(FATAL_ERROR "kernelwheel_add_pybind11_module(${target}): write abi = \"torch\" into [tool.kernelwheel] of "
      "pyproject.toml: a module is bound to one Python and one torch")
  endif()
  _kernelwheel_add_library(kernelwheel_add_pybind11_module ${target} ${ARGN})
  # torch's C++ needs another standard from release to release, and its headers say which.
  file(STRINGS "${KERNELWHEEL_TORCH}/include/ATen/ATen.h" standard REGEX "__cplusplus < 202002L")
  if(standard)
    set(standard 20)
  else()
    set(standard 17)
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" NO_SONAME ON CXX_STANDARD ${standard} CUDA_STANDARD ${standard})
  target_compile_definitions(${target} PRIVATE
    TORCH_EXTENSION_NAME=${target} TORCH_API_INCLUDE_EXTENSION_H _GLIBCXX_USE_CXX11_ABI=1)
  target_include_directories(${target} SYSTEM PRIVATE
    "${KERNELWHEEL_TORCH}/include/torch/csrc/api/include" ${KERNELWHEEL_MODULE_HEADERS})
  target_link_libraries(${target} PRIVATE c10 torch torch_python)
  if("CUDA" IN_LIST ARGN)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
    target_compile_definitions(${target} PRIVATE
      __CUDA_NO_HALF_OPERATORS__ __CUDA_NO_HALF_CONVERSIONS__ __CUDA_NO_HALF2_OPERATORS__ __CUDA_NO_BFLOAT16_CONVERSIONS__)
    target_link_libraries(${target} PRIVATE c10_cuda)
  endif()
endfunction()
