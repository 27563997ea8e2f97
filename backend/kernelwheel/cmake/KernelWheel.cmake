# Functions that compile a native target against torch. A package's CMakeLists.txt includes this file after project():
#
#   include(KernelWheel)
#   kernelwheel_add_op_library(<name> [CUDA] SOURCES <file>...)        operators on torch's stable ABI, no Python symbol
#   kernelwheel_add_torch_library(<name> [CUDA] SOURCES <file>...)     operators on all of torch, no Python symbol
#   kernelwheel_add_pybind11_module(<name> [CUDA] SOURCES <file>...)   a Python module: pybind11 or torch/extension.h
#
# compile() sets these variables, from the Plan; nothing is searched for here:
#
#   KERNELWHEEL_CUDA           ON if the Plan has CUDA kernels
#   KERNELWHEEL_TORCH          torch's package folder (include/, lib/)
#   KERNELWHEEL_TORCH_TARGET   TORCH_TARGET_VERSION: the oldest torch that the operators run on
#   KERNELWHEEL_STABLE_STANDARD, KERNELWHEEL_TORCH_STANDARD    the C++ standard of libraries on the stable ABI, and on all of
#                              torch, unless their flags name a later one
#   KERNELWHEEL_NVCC, KERNELWHEEL_TOOLKIT    nvcc's version and its toolkit's root; if not set, CMake finds out
#   KERNELWHEEL_GENCODE        nvcc's -gencode options
#   KERNELWHEEL_CXX_FLAGS, KERNELWHEEL_CUDA_FLAGS, KERNELWHEEL_LINK_FLAGS    from the settings, as SHELL:...
#   KERNELWHEEL_CUDART_LIBRARIES    the platform's libraries that the static CUDA runtime needs
#   KERNELWHEEL_BINDING        what libraries may be bound to besides the stable ABI: torch, or python and torch
#   KERNELWHEEL_CUDA_HEADERS, KERNELWHEEL_PYTHON_HEADERS    header folders besides torch's
#   KERNELWHEEL_LIBRARIES      a folder with links to CUDA libraries, for the linker
#   KERNELWHEEL_OLDER          the folder with sources for the interface of an older glibc, or empty
#   KERNELWHEEL_TORCH_STUBS    the folder with sources for torch's interface, where KERNELWHEEL_TORCH is for this machine
#                              and the build is not; or not set
#   KERNELWHEEL_BEFORE_TORCH   for Windows: a folder with headers that come before torch's own, and with what the CUDA
#                              runtime is linked to
#   KERNELWHEEL_PARTS          the parts to build, of those in [tool.kernelwheel] parts, and main; the libraries of part P
#                              are called `<name>_P`
#   KERNELWHEEL_TAKEN          files of libraries that are there already and need not be compiled
#   KERNELWHEEL_CUDA_ALONE     ON if libraries without CUDA are not compiled, as calls on CUDA do without them
#   KERNELWHEEL_DEVICE_CODE_ALONE    ON if the host code of libraries for CUDA is there already: what is linked are the
#                              fatbinaries of their kernels, one behind the other
#   KERNELWHEEL_OUTPUT         the folder that receives the libraries
#   KERNELWHEEL_RECIPE         compile()'s own files for compilers and sed, relative to the build folder; not set for
#                              the compile_commands.json of editors

include_guard(GLOBAL)

foreach(required KERNELWHEEL_TORCH KERNELWHEEL_TORCH_TARGET KERNELWHEEL_OUTPUT)
  if(NOT DEFINED ${required})
    message(FATAL_ERROR "${required} is not set: this project is configured by its build backend (pip wheel .)")
  endif()
endforeach()

# libtorch is loaded before our library and is found by its soname, so no path of the build machine is needed.
set(CMAKE_SKIP_RPATH ON)
# Nor do its dates matter, which are new in each isolated environment: newer linkers would tell Ninja of the file.
set(CMAKE_LINK_DEPENDS_USE_LINKER OFF)
if(WIN32)
  set(CMAKE_SHARED_LIBRARY_PREFIX "")
endif()

if(KERNELWHEEL_CUDA)
  # The architectures are in KERNELWHEEL_GENCODE: CMake's own list supports fewer spellings than nvcc.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  set(CMAKE_CUDA_FLAGS_RELEASE "")  # each kind of library has its own
  # Of a compiler that it does not try, CMake guesses that its default is C++03, and adds a standard of its own; before
  # 3.26.4 after ours, and nvcc takes the last one.
  set(CMAKE_CUDA_STANDARD_DEFAULT 17)
  # CMake identifies nvcc by compiling and linking a file, most of the time that it takes to configure. It is told instead
  # what it would find: the version and the root of the toolkit, which are known, and the commands that nvcc would run.
  # These variables are CMake's own, so that is only for releases in which it was tried; others find out by themselves.
  if(KERNELWHEEL_NVCC AND CMAKE_VERSION VERSION_LESS 4.5 AND NOT CMAKE_CUDA_COMPILER_LOADED)
    file(WRITE "${CMAKE_BINARY_DIR}/nothing.cu" "")
    separate_arguments(for_platform UNIX_COMMAND "${CMAKE_CUDA_FLAGS_INIT}")
    execute_process(
      COMMAND "${CMAKE_CUDA_COMPILER}" -v --dryrun "-ccbin=${CMAKE_CUDA_HOST_COMPILER}" ${for_platform} nothing.cu
      WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE failed OUTPUT_VARIABLE commands ERROR_VARIABLE commands)
    if(NOT failed AND commands MATCHES "LIBRARIES=")
      set(CMAKE_CUDA_COMPILER_ID_RUN 1)
      set(CMAKE_CUDA_COMPILER_PRODUCED_OUTPUT "${commands}")
      set(CMAKE_CUDA_COMPILER_ID NVIDIA)
      set(CMAKE_CUDA_COMPILER_VERSION "${KERNELWHEEL_NVCC}")
      set(CMAKE_CUDA_COMPILER_TOOLKIT_VERSION "${KERNELWHEEL_NVCC}")
      foreach(root IN ITEMS TOOLKIT_ROOT TOOLKIT_LIBRARY_ROOT LIBRARY_ROOT)
        set(CMAKE_CUDA_COMPILER_${root} "${KERNELWHEEL_TOOLKIT}")
      endforeach()
      set(CMAKE_CUDA_DEVICE_LINKER "${KERNELWHEEL_TOOLKIT}/bin/nvlink")
      set(CMAKE_CUDA_FATBINARY "${KERNELWHEEL_TOOLKIT}/bin/fatbinary")
      foreach(host IN ITEMS HOST_COMPILER SIMULATE)
        set(CMAKE_CUDA_${host}_ID "${CMAKE_CXX_COMPILER_ID}")
        set(CMAKE_CUDA_${host}_VERSION "${CMAKE_CXX_COMPILER_VERSION}")
      endforeach()
      set(CMAKE_CUDA_PLATFORM_ID "${CMAKE_CXX_PLATFORM_ID}")
      set(CMAKE_CUDA_STANDARD_COMPUTED_DEFAULT 17)
      set(CMAKE_CUDA_EXTENSIONS_COMPUTED_DEFAULT ON)
    endif()
  endif()
  if(WIN32)  # what CMake knows of CUDA there is for MSVC
    set(CMAKE_EFFECTIVE_SYSTEM_NAME none)
  endif()
  enable_language(CUDA)
  if(WIN32)
    set(CMAKE_CUDA_COMPILE_OPTIONS_PIC "")
  endif()
  # nvcc compresses PTX alone unless it is asked for all. That is in its own format, which every driver of its major
  # unpacks. --compress-mode=size would save a little more, but takes seconds for each file, and is unknown before 12.4.
  set(KERNELWHEEL_COMPRESSION -Xfatbin=-compress-all)
  # nvcc 12.4 has no such option, and no random number in a name.
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --help OUTPUT_VARIABLE help ERROR_QUIET)
  string(FIND "${help}" "--frandom-seed" KERNELWHEEL_SEEDED)
  string(FIND "${help}" "--compiler-options" KERNELWHEEL_IS_NVCC)  # and not clang in its place
endif()

# Options for the linker come after the objects, as in cpp_extension: among them are archives, whose place counts. torch
# loads its libraries with local scope, so each one that ours use must be named in them (DT_NEEDED), whether or not the
# linker sees a use, and whatever those options say, as conda-forge's do (--as-needed).
set(flags "<LINK_FLAGS>")
set(libraries "<LINK_LIBRARIES>")
if(NOT WIN32)
  string(PREPEND flags "-Wl,--no-as-needed ")
  string(PREPEND libraries "-Wl,--no-as-needed ")
endif()
foreach(language IN ITEMS CXX CUDA)
  string(REPLACE "<LINK_FLAGS>" "" rule "${CMAKE_${language}_CREATE_SHARED_LIBRARY}")
  string(REPLACE "<LINK_LIBRARIES>" "${flags} ${libraries}" CMAKE_${language}_CREATE_SHARED_LIBRARY "${rule}")
endforeach()

# The interface of an older glibc and libstdc++ (toolchain/glibc_compat.py): stub libraries, which never run, and an archive
# of what is linked in. They come last on the linker's command line, where it knows which symbols are still missing, and
# before the libraries that the compiler adds by itself.
if(KERNELWHEEL_OLDER)
  set(compile COMMAND "${CMAKE_CXX_COMPILER}" -fPIC -std=c++17)
  set(commands)
  set(objects)
  file(GLOB sources "${KERNELWHEEL_OLDER}/linked-in/*.cpp")
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    list(APPEND objects "older/${name}.o")
    list(APPEND commands ${compile} -O2 -c "${source}" -o "older/${name}.o")
  endforeach()
  list(APPEND commands COMMAND "${CMAKE_COMMAND}" -E rm -f older/libolder.a
    COMMAND "${CMAKE_AR}" qcsD older/libolder.a ${objects})
  set(older older/libolder.a)
  file(GLOB stubs "${KERNELWHEEL_OLDER}/stubs/*.cpp")
  foreach(source IN LISTS stubs)
    cmake_path(GET source STEM LAST_ONLY library)
    list(APPEND older "older/${library}")
    list(APPEND commands ${compile} -shared -nostdlib "-Wl,-soname,${library}"
      "-Wl,--version-script=${KERNELWHEEL_OLDER}/stubs/${library}.map" -o "older/${library}" "${source}")
  endforeach()
  file(GLOB scripts "${KERNELWHEEL_OLDER}/stubs/*.map")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/older")
  list(TRANSFORM older PREPEND "${CMAKE_BINARY_DIR}/" OUTPUT_VARIABLE made)
  add_custom_command(OUTPUT ${made} ${commands} DEPENDS ${sources} ${stubs} ${scripts} VERBATIM
    COMMENT "the interface of older system libraries")
  add_custom_target(kernelwheel_older_files DEPENDS ${made})
  add_library(kernelwheel_older INTERFACE)  # without content: what has it waits for the files
  add_dependencies(kernelwheel_older kernelwheel_older_files)
  link_libraries("$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:kernelwheel_older>")
  list(JOIN older " " older)
  # In the rules, not in CMAKE_CUDA_STANDARD_LIBRARIES, which the link of device code would get too.
  foreach(language IN ITEMS CXX CUDA)
    string(REPLACE "<LINK_LIBRARIES>"
      "<LINK_LIBRARIES> -Wl,--exclude-libs,libolder.a:libstdc++.a -Wl,--push-state,--as-needed ${older} -Wl,--pop-state"
      CMAKE_${language}_CREATE_SHARED_LIBRARY "${CMAKE_${language}_CREATE_SHARED_LIBRARY}")
  endforeach()
endif()
# nvlink writes the folders of libraries into what it makes: those of the command, and of nvcc as it is called.
if(KERNELWHEEL_CUDA)
  file(RELATIVE_PATH nvcc "${CMAKE_BINARY_DIR}" "${CMAKE_CUDA_COMPILER}")
  string(REPLACE "<LINK_LIBRARIES>" "" CMAKE_CUDA_DEVICE_LINK_LIBRARY "${CMAKE_CUDA_DEVICE_LINK_LIBRARY}")
  string(REPLACE "<CMAKE_CUDA_COMPILER>" "${nvcc}" CMAKE_CUDA_DEVICE_LINK_LIBRARY "${CMAKE_CUDA_DEVICE_LINK_LIBRARY}")
endif()

if(KERNELWHEEL_DEVICE_CODE_ALONE)
  string(REPLACE "<CUDA_COMPILE_MODE>" "-fatbin" CMAKE_CUDA_COMPILE_OBJECT "${CMAKE_CUDA_COMPILE_OBJECT}")
  set(CMAKE_CUDA_CREATE_SHARED_LIBRARY "cat <OBJECTS> > <TARGET>")
endif()

# In a build for another platform, torch's libraries here cannot be linked to. Stubs with their names and functions can
# (compiler/cross/cmake_files.py).
set(KERNELWHEEL_TORCH_LINKED "${KERNELWHEEL_TORCH}/lib")
if(KERNELWHEEL_TORCH_STUBS)
  set(KERNELWHEEL_TORCH_LINKED "${CMAKE_BINARY_DIR}/torch")
  file(MAKE_DIRECTORY "${KERNELWHEEL_TORCH_LINKED}")
  file(GLOB stubs "${KERNELWHEEL_TORCH_STUBS}/*.cpp")
  file(GLOB definitions "${KERNELWHEEL_TORCH_STUBS}/*.def")
  set(made)
  foreach(source IN LISTS definitions)  # for Windows: an import library, by zig
    cmake_path(GET source STEM library)
    list(APPEND made "${KERNELWHEEL_TORCH_LINKED}/${library}.lib")
    add_custom_command(OUTPUT "${KERNELWHEEL_TORCH_LINKED}/${library}.lib" DEPENDS "${source}" VERBATIM
      COMMAND "${CMAKE_CXX_COMPILER}" dlltool -m i386:x86-64 -d "${source}" -l "torch/${library}.lib"
      COMMENT "the interface of ${library}.dll")
  endforeach()
  foreach(source IN LISTS stubs)
    cmake_path(GET source STEM LAST_ONLY library)
    list(APPEND made "${KERNELWHEEL_TORCH_LINKED}/${library}")
    add_custom_command(OUTPUT "${KERNELWHEEL_TORCH_LINKED}/${library}" DEPENDS "${source}" VERBATIM
      COMMAND "${CMAKE_CXX_COMPILER}" -shared -nostdlib -fPIC "-Wl,-soname,${library}" -o "torch/${library}" "${source}"
      COMMENT "the interface of ${library}")
  endforeach()
  add_custom_target(kernelwheel_torch_stubs DEPENDS ${made})
endif()

# In another isolated environment, the headers of torch and the toolkit have newer timestamps but the same content, as
# compile() ensures when it reuses this build folder. A second command in the rules therefore hides them from Ninja. The
# file as the compiler wrote it stays beside it, for compile() to see what was read. Assembler and linker write such lists
# where they can (compiler/files_read.py); a cache for compilers would take the assembler's option for a source.
if(DEFINED KERNELWHEEL_RECIPE)
  set(empty "${CMAKE_BINARY_DIR}/empty.cpp")
  file(WRITE "${empty}" "")
  if(NOT WIN32 AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -Xassembler --MD -Xassembler empty.as -c "${empty}" -o empty.o
      WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(KERNELWHEEL_ASSEMBLER_LISTS ON)
    endif()
  endif()
  if(NOT WIN32)
    execute_process(
      COMMAND "${CMAKE_CXX_COMPILER}" -shared -nostdlib -Wl,--dependency-file=empty.linked -o empty.so "${empty}"
      WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
      set(KERNELWHEEL_LINKER_LISTS ON)
    endif()
  endif()
  foreach(language IN ITEMS C CXX CUDA)
    if(CMAKE_${language}_COMPILE_OBJECT)
      string(APPEND CMAKE_${language}_COMPILE_OBJECT ";sed -i.read -E -f ${KERNELWHEEL_RECIPE}/depfile.sed <DEP_FILE>")
      if(KERNELWHEEL_ASSEMBLER_LISTS AND NOT language STREQUAL "CUDA")
        string(REPLACE "<FLAGS>" "<FLAGS> -Xassembler --MD -Xassembler <OBJECT>.as"
          CMAKE_${language}_COMPILE_OBJECT "${CMAKE_${language}_COMPILE_OBJECT}")
      endif()
    endif()
  endforeach()
endif()

# Equal sources must give equal bytes in any folder. nvcc derives names of internal symbols from the absolute path of a
# source, which it passes to cudafe++ and cicc (if given twice, the last one counts), and the newer ones from a random
# number, unless they get a seed. It also writes the names of its temporary files into the object, unless they are kept.
function(_kernelwheel_make_reproducible target sources)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cu$")
      string(SHA256 name "${target}/${source}")
      string(SUBSTRING "${name}" 0 16 name)
      file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/keep/${name}")
      # A file may be compiled for several targets, at the same time and with different options.
      set(here "$<STREQUAL:$<TARGET_PROPERTY:NAME>,${target}>")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
        "$<${here}:--keep;--keep-dir=keep/${name}>"
        "$<${here}:-Xcudafe=--orig_src_path_name=${name}.cu;-Xcicc=--orig_src_path_name=${name}.cu>")
      if(KERNELWHEEL_ASSEMBLER_LISTS AND NOT KERNELWHEEL_IS_NVCC EQUAL -1)
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
          "$<${here}:-Xcompiler=-Xassembler$<COMMA>--MD$<COMMA>-Xassembler$<COMMA>${name}.as>")
      endif()
      if(NOT KERNELWHEEL_SEEDED EQUAL -1)
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS "$<${here}:--frandom-seed=${name}>")
      endif()
      _kernelwheel_require_options(SOURCE "${source}" "--keep-dir=keep/${name}")
    endif()
  endforeach()
endfunction()

# At the end of the CMakeLists.txt: options that were replaced, not appended to, would give other bytes each time.
function(_kernelwheel_require_options kind name wanted)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL _kernelwheel_check_options ${kind} [==[${name}]==] ${wanted})")
endfunction()

function(_kernelwheel_check_options kind name wanted)
  get_property(options ${kind} ${name} PROPERTY COMPILE_OPTIONS)
  string(FIND "${options}" "${wanted}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "COMPILE_OPTIONS of ${name} was replaced, and with it the options that make its bytes "
      "reproducible. Append instead: set_property(${kind} ${name} APPEND PROPERTY COMPILE_OPTIONS ...)")
  endif()
endfunction()

# The part common to both kinds; `function` is the caller's name, for messages.
function(_kernelwheel_add_library function target)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "CUDA" "" "SOURCES")
  if(ARG_UNPARSED_ARGUMENTS OR NOT ARG_SOURCES)
    message(FATAL_ERROR "${function}(${target}): expected [CUDA] SOURCES <file>..., found ${ARGN}")
  endif()
  if(ARG_CUDA AND NOT KERNELWHEEL_CUDA)
    message(FATAL_ERROR "${function}(${target} CUDA): guard it with if(KERNELWHEEL_CUDA)")
  endif()
  if(ARG_CUDA AND KERNELWHEEL_DEVICE_CODE_ALONE)
    list(FILTER ARG_SOURCES INCLUDE REGEX "\\.cu$")
  endif()
  add_library(${target} SHARED ${ARG_SOURCES})
  set(file "${CMAKE_SHARED_LIBRARY_PREFIX}${target}${CMAKE_SHARED_LIBRARY_SUFFIX}")
  if(file IN_LIST KERNELWHEEL_TAKEN OR (KERNELWHEEL_CUDA_ALONE AND NOT ARG_CUDA))
    set_property(TARGET ${target} PROPERTY EXCLUDE_FROM_ALL ON)
  endif()
  set_target_properties(${target} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${KERNELWHEEL_OUTPUT}"
    RUNTIME_OUTPUT_DIRECTORY "${KERNELWHEEL_OUTPUT}"  # a DLL's
    DEFINE_SYMBOL ""
    KERNELWHEEL_GENCODE "${KERNELWHEEL_GENCODE}")
  target_include_directories(${target} SYSTEM PRIVATE ${KERNELWHEEL_BEFORE_TORCH} "${KERNELWHEEL_TORCH}/include")
  if(DEFINED KERNELWHEEL_RECIPE)  # __FILE__ without the folder
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:C,CXX>:@${KERNELWHEEL_RECIPE}/paths.rsp>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=@${KERNELWHEEL_RECIPE}/paths.rsp>")
  endif()
  # gcc names a system header by its real path if that is shorter, which would put the build machine's path into the
  # text of torch's checks. And its unique symbols are one object in all libraries of a process, whatever their scope.
  foreach(option IN ITEMS -fno-canonical-system-headers -fno-gnu-unique)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:${option}>"
      "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CXX_COMPILER_ID:GNU>>:-Xcompiler=${option}>")
  endforeach()
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:$<TARGET_PROPERTY:${target},KERNELWHEEL_GENCODE>;${KERNELWHEEL_COMPRESSION}>")
  foreach(language IN ITEMS CXX CUDA)  # each by itself: brackets in one would join others to it
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:${language}>:${KERNELWHEEL_${language}_FLAGS}>")
  endforeach()
  _kernelwheel_require_options(TARGET ${target} "fno-canonical-system-headers")
  target_link_directories(${target} PRIVATE "${KERNELWHEEL_TORCH_LINKED}" ${KERNELWHEEL_LIBRARIES})
  if(KERNELWHEEL_RECIPE)
    target_link_options(${target} PRIVATE LINKER:-s)  # no symbols for debuggers
  endif()
  target_link_options(${target} PRIVATE "${KERNELWHEEL_LINK_FLAGS}")
  if(KERNELWHEEL_LINKER_LISTS)
    target_link_options(${target} PRIVATE "$<HOST_LINK:LINKER:--dependency-file=../tmp/${target}.linked>")
  endif()
  target_link_libraries(${target} PRIVATE torch_cpu)
  if(KERNELWHEEL_TORCH_STUBS)
    add_dependencies(${target} kernelwheel_torch_stubs)
  endif()
  if(ARG_CUDA)
    target_include_directories(${target} SYSTEM PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${KERNELWHEEL_CUDA_HEADERS}>")
    # As headers of the system, those of CUDA 13.0 may declare rsqrt otherwise than glibc 2.42 and later do.
    list(TRANSFORM CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES PREPEND "-isystem=" OUTPUT_VARIABLE toolkit_headers)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${toolkit_headers}>")
    if(KERNELWHEEL_BINDING)  # torch's headers for CUDA include some that the toolkit of nvcc need not have
      target_include_directories(${target} SYSTEM PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${KERNELWHEEL_CUDA_HEADERS}>")
    endif()
    target_link_libraries(${target} PRIVATE torch_cuda)
    if(WIN32)
      target_sources(${target} PRIVATE "${KERNELWHEEL_BEFORE_TORCH}/cudart.cpp")
      set_property(TARGET ${target} PROPERTY LINKER_LANGUAGE CXX)
    endif()
    if(NOT "${ARG_SOURCES}" MATCHES "\\.cu(;|$)")  # CMake links the CUDA runtime only to kernels
      target_link_libraries(${target} PRIVATE cudart_static ${KERNELWHEEL_CUDART_LIBRARIES})
    endif()
    target_link_options(${target} PRIVATE "$<DEVICE_LINK:$<TARGET_PROPERTY:${target},KERNELWHEEL_GENCODE>>")
    _kernelwheel_make_reproducible(${target} "${ARG_SOURCES}")
  endif()
endfunction()

# Its symbols are hidden. With CUDA, which belongs within `if(KERNELWHEEL_CUDA)`, it is linked to torch's library for CUDA and
# to the static CUDA runtime. The target takes `target_compile_options` and the like; one without sources is an error, and so
# are options that replace its own instead of being appended.
function(kernelwheel_add_op_library target)
  _kernelwheel_add_library(kernelwheel_add_op_library ${target} ${ARGN})
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  foreach(language IN ITEMS CXX CUDA)
    set_target_properties(${target} PROPERTIES
      ${language}_STANDARD ${KERNELWHEEL_STABLE_STANDARD} ${language}_STANDARD_REQUIRED ON ${language}_EXTENSIONS OFF)
  endforeach()
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE TORCH_TARGET_VERSION=${KERNELWHEEL_TORCH_TARGET})
  if("CUDA" IN_LIST ARGN)
    # nvcc's -O is for host code, which is here what launches kernels; device code is optimised in any case.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-O1;-DNDEBUG>")
    target_compile_definitions(${target} PRIVATE USE_CUDA)  # the CUDA half of torch's C shim
  endif()
endfunction()

# A library on all of torch's C++ API is compiled the way torch.utils.cpp_extension does it, so sources written for that
# need no change; docs/packaging.md says what differs, and a test compares the two command lines.
function(_kernelwheel_compile_like_cpp_extension target)
  set_target_properties(${target} PROPERTIES PREFIX "" NO_SONAME ON)
  foreach(language IN ITEMS CXX CUDA)  # not by CMake's property: CMake 3.25 knows no C++20 for CUDA
    set_property(TARGET ${target} PROPERTY KERNELWHEEL_${language}_STANDARD -std=c++${KERNELWHEEL_TORCH_STANDARD})
    target_compile_options(${target} BEFORE PRIVATE  # those of the environment may name a later one
      "$<$<COMPILE_LANGUAGE:${language}>:$<TARGET_PROPERTY:${target},KERNELWHEEL_${language}_STANDARD>>")
  endforeach()
  # Python's own options, which setuptools passes on to C++ alone: assertions stay in device code. CMake adds -O3.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fwrapv;-Wall>")
  kernelwheel_name_module(${target} ${target})
  target_include_directories(${target} SYSTEM PRIVATE "${KERNELWHEEL_TORCH}/include/torch/csrc/api/include")
  target_link_libraries(${target} PRIVATE c10 torch)
  if("CUDA" IN_LIST ARGN)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
    foreach(name IN ITEMS HALF_OPERATORS HALF_CONVERSIONS HALF2_OPERATORS BFLOAT16_CONVERSIONS)
      target_compile_definitions(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:__CUDA_NO_${name}__>")
    endforeach()
    target_link_libraries(${target} PRIVATE c10_cuda)
  endif()
endfunction()

# As torch.utils.cpp_extension compiles it; an error unless `abi = "torch"` in [tool.kernelwheel] binds it to a torch.
function(kernelwheel_add_torch_library target)
  if(NOT KERNELWHEEL_BINDING)
    message(FATAL_ERROR "kernelwheel_add_torch_library(${target}): set abi = \"torch\" in [tool.kernelwheel] of "
      "pyproject.toml: it is bound to one torch")
  endif()
  _kernelwheel_add_library(kernelwheel_add_torch_library ${target} ${ARGN})
  _kernelwheel_compile_like_cpp_extension(${target} ${ARGN})
endfunction()

# pybind11 comes from torch's headers, because torch and the module must share its type registry. An error unless
# `abi = "torch"` in [tool.kernelwheel] binds it to a torch and a Python; `Kernels.module` imports it.
function(kernelwheel_add_pybind11_module target)
  if(NOT KERNELWHEEL_BINDING STREQUAL "python")
    message(FATAL_ERROR "kernelwheel_add_pybind11_module(${target}): set abi = \"torch\" in [tool.kernelwheel] of "
      "pyproject.toml: a module is bound to one Python and one torch")
  endif()
  _kernelwheel_add_library(kernelwheel_add_pybind11_module ${target} ${ARGN})
  _kernelwheel_compile_like_cpp_extension(${target} ${ARGN})
  target_compile_definitions(${target} PRIVATE TORCH_API_INCLUDE_EXTENSION_H)  # torch/torch.h then includes Python.h
  target_include_directories(${target} SYSTEM PRIVATE ${KERNELWHEEL_PYTHON_HEADERS})
  target_link_libraries(${target} PRIVATE torch_python)
endfunction()

# What the lists that are made for an extension's table say besides; see compiler/cmake_inputs.py.

function(kernelwheel_name_module target name)
  set_property(TARGET ${target} PROPERTY KERNELWHEEL_MODULE ${name})
  target_compile_definitions(${target} PRIVATE
    "TORCH_EXTENSION_NAME=$<TARGET_PROPERTY:${target},KERNELWHEEL_MODULE>")
endfunction()

function(kernelwheel_add_link_flags target flags)
  target_link_options(${target} PRIVATE "$<HOST_LINK:${flags}>")
endfunction()

# A library that is not there is an error before anything is compiled, not at the link.
function(kernelwheel_require_libraries target folders)
  separate_arguments(folders UNIX_COMMAND "${folders}")
  foreach(folder IN LISTS KERNELWHEEL_TORCH_LINKED KERNELWHEEL_LIBRARIES CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND folders "-L${folder}")
  endforeach()
  foreach(library IN LISTS ARGN)
    if(NOT CMAKE_CROSSCOMPILING)
      execute_process(
        COMMAND "${CMAKE_CXX_COMPILER}" -shared -nostdlib ${folders} "-l${library}" -o library-probe
        WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
      if(failed AND library STREQUAL "cuda")
        # The driver's library is on machines with a GPU, and a stub for the linker in whole toolkits. pip's have none.
        file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/driver")
        execute_process(
          COMMAND "${CMAKE_CXX_COMPILER}" -shared -nostdlib -Wl,-soname,libcuda.so.1 -o driver/libcuda.so
          -x c "/dev/null" WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
        target_link_directories(${target} PRIVATE "${CMAKE_BINARY_DIR}/driver")
      endif()
      if(failed AND said MATCHES "cannot find|unable to find|not found")
        get_property(name TARGET ${target} PROPERTY OUTPUT_NAME)
        message(FATAL_ERROR "the library ${library}, in libraries of ${name}, cannot be found by the linker: install "
          "it, or name its folder with -L in link-flags")
      endif()
    endif()
  endforeach()
endfunction()

function(kernelwheel_set_gencode target)
  set_property(TARGET ${target} PROPERTY KERNELWHEEL_GENCODE ${ARGN})
endfunction()

# nvlink links the device code of all files, of archives, and of the static libraries of the toolkit and pip's packages.
function(kernelwheel_link_device_code target)
  set_target_properties(${target} PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON)
  list(GET KERNELWHEEL_LIBRARIES 0 folder)
  foreach(library IN LISTS ARGN)
    if(library MATCHES "/")
      target_link_options(${target} PRIVATE "$<DEVICE_LINK:${library}>")
    elseif(EXISTS "${folder}/lib${library}.a")
      target_link_options(${target} PRIVATE "$<DEVICE_LINK:-L../libraries;-l${library}>")
    endif()
  endforeach()
endfunction()

# Flags are written so that CMake evaluates nothing in them.
function(kernelwheel_add_flags target cxx_flags cuda_flags)
  foreach(language IN ITEMS CXX CUDA)
    string(TOLOWER ${language}_flags flags)
    if(${flags} MATCHES "\"-?-std=")  # its own standard, as in cpp_extension
      foreach(property IN ITEMS KERNELWHEEL_${language}_STANDARD ${language}_STANDARD ${language}_EXTENSIONS)
        set_property(TARGET ${target} PROPERTY ${property})
      endforeach()
    endif()
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:${language}>:${${flags}}>")
  endforeach()
endfunction()

# For one file, CMake takes no options that a shell would split, but a part of the command.
function(kernelwheel_add_file_flags target file flags)
  set_property(SOURCE ${file} APPEND_STRING PROPERTY COMPILE_FLAGS
    " $<$<STREQUAL:$<TARGET_PROPERTY:NAME>,${target}>:${flags}>")
endfunction()
