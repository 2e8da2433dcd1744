# Run by the build (cmake -P): writes OUTPUT, all SOURCES one after the other. Each test file has helpers
# of its own in an anonymous namespace, often of the same names as another's: here each of these gets
# the file's name, which no other file of the program has, in this OUTPUT or in another one. Errors and
# failures name the files as they were.
set(joined "")
foreach(source ${SOURCES})
  get_filename_component(name ${source} NAME_WE)
  string(MAKE_C_IDENTIFIER "of_${name}" name)
  file(READ ${source} text)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${name} {\n" text "${text}")
  string(APPEND joined "#line 1 \"${source}\"\n${text}\n")
endforeach()
file(WRITE ${OUTPUT} "${joined}")
