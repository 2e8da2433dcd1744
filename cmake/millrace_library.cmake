# Flags that every target of this project shares.
add_library(millrace_options INTERFACE)
target_include_directories(millrace_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(millrace_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror=unused-result
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # false alarms of GCC 12 on std::string (GCC bug 105651)
  $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-statement-expression>  # librdkafka's macros
)
if(MILLRACE_ARCH)
  target_compile_options(millrace_options INTERFACE -march=${MILLRACE_ARCH})
endif()
# A gradient is recomputed to the same bytes after a crash, whichever file the code was inlined in and
# whichever processor the program was built for (tests/models/compare_bytes.py).
add_library(millrace_same_bytes INTERFACE)
target_compile_options(millrace_same_bytes INTERFACE -ffp-contract=off)
target_link_libraries(millrace_options INTERFACE millrace_same_bytes)
if(MILLRACE_SANITIZE)
  # To compile the check of dynamic types takes a quarter of the time. No class is cast down here, and
  # the use of a dead object is AddressSanitizer's to find.
  target_compile_options(millrace_options INTERFACE
    -fsanitize=${MILLRACE_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(millrace_options INTERFACE -fsanitize=${MILLRACE_SANITIZE})
endif()

# millrace_library(NAME SOURCES... [PUBLIC targets...] [PRIVATE targets...])
# makes millrace::NAME from the sources of the current folder. PUBLIC names what its headers
# include, PRIVATE what only its .cc files include; the include rules of tests/architecture agree.
function(millrace_library name)
  cmake_parse_arguments(LIB "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(millrace_${name} STATIC ${LIB_SOURCES})
  add_library(millrace::${name} ALIAS millrace_${name})
  target_link_libraries(millrace_${name}
    PUBLIC $<BUILD_INTERFACE:millrace_options> ${LIB_PUBLIC}
    PRIVATE ${LIB_PRIVATE})
  # The same objects for programs, for the module of the Python package, and for others' shared libraries
  # that link the installed one. No function of the same name elsewhere is to replace one of ours, so calls
  # within a file are as direct as in a program.
  set_target_properties(millrace_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(millrace_${name} PRIVATE -fno-semantic-interposition)
  # libFuzzer is guided by what it reaches in these libraries, not in tests or generated code.
  if(MILLRACE_FUZZ)
    target_compile_options(millrace_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
