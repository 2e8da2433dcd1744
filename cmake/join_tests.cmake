# Run by the build (cmake -P): writes OUTPUT, all SOURCES one after the other. Each test file has helpers
# of its own in an anonymous namespace, often of the same names as another's: here each of these gets
# a name. Errors and failures name the files as they were.
set(joined "")
set(number 0)
foreach(source ${SOURCES})
  math(EXPR number "${number} + 1")
  file(READ ${source} text)
  string(REPLACE "\nnamespace {\n" "\nnamespace of_file_${number} {\n" text "${text}")
  string(APPEND joined "#line 1 \"${source}\"\n${text}\n")
endforeach()
file(WRITE ${OUTPUT} "${joined}")
